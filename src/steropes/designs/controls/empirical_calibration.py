"""Empirical calibration of estimates by control outcomes.

The systematic error of an analysis is assumed normal on the log scale and the same for all its
outcomes. All results are optima or sums, so that the same estimates give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.html_representations import FieldsInHtml
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.values.plottable_log_ratios import DrawnEffect
from steropes.errors import DataError

__all__ = [
    "Calibrated",
    "SystematicError",
    "calibrate",
    "fit_systematic_error",
    "leave_one_out",
]


@dataclass(frozen=True)
class SystematicError(FieldsInHtml):
    """The distribution of an analysis's systematic error on the log scale.

    Attributes
    ----------
    mean : float
        Mean μ of the error.
    sd : float
        Standard deviation σ of the error.
    controls : int
        Number of estimates in the fit.

    Examples
    --------
    >>> from steropes.designs.controls import SystematicError
    >>> round(SystematicError(mean=0.1, sd=0.2, controls=30).expected_absolute, 3)
    0.179
    """

    mean: float
    sd: float
    controls: int

    @property
    def expected_absolute(self) -> float:
        """Expected absolute systematic error: the mean of the folded normal distribution.

        σ √(2/π) exp(−μ² / 2σ²) + μ (1 − 2 Φ(−μ/σ)).
        """
        from scipy.special import ndtr

        if self.sd == 0:
            return abs(self.mean)
        ratio = self.mean / self.sd
        return float(
            self.sd * math.sqrt(2 / math.pi) * math.exp(-(ratio**2) / 2)
            + self.mean * (1 - 2 * ndtr(-ratio))
        )


@dataclass(frozen=True)
class Calibrated(DrawnEffect):
    """An estimate calibrated for systematic error.

    Attributes
    ----------
    log_rr, se : float
        Calibrated log ratio and its standard error.
    lower, upper : float
        Limits of the 95 % interval.
    p, one_sided_p : float
        P-values of no effect, and of a ratio of at most one.

    Examples
    --------
    >>> from steropes.designs.controls import SystematicError, calibrate
    >>> round(calibrate(0.5, 0.2, SystematicError(mean=0.1, sd=0.15, controls=30)).p, 3)
    0.11
    """

    log_rr: float
    se: float
    lower: float
    upper: float
    p: float
    one_sided_p: float


def fit_systematic_error(
    log_rr: ArrayLike, se: ArrayLike, true_log_rr: ArrayLike | None = None
) -> SystematicError:
    """Fit the distribution of the systematic error by maximum likelihood.

    An estimate y with standard error s and true effect t is normal with mean t + μ and variance
    σ² + s². Estimates without a finite value and standard error are left out.

    Parameters
    ----------
    log_rr : array_like, shape (n,)
        Log ratios of the controls.
    se : array_like, shape (n,)
        Their standard errors.
    true_log_rr : array_like, shape (n,), optional
        True effects of the controls. Default: no effect (negative controls).

    Returns
    -------
    SystematicError
        Mean and standard deviation of the error.

    Raises
    ------
    DataError
        There is no usable estimate.

    References
    ----------
    Schuemie and others (2014), Stat Med 33:209.

    Examples
    --------
    >>> from steropes.designs.controls import fit_systematic_error
    >>> error = fit_systematic_error([0.1, -0.2, 0.4, 0.3], [0.1, 0.1, 0.1, 0.1])
    >>> round(error.mean, 3), round(error.sd, 3)
    (0.15, 0.206)
    """
    y, s = np.asarray(log_rr, dtype=float), np.asarray(se, dtype=float)
    t = np.zeros_like(y) if true_log_rr is None else np.asarray(true_log_rr, dtype=float)
    usable = np.isfinite(y) & np.isfinite(s) & (s > 0) & np.isfinite(t)
    if not usable.any():
        raise DataError("no control has an estimate with a standard error; cannot calibrate")
    error, variance = (y - t)[usable], s[usable] ** 2

    def profile(sd2: float) -> tuple[float, float]:
        """Return the log-likelihood at the best mean for a variance, and that mean."""
        w = 1 / (variance + sd2)
        mean = float((w * error).sum() / w.sum())
        return float(0.5 * (np.log(w) - w * (error - mean) ** 2).sum()), mean

    def slope(sd2: float) -> float:
        """Return twice the derivative of the profile log-likelihood by the variance."""
        w = 1 / (variance + sd2)
        mean = (w * error).sum() / w.sum()
        return float((w**2 * (error - mean) ** 2 - w).sum())

    sd2 = _largest(profile, slope, float(error.max() - error.min()) ** 2 + 1e-6)
    return SystematicError(profile(sd2)[1], math.sqrt(sd2), int(usable.sum()))


def _largest(profile: Callable[[float], Any], slope: Callable[[float], float], top: float) -> float:
    """Find the variance with the largest likelihood among the stationary points and zero."""
    from scipy.optimize import brentq

    grid = np.concatenate(([0.0], np.geomspace(1e-8, top, 200)))
    slopes = np.array([slope(v) for v in grid])
    found = [0.0]
    for low, high, a, b in zip(grid[:-1], grid[1:], slopes[:-1], slopes[1:], strict=True):
        if a > 0 >= b:
            found.append(float(brentq(slope, low, high, xtol=1e-15)))
    return max(found, key=lambda v: profile(v)[0])


def calibrate(log_rr: float, se: float, error: SystematicError) -> Calibrated:
    """Calibrate an estimate: subtract the mean of the error and add its variance.

    Parameters
    ----------
    log_rr : float
        Log ratio.
    se : float
        Its standard error.
    error : SystematicError
        Distribution of the systematic error.

    Returns
    -------
    Calibrated
        The calibrated log ratio, its standard error, 95 % limits and p-values; NaN
        if there is no estimate.

    References
    ----------
    Schuemie and others (2014), Stat Med 33:209.

    Examples
    --------
    >>> from steropes.designs.controls import SystematicError, calibrate
    >>> found = calibrate(0.5, 0.2, SystematicError(mean=0.1, sd=0.15, controls=30))
    >>> round(found.log_rr, 3), round(found.se, 3)
    (0.4, 0.25)
    """
    from scipy.special import ndtr, ndtri

    if not (math.isfinite(log_rr) and math.isfinite(se) and se > 0):
        return Calibrated(*(math.nan,) * 6)
    spread = math.hypot(se, error.sd)
    centre = log_rr - error.mean
    z = float(ndtri(0.975))
    lower_tail = float(ndtr(centre / spread))
    return Calibrated(
        centre,
        spread,
        centre - z * spread,
        centre + z * spread,
        2 * min(lower_tail, 1 - lower_tail),
        1 - lower_tail,
    )


def leave_one_out(log_rr: ArrayLike, se: ArrayLike) -> ResultTable:
    """Calibrate each negative control by all others.

    Parameters
    ----------
    log_rr : array_like, shape (n,)
        Log ratios of the controls; NaN or infinite if there is none.
    se : array_like, shape (n,)
        Their standard errors.

    Returns
    -------
    DataFrame
        One row per control, in order: ``log_rr``, ``lower``, ``upper``, the same with the prefix
        ``calibrated_``, and whether each interval includes no effect (1 or 0), ``covers`` before
        and ``calibrated_covers`` after. The means of these two are the coverages. A control without
        an estimate has NaN and counts in neither; nothing is calibrated without another control
        that has an estimate.

    Raises
    ------
    DataError
        The arrays differ in length.

    Examples
    --------
    >>> from steropes.designs.controls import leave_one_out
    >>> table = leave_one_out([0.1, -0.2, 0.4, 0.3], [0.1, 0.1, 0.1, 0.1])
    >>> table[["covers", "calibrated_covers"]].mean().to_dict()
    {'covers': 0.25, 'calibrated_covers': 0.75}
    """
    y, s = np.asarray(log_rr, dtype=float), np.asarray(se, dtype=float)
    if y.ndim != 1 or y.shape != s.shape:
        raise DataError(f"{y.shape} log ratios and {s.shape} standard errors; shapes must agree")
    usable = np.isfinite(y) & np.isfinite(s) & (s > 0)
    lines = []
    for i in range(len(y)):
        others = usable & (np.arange(len(y)) != i)
        plain = calibrate(y[i], s[i], SystematicError(0.0, 0.0, 0))
        done = calibrate(math.nan, math.nan, SystematicError(0.0, 0.0, 0))
        if others.any():
            done = calibrate(y[i], s[i], fit_systematic_error(y[others], s[others]))
        lines.append((*_line(plain), *_line(done)))
    names = ("log_rr", "lower", "upper", "covers")
    columns = [*names, *(f"calibrated_{n}" for n in names)]
    table = pd.DataFrame(lines, columns=columns, dtype=float)
    intervals = [
        Interval("Log ratio", "log_rr", level=0.95),
        Interval("Calibrated", "calibrated_log_rr", "calibrated_lower", "calibrated_upper", 0.95),
    ]
    return present(
        table, "forest", intervals=intervals, exponentiate=True, label="Ratio (log scale)"
    )


def _line(c: Calibrated) -> tuple[float, float, float, float]:
    """Return estimate, limits and whether the interval includes no effect."""
    covers = math.nan if math.isnan(c.p) else float(c.lower <= 0 <= c.upper)
    return c.log_rr, c.lower, c.upper, covers
