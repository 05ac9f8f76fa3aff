"""Likelihoods of several outcomes, one per replicate, each with an order of rows of its own.

A row of X has one linear predictor for each outcome, so replicates with different outcomes are
columns of one array in the order of X. Each column is permuted to the order of its own likelihood
and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.backend_interface import Array
from .hessian_structures import GroupedCurvature
from .likelihood_interface import Bound, Likelihood

__all__ = ["MultiOutcomeLikelihood", "XOrderedLikelihood"]


class XOrderedLikelihood(Likelihood):
    """A likelihood with η, weights and derivatives in the order of the rows of X.

    Parameters
    ----------
    inner : Likelihood
        A likelihood with one linear predictor per row.
    n : int
        Number of rows of X.
    """

    def __init__(self, inner: Likelihood, n: int) -> None:
        super().__init__(inner.backend)
        self.inner, self.n, self.rows = inner, n, inner.row_of_x
        self.shift_invariant, self.convex = inner.shift_invariant, inner.convex
        self.trust_radius = inner.trust_radius

    def weigh(self, w: Array) -> Bound:
        """See `Likelihood.weigh`."""
        return self.inner.weigh(self._there(w))

    def evaluate(self, eta: Array, weights: Bound) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        loss, r = self.inner.evaluate(self._there(eta), weights)
        return loss, self._back(r)

    def loss(self, eta: Array, weights: Bound) -> Array:
        """See `Likelihood.loss`."""
        return self.inner.loss(self._there(eta), weights)

    def curvature(self, eta: Array, weights: Bound, exact: bool = False) -> GroupedCurvature:
        """Return the diagonal alone, because the rank-one terms refer to the inner order."""
        inner: Any = self.inner.curvature(self._there(eta), weights, exact)
        return GroupedCurvature(self._back(inner.v))

    def _there(self, x: Array) -> Array:
        """Select the rows of the inner likelihood, in its order."""
        return self.backend.xp.take(x, self.rows, axis=0)

    def _back(self, x: Array) -> Array:
        """Scatter rows of the inner likelihood to the rows of X, with zeros elsewhere."""
        if x.ndim == 2 and x.shape[1] == 1:  # NumPy is slow at arrays with one column
            return self._back(x[:, 0])[:, None]
        out = self.backend.xp.zeros((self.n, *x.shape[1:]))
        out[self.rows] = x
        return out


class MultiOutcomeLikelihood(Likelihood):
    """One replicate for each of several likelihoods, with the rows of X.

    Parameters
    ----------
    n : int
        Number of rows of X.
    """

    many_outcomes = True
    additive = False

    def __init__(self, likelihoods: Sequence[Likelihood], n: int) -> None:
        first = likelihoods[0]
        super().__init__(first.backend)
        self.n, self.each = n, [XOrderedLikelihood(x, n) for x in likelihoods]
        self.shift_invariant, self.convex, self.trust_radius = (
            first.shift_invariant,
            first.convex,
            first.trust_radius,
        )

    def of_lane(self, lane: int) -> Likelihood:
        """See `Likelihood.of_lane`."""
        return self.each[lane]

    def weigh(self, w: Array) -> list[Bound]:
        """See `Likelihood.weigh`."""
        return [x.weigh(w[:, b : b + 1]) for b, x in enumerate(self.each)]

    def evaluate(self, eta: Array, weights: list[Bound]) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        loss, r = np.zeros(eta.shape[1]), self.backend.xp.zeros(eta.shape)
        for b, x in enumerate(self.each):
            own, r[:, b : b + 1] = x.evaluate(eta[:, b : b + 1], weights[b])
            loss[b] = float(own[0])
        return self.backend.asarray(loss), r

    def loss(self, eta: Array, weights: list[Bound]) -> Array:
        """See `Likelihood.loss`."""
        loss = np.zeros(eta.shape[1])
        for b, x in enumerate(self.each):
            loss[b] = float(x.loss(eta[:, b : b + 1], weights[b])[0])
        return self.backend.asarray(loss)

    def curvature(self, eta: Array, weights: Bound, exact: bool = False) -> GroupedCurvature:
        """Raise an error: use `of_lane` for the curvature of one replicate."""
        raise NotImplementedError("replicates of several outcomes have no common curvature")
