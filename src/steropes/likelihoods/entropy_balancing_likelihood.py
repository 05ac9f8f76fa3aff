"""The dual of entropy balancing: weights nearest to base weights with given means of covariates.

Of all weights w of the base rows that sum to one and have Σ w x equal to the mean t of x over the
target rows, entropy balancing takes those with the least Σ w log(w / q) (Hainmueller 2012). The
dual problem has no constraints, and its minimum gives w_i = q_i exp η_i / Σ q exp η:

    W [log Σ_base q_i exp η_i − log W − Σ_target u_i η_i / U],    W = Σ q,  U = Σ u,  η = Xλ.

Its gradient in λ is W (Σ w x − t), so that the optimality conditions under a penalty W Σ δ_j |λ_j|
are |Σ w x_j − t_j| ≤ δ_j. If no weights satisfy them, the objective has no minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.backend_interface import Array, Backend
from .hessian_structures import GroupedCurvature
from .likelihood_interface import Likelihood

__all__ = ["EntropyBalancingLikelihood"]


@dataclass
class _Weights:
    """Base weights q and target weights u W / U, (n, B), and the totals W of the former, (1, B)."""

    base: Any
    target: Any
    total: Any


class EntropyBalancingLikelihood(Likelihood):
    """The dual objective of entropy balancing as a function of η; a row may have both roles.

    Parameters
    ----------
    base : (n,) array
        Base weights q at row weights of one; zero for rows that receive no weight.
    target : (n,) array
        Weights u of the rows over which the target means are taken.
    """

    shift_invariant = True
    grouped = True

    def __init__(self, base: np.ndarray, target: np.ndarray, backend: Backend) -> None:
        super().__init__(backend)
        self.n = len(base)
        self.pointers = np.array([0, self.n])
        self.base = backend.asarray(np.array(base, np.float64)[:, None])
        self.target = backend.asarray(np.array(target, np.float64)[:, None])

    def weigh(self, w: Array) -> _Weights:
        """Bind row weights; see `Likelihood.weigh`. A replicate without target rows is constant."""
        xp, bk = self.backend.xp, self.backend
        base, target = w * self.base, w * self.target
        total, of_target = (bk.segment_sum(x, self.pointers) for x in (base, target))
        total = xp.where(of_target > 0, total, 0.0)
        target = target * (total / xp.where(of_target > 0, of_target, 1.0))
        return _Weights(base, target, total)

    def evaluate(self, eta: Array, weights: _Weights) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        lse, share = self.backend.segment_softmax(eta, weights.base, self.pointers, weights.total)
        return self._loss(eta, weights, lse), share - weights.target

    def loss(self, eta: Array, weights: _Weights) -> Array:
        """See `Likelihood.loss`."""
        lse, _ = self.backend.segment_softmax(
            eta, weights.base, self.pointers, weights.total, shares=False
        )
        return self._loss(eta, weights, lse)

    def _loss(self, eta: Array, weights: _Weights, lse: Array) -> Array:
        """Compute Σ target (lse − log W − η), which avoids the difference of two large sums."""
        xp = self.backend.xp
        level = lse - xp.log(xp.where(weights.total > 0, weights.total, 1.0))
        return self.backend.column_sum(weights.target * (level - eta))

    def curvature(self, eta: Array, weights: _Weights, exact: bool = False) -> GroupedCurvature:
        """Return v = W w with all rows as one group, m = Σ W w_i x_i and c = 1 / W."""
        xp = self.backend.xp
        _, v = self.backend.segment_softmax(eta, weights.base, self.pointers, weights.total)
        c = xp.zeros(self.n)
        total = weights.total[0, :1]
        c[self.n - 1 :] = xp.where(total > 0, 1.0 / xp.where(total > 0, total, 1.0), 0.0)
        return GroupedCurvature(v[:, 0], v[:, 0], self.pointers, c)

    def score_residuals(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """Compute each row's contribution to the score, its derivative in the row's weight.

        It is −(W w_i − u_i W / U) (z_i − t), where the mean t of the target rows does not change
        the sum over all rows.
        """
        slope = self.evaluate(eta, weights)[1][:, :1]
        total = weights.total[0, :1]
        t = self.backend.column_sum(weights.target[:, :1] * Z)
        return -slope * (Z - t / self.backend.xp.where(total > 0, total, 1.0))
