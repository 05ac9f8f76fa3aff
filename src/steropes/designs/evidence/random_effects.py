"""Bayesian random effects over databases by quadrature.

The effect of database i is normal with mean μ and standard deviation τ. The posterior of (μ, τ) is
computed on a grid, so that the same input gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.designs.evidence.profile_interpolation import Profile
from steropes.designs.evidence.quadrature import (
    UNKNOWN,
    KnownLikelihood,
    Likelihood,
    averaged_likelihood,
    effects_grid,
    means_grid,
    spreads_grid,
    trapezoid_weights,
)
from steropes.designs.values.plottable_log_ratios import DrawnEffect
from steropes.errors import DataError

__all__ = ["RandomEffects", "effects_posterior", "random_effects"]


@dataclass(frozen=True)
class RandomEffects(DrawnEffect):
    """Posterior of an effect over databases, on the log scale.

    Attributes
    ----------
    log_rr : float
        Posterior mean of μ.
    se : float
        Posterior standard deviation of μ.
    lower, upper : float
        2.5 % and 97.5 % quantiles of μ.
    tau, tau_lower, tau_upper : float
        Posterior median and quantiles of τ.
    predicted_lower, predicted_upper : float
        95 % limits of the effect in a further database.
    databases : int
        Number of databases.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.evidence import Profile, random_effects
    >>> grid = np.linspace(-2.0, 2.0, 81)
    >>> north, south = (Profile(grid, -(((grid - y) / 0.2) ** 2) / 2) for y in (0.2, 0.4))
    >>> random_effects([north, south]).databases
    2
    """

    log_rr: float
    se: float
    lower: float
    upper: float
    tau: float
    tau_lower: float
    tau_upper: float
    predicted_lower: float
    predicted_upper: float
    databases: int


@single_threaded_blas()
def random_effects(
    likelihoods: Sequence[Likelihood],
    *,
    mean_sd: float = 2.0,
    tau_sd: float = 0.5,
    points: int = 401,
) -> RandomEffects:
    """Combine log-likelihoods of databases with effects that may differ.

    The priors are normal with mean zero and standard deviation ``mean_sd`` for μ, and half-normal
    with ``tau_sd`` for τ.

    Parameters
    ----------
    likelihoods : sequence of Profile or callable
        Log-likelihood of each database as a function of the log ratio. For an estimate y with
        standard error s it is ``lambda b: -((b - y) / s)**2 / 2``. A callable is assumed to be
        known everywhere, a ``Profile`` where it is stored.
    mean_sd : float, default 2
        Standard deviation of the prior on μ.
    tau_sd : float, default 0.5
        Scale of the prior on τ.
    points : int, default 401
        Size of the grid of effects.

    Returns
    -------
    RandomEffects
        Named tuple with the mean effect, the spread τ, the prediction for a further database and
        their 95 % intervals.

    Raises
    ------
    DataError
        There is no database, a likelihood is not a number somewhere or zero everywhere, a prior has
        no spread, or the result depends on profiles beyond their ends.

    References
    ----------
    Higgins, Thompson and Spiegelhalter (2009), JRSS A 172:137. Schuemie and others (2021), J Am
    Med Inform Assoc 28:1351, for likelihoods that are not normal.

    Examples
    --------
    >>> from steropes.designs.evidence import random_effects
    >>> def likelihood(y, s):
    ...     return lambda b: -(((b - y) / s) ** 2) / 2
    >>> found = random_effects([likelihood(0.2, 0.1), likelihood(0.4, 0.1)])
    >>> round(found.log_rr, 2)
    0.29
    """
    if points < 10:
        raise DataError(f"points must be 10 or more, not {points!r}")
    known, mu, tau, mass, most = effects_posterior(likelihoods, mean_sd, tau_sd, points)
    centre, sd, low, high = _mean_and_limits(mu, mass)
    if any(f.ends for f in known):
        others = _mean_and_limits(mu, most)
        _refuse_unknown(known, np.subtract((centre, sd, low, high), others), sd)
    t_low, t_mid, t_high = _quantiles(tau, mass.sum(axis=0), (0.025, 0.5, 0.975))
    p_low, p_high = _predicted(mu, tau, mass)
    return RandomEffects(
        centre, sd, low, high, t_mid, t_low, t_high, p_low, p_high, len(likelihoods)
    )


def effects_posterior(
    likelihoods: Sequence[Likelihood],
    mean_sd: float,
    tau_sd: float,
    points: int,
    heavy_tails: bool = False,
) -> tuple[list[KnownLikelihood], NDArray, NDArray, NDArray, NDArray]:
    """Compute the posterior of the mean μ and scale τ of effects on a grid.

    Effects are normal, or have a t distribution with four degrees of freedom. Returns the
    likelihoods, the values of μ and of τ, and the posterior masses, (mu, tau), with a likelihood
    of zero where profiles are unknown and with their last values there.
    """
    if not likelihoods:
        raise DataError("no database has a likelihood")
    for name, sd in (("mean_sd", mean_sd), ("tau_sd", tau_sd)):
        if not 0 < sd < math.inf:
            raise DataError(f"{name} must be a positive number, not {sd!r}")
    known = [KnownLikelihood(f, i) for i, f in enumerate(likelihoods)]
    wide = effects_grid(known, mean_sd, tau_sd)
    mu, tau = means_grid(known, wide, mean_sd, points), spreads_grid(tau_sd, 61)
    prior = -0.5 * (mu[:, None] / mean_sd) ** 2 - 0.5 * (tau[None, :] / tau_sd) ** 2
    least, most = prior.copy(), prior
    for f in known:
        below, above = averaged_likelihood(f, wide, mu, tau, points, heavy_tails)
        least += below
        most = most + above
    return known, mu, tau, _mass(mu, tau, least), _mass(mu, tau, most)


def _mass(mu: NDArray, tau: NDArray, log_post: NDArray) -> NDArray:
    """Compute the posterior mass at each point of the grid."""
    widths = trapezoid_weights(mu)[:, None] * trapezoid_weights(tau)[None, :]
    mass = np.exp(log_post - log_post.max()) * widths
    return np.asarray(mass / mass.sum())


def _mean_and_limits(mu: NDArray, mass: NDArray) -> tuple[float, float, float, float]:
    """Compute mean, standard deviation and 95 % limits of μ."""
    of_mu = mass.sum(axis=1)
    centre = float(mu @ of_mu)
    low, high = _quantiles(mu, of_mu)
    return centre, math.sqrt(float(((mu - centre) ** 2) @ of_mu)), low, high


def _refuse_unknown(known: Sequence[KnownLikelihood], moved: NDArray, sd: float) -> None:
    """Raise if the result depends on likelihoods where they are unknown."""
    if np.abs(moved).max() > UNKNOWN * sd:
        ranges = "; ".join(
            f"{f.name} {f.f.stored_range()}" for f in known if isinstance(f.f, Profile) and f.ends
        )
        raise DataError(
            "the posterior extends beyond the points at which profiles are stored, where they are "
            f"unknown ({ranges}); store them over a wider range"
        )


def _quantiles(x: NDArray, mass: NDArray, at: Sequence[float] = (0.025, 0.975)) -> list[float]:
    """Compute quantiles of a smooth density through the points, accurate for long steps too."""
    from scipy.interpolate import PchipInterpolator

    density = mass / trapezoid_weights(x)
    density[density < 1e-15 * density.max()] = 0.0
    curve = PchipInterpolator(x, density).antiderivative()  # The antiderivative is monotone.
    fine = np.interp(np.linspace(0, len(x) - 1, 20 * (len(x) - 1) + 1), np.arange(len(x)), x)
    below = curve(fine)
    return [float(np.interp(q * below[-1], below, fine)) for q in at]


def _predicted(mu: NDArray, tau: NDArray, mass: NDArray) -> tuple[float, float]:
    """Compute limits of a further database's effect from the mixture of normals."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    keep = mass > 1e-12 * mass.max()
    i, j = np.nonzero(keep)
    centre, spread, share = mu[i], np.maximum(tau[j], 1e-9), mass[keep] / mass[keep].sum()

    def below(b: float, q: float) -> float:
        return float(share @ ndtr((b - centre) / spread)) - q

    low, high = float(mu[0] - 10 * tau[-1]), float(mu[-1] + 10 * tau[-1])
    return float(brentq(below, low, high, (0.025,))), float(brentq(below, low, high, (0.975,)))
