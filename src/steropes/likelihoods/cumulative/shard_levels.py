"""Rows of a cumulative model with few levels in blocks: sums by threshold, for given thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.protocols import Backend
from ..nuisance_hessian import Chain
from ..nuisance_likelihood import Nuisance
from ..sharded_thresholds import LevelPoint, Moved
from .cumulative_rows import CumulativeRows, Evaluation, Thresholds
from .outcome_levels import Levels

if TYPE_CHECKING:
    from .cumulative_likelihood import CumulativeLikelihood

__all__ = ["LaneRows", "LevelPart", "LevelRows", "LevelsInBlocks"]


@dataclass(frozen=True)
class LevelRows:
    """Rows of the model that a block of X has.

    Attributes
    ----------
    row : (n,) int array
        The block's row of X for each, ascending.
    level : (n,) int array
        Their outcomes, as numbers among the levels of all rows.
    link : str
    """

    row: np.ndarray
    level: np.ndarray
    link: str


class LaneRows:
    """A replicate's rows among them.

    Attributes
    ----------
    at : (m,) int array
        Those with weight.
    K : int
        Thresholds.
    """

    def __init__(self, rows: CumulativeRows, at: np.ndarray) -> None:
        self.rows, self.at, self.K = rows, at, rows.K

    def evaluate(self, point: LevelPoint, b: int, eta: np.ndarray) -> Evaluation:
        """The loss and the rows' derivatives at thresholds, η (n,) being of all the block's."""
        ev = self.rows.evaluate(self._thresholds(point, b), eta[self.at])
        return ev.clipped() if point.clipped[b] else ev

    def loss(self, point: LevelPoint, b: int, eta: np.ndarray) -> float:
        """The loss alone."""
        return self.rows.loss(self._thresholds(point, b), eta[self.at])

    def _thresholds(self, point: LevelPoint, b: int) -> Thresholds:
        some = slice(self.K)
        alpha, delta = point.alpha[some, b], point.delta[some, b]
        return Thresholds(np.ascontiguousarray(alpha), np.ascontiguousarray(delta))

    def sums(self, ev: Evaluation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g, and T as the u and W of a `Chain`, (K,) each."""
        block = self.rows.block(ev)
        assert isinstance(block, Chain)
        return -self.rows.to_thresholds(ev.la, ev.lb), block.u, block.W

    def gradient(self, ev: Evaluation, t: np.ndarray) -> np.ndarray:
        """Derivative of the loss in η with the thresholds eliminated, (m,)."""
        return ev.s + self.rows.to_rows(t[: self.K], ev.ua, ev.ub)

    def crossed(self, ev: Evaluation, n: int, k0: int, k1: int) -> np.ndarray:
        """−C' of the thresholds k0 … k1 − 1, (n, k1 − k0): n rows of the block."""
        out = np.zeros((n, k1 - k0))
        levels = self.rows.levels
        for of, x in ((levels.up, ev.ua), (levels.low, ev.ub)):
            some = np.flatnonzero((of >= k0) & (of < min(k1, self.K)))
            out[self.at[some], of[some] - k0] = x[some]
        return out


class LevelPart:
    """Rows of one block.

    Parameters
    ----------
    rows : LevelRows
    backend : Backend
    """

    def __init__(self, rows: LevelRows, backend: Backend) -> None:
        self.rows, self.backend = rows, backend
        self.order, self.n = rows.row, len(rows.row)

    def of_lane(self, w: np.ndarray, rank: np.ndarray) -> LaneRows:
        """The rows (n,) that have weight in a replicate, over its own levels."""
        at = np.flatnonzero(w > 0)
        up = rank[self.rows.level[at]].astype(np.int32)
        levels = Levels(np.arange(rank[-1] + 1.0), at, up - np.int32(1), up, np.empty(0, int), True)
        return LaneRows(CumulativeRows(levels, self.rows.link, w[at], self.backend), at)


class LevelsInBlocks:
    """A cumulative likelihood of all rows whose steps are made of sums; see `LevelExchange`.

    Parameters
    ----------
    likelihood : CumulativeLikelihood
        Of an outcome without censoring.
    cuts : (blocks + 1,) int array
        Where blocks of rows of X begin and end.
    """

    def __init__(self, likelihood: CumulativeLikelihood, cuts: np.ndarray) -> None:
        self.likelihood, levels = likelihood, likelihood.levels
        self.level = np.repeat(np.arange(levels.M), np.diff(levels.pointers))
        block = np.searchsorted(cuts, levels.order, side="right") - 1
        of_x = np.argsort(levels.order)  # the model's rows in X's order
        edges = np.searchsorted(block[of_x], np.arange(len(cuts)))
        self.rows = [of_x[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        self._first = cuts[:-1]

    def parts(self) -> list[Any]:
        """See `LevelExchange.parts`."""
        order, link = self.likelihood.levels.order, self.likelihood.link
        of_each = zip(self.rows, self._first, strict=True)
        return [
            partial(_part, LevelRows(order[rows] - first, self.level[rows], link))
            for rows, first in of_each
        ]

    def shard_contexts(
        self, weights: np.ndarray, offset: np.ndarray | None
    ) -> Sequence[dict[str, np.ndarray]]:
        """See `LevelExchange.shard_contexts`; a missing level is in the bin of the next one."""
        M, order = self.likelihood.levels.M, self.likelihood.levels.order
        rank = np.empty((M, weights.shape[1]), np.int64)
        for b, w in enumerate(weights.T):
            kept = np.flatnonzero(np.bincount(self.level[w[order] > 0], minlength=M))
            rank[:, b] = np.minimum(np.searchsorted(kept, np.arange(M)), len(kept) - 1)
        if offset is None:
            return [{"rank": rank} for _ in self.rows]
        return [{"rank": rank, "offset": offset[order[rows]]} for rows in self.rows]

    def begin(self, level: float, weights: np.ndarray, like: Nuisance | None) -> Moved:
        """See `LevelExchange.begin`."""
        eta = np.full(self.likelihood.n, level)
        return self.likelihood.begin(eta, weights[self.likelihood.order], like).thresholds

    def nuisance(self, weights: np.ndarray, at: Moved) -> Nuisance:
        """See `LevelExchange.nuisance`."""
        eta = np.zeros(self.likelihood.n)
        here = self.likelihood.begin(eta, weights[self.likelihood.order])
        return replace(here, thresholds=Thresholds(at.alpha, at.delta))


def _part(rows: LevelRows, backend: Backend) -> LevelPart | None:
    """A block's rows; None where it has none of the model's."""
    return LevelPart(rows, backend) if len(rows.row) else None
