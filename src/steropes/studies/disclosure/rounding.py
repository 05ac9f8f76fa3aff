"""Estimates, shares and differences without the digits that would give a count away."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from steropes.studies.normal_quantile import Z

__all__ = [
    "Effect",
    "effect_step",
    "in_ratio",
    "log_unit",
    "significant",
    "smd_unit",
    "to_unit",
    "whole_days",
    "withheld",
]

DIGITS = 3  # of an estimate that is shown to readers
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of a log ratio; the finest is one percent
UNITS = (0.01, 0.02, 0.05, 0.1, 0.2)  # of a standardised difference


def significant(x: float, digits: int = DIGITS) -> float:
    """A number with so many significant digits; what is not finite stays."""
    return float(f"{x:.{digits}g}") if math.isfinite(x) else x


def to_unit(x: float, unit: float) -> float:
    """A number to the nearest multiple of a unit; NaN where the unit is infinite."""
    if math.isinf(unit):
        return math.nan
    if not math.isfinite(x) or unit <= 0:
        return x
    return float(f"{round(x / unit) * unit:.10g}")


def whole_days(x: float) -> float:
    """A quantile of days without its fraction, which tells the number of people modulo ten."""
    return float(math.floor(x + 0.5)) if math.isfinite(x) else x


def in_ratio(x: float, step: float, digits: int = DIGITS) -> float:
    """A number rounded to a step of its logarithm and to some digits; its sign stays."""
    if not math.isfinite(x) or x == 0:
        return x
    if math.isinf(step):
        return math.nan
    return significant(math.copysign(math.exp(to_unit(math.log(abs(x)), step)), x), digits)


def smd_unit(p: float, q: float, people: int, least: int) -> float:
    """Unit of a standardised difference that hides ``least`` − 1 people of the smaller arm.

    A difference of k people among n moves it by k / (n s), where s is the root of the mean of the
    two variances p (1 − p) and q (1 − q). Infinite where no unit would leave anything to read.
    """
    spread = math.sqrt((max(p * (1 - p), 0.0) + max(q * (1 - q), 0.0)) / 2)
    if spread == 0:
        return UNITS[0]
    needed = least / (people * spread) if people else math.inf
    return next((u for u in UNITS if u >= needed), math.inf)


def log_unit(fewest: int, least: int) -> float:
    """Unit of the logarithm of a ratio of counts that hides ``least`` people of the smallest count.

    Infinite, so that nothing is released, where the count is smaller than that.
    """
    if least <= 1:
        return 0.0
    if fewest < least:
        return math.inf
    return next((s for s in STEPS if s >= least / fewest), STEPS[-1])


def withheld(counts: Iterable[tuple[int, int]], least: int) -> bool:
    """Whether an estimate has to be withheld, since its few events follow from its error.

    Parameters
    ----------
    counts : iterable of (events, people)
        Of each arm, stratum level or window that the estimate is made of.
    least : int
    """
    return any(0 < e < least or 0 < n - e < least or 0 < n < least for e, n in counts)


def effect_step(
    se: float, least: int, *, events: Iterable[int] = (), people: Iterable[int] = ()
) -> float:
    """Step to which a log ratio and its limits are rounded where a count of theirs is hidden.

    Parameters
    ----------
    se : float
        Standard error of the log ratio.
    least : int
    events : iterable of int
        Numbers of events that are released as bounds. With e events the relative error of e that
        follows from limits rounded to a step s is at least s / (2 se), which has to be ``least`` /
        e: no fewer than ``least`` counts on either side of e remain possible.
    people : iterable of int
        Numbers of people that are released as bounds: a ratio of rates is inversely proportional
        to them.

    Returns
    -------
    float
        0 where nothing is hidden.
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
    """A log ratio with 95 % limits, as it is released; all else follows from these three numbers.

    Attributes
    ----------
    log_rr, lower, upper : float
    """

    log_rr: float
    lower: float
    upper: float

    def rounded(self, step: float = 0.0, digits: int = DIGITS) -> Effect:
        """Round to a step of the log ratio, and the ratios to significant digits."""

        def one(x: float) -> float:
            if step:
                x = to_unit(x, step)
            if not math.isfinite(x) or abs(x) > 700:
                return x
            return math.log(significant(math.exp(x), digits))

        return Effect(one(self.log_rr), one(self.lower), one(self.upper))

    @property
    def se(self) -> float:
        """Width of the interval over 2 × 1.96; infinite where a limit is."""
        return (self.upper - self.lower) / (2 * Z)

    @property
    def p(self) -> float:
        """Two-sided p value of the normal approximation, to two significant digits."""
        from scipy.special import ndtr

        if not (math.isfinite(self.log_rr) and math.isfinite(self.se) and self.se > 0):
            return math.nan
        return significant(2 * float(ndtr(-abs(self.log_rr) / self.se)), 2)

    @property
    def one_sided_p(self) -> float:
        """P value that the ratio is no larger than one, to two significant digits."""
        from scipy.special import ndtr

        if not (math.isfinite(self.log_rr) and math.isfinite(self.se) and self.se > 0):
            return math.nan
        return significant(float(ndtr(-self.log_rr / self.se)), 2)
