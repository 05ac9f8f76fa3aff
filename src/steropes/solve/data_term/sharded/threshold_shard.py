"""A shard in this process that shares thresholds with other shards."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....design_matrix.design_interfaces import DesignLike
from ....likelihoods.cumulative import Evaluation, LaneRows, ShardLevels
from ....likelihoods.hessian_structures import GroupedCurvature
from ...hessian import hessian
from ...work_sizes import SIZES
from ..working_set import WorkingColumns
from .local_shard import Unbound, point_key
from .shard_base import ShardBase
from .shard_messages import (
    Ask,
    At,
    Gradients,
    Hessian,
    LeftOut,
    LevelMean,
    LevelSums,
    Relative,
    ShardContext,
)

__all__ = ["LevelShard"]

# Two points are kept: that of the steps and that of a Hessian.
KEPT_POINTS = 2


class LevelShard(ShardBase):
    """Rows of a cumulative model; see `Shard`. Thresholds are part of each request.

    Parameters
    ----------
    part : ShardLevels
        The likelihood's part of these rows.
    """

    def __init__(self, design: DesignLike, part: ShardLevels) -> None:
        super().__init__(design, part.order, part.backend)
        self.part = part
        self._w: dict[str, np.ndarray] = {}
        self._offset: dict[str, np.ndarray | None] = {}
        self._rank: dict[str, np.ndarray] = {}
        self._lanes: dict[str, list[LaneRows]] = {}
        self._here: dict[bytes, tuple[np.ndarray, list[Evaluation]]] = {}

    def knows(self, key: str) -> bool:
        """Return whether replicates are bound."""
        return key in self._w

    def bind(
        self, key: str, weights: np.ndarray, offset: np.ndarray | None, context: ShardContext
    ) -> None:
        """Bind weights and context, which includes the offset; see `ContextShards.bind`."""
        w = np.asarray(weights, np.float64)[self.part.order]
        rank = context["rank"]
        self._w[key], self._offset[key], self._rank[key] = w, context.get("offset"), rank
        self._lanes[key] = [self.part.of_lane(w[:, b], own) for b, own in enumerate(rank.T)]

    def release(self, key: str) -> None:
        """See `Shard.release`."""
        for known in (self._w, self._offset, self._rank, self._lanes):
            known.pop(key, None)
        self._here.clear()

    def _answer(self, at: At, ask: Ask, active: WorkingColumns) -> Iterable[tuple[str, np.ndarray]]:
        """See `ShardBase._answer`."""
        match ask:
            case LevelMean():
                w, eta = self._w[at.replicates], self._eta(at, None, active)
                level = np.asarray((w * eta[:, : w.shape[1]]).sum(axis=0))
                return [("eta", level), ("weight", w.sum(axis=0))]
            case LevelSums():
                return self._sums(at, ask.lane, active)
            case Gradients():
                return [("gradients", self._gradients(at, active))]
            case Hessian():
                return self._hessian(at, ask, active)
            case Relative():
                return self._relative_diagonals(at, ask, active)
            case LeftOut():
                return [("score", self._left_out(at, ask, active))]
            case _:
                raise ValueError(f"levels are not asked for {type(ask).__name__}")

    # -- points of replicates --------------------------------------------------------------------

    def _rows(self, key: str, lane: int | None) -> list[LaneRows]:
        """Return the rows of all replicates, or of one; raise `Unbound` if they are unknown."""
        if key not in self._lanes:
            raise Unbound(key)
        lanes = self._lanes[key]
        return lanes if lane is None else [lanes[lane]]

    def _eta(self, at: At, lane: int | None, active: WorkingColumns) -> np.ndarray:
        """Compute η (n, lanes) of all replicates, or of one."""
        eta = np.asarray(active.rows.matmul(np.ascontiguousarray(at.beta)))
        offset = self._offset[at.replicates]
        if offset is not None:
            one = lane is not None and offset.shape[1] > 1
            own = offset[:, lane : lane + 1] if one and lane is not None else offset
            if own.shape[1] == 1:
                eta = eta + own
            else:
                eta[:, : own.shape[1]] += own
        return eta

    def _at(
        self, at: At, lane: int | None, active: WorkingColumns
    ) -> tuple[np.ndarray, list[Evaluation]]:
        """Return η and the evaluations of the replicates' rows."""
        rows, point = self._rows(at.replicates, lane), at.levels
        assert point is not None
        name = f"{at.replicates} {lane} {point.clipped.tolist()}".encode()
        key = name + point_key(at) + b"|" + point.alpha.tobytes() + point.delta.tobytes()
        if key in self._here:
            self._here[key] = self._here.pop(key)  # Moved to the end as the most recently used.
            return self._here[key]
        eta = self._eta(at, lane, active)
        found = eta, [own.evaluate(point, b, _of(eta, b)) for b, own in enumerate(rows)]
        self._here[key] = found
        while len(self._here) > KEPT_POINTS:
            del self._here[next(iter(self._here))]
        return found

    def _spread(self, rows: list[LaneRows], parts: list[np.ndarray], lanes: int) -> np.ndarray:
        """Scatter numbers of the replicates' rows to the rows of the shard, (n, lanes)."""
        out = np.zeros((self.part.n, lanes))
        for b, (own, x) in enumerate(zip(rows, parts, strict=True)):
            out[own.at, b] = x
        return out

    # -- answers ---------------------------------------------------------------------------------

    def _sums(
        self, at: At, lane: int | None, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute sums by threshold; see `LevelSums`."""
        rows, point = self._rows(at.replicates, lane), at.levels
        assert point is not None
        eta, evs = self._at(at, lane, active)
        K, B, lanes = len(point.alpha), len(rows), eta.shape[1]
        loss, chains = np.zeros(lanes), np.zeros((3, K, B))
        cross = np.zeros((B, K, len(at.columns)))
        for b, (own, ev) in enumerate(zip(rows, evs, strict=True)):
            loss[b] = ev.loss
            chains[:, : own.K, b] = own.sums(ev)
            cross[b] = self._cross_derivatives(own, ev, K, active)
        s = self._spread(rows, [ev.s for ev in evs], lanes)
        return [
            ("loss", loss),
            ("chains", chains),
            ("slope", np.asarray(active.rows.rmatmul(s))),
            ("cross", cross),
            ("entries", np.array(active.rows.entries)),
        ]

    def _cross_derivatives(
        self, own: LaneRows, ev: Evaluation, K: int, active: WorkingColumns
    ) -> np.ndarray:
        """Compute −C X, (K, k)."""
        out = np.zeros((K, len(active.W)))
        for k0 in range(0, own.K, SIZES.thresholds_at_once):
            k1 = min(k0 + SIZES.thresholds_at_once, own.K)
            wide = k0 + self.part.backend.lanes(k1 - k0)
            R = own.crossed(ev, self.part.n, k0, wide)
            out[k0:k1] = np.asarray(active.rows.rmatmul(R)).T[: k1 - k0]
        return out

    def _gradients(self, at: At, active: WorkingColumns) -> np.ndarray:
        """Compute the gradient over all columns."""
        rows, point = self._rows(at.replicates, None), at.levels
        assert point is not None
        assert point.t is not None
        eta, evs = self._at(at, None, active)
        of_each = zip(rows, evs, point.t.T, strict=True)
        r = self._spread(rows, [own.gradient(ev, t) for own, ev, t in of_each], eta.shape[1])
        whole = np.zeros((self.design.n, r.shape[1]))
        whole[self.part.order] = r
        return np.asarray(self.design.rmatmul(whole, self.part.backend))

    def _diagonal(self, at: At, lane: int, active: WorkingColumns) -> np.ndarray:
        """Compute the rows' curvature at fixed α, (n,)."""
        rows = self._rows(at.replicates, lane)
        ev = self._at(at, lane, active)[1][0]
        return self._spread(rows, [ev.ua + ev.ub], 1)[:, 0]

    def _hessian(
        self, at: At, ask: Hessian, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute this shard's part of a Hessian; see `Hessian`."""
        assert at.levels is not None
        rows, v = active.rows, self._diagonal(at, ask.lane, active)
        own = self._rows(at.replicates, ask.lane)[0]
        ev, K = self._at(at, ask.lane, active)[1][0], len(at.levels.alpha)
        out = [("cross", self._cross_derivatives(own, ev, K, active))]
        if ask.matrix:
            H = hessian(rows, GroupedCurvature(v), ask.first, ask.rough)
            out.append(("matrix", np.asarray(H)[ask.first :]))
        else:
            out.append(("diagonal", np.asarray(rows.diagonal(v))))
        return out

    def _relative_diagonals(
        self, at: At, ask: Relative, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute Hessian diagonals with own and other weights; see `Relative`."""
        base, others = self._w[at.replicates][:, ask.lane, None], self._w[ask.others]
        rows, k = active.rows, len(at.columns)
        wide = self.part.backend.lanes(others.shape[1])
        if rows.layout != "rows" or bool(((base == 0) & (others > 0)).any()):
            none = np.zeros((k, 1)), np.zeros((k, wide))
            return [("base", none[0]), ("own", none[1]), ("usable", np.array(False))]
        v = self._diagonal(at, ask.lane, active)[:, None]
        own = np.zeros((len(v), wide))
        own[:, : others.shape[1]] = v * (others / np.where(base > 0, base, 1.0))
        return [
            ("base", np.asarray(rows.diagonals(v))),
            ("own", np.asarray(rows.diagonals(own))),
            ("usable", np.array(True)),
        ]

    def _left_out(self, at: At, ask: LeftOut, active: WorkingColumns) -> np.ndarray:
        """Compute the log-likelihoods (B,) of the rows that replicates leave out."""
        point, rank = at.levels, self._rank[at.replicates]
        assert point is not None
        whole, eta = self._w[ask.whole][:, 0], self._eta(at, None, active)
        out = np.zeros(rank.shape[1])
        for b, w in enumerate(self._w[at.replicates].T):
            held = self.part.of_lane(whole - w, rank[:, b])
            out[b] = -held.loss(point, b, _of(eta, b))
        return out


def _of(eta: np.ndarray, b: int) -> np.ndarray:
    """Return a lane's column (n,) as a contiguous array."""
    return np.ascontiguousarray(eta[:, b])
