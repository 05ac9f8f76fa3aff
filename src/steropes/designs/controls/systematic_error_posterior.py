"""Posterior of the systematic error of an analysis, with an interval of its expected size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from steropes.data.html_representations import FieldsInHtml
from steropes.data.vector_checks import check_level
from steropes.designs.evidence.quadrature import mixture_quantiles
from steropes.errors import DataError

__all__ = ["ErrorPosterior", "error_posterior", "expected_absolute"]

# Shape and rate of the gamma prior of the precision 1/σ², as of R's EmpiricalCalibration.
SHAPE = RATE = 1e-4
# Values of the sd.
SDS = 600
SMALLEST_SD, LARGEST_SD = 1e-3, 30.0


@dataclass(frozen=True)
class ErrorPosterior(FieldsInHtml):
    """Posterior of the systematic error of an analysis, on the log scale.

    Attributes
    ----------
    mean, mean_lower, mean_upper : float
        Posterior mean of the mean error μ, with limits of its interval.
    sd, sd_lower, sd_upper : float
        Posterior median of the standard deviation σ, with limits.
    ease, ease_lower, ease_upper : float
        Posterior median of the expected absolute systematic error, with limits.
    controls : int
        Number of estimates.

    See Also
    --------
    error_posterior : Computes it.

    Examples
    --------
    >>> from steropes.designs.controls import error_posterior
    >>> error_posterior([0.1, -0.2, 0.4, 0.3, 0.0], [0.1] * 5).controls
    5
    """

    mean: float
    mean_lower: float
    mean_upper: float
    sd: float
    sd_lower: float
    sd_upper: float
    ease: float
    ease_lower: float
    ease_upper: float
    controls: int


def expected_absolute(mean: NDArray, sd: NDArray) -> NDArray:
    """Compute the means of folded normal distributions, see `SystematicError`."""
    ratio = mean / sd
    tail = sd * np.sqrt(2 / np.pi) * np.exp(-0.5 * ratio**2)
    return np.asarray(tail + mean * (1 - 2 * ndtr(-ratio)))


def error_posterior(log_rr: ArrayLike, se: ArrayLike, *, level: float = 0.95) -> ErrorPosterior:
    """Compute the posterior of the systematic error from negative controls.

    With few controls the error is uncertain, and so is the expected absolute systematic error. The
    priors are those of ``fitMcmcNull`` of R's EmpiricalCalibration: flat for the mean, and
    gamma(10⁻⁴, 10⁻⁴) for the precision. The posterior is integrated by quadrature, so that the same
    estimates give the same numbers.

    Parameters
    ----------
    log_rr : array_like, shape (n,)
        Log ratios of negative controls.
    se : array_like, shape (n,)
        Their standard errors. Estimates without a finite value and standard error are left out.
    level : float, default 0.95
        Level of the equal-tailed intervals.

    Returns
    -------
    ErrorPosterior
        Mean and standard deviation of the error, and its expected size, with intervals.

    Raises
    ------
    DataError
        There are fewer than two usable estimates, or the arrays differ in length.

    See Also
    --------
    fit_systematic_error : By maximum likelihood.
    compare_errors : Expected systematic errors of several analyses of the same controls.

    References
    ----------
    Schuemie and others (2018), PNAS 115:2571; ``computeExpectedAbsoluteSystematicError`` of R's
    EmpiricalCalibration.

    Examples
    --------
    >>> from steropes.designs.controls import error_posterior
    >>> found = error_posterior([0.1, -0.2, 0.4, 0.3, 0.0], [0.1] * 5)
    >>> round(found.ease, 2), round(found.ease_lower, 2), round(found.ease_upper, 2)
    (0.22, 0.1, 0.59)
    """
    check_level(level)
    y, s = np.asarray(log_rr, dtype=float), np.asarray(se, dtype=float)
    if y.ndim != 1 or y.shape != s.shape:
        raise DataError(f"{y.shape} log ratios and {s.shape} standard errors; shapes must agree.")
    good = np.isfinite(y) & np.isfinite(s) & (s > 0)
    y, s = y[good], s[good]
    if len(y) < 2:
        raise DataError("Fewer than two controls have an estimate with a standard error.")
    sd, mass, centre, error = _of_sd(y, s)
    tails = ((1 - level) / 2, 0.5, (1 + level) / 2)
    e_low, e_mid, e_high = _ease_quantiles(sd, centre, error, mass, tails)
    s_low, s_mid, s_high = _quantiles(sd, mass, tails)
    m_low, m_high = mixture_quantiles(centre, error, mass, (tails[0], tails[2]))
    return ErrorPosterior(
        float(mass @ centre), m_low, m_high, s_mid, s_low, s_high, e_mid, e_low, e_high, len(y),
    )  # fmt: skip


def _of_sd(y: NDArray, s: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return values of σ with their posterior, and mean and sd of the normal μ given each."""
    sd = np.geomspace(SMALLEST_SD, LARGEST_SD, SDS)
    w = 1 / (s**2 + sd[:, None] ** 2)
    total = w.sum(axis=1)
    centre = (w * y).sum(axis=1) / total
    fit = 0.5 * (np.log(w) - w * (y - centre[:, None]) ** 2).sum(axis=1) - 0.5 * np.log(total)
    # The density of log σ is that of the precision times it, up to a factor.
    prior = SHAPE * np.log(sd**-2.0) - RATE * sd**-2.0
    log_mass = fit + prior
    mass = np.exp(log_mass - log_mass.max())
    return sd, mass / mass.sum(), centre, 1 / np.sqrt(total)


def _quantiles(x: NDArray, mass: NDArray, at: tuple[float, ...]) -> list[float]:
    """Return quantiles of values with masses, each spread around its value."""
    order = np.argsort(x)
    until = np.cumsum(mass[order]) - mass[order] / 2
    return [float(np.interp(p, until, x[order])) for p in at]


def _ease_quantiles(
    sd: NDArray, centre: NDArray, error: NDArray, mass: NDArray, at: tuple[float, ...]
) -> list[float]:
    """Return quantiles of the expected absolute error.

    Given σ it rises with |μ|, so that it is below a value where |μ| is below another.
    """
    from scipy.optimize import brentq

    ratio = np.concatenate([np.linspace(0, 6, 1201), np.geomspace(6.01, 1e6, 400)])
    height = expected_absolute(ratio, np.ones(len(ratio)))  # in units of σ

    def below(x: float) -> float:
        known = x / sd > height[0]
        most = sd * np.interp(x / sd, height, ratio)
        share = ndtr((most - centre) / error) - ndtr((-most - centre) / error)
        return float(mass @ np.where(known, share, 0.0))

    top = float(np.abs(centre).max() + 12 * error.max() + 2 * sd[mass > 1e-15].max())
    return [float(brentq(lambda x, p=p: below(x) - p, 0.0, top, xtol=1e-10)) for p in at]
