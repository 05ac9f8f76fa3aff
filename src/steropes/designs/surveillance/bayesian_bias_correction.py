"""Bayesian correction of estimates for the systematic error of negative controls.

The systematic error of an analysis is normal, or t-distributed, over outcomes; its mean and scale
have a posterior from the likelihoods of the controls, on a grid. The effect of an outcome of
interest is that of its likelihood, minus a further error from this distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import ndtr

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.data.html_representations import FieldsInHtml
from steropes.designs.evidence.quadrature import (
    HEAVY_DF,
    UNKNOWN,
    KnownLikelihood,
    Likelihood,
    effects_grid,
    heavy_cdf,
    trapezoid_weights,
)
from steropes.designs.evidence.random_effects import effects_posterior
from steropes.designs.values.plottable_log_ratios import DrawnEffect
from steropes.errors import DataError

__all__ = ["BiasDistribution", "CorrectedEffect", "correct_bias", "fit_bias"]

# Points of the grid of means, as of `random_effects`, and of the table of the predicted error.
POINTS, TABLE = 401, 501
# Parts of the posterior with less than this share of the largest do not count.
NEGLIGIBLE = 1e-10


@dataclass(frozen=True, repr=False)
class BiasDistribution(FieldsInHtml):
    """The posterior of the systematic error of an analysis, on the log scale.

    Attributes
    ----------
    mean, mean_sd : float
        Posterior mean and standard deviation of the mean error.
    scale : float
        Posterior mean of the scale of errors over outcomes.
    sd : float
        Standard deviation of the error of a further outcome.
    controls : int
        Number of control outcomes.
    robust : bool
        Whether errors are t-distributed.

    See Also
    --------
    fit_bias : Computes it.

    Examples
    --------
    >>> from steropes.designs.surveillance import fit_bias
    >>> controls = [lambda b, y=y: -(((b - y) / 0.2) ** 2) / 2 for y in (0.1, 0.3, 0.2, 0.5, 0.0)]
    >>> bias = fit_bias(controls)
    >>> round(bias.mean, 2), bias.controls
    (0.22, 5)
    """

    mean: float
    mean_sd: float
    scale: float
    sd: float
    controls: int
    robust: bool
    _tables: tuple[NDArray, NDArray, NDArray] = field(repr=False)

    def __repr__(self) -> str:
        """Describe the error in one line."""
        return (
            f"{type(self).__name__}(mean={self.mean:.4g}, scale={self.scale:.4g}, "
            f"controls={self.controls})"
        )

    def probability_below(self, error: NDArray) -> tuple[NDArray, NDArray]:
        """Compute the probability that the error of a further outcome is smaller.

        Parameters
        ----------
        error : ndarray
            Errors on the log scale.

        Returns
        -------
        tuple of ndarray
            Probabilities if profiles of controls are zero beyond their ends, and if they keep
            their last values there.
        """
        at, least, most = self._tables
        inside = np.clip(error, at[0], at[-1])
        return PchipInterpolator(at, least)(inside), PchipInterpolator(at, most)(inside)


@dataclass(frozen=True)
class CorrectedEffect(DrawnEffect):
    """The posterior of an effect, corrected for systematic error, on the log scale.

    Attributes
    ----------
    log_rr, se : float
        Posterior mean and standard deviation.
    lower, upper : float
        2.5 % and 97.5 % quantiles.
    probability : float
        Posterior probability of an effect above zero.
    uncorrected_log_rr, uncorrected_probability : float
        The same without a correction.

    See Also
    --------
    correct_bias : Computes it.

    Examples
    --------
    >>> from steropes.designs.surveillance import correct_bias
    >>> effect = correct_bias(lambda b: -(((b - 0.8) / 0.3) ** 2) / 2, None)
    >>> round(effect.log_rr, 3), round(effect.probability, 3)
    (0.734, 0.995)
    """

    log_rr: float
    se: float
    lower: float
    upper: float
    probability: float
    uncorrected_log_rr: float
    uncorrected_probability: float


@single_threaded_blas()
def fit_bias(
    controls: Sequence[Likelihood],
    *,
    mean_sd: float = 2.0,
    scale_sd: float = 0.5,
    robust: bool = False,
) -> BiasDistribution:
    """Fit the systematic error of an analysis to the likelihoods of negative controls.

    Parameters
    ----------
    controls : sequence of Profile or callable
        Log-likelihood of each control as a function of the log ratio, as of `random_effects`.
    mean_sd : float, default 2
        Standard deviation of the normal prior of the mean error, which is centred at zero.
    scale_sd : float, default 0.5
        Scale of the half-normal prior of the scale of errors.
    robust : bool, default False
        Let errors have a t distribution with four degrees of freedom, for a few controls with
        large errors.

    Returns
    -------
    BiasDistribution
        The posterior of the error.

    Raises
    ------
    DataError
        There are fewer than five controls, a profile rises at an end, or a prior has no spread.

    See Also
    --------
    steropes.designs.controls.fit_systematic_error : By maximum likelihood, from normal estimates.

    References
    ----------
    Bu and others (2024), Statistics in Medicine 43:395–418.

    Examples
    --------
    >>> from steropes.designs.surveillance import fit_bias
    >>> controls = [lambda b, y=y: -(((b - y) / 0.2) ** 2) / 2 for y in (0.1, 0.3, 0.2, 0.5, 0.0)]
    >>> round(fit_bias(controls).scale, 2)
    0.16
    """
    if len(controls) < LEAST_CONTROLS:
        raise DataError(
            f"{len(controls)} controls are too few; {LEAST_CONTROLS} or more are needed."
        )
    _, mu, tau, least, most = effects_posterior(controls, mean_sd, scale_sd, POINTS, robust)
    mass = (least + most) / 2
    of_mu, of_tau = mass.sum(axis=1), mass.sum(axis=0)
    mean, scale = float(mu @ of_mu), float(tau @ of_tau)
    variance = float((mu - mean) ** 2 @ of_mu)
    spread = float(tau**2 @ of_tau) * (HEAVY_DF / (HEAVY_DF - 2) if robust else 1.0)
    sd = math.sqrt(variance + spread)
    # Far enough for tails of the t distribution; beyond, probabilities are 0 and 1.
    reach = (200.0 if robust else 12.0) * sd
    steps = np.linspace(-1.0, 1.0, TABLE)
    at = mean + reach * (steps**3 if robust else steps)
    tables = (at, *_predicted(at, mu, tau, np.stack([least, most]), robust))
    return BiasDistribution(mean, math.sqrt(variance), scale, sd, len(controls), robust, tables)


def _predicted(at: NDArray, mu: NDArray, tau: NDArray, masses: NDArray, robust: bool) -> NDArray:
    """Compute the distribution function of a further error, for each of some masses."""
    masses = np.where(masses > NEGLIGIBLE * masses.max(), masses, 0.0)
    found = np.zeros((len(masses), len(at)))
    for j, t in enumerate(np.maximum(tau, 1e-9)):
        kept = masses[:, :, j].any(axis=0)
        z = (at[:, None] - mu[kept]) / t
        found += masses[:, kept, j] @ (heavy_cdf(z) if robust else ndtr(z)).T
    return np.asarray(found / masses.sum(axis=(1, 2))[:, None])


@single_threaded_blas()
def correct_bias(
    likelihood: Likelihood, bias: BiasDistribution | None, *, effect_sd: float = 1.0
) -> CorrectedEffect:
    """Compute the posterior of an effect, corrected for systematic error.

    Parameters
    ----------
    likelihood : Profile or callable
        Log-likelihood of the log ratio.
    bias : BiasDistribution, optional
        The error of the same analysis; None does not correct.
    effect_sd : float, default 1
        Standard deviation of the normal prior of the log ratio, which is centred at zero.

    Returns
    -------
    CorrectedEffect
        The posterior.

    Raises
    ------
    DataError
        The prior has no spread, the profile rises at an end, or the posterior probability depends
        on profiles beyond their ends, where they are unknown.

    Notes
    -----
    As in Bu and others, the prior is that of the effect in the likelihood, before the error is
    subtracted. The probability does not keep a frequentist error over looks.

    References
    ----------
    Bu and others (2024), Statistics in Medicine 43:395–418.

    Examples
    --------
    >>> from steropes.designs.surveillance import correct_bias, fit_bias
    >>> controls = [lambda b, y=y: -(((b - y) / 0.2) ** 2) / 2 for y in (0.1, 0.3, 0.2, 0.5, 0.0)]
    >>> effect = correct_bias(lambda b: -(((b - 0.8) / 0.3) ** 2) / 2, fit_bias(controls))
    >>> round(effect.log_rr, 2), round(effect.probability, 2)
    (0.51, 0.92)
    """
    if not 0 < effect_sd < math.inf:
        raise DataError(f"effect_sd must be a positive number, not {effect_sd!r}.")
    known = KnownLikelihood(likelihood, 0)
    grid = effects_grid([known], effect_sd, 0.0)
    values = known.upper_bound(grid) - 0.5 * (grid / effect_sd) ** 2
    most = np.exp(values - values.max()) * trapezoid_weights(grid)
    least = np.where(known.unknown(grid), 0.0, most)
    ends = [mass / mass.sum() for mass in (least, most)]
    raw = [_positive(grid, mass, None, k) for k, mass in enumerate(ends)]
    found = [_positive(grid, mass, bias, k) for k, mass in enumerate(ends)]
    if max(abs(raw[0] - raw[1]), abs(found[0] - found[1])) > UNKNOWN:
        raise DataError(
            "The posterior probability depends on profiles beyond the points at which they are "
            "stored, where they are unknown; store them over a wider range."
        )
    mass = sum(ends) / 2
    raw_mean = float(grid @ mass)
    variance = float((grid - raw_mean) ** 2 @ mass)
    error, error_sd = (0.0, 0.0) if bias is None else (bias.mean, bias.sd)
    mean, se = raw_mean - error, math.sqrt(variance + error_sd**2)

    def below(x: float, p: float) -> float:
        above = (_positive(grid, own, bias, k, x) for k, own in enumerate(ends))
        return 1 - sum(above) / 2 - p

    span = 60 * se
    lower, upper = (brentq(below, mean - span, mean + span, (p,)) for p in (0.025, 0.975))
    return CorrectedEffect(mean, se, lower, upper, sum(found) / 2, raw_mean, sum(raw) / 2)


def _positive(
    grid: NDArray, mass: NDArray, bias: BiasDistribution | None, kind: int, above: float = 0.0
) -> float:
    """Compute the probability that the effect without the error exceeds a value."""
    if bias is None:
        # The mass of a point is spread over the steps beside it, as the density is.
        until = np.cumsum(mass) - mass / 2
        return float(1 - np.interp(above, grid, until, 0.0, 1.0))
    return float(mass @ bias.probability_below(grid - above)[kind])
