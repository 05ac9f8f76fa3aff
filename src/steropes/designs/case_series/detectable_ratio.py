"""Minimal detectable rate ratio of a case series (Musonda, Farrington and Whitaker 2006)."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm

__all__ = ["minimal_detectable_ratio", "power_of"]

HIGHEST = 10.0  # The largest log rate ratio that is considered.


def power_of(log_rr: float, share: float, events: int, alpha: float = 0.05) -> float:
    """Compute the power of the two-sided signed root likelihood ratio test (expression 7).

    Parameters
    ----------
    log_rr : float
        The true log rate ratio, not 0.
    share : float
        Exposed share of the cases' time, between 0 and 1.
    events : int
        Number of events of the cases with the exposure.
    """
    b, r = log_rr, share
    # m = e^b r + 1 − r and q = e^b r / m, in a form in which no exponential overflows
    log_m = float(_log_add(b + math.log(r), math.log1p(-r)))
    q = math.exp(b + math.log(r) - log_m)
    a = 2 * (q * b - log_m)
    if a <= 0:
        return alpha / 2
    spread = b * b / a * q * (1 - q)
    z = float(norm.ppf(1 - alpha / 2))
    if spread <= 0:
        return 1.0
    return max(float(norm.cdf((math.sqrt(events * a) - z) / math.sqrt(spread))), alpha / 2)


def minimal_detectable_ratio(
    share: float, events: int, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Find the smallest rate ratio above one that is detected with the given power, or ∞.

    Parameters
    ----------
    share : float
        Exposed share of the cases' time.
    events : int
        Number of events of the cases with the exposure.
    alpha, power : float, default 0.05 and 0.8
        Two-sided level and power of the test.
    """
    if not 0 < share < 1 or events < 1:
        return math.inf
    if power_of(HIGHEST, share, events, alpha) < power:
        return math.inf

    def short(b: float) -> float:
        """Return the power in excess of the requested power."""
        return power_of(b, share, events, alpha) - power

    return math.exp(float(brentq(short, 1e-6, HIGHEST, xtol=1e-12)))


def _log_add(x: float, y: float) -> float:
    """Compute log(e^x + e^y)."""
    high, low = max(x, y), min(x, y)
    return high + math.log1p(math.exp(low - high))
