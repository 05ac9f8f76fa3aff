"""Where replicates with thresholds are, and what shards' sums there say of these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....likelihoods.blocks import Chain
from ....likelihoods.level_exchange import LevelPoint, Moved
from ....likelihoods.nuisance import gone
from .shard_messages import Answer, added

__all__ = ["LevelState", "padded", "require_positive"]


class LevelState:
    """Where replicates are, and the sums there.

    Attributes
    ----------
    thresholds : list of Moved
    point : LevelPoint
    version : int
        Of the working set that the sums are of.
    """

    def __init__(self, thresholds: list[Moved], point: LevelPoint, version: int) -> None:
        self.thresholds, self.point, self.version = thresholds, point, version
        self.loss = self.slope = self.cross = np.empty(0)
        self.chains = np.empty((3, 0, 0))
        self._solved: dict[int, tuple[Chain, np.ndarray]] = {}

    def take(self, answers: Sequence[Answer]) -> None:
        """Add up what shards answered."""
        self.loss, self.chains = added(answers, "loss"), added(answers, "chains")
        self.slope, self.cross = added(answers, "slope"), added(answers, "cross")

    def reachable(self, total: np.ndarray) -> np.ndarray:
        """The loss; infinite where no curvature is left, so that no step ends there, (lanes,).

        ``total`` (lanes,) is the weight of all rows.
        """
        out = np.array(self.loss)
        for b in range(len(self.thresholds)):
            if not np.isfinite(out[b]):
                continue
            if not self.block(b).positive or gone(self.fall(b), out[b], total[b]):
                out[b] = np.inf
        return out

    def block(self, b: int) -> Chain:
        """T of a replicate."""
        return self.solved(b)[0]

    def solved(self, b: int) -> tuple[Chain, np.ndarray]:
        """T, and T⁻¹g."""
        if b not in self._solved:
            some = slice(len(self.thresholds[b].alpha))
            g, u, W = (np.ascontiguousarray(x[some, b]) for x in self.chains)
            block = Chain(u, W)
            self._solved[b] = block, block.solve(g) if block.positive else np.full(len(g), np.nan)
        return self._solved[b]

    def fall(self, b: int) -> float:
        """g'T⁻¹g."""
        t = self.solved(b)[1]
        return float(self.chains[0][: len(t), b] @ t)

    def crossed(self, b: int) -> np.ndarray:
        """−C X of a replicate, (K, k)."""
        return np.asarray(self.cross[b][: len(self.thresholds[b].alpha)])


def padded(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Vectors as columns (K, B), with zeros where they are shorter."""
    out = np.zeros((max(len(x) for x in parts), len(parts)))
    for b, x in enumerate(parts):
        out[: len(x), b] = x
    return out


def require_positive(block: Chain, t: np.ndarray) -> np.ndarray:
    """T⁻¹g, where T is positive."""
    if not block.positive:
        raise FloatingPointError("the curvature of the thresholds is not finite")
    return t
