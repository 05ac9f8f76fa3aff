"""The rate ratio that a case series could have found: Musonda, Farrington and Whitaker (2006)."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm

__all__ = ["minimal_detectable_ratio", "power_of"]

HIGHEST = 10.0  # log rate ratio


def power_of(log_rr: float, share: float, events: int, alpha: float = 0.05) -> float:
    """Power of the two-sided test of the signed root likelihood ratio (their expression 7).

    Parameters
    ----------
    log_rr : float
        The true log rate ratio, not 0.
    share : float
        Share of the cases' time that is exposed, between 0 and 1.
    events : int
        Events of the cases who have the exposure.
    alpha : float, default 0.05
    """
    b, r = log_rr, share
    # m = e^b r + 1 − r and q = e^b r / m, written so that no exponential overflows
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
    """The smallest rate ratio above one that is found with the given power; ∞ if none is.

    Parameters
    ----------
    share : float
        Share of the cases' time that is exposed.
    events : int
        Events of the cases who have the exposure.
    alpha, power : float, default 0.05 and 0.8
        Two-sided level and power of the test.
    """
    if not 0 < share < 1 or events < 1:
        return math.inf
    if power_of(HIGHEST, share, events, alpha) < power:
        return math.inf

    def short(b: float) -> float:
        return power_of(b, share, events, alpha) - power

    return math.exp(float(brentq(short, 1e-6, HIGHEST, xtol=1e-12)))


def _log_add(x: float, y: float) -> float:
    high, low = max(x, y), min(x, y)
    return high + math.log1p(math.exp(low - high))
