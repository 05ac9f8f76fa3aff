"""An effect that differs between databases: Bayesian random effects by quadrature.

The effect of database i is normal with mean μ and standard deviation τ. The posterior of (μ, τ)
is computed on a grid, so that the same input gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = ["RandomEffects", "random_effects"]

NOTHING = -300.0  # log of a density that adds nothing; what is below it is slow to compute with

GROWTH = 1.08  # of one step to the next in the tails of the grid of means

Likelihood = Callable[[ArrayLike], NDArray]


@dataclass(frozen=True)
class RandomEffects:
    """Posterior of an effect over databases, on the log scale.

    Attributes
    ----------
    log_rr : float
        Posterior mean of μ.
    se : float
        Its posterior standard deviation.
    lower, upper : float
        2.5 % and 97.5 % quantiles of μ.
    tau, tau_lower, tau_upper : float
        Posterior median and quantiles of τ.
    predicted_lower, predicted_upper : float
        95 % limits of the effect in another database.
    databases : int
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


def random_effects(
    likelihoods: Sequence[Likelihood],
    *,
    mean_sd: float = 2.0,
    tau_sd: float = 0.5,
    points: int = 401,
) -> RandomEffects:
    """Combine log-likelihoods of databases, allowing the effect to differ.

    Priors: μ normal with standard deviation ``mean_sd`` about no effect, τ half-normal with
    ``tau_sd``.

    Parameters
    ----------
    likelihoods : sequence of callable
        Log-likelihood of each database as a function of the log ratio; see ``Profile``. For an
        estimate y with standard error s it is ``lambda b: -((b - y) / s)**2 / 2``.
    mean_sd, tau_sd : float
    points : int, default 401
        Of the grid of effects.

    Raises
    ------
    DataError
        No database, a likelihood that is no number somewhere or nowhere above zero, or a prior
        without a spread.

    References
    ----------
    Higgins, Thompson and Spiegelhalter (2009), JRSS A 172:137. Schuemie and others (2021), J Am
    Med Inform Assoc 28:1351, for likelihoods that are not normal.
    """
    if not likelihoods:
        raise DataError("no database has a likelihood")
    for name, sd in (("mean_sd", mean_sd), ("tau_sd", tau_sd)):
        if not 0 < sd < math.inf:
            raise DataError(f"{name} must be a positive number, not {sd!r}")
    if points < 10:
        raise DataError(f"points must be 10 or more, not {points!r}")
    reach = max(8.0, 4 * mean_sd)
    wide = np.linspace(-reach, reach, 4001)
    logs = np.array([_values(f, wide, i) for i, f in enumerate(likelihoods)])
    mu = _grid_of_mean(likelihoods, wide, logs, mean_sd, points)
    tau = _grid_of_tau(tau_sd, 61)
    log_post = np.zeros((len(mu), len(tau)))
    for f, log_l in zip(likelihoods, logs, strict=True):
        log_post += _averaged(f, wide, log_l, mu, tau, points)
    log_post += -0.5 * (mu[:, None] / mean_sd) ** 2 - 0.5 * (tau[None, :] / tau_sd) ** 2
    mass = np.exp(log_post - log_post.max()) * _widths(mu)[:, None] * _widths(tau)[None, :]
    mass /= mass.sum()
    of_mu, of_tau = mass.sum(axis=1), mass.sum(axis=0)
    centre = float(mu @ of_mu)
    low, high = _quantiles(mu, of_mu)
    t_low, t_mid, t_high = _quantiles(tau, of_tau, (0.025, 0.5, 0.975))
    p_low, p_high = _predicted(mu, tau, mass)
    return RandomEffects(
        centre,
        math.sqrt(float(((mu - centre) ** 2) @ of_mu)),
        low,
        high,
        t_mid,
        t_low,
        t_high,
        p_low,
        p_high,
        len(likelihoods),
    )


def _values(f: Likelihood, effect: NDArray, number: int) -> NDArray:
    """Log-likelihood of a database; minus infinity is a likelihood of zero."""
    with np.errstate(divide="ignore", invalid="ignore"):  # what comes of it is looked at
        values = np.asarray(f(effect), dtype=float)
    if values.shape != effect.shape:
        raise DataError(
            f"likelihood {number} gives {values.shape} values of {effect.shape} effects"
        )
    if np.isnan(values).any() or not math.isfinite(values.max()):
        raise DataError(
            f"likelihood {number} (from 0) is no number at some log ratio, or nowhere above zero; "
            "leave out databases without an estimate and a positive standard error"
        )
    return values


