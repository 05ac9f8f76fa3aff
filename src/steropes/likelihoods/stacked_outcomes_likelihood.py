"""The likelihood of several outcomes per row, independent given η: the sum of their losses.

The η of the model stacks the linear predictors of the outcomes in blocks of n rows, as those of the
classes of a multinomial model. Outcomes are independent given η, so that the loss is the sum of
their losses; a prior may couple their coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backends.backend_interface import Array
from .hessian_structures import ChannelCurvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_interface import Likelihood

__all__ = ["OutcomeChannelsLikelihood"]


class OutcomeChannelsLikelihood(Likelihood):
    """The sum of the losses of C outcomes.

    Parameters
    ----------
    likelihoods : sequence of IndependentRowsLikelihood
        One of each outcome, with the rows of X in their order.
    weights : (n, C) array
        Row weights of each outcome, by which the weights of a fit are multiplied.
    """

    additive = False

    def __init__(
        self, likelihoods: Sequence[IndependentRowsLikelihood], weights: np.ndarray
    ) -> None:
        first = likelihoods[0]
        super().__init__(first.backend)
        self.n, self.C, self.each = first.n, len(likelihoods), list(likelihoods)
        self.own = first.backend.asarray(np.asarray(weights, np.float64))
        self.convex = all(x.convex for x in likelihoods)
        self.quadratic = all(x.quadratic for x in likelihoods)
        self.trust_radius = min(x.trust_radius for x in likelihoods)

    @property
    def n_eta(self) -> int:
        """Number of rows of η, n for each outcome."""
        return self.C * self.n

    def lift(self, offset: np.ndarray) -> np.ndarray:
        """See `Likelihood.lift`; an offset per row applies to all of its outcomes."""
        return offset if len(offset) == self.n_eta else np.tile(offset, (self.C, 1))

    def extent(self, change: Array, weights: np.ndarray | None = None) -> float:
        """See `Likelihood.extent`."""
        h = np.abs(self.backend.to_host(change).reshape(self.C, self.n))
        used = self.backend.to_host(self.own).T > 0
        if weights is not None:
            used = used & (weights > 0)
        return float(np.where(used, h, 0.0).max(initial=0.0))

    def intercept_levels(self, eta: Array, weights: Array, intercepts: np.ndarray) -> np.ndarray:
        """See `Likelihood.intercept_levels`; each outcome has an intercept of its own."""
        return np.array([
            self.each[c].level(self._eta(eta, c), self._weights(weights, c)) for c in intercepts
        ])  # fmt: skip

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        loss, slopes = self.backend.xp.zeros(eta.shape[1]), []
        for c, likelihood in enumerate(self.each):
            own, slope = likelihood.evaluate(self._eta(eta, c), self._weights(weights, c))
            loss = loss + own
            slopes.append(slope)
        return loss, self.backend.xp.concatenate(slopes)

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""
        return sum(
            (x.loss(self._eta(eta, c), self._weights(weights, c)) for c, x in enumerate(self.each)),
            self.backend.xp.zeros(eta.shape[1]),
        )

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> ChannelCurvature:
        """See `Likelihood.curvature`; outcomes are channels that are not coupled."""
        xp = self.backend.xp
        pairs = xp.stack([
            x.curvature(self._eta(eta[:, :1], c), self._weights(weights[:, :1], c), exact).v
            for c, x in enumerate(self.each)
        ])  # fmt: skip
        none, nobody = xp.zeros(0), np.zeros(self.n, np.int32)
        return ChannelCurvature(
            eta[:, 0].reshape(self.C, self.n), none, weights[:, 0], np.zeros((0, self.C - 1)),
            nobody, nobody, pairs, none, pairs.reshape(-1), coupled=False,
        )  # fmt: skip

    def dispersion(self, loss: Array, total: Array) -> Array:
        """See `Likelihood.dispersion`: the mean over linear outcomes, and one for others."""
        return self._mean_dispersion([x.dispersion(loss / self.C, total) for x in self.each])

    def score_variance(self, loss: Array, total: Array) -> Array:
        """See `Likelihood.score_variance`."""
        return self._mean_dispersion([x.score_variance(loss / self.C, total) for x in self.each])

    def score(self, eta: Array, held_out: Array, train: Array) -> Array:
        """See `Likelihood.score`: the sum over outcomes."""
        parts = [
            x.score(self._eta(eta, c), self._weights(held_out, c), self._weights(train, c))
            for c, x in enumerate(self.each)
        ]
        return sum(parts, self.backend.xp.zeros(eta.shape[1]))

    def log_likelihood_constant(self, weights: Array) -> Array:
        """See `Likelihood.log_likelihood_constant`."""
        parts = [
            x.log_likelihood_constant(self._weights(weights, c)) for c, x in enumerate(self.each)
        ]
        return sum(parts, 0.0)

    def score_residuals(self, eta: Array, weights: Array, Z: Array) -> Array:
        """See `Likelihood.score_residuals`: −Σ_c r_c z_c, (n, L)."""
        r = self.evaluate(eta, weights)[1].reshape(self.C, self.n, -1)
        return -(r * Z.reshape(self.C, self.n, -1)).sum(axis=0)

    def _mean_dispersion(self, parts: list[Array]) -> Array:
        """Average the dispersions of the outcomes."""
        return sum(parts, 0.0) / self.C

    def _eta(self, eta: Array, c: int) -> Array:
        """Return the linear predictors of one outcome, (n, B)."""
        return self.backend.xp.ascontiguousarray(eta[c * self.n : (c + 1) * self.n])

    def _weights(self, weights: Array, c: int) -> Array:
        """Return the row weights of one outcome, (n, B)."""
        return weights * self.own[:, c : c + 1]
