"""The likelihood of Poisson regression: E(y) = exp(η), with the log exposure as offset in η."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from ..backends.backend_interface import Array, Backend
from .hessian_structures import GroupedCurvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_interface import Part, stack_outcomes

__all__ = ["PoissonLikelihood"]


class PoissonLikelihood(IndependentRowsLikelihood):
    """Σ w [exp η − y η]; the constant Σ w log y! is stored separately.

    Parameters
    ----------
    y : (n,) array
        Counts, at least zero.
    """

    ccd = "poisson"
    has_third_derivative = True

    def __init__(self, y: np.ndarray, backend: Backend) -> None:
        super().__init__(y, backend)
        self.log_factorial = backend.asarray(gammaln(np.asarray(y, np.float64) + 1.0)[:, None])

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""

        def part(eta: Array, w: Array, y: Array) -> tuple[Array, ...]:
            wmu = self._weighted_mean(eta, w)
            return wmu - w * y * eta, wmu - w * y

        loss, (r,) = self.backend.sum_rows(part, eta, weights, self.repeated(self.y, eta.shape[1]))
        return loss, r

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""

        def part(eta: Array, w: Array, y: Array) -> tuple[Array, ...]:
            return (self._weighted_mean(eta, w) - w * y * eta,)

        return self.backend.sum_rows(part, eta, weights, self.repeated(self.y, eta.shape[1]))[0]

    def combine_outcomes(self, likelihoods: Sequence[Any], lanes: int) -> Self:
        """See `Likelihood.combine_outcomes`."""
        out = super().combine_outcomes(likelihoods, lanes)
        out.log_factorial = stack_outcomes(
            [x.log_factorial for x in likelihoods], lanes, self.backend
        )
        return out

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        y = self.backend.to_host(self.y)[:, 0]
        return [partial(PoissonLikelihood, y[a:b]) for a, b in pairwise(cuts)]

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> GroupedCurvature:
        """See `Likelihood.curvature`; v = w exp η."""
        return GroupedCurvature(self._weighted_mean(eta, weights)[:, 0])

    def third_derivative(self, eta: Array, weights: Array, Z: Array) -> Array:
        """See `Likelihood.third_derivative`: w exp η Σ_c z_c²."""
        return self._weighted_mean(eta, weights) * (Z * Z).sum(axis=1, keepdims=True)

    def level(self, eta: Array, weights: Array) -> float:
        """See `Likelihood.level`: the log ratio of observed to expected counts."""
        total = float((weights * self.y).sum())
        expected = float(self._weighted_mean(eta, weights).sum())
        return float(np.log(total / expected)) if total > 0 and 0 < expected < np.inf else 0.0

    def _weighted_mean(self, eta: Array, w: Array) -> Array:
        """Compute w exp η, which is zero for rows without weight even if exp η overflows."""
        xp = self.backend.xp
        with np.errstate(over="ignore"):  # an infinite loss makes the line search step back
            return w * xp.where(w > 0, xp.exp(eta), 0.0)

    def score_constant(self, w: Array) -> Array:
        """See `Likelihood.score_constant`: −Σ w log y!."""
        return self.log_likelihood_constant(w)

    def constant_omitted_by_cyclops(self, w: Array, offset: Array) -> Array:
        """See `Likelihood.constant_omitted_by_cyclops`: −Σ w log y!."""
        return self.log_likelihood_constant(w)

    def log_likelihood_constant(self, weights: Array) -> Array:
        """Compute −Σ w log y!."""
        return -(weights * self.log_factorial).sum(axis=0)
