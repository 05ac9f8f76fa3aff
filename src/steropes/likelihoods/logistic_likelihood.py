"""The likelihood of logistic regression: y in {0, 1}, P(y = 1) = 1 / (1 + exp(−η))."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from ..backends.backend_interface import Array
from .hessian_structures import GroupedCurvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_interface import Part

__all__ = ["LogisticLikelihood"]


class LogisticLikelihood(IndependentRowsLikelihood):
    """Σ w [log(1 + exp η) − y η].

    Parameters
    ----------
    y : (n,) array
        0 or 1; fractions between are accepted.
    """

    ccd = "logistic"
    has_third_derivative = True

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        return self.backend.logistic(eta, weights, self.repeated(self.y, eta.shape[1]))

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        y = self.backend.to_host(self.y)[:, 0]
        return [partial(LogisticLikelihood, y[a:b]) for a, b in pairwise(cuts)]

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> GroupedCurvature:
        """Return the diagonal v = w p (1 − p)."""
        xp = self.backend.xp

        def part(eta: Array, w: Array) -> tuple[Array, ...]:
            e = xp.exp(-abs(eta))
            return (w * e / (1.0 + e) ** 2,)

        (v,) = self.backend.map_rows(part, eta, weights)
        return GroupedCurvature(v[:, 0])

    def level(self, eta: Array, weights: Array) -> float:
        """See `Likelihood.level`: the log ratio of observed to expected odds."""
        xp, total = self.backend.xp, float(weights.sum())
        e = xp.exp(-abs(eta))
        events = float((weights * self.y).sum())
        expected = float((weights * xp.where(eta >= 0, 1.0, e) / (1.0 + e)).sum())
        others = float((weights * xp.where(eta >= 0, e, 1.0) / (1.0 + e)).sum())
        # ``others`` is summed directly, because total − expected may round to zero.
        if not (0 < events < total and expected > 0 and others > 0):
            return 0.0
        return float(np.log(events / (total - events)) - np.log(expected / others))

    def third_derivative(self, eta: Array, weights: Array, Z: Array) -> Array:
        """See `Likelihood.third_derivative`: w p (1 − p) (1 − 2p) Σ_c z_c²."""
        xp = self.backend.xp
        e = xp.exp(-abs(eta))
        slope = weights * e * (1.0 - e) / (1.0 + e) ** 3  # at |η|; odd in η
        return -xp.sign(eta) * slope * (Z * Z).sum(axis=1, keepdims=True)
