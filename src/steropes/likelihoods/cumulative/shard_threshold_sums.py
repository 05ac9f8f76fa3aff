"""The rows of a cumulative model with few levels in one shard, and their sums by threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from ...backends.backend_interface import Backend
from ..nuisance_hessian import Chain
from ..nuisance_interface import Nuisance
from ..sharded_thresholds_interface import LevelPoint, MovableThresholds
from .cumulative_loss import CumulativeRows, Evaluation, Thresholds
from .turnbull_intervals import Levels

__all__ = ["LaneRows", "LevelRows", "ShardLevels", "ShardedLevels"]


@dataclass(frozen=True)
class LevelRows:
    """The rows of the model in one shard.

    Attributes
    ----------
    row : (n,) int array
        Row of X within the shard for each row of the model, ascending.
    level : (n,) int array
        Outcome of each row, as a number among the levels of all rows.
    link : str
        Name of the link.
    """

    row: np.ndarray
    level: np.ndarray
    link: str


class LaneRows:
    """The rows of one replicate in a shard.

    Attributes
    ----------
    at : (m,) int array
        Rows of the shard with weight.
    K : int
        Number of thresholds.
    """

    def __init__(self, rows: CumulativeRows, at: np.ndarray) -> None:
        self.rows, self.at, self.K = rows, at, rows.K

    def evaluate(self, point: LevelPoint, b: int, eta: np.ndarray) -> Evaluation:
        """Compute the loss and the rows' derivatives at thresholds and η (n,) of all rows."""
        ev = self.rows.evaluate(self._thresholds(point, b), eta[self.at])
        return ev.clipped() if point.clipped[b] else ev

    def loss(self, point: LevelPoint, b: int, eta: np.ndarray) -> float:
        """Compute the loss alone."""
        return self.rows.loss(self._thresholds(point, b), eta[self.at])

    def _thresholds(self, point: LevelPoint, b: int) -> Thresholds:
        """Select the thresholds of replicate b."""
        some = slice(self.K)
        alpha, delta = point.alpha[some, b], point.delta[some, b]
        return Thresholds(np.ascontiguousarray(alpha), np.ascontiguousarray(delta))

    def sums(self, ev: Evaluation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute g, and T as the u and W of a `Chain`, (K,) each."""
        block = self.rows.block(ev)
        assert isinstance(block, Chain)
        return -self.rows.to_thresholds(ev.la, ev.lb), block.u, block.W

    def gradient(self, ev: Evaluation, t: np.ndarray) -> np.ndarray:
        """Compute the derivative of the loss in η with the thresholds eliminated, (m,)."""
        return ev.s + self.rows.to_rows(t[: self.K], ev.ua, ev.ub)

    def crossed(self, ev: Evaluation, n: int, k0: int, k1: int) -> np.ndarray:
        """Compute −C' for the thresholds k0 … k1 − 1 and the n rows of the shard, (n, k1 − k0)."""
        out = np.zeros((n, k1 - k0))
        levels = self.rows.levels
        for of, x in ((levels.up, ev.ua), (levels.low, ev.ub)):
            some = np.flatnonzero((of >= k0) & (of < min(k1, self.K)))
            out[self.at[some], of[some] - k0] = x[some]
        return out


class ShardLevels:
    """The rows of a cumulative model in one shard.

    Parameters
    ----------
    backend : Backend
        The backend that evaluates them.
    """

    def __init__(self, rows: LevelRows, backend: Backend) -> None:
        self.rows, self.backend = rows, backend
        self.order, self.n = rows.row, len(rows.row)

    def of_lane(self, w: np.ndarray, rank: np.ndarray) -> LaneRows:
        """Select the rows with weight w (n,) in a replicate, over the levels of the replicate."""
        at = np.flatnonzero(w > 0)
        up = rank[self.rows.level[at]].astype(np.int32)
        levels = Levels(np.arange(rank[-1] + 1.0), at, up - np.int32(1), up, np.empty(0, int), True)
        return LaneRows(CumulativeRows(levels, self.rows.link, w[at], self.backend), at)


class MovableNuisance(Protocol):
    """Nuisance parameters of one replicate whose thresholds can be replaced."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds between the levels."""

    def at_thresholds(self, thresholds: Thresholds) -> Nuisance:
        """Return the same parameters with other thresholds."""


class LevelsLikelihood(Protocol):
    """The parts of `CumulativeLikelihood` on which `ShardedLevels` depends."""

    levels: Levels
    link: str
    n: int
    order: np.ndarray

    def begin(
        self, eta: np.ndarray, w: np.ndarray, like: Nuisance | None = None
    ) -> MovableNuisance:
        """See `NuisanceLikelihood.begin`."""


class ShardedLevels:
    """A cumulative likelihood over shards; implements `ShardedThresholds`.

    Parameters
    ----------
    likelihood : LevelsLikelihood
        The likelihood of an outcome without censoring.
    cuts : (shards + 1,) int array
        Boundaries of the shards among the rows of X.
    """

    def __init__(self, likelihood: LevelsLikelihood, cuts: np.ndarray) -> None:
        self.likelihood, levels = likelihood, likelihood.levels
        self.level = np.repeat(np.arange(levels.M), np.diff(levels.pointers))
        block = np.searchsorted(cuts, levels.order, side="right") - 1
        of_x = np.argsort(levels.order)  # the model's rows in X's order
        edges = np.searchsorted(block[of_x], np.arange(len(cuts)))
        self.rows = [of_x[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        self._first = cuts[:-1]

    def parts(self) -> list[Callable[[Backend], ShardLevels | None]]:
        """See `ShardedThresholds.parts`."""
        order, link = self.likelihood.levels.order, self.likelihood.link
        of_each = zip(self.rows, self._first, strict=True)
        return [
            partial(_part, LevelRows(order[rows] - first, self.level[rows], link))
            for rows, first in of_each
        ]

    def shard_contexts(
        self, weights: np.ndarray, offset: np.ndarray | None
    ) -> Sequence[dict[str, np.ndarray]]:
        """See `ShardedThresholds.shard_contexts`; a missing level is in the bin of the next one."""
        M, order = self.likelihood.levels.M, self.likelihood.levels.order
        rank = np.empty((M, weights.shape[1]), np.int64)
        for b, w in enumerate(weights.T):
            kept = np.flatnonzero(np.bincount(self.level[w[order] > 0], minlength=M))
            rank[:, b] = np.minimum(np.searchsorted(kept, np.arange(M)), len(kept) - 1)
        if offset is None:
            return [{"rank": rank} for _ in self.rows]
        return [{"rank": rank, "offset": offset[order[rows]]} for rows in self.rows]

    def begin(self, level: float, weights: np.ndarray, like: Nuisance | None) -> MovableThresholds:
        """See `ShardedThresholds.begin`."""
        eta = np.full(self.likelihood.n, level)
        return self.likelihood.begin(eta, weights[self.likelihood.order], like).thresholds

    def nuisance(self, weights: np.ndarray, at: MovableThresholds) -> Nuisance:
        """See `ShardedThresholds.nuisance`."""
        eta = np.zeros(self.likelihood.n)
        here = self.likelihood.begin(eta, weights[self.likelihood.order])
        return here.at_thresholds(Thresholds(at.alpha, at.delta))


def _part(rows: LevelRows, backend: Backend) -> ShardLevels | None:
    """Build the rows of one shard; None if it has no row of the model."""
    return ShardLevels(rows, backend) if len(rows.row) else None
