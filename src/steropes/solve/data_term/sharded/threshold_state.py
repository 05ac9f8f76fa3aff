"""The points of replicates with shared thresholds, and the shards' sums there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....likelihoods.nuisance_hessian import Chain
from ....likelihoods.nuisance_likelihood import gone
from ....likelihoods.sharded_thresholds import LevelPoint, MovableThresholds
from .shard_messages import Answer, added

__all__ = ["LevelState", "require_positive"]


class LevelState:
    """The points of replicates with the totals of the shards' sums.

    T is the Hessian of the loss in a replicate's thresholds α, a tridiagonal matrix diag(u) + the
    Laplacian of a path with weights W (see `Chain`), g its gradient, and C = H_αη the cross
    derivatives of thresholds and linear predictors.

    Attributes
    ----------
    version : int
        Version of the working set to which the sums refer.
    loss : (B,) array
        Losses.
    chains : (3, K, B) array
        g, u and W of each replicate.
    slope, cross : arrays
        The gradient in the coefficients, and −C X of each replicate.
    """

    def __init__(
        self, thresholds: list[MovableThresholds], point: LevelPoint, version: int
    ) -> None:
        self.thresholds, self.point, self.version = thresholds, point, version
        self.loss = self.slope = self.cross = np.empty(0)
        self.chains = np.empty((3, 0, 0))  # g, u and W
        self._solved: dict[int, tuple[Chain, np.ndarray]] = {}

    def add_answers(self, answers: Sequence[Answer]) -> None:
        """Add up the shards' answers."""
        self.loss, self.chains = added(answers, "loss"), added(answers, "chains")
        self.slope, self.cross = added(answers, "slope"), added(answers, "cross")

    def feasible_losses(self, total: np.ndarray) -> np.ndarray:
        """Return the losses (lanes,), infinite where too little curvature is left for a step.

        ``total`` (lanes,) is the weight of all rows.
        """
        out = np.array(self.loss)
        for b in range(len(self.thresholds)):
            if not np.isfinite(out[b]):
                continue
            if not self.block(b).positive or gone(self.decrement(b), out[b], total[b]):
                out[b] = np.inf
        return out

    def block(self, b: int) -> Chain:
        """Return T, the Hessian of a replicate in its thresholds."""
        return self.solved(b)[0]

    def solved(self, b: int) -> tuple[Chain, np.ndarray]:
        """Return T and T⁻¹g."""
        if b not in self._solved:
            some = slice(len(self.thresholds[b].alpha))
            g, u, W = (np.ascontiguousarray(x[some, b]) for x in self.chains)
            block = Chain(u, W)
            self._solved[b] = block, block.solve(g) if block.positive else np.full(len(g), np.nan)
        return self._solved[b]

    def decrement(self, b: int) -> float:
        """Compute g'T⁻¹g, the Newton decrement of the thresholds."""
        t = self.solved(b)[1]
        return float(self.chains[0][: len(t), b] @ t)

    def cross_product(self, b: int) -> np.ndarray:
        """Return −C X of a replicate, (K, k)."""
        return np.asarray(self.cross[b][: len(self.thresholds[b].alpha)])


def require_positive(block: Chain, t: np.ndarray) -> np.ndarray:
    """Return t = T⁻¹g, or raise an error where T is not positive definite."""
    if not block.positive:
        raise FloatingPointError("the curvature of the thresholds is not finite")
    return t
