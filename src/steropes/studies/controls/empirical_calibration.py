"""Empirical calibration: what estimates of known effects say about the error of the others.

The systematic error of an analysis is taken to be normal on the log scale, the same for all its
outcomes. Everything here is an optimum or a sum, so that the same estimates give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from steropes.errors import DataError

__all__ = [
    "LEAST_CONTROLS",
    "Calibrated",
    "SystematicError",
    "calibrate",
    "fit_systematic_error",
    "leave_one_out",
]

LEAST_CONTROLS = 5  # negative controls below which nothing is calibrated


@dataclass(frozen=True)
class SystematicError:
    """The distribution of an analysis's systematic error on the log scale.

    Attributes
    ----------
    mean, sd : float
    controls : int
        Estimates that it was fitted to.
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
class Calibrated:
    """An estimate that allows for systematic error; limits are those of 95 %."""

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
    log_rr, se : array_like, shape (n,)
        Estimates of the controls.
    true_log_rr : array_like, shape (n,), optional
        Their true effects. Default: none (negative controls).

    Raises
    ------
    DataError
        No usable estimate.

    References
    ----------
    Schuemie and others (2014), Stat Med 33:209.
    """
    y, s = np.asarray(log_rr, dtype=float), np.asarray(se, dtype=float)
    t = np.zeros_like(y) if true_log_rr is None else np.asarray(true_log_rr, dtype=float)
    usable = np.isfinite(y) & np.isfinite(s) & (s > 0) & np.isfinite(t)
    if not usable.any():
        raise DataError("no control has an estimate with a standard error; nothing to calibrate by")
    error, variance = (y - t)[usable], s[usable] ** 2

    def profile(sd2: float) -> tuple[float, float]:
        """Log-likelihood at the best mean for a variance, and that mean."""
        w = 1 / (variance + sd2)
        mean = float((w * error).sum() / w.sum())
        return float(0.5 * (np.log(w) - w * (error - mean) ** 2).sum()), mean

    def slope(sd2: float) -> float:
        w = 1 / (variance + sd2)
        mean = (w * error).sum() / w.sum()
        return float((w**2 * (error - mean) ** 2 - w).sum())

    sd2 = _largest(profile, slope, float(error.max() - error.min()) ** 2 + 1e-6)
    return SystematicError(profile(sd2)[1], math.sqrt(sd2), int(usable.sum()))


def _largest(profile: Callable[[float], Any], slope: Callable[[float], float], top: float) -> float:
    """The variance of largest likelihood: of all stationary points and zero, the best."""
    from scipy.optimize import brentq

    grid = np.concatenate(([0.0], np.geomspace(1e-8, top, 200)))
    slopes = np.array([slope(v) for v in grid])
    found = [0.0]
    for low, high, a, b in zip(grid[:-1], grid[1:], slopes[:-1], slopes[1:], strict=True):
        if a > 0 >= b:
            found.append(float(brentq(slope, low, high, xtol=1e-15)))
    return max(found, key=lambda v: profile(v)[0])


def calibrate(log_rr: float, se: float, error: SystematicError) -> Calibrated:
    """Allow for systematic error in an estimate: its mean is taken off, its variance added."""
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


def leave_one_out(log_rr: ArrayLike, se: ArrayLike) -> pd.DataFrame:
    """Calibrate each negative control by all the others.

    Parameters
    ----------
    log_rr, se : array_like, shape (n,)
        Estimates of the controls; missing or infinite where there is none.

    Returns
    -------
    DataFrame
        One row a control, in order: ``log_rr``, ``lower``, ``upper`` as they were, the same
        ``calibrated_…``, and whether each interval ``covers`` no effect (1 or 0), before and
        ``calibrated_covers`` after. The means of the last two are the coverages. A control without
        an estimate has missing numbers and counts in neither; without another control that has
        one, nothing is calibrated.

    Raises
    ------
    DataError
        Lengths that differ.
    """
    y, s = np.asarray(log_rr, dtype=float), np.asarray(se, dtype=float)
    if y.ndim != 1 or y.shape != s.shape:
        raise DataError(f"{y.shape} log ratios and {s.shape} standard errors; one each a control")
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
    return pd.DataFrame(lines, columns=columns, dtype=float)


def _line(c: Calibrated) -> tuple[float, float, float, float]:
    covers = math.nan if math.isnan(c.p) else float(c.lower <= 0 <= c.upper)
    return c.log_rr, c.lower, c.upper, covers