def _averaged(
    f: Likelihood, wide: NDArray, log_l: NDArray, mu: NDArray, tau: NDArray, points: int
) -> NDArray:
    """Log of a database's likelihood averaged over effects normal about each μ with each τ."""
    effect = np.linspace(*_likely(f, wide, log_l), points)
    values = np.asarray(f(effect), dtype=float)
    scaled, h = np.exp(values - values.max()), effect[1] - effect[0]
    at_mean = np.asarray(f(mu), dtype=float) - values.max()
    found = np.empty((len(mu), len(tau)))
    squares = -0.5 * (effect[None, :] - mu[:, None]) ** 2
    density = np.empty_like(squares)
    for j, t in enumerate(tau):
        if t < 1.5 * h:  # narrower than the grid: the effect is the mean
            found[:, j] = at_mean
            continue
        np.multiply(squares, 1 / t**2, out=density)
        np.exp(np.maximum(density, NOTHING, out=density), out=density)
        inside = density @ scaled * (h / (t * math.sqrt(2 * math.pi)))
        found[:, j] = np.log(np.maximum(inside, 1e-300))
    return found


def _likely(f: Likelihood, effect: NDArray, values: NDArray) -> tuple[float, float]:
    """Ends of the effects at which a log-likelihood is within 30 of its maximum.

    Narrow ones are looked at more closely: one that stands between two points seems to have its
    maximum at one of them, far below.
    """
    for _ in range(8):
        above = np.flatnonzero(values > values.max() - 30)
        low, high = effect[max(above[0] - 1, 0)], effect[min(above[-1] + 1, len(effect) - 1)]
        if len(above) > 40:
            break
        effect = np.linspace(low, high, 201)
        values = np.asarray(f(effect), dtype=float)
    return float(low), float(high)


def _grid_of_mean(
    likelihoods: Sequence[Likelihood], effect: NDArray, logs: NDArray, mean_sd: float, points: int
) -> NDArray:
    """Means that can have any posterior mass.

    Evenly about what the likelihoods allow together, as if the effect were the same. The larger τ
    is, and where databases contradict each other, the mean may be far from there: the less precise
    ones count the more. So the grid goes on to both ends, in steps that grow.
    """

    def total(b: ArrayLike) -> NDArray:
        x = np.asarray(b, dtype=float)
        both = np.array([np.asarray(f(x), dtype=float) for f in likelihoods])
        return np.asarray(both.sum(axis=0) - 0.5 * (x / mean_sd) ** 2)

    together = logs.sum(axis=0) - 0.5 * (effect / mean_sd) ** 2
    middle = np.linspace(*_likely(total, effect, together), points // 2)
    step = float(middle[1] - middle[0])
    beyond = step * (GROWTH ** np.arange(1, 400) - 1) / (1 - 1 / GROWTH)
    below, above = middle[0] - beyond, middle[-1] + beyond
    return np.concatenate((below[below > effect[0]][::-1], middle, above[above < effect[-1]]))


def _grid_of_tau(tau_sd: float, points: int) -> NDArray:
    """From 0 to 5 prior standard deviations, denser near 0."""
    return 5 * tau_sd * np.linspace(0, 1, points) ** 3


def _widths(x: NDArray) -> NDArray:
    """Weights of the trapezoidal rule."""
    w = np.zeros(len(x))
    w[:-1] += np.diff(x) / 2
    w[1:] += np.diff(x) / 2
    return w


def _quantiles(x: NDArray, mass: NDArray, at: Sequence[float] = (0.025, 0.975)) -> list[float]:
    """Of the density through the points: straight lines cut its curves off where steps are long."""
    from scipy.interpolate import PchipInterpolator

    density = mass / _widths(x)
    density[density < 1e-15 * density.max()] = 0.0
    curve = PchipInterpolator(x, density).antiderivative()  # never falls
    fine = np.interp(np.linspace(0, len(x) - 1, 20 * (len(x) - 1) + 1), np.arange(len(x)), x)
    below = curve(fine)
    return [float(np.interp(q * below[-1], below, fine)) for q in at]


def _predicted(mu: NDArray, tau: NDArray, mass: NDArray) -> tuple[float, float]:
    """Limits of a new database's effect: of the mixture of normals."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    keep = mass > 1e-12 * mass.max()
    i, j = np.nonzero(keep)
    centre, spread, share = mu[i], np.maximum(tau[j], 1e-9), mass[keep] / mass[keep].sum()

    def below(b: float, q: float) -> float:
        return float(share @ ndtr((b - centre) / spread)) - q

    low, high = float(mu[0] - 10 * tau[-1]), float(mu[-1] + 10 * tau[-1])
    return float(brentq(below, low, high, (0.025,))), float(brentq(below, low, high, (0.975,)))
