"""Rounding of estimates, shares and differences whose digits would reveal a count."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.designs.values.normal_quantile import Z
from steropes.studies.disclosure.small_cell_suppression import small

__all__ = [
    "Effect",
    "effect_step",
    "in_ratio",
    "in_ratios",
    "log_unit",
    "log_units",
    "significant",
    "smd_unit",
    "smd_units",
    "to_digits",
    "to_unit",
    "to_units",
    "whole_days",
    "withheld",
]

DIGITS = 3  # Significant digits of a released estimate.
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # Steps of a log ratio; the finest is 1 %.
UNITS = (0.01, 0.02, 0.05, 0.1, 0.2)  # Units of a standardised difference.


def significant(x: float, digits: int = DIGITS) -> float:
    """Round a finite number to significant digits."""
    return float(f"{x:.{digits}g}") if math.isfinite(x) else x


def to_unit(x: float, unit: float) -> float:
    """Round a number to a multiple of a unit; NaN for an infinite unit."""
    if math.isinf(unit):
        return math.nan
    if not math.isfinite(x) or unit <= 0:
        return x
    return float(f"{round(x / unit) * unit:.10g}")


def to_digits(x: NDArray, digits: int) -> NDArray:
    """Round each number to significant digits, as `significant` does."""
    distinct, place = np.unique(x, return_inverse=True)
    return np.array([float(f"{v:.{digits}g}") for v in distinct.tolist()])[place]


def to_units(x: NDArray, unit: NDArray) -> NDArray:
    """Round each number to a multiple of its unit, as `to_unit` does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = (np.rint(x / unit) + 0.0) * unit  # Without negative zeros.
    rounded = np.where(np.isfinite(x) & (unit > 0), to_digits(multiple, 10), x)
    return np.where(np.isinf(unit), math.nan, rounded)


def whole_days(x: float) -> float:
    """Round a quantile of days, whose fraction reveals the number of people modulo ten."""
    return float(math.floor(x + 0.5)) if math.isfinite(x) else x


def in_ratio(x: float, step: float, digits: int = DIGITS) -> float:
    """Round a number to a step of its logarithm and to significant digits; its sign stays."""
    if not math.isfinite(x) or x == 0:
        return x
    if math.isinf(step):
        return math.nan
    return significant(math.copysign(math.exp(to_unit(math.log(abs(x)), step)), x), digits)


def in_ratios(x: NDArray, step: NDArray, digits: int = DIGITS) -> NDArray:
    """Round each number to a step of its logarithm, as `in_ratio` does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = to_units(np.log(np.abs(x)), step)
        rounded = to_digits(np.copysign(np.exp(logs), x), digits)
    return np.where(np.isfinite(x) & (x != 0), rounded, x)


def smd_unit(p: float, q: float, people: int, least: int) -> float:
    """Choose a unit of a standardised difference that hides ``least`` − 1 people of an arm.

    A difference of k people among n moves it by k / (n s), where s is the root of the mean of the
    two variances p (1 − p) and q (1 − q). Infinite if no unit leaves a useful number.
    """
    spread = math.sqrt((max(p * (1 - p), 0.0) + max(q * (1 - q), 0.0)) / 2)
    if spread == 0:
        return UNITS[0]
    needed = least / (people * spread) if people else math.inf
    return next((u for u in UNITS if u >= needed), math.inf)


def smd_units(p: NDArray, q: NDArray, people: NDArray, least: int) -> NDArray:
    """Choose the `smd_unit` of each standardised difference; no number of people is zero."""
    variances = [np.maximum(x * (1 - x), 0.0) for x in (p, q)]
    spread = np.sqrt((variances[0] + variances[1]) / 2)
    with np.errstate(divide="ignore"):
        needed = least / (people * spread)
    enough = np.array(UNITS) >= needed[:, None]
    found = np.append(UNITS, math.inf)[(~enough).sum(axis=1)]
    return np.where(spread == 0, UNITS[0], found)


def log_unit(fewest: int, least: int) -> float:
    """Choose a unit of a log ratio of counts that hides ``least`` people of the smallest count.

    Infinite, so that nothing is released, if the count is smaller than ``least``.
    """
    if least <= 1:
        return 0.0
    if fewest < least:
        return math.inf
    return next((s for s in STEPS if s >= least / fewest), STEPS[-1])


def log_units(fewest: NDArray, least: int) -> NDArray:
    """Choose the `log_unit` of each count."""
    distinct, place = np.unique(fewest, return_inverse=True)
    return np.array([log_unit(int(k), least) for k in distinct], dtype=float)[place]


def withheld(counts: Iterable[tuple[int, int]], least: int) -> bool:
    """Check whether an estimate must be withheld, because its error reveals few events.

    Parameters
    ----------
    counts : iterable of (events, people)
        Counts of each arm, level or window that the estimate depends on.
    """
    return any(small(x, least) for e, n in counts for x in (e, n - e, n))


def effect_step(
    se: float, least: int, *, events: Iterable[int] = (), people: Iterable[int] = ()
) -> float:
    """Choose the step to which a log ratio and its limits are rounded for suppressed counts.

    Parameters
    ----------
    se : float
        Standard error of the log ratio.
    events : iterable of int
        Numbers of events that are released as bounds. Limits that are rounded to a step s leave a
        relative error of at least s / (2 se) of e events. This error must be ``least`` / e or more,
        so that at least ``least`` counts on either side of e remain possible.
    people : iterable of int
        Numbers of people that are released as bounds; a ratio of rates is inversely proportional
        to them.

    Returns
    -------
    float
        0 if no count is suppressed.
    """
    needed = [2 * se * least / e for e in events if e > 0]
    needed += [least / n for n in people if n > 0]
    if not needed:
        return 0.0
    largest = max(needed)
    if math.isnan(largest):
        return STEPS[-1]
    return next((s for s in STEPS if s >= largest), STEPS[-1])


@dataclass(frozen=True)
class Effect:
    """A released log ratio with 95 % limits, from which standard error and p-values follow."""

    log_rr: float
    lower: float
    upper: float

    def rounded(self, step: float = 0.0, digits: int = DIGITS) -> Effect:
        """Round to a step of the log ratio, and the ratios to significant digits."""

        def one(x: float) -> float:
            """Round one log ratio."""
            if step:
                x = to_unit(x, step)
            if not math.isfinite(x) or abs(x) > 700:
                return x
            return math.log(significant(math.exp(x), digits))

        return Effect(one(self.log_rr), one(self.lower), one(self.upper))

    @property
    def se(self) -> float:
        """Width of the interval over 2 × 1.96; infinite if a limit is."""
        return (self.upper - self.lower) / (2 * Z)

    @property
    def p(self) -> float:
        """Two-sided p-value of the normal approximation, to two significant digits."""
        from scipy.special import ndtr

        if not (math.isfinite(self.log_rr) and math.isfinite(self.se) and self.se > 0):
            return math.nan
        return significant(2 * float(ndtr(-abs(self.log_rr) / self.se)), 2)

    @property
    def one_sided_p(self) -> float:
        """One-sided p-value against a ratio of at most one, to two significant digits."""
        from scipy.special import ndtr

        if not (math.isfinite(self.log_rr) and math.isfinite(self.se) and self.se > 0):
            return math.nan
        return significant(float(ndtr(-self.log_rr / self.se)), 2)
