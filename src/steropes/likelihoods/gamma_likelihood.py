"""The likelihood of gamma regression with a log link: E(y) = exp(η), Var(y) = φ exp(2η)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, polygamma

from ..backends.backend_interface import Array, Backend
from .hessian_structures import GroupedCurvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_constants import DISPERSION, RESIDUALS
from .likelihood_interface import Part, stack_outcomes

__all__ = ["GammaLikelihood", "gamma_log_density", "gamma_shape"]


class GammaLikelihood(IndependentRowsLikelihood):
    """Σ w [exp(t) − 1 − t] with t = log y − η, half the deviance at a dispersion of one.

    Priors refer to this dispersion. The log-likelihood at shape k = 1/φ is

        −k × loss + Σ w [k log k − log Γ(k) − k − log y],

    so that the shape with the largest likelihood depends on the loss alone.

    Parameters
    ----------
    y : (n,) array
        Positive outcomes.
    """

    has_third_derivative = True
    dispersion_parameters = 1

    def __init__(self, y: np.ndarray, backend: Backend) -> None:
        super().__init__(y, backend)
        self.log_y = backend.asarray(np.log(np.asarray(y, np.float64))[:, None])
        self.spread: Any = 0.0
        self.measure(np.ones(self.n), None)

    def measure(self, weights: np.ndarray, offset: np.ndarray | None) -> None:
        """Set the spread of log y minus the offset over the rows with weight, and a far level.

        The spread is one if they are constant.

        ``weights`` and ``offset`` are (n,).
        """
        part = self.backend.to_host(self.log_y)[:, 0] - (0.0 if offset is None else offset)
        used = weights > 0
        spread = float(part[used].std()) if used.any() else 0.0
        rounding = RESIDUALS.equal_share * max(1.0, float(np.abs(part[used]).max(initial=0.0)))
        self.spread = spread if spread > rounding else 1.0
        level = float(np.median(part[used])) if used.any() else 0.0
        self.far_level = level if abs(level) >= DISPERSION.far_level else 0.0

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        xp = self.backend.xp

        def part(eta: Array, w: Array, log_y: Array) -> tuple[Array, ...]:
            t = log_y - eta
            with np.errstate(over="ignore"):  # an infinite loss makes the line search step back
                excess = xp.where(w > 0, xp.expm1(t), 0.0)
            return w * (excess - xp.where(w > 0, t, 0.0)), -w * excess

        columns = eta, weights, self.repeated(self.log_y, eta.shape[1])
        loss, (r,) = self.backend.sum_rows(part, *columns)
        return loss, r

    def combine_outcomes(self, likelihoods: Sequence[Any], lanes: int) -> Self:
        """See `Likelihood.combine_outcomes`."""
        out = super().combine_outcomes(likelihoods, lanes)
        out.log_y = stack_outcomes([x.log_y for x in likelihoods], lanes, self.backend)
        out.spread = np.zeros(lanes)
        out.spread[: len(likelihoods)] = [x.spread for x in likelihoods]
        return out

    def of_lane(self, lane: int) -> Self:
        """See `Likelihood.of_lane`."""
        out = super().of_lane(lane)
        if self.many_outcomes:
            out.log_y = self.log_y[:, lane : lane + 1]
        return out

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        y = self.backend.to_host(self.y)[:, 0]
        return [partial(GammaLikelihood, y[a:b]) for a, b in pairwise(cuts)]

    def dispersion(self, loss: Array, total: Array) -> Array:
        """Return the dispersion, bounded below where rounding makes it unreliable."""
        return np.maximum(
            self.score_variance(loss, total), (RESIDUALS.min_residual_share * self.spread) ** 2
        )

    def score_variance(self, loss: Array, total: Array) -> Array:
        """Return the dispersion with the largest likelihood, bounded by rounding.

        It is bounded above, too, because far from the optimum it would be so large a unit of scores
        that every point seemed to be optimal.
        """
        mean = np.asarray(loss, np.float64) / np.maximum(total, 1e-300)
        best = 1.0 / gamma_shape(np.maximum(mean, RESIDUALS.equal_share**2))
        return np.minimum(best, DISPERSION.max_score_unit)

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> GroupedCurvature:
        """Return the diagonal v = w y exp(−η), the observed information at a dispersion of one."""
        return GroupedCurvature(self._weighted_ratio(eta, weights)[:, 0])

    def third_derivative(self, eta: Array, weights: Array, Z: Array) -> Array:
        """See `Likelihood.third_derivative`: −w y exp(−η) Σ_c z_c²."""
        return -self._weighted_ratio(eta, weights) * (Z * Z).sum(axis=1, keepdims=True)

    def level(self, eta: Array, weights: Array) -> float:
        """See `Likelihood.level`: the logarithm of the mean ratio of observed to expected."""
        ratio = float(self._weighted_ratio(eta, weights).sum())
        total = float(weights.sum())
        return float(np.log(ratio / total)) if 0 < ratio < np.inf and total > 0 else 0.0

    def _weighted_ratio(self, eta: Array, w: Array) -> Array:
        """Compute w y exp(−η), which is zero for rows without weight even if it overflows."""
        xp = self.backend.xp
        with np.errstate(over="ignore"):
            return w * xp.where(w > 0, xp.exp(self.log_y - eta), 0.0)

    def score(self, eta: Array, held_out: Array, train: Array) -> Array:
        """Compute the log-density of held-out rows at the shape of the training rows."""
        parts = self.backend.to_host(self.score_parts(eta, held_out, train))
        return self.backend.asarray(self.score_of(parts))

    def score_parts(self, eta: Array, held_out: Array, train: Array) -> Array:
        """See `Likelihood.score_parts`: weights, sums of log y and losses."""
        xp = self.backend.xp
        sums = [x.sum(axis=0) for x in (held_out, train, held_out * self.log_y)]
        return xp.stack([*sums, self.loss(eta, train), self.loss(eta, held_out)])

    def score_of(self, parts: np.ndarray) -> np.ndarray:
        """See `Likelihood.score_of`."""
        n, total, log_y, train, held_out = parts
        mean = train / np.maximum(total, 1e-300)
        # If the training rows were fitted exactly, any other held-out row would be infinitely
        # unlikely and the score would depend on rounding.
        shape = gamma_shape(np.maximum(mean, RESIDUALS.perfect_share**2))
        return gamma_log_density(shape, held_out, n, log_y)


def gamma_log_density(
    shape: ArrayLike, loss: ArrayLike, total: ArrayLike, log_y: ArrayLike
) -> np.ndarray:
    """Compute the log-likelihood of rows from their sums, which broadcast.

    Parameters
    ----------
    shape : float or array
        The shape k.
    loss, total, log_y : float or arrays
        The loss, the sum of the weights, and the weighted sum of log y.
    """
    k, loss, total, log_y = (np.asarray(x, np.float64) for x in (shape, loss, total, log_y))
    # k log k − k − log Γ(k) cancels for large k; Stirling's series does not.
    with np.errstate(invalid="ignore", over="ignore"):
        series = 0.5 * np.log(k / (2.0 * np.pi)) - 1.0 / (12.0 * k)
        constant = np.where(k > 1e4, series, k * np.log(k) - k - gammaln(k))
    return np.asarray(-k * loss + total * constant - log_y)


def gamma_shape(half_deviance: np.ndarray | float) -> np.ndarray:
    """Compute the shape k with the largest likelihood, which solves log k − ψ(k) = m.

    Parameters
    ----------
    half_deviance : (B,) array or float
        The mean half-deviance m > 0, per unit of weight.

    Returns
    -------
    (B,) array

    References
    ----------
    Minka (2002), Estimating a Gamma distribution (generalised Newton steps). McCullagh and
    Nelder (1989), Generalized Linear Models, §8.3.6.
    """
    m = np.asarray(half_deviance, np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        few = (1.0 + np.sqrt(1.0 + 4.0 * m / 3.0)) / (4.0 * m)
        root = np.hypot(m - 3.0, np.sqrt(24.0 * m))
        # The first form cancels for large m, the second for small m.
        k = np.where(m < 3.0, (3.0 - m + root) / (12.0 * m), 2.0 / (m - 3.0 + root))
        for _ in range(DISPERSION.shape_steps):
            gap = np.log(k) - digamma(k) - m
            inverse = 1.0 / k + gap / (k**2 * (1.0 / k - polygamma(1, k)))
            k = np.where(inverse > 0, 1.0 / inverse, 0.5 * k)
        many = 1.0 / (m + np.log(m) - np.euler_gamma)  # ψ(k) ≈ −1 / k − γ
    k = np.where(m > DISPERSION.shape_asymptote_above, many, k)
    return np.where(m < DISPERSION.shape_series_below, few, k)
