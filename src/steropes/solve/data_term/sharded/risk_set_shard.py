"""A shard in this process that shares risk sets with other shards, and its sums over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ....backends.backend_interface import Array
from ....design_matrix.design_interfaces import DesignLike, PieceLike
from ....likelihoods.cox_risk_set_sums import MAX_UNSHIFTED_PREDICTOR
from ....likelihoods.hessian_structures import GroupedCurvature
from ....likelihoods.shard_risk_sets import Hazards, ShardRiskSets, ShardWeights
from ...hessian import hessian
from ..working_set import WorkingColumns
from .local_shard import Unbound, point_key
from .shard_base import ShardBase
from .shard_messages import (
    Ask,
    At,
    Gradients,
    Hessian,
    Relative,
    RiskSums,
    ShardContext,
    Slope,
    Tops,
)

__all__ = ["RiskShard"]


# Three points are kept: that of the steps, that of the shared curvature, and the last one.
KEPT_POINTS = 3


def moments(
    part: ShardRiskSets, active: WorkingColumns, r: Array, weights: ShardWeights,
    chosen: np.ndarray, apart: bool,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Compute ``at_risk`` and, with ``apart``, ``tied``: sums of r x at some groups, (F, k) each.

    Parameters
    ----------
    r : (n, 1) array
    chosen : (F,) int array
        Groups, ascending.
    """
    rows, u = active.rows, r[:, 0]
    if rows.layout == "rows":
        N, E = part.moments(rows.sums, rows.k, u, weights, chosen)
    else:
        assert rows.layout == "pieces"  # No other model over time has risk sets.
        N, E = _by_interval(part, rows, u, weights, chosen)
    if apart:
        assert E is not None  # Families that separate tied events return both.
        return {"at_risk": N, "tied": E}
    return {"at_risk": N if E is None else N + E}


def _by_interval(
    part: ShardRiskSets, rows: PieceLike, u: Array, weights: ShardWeights, chosen: np.ndarray
) -> tuple[Array, Array]:
    """Compute the sums of columns that act in some intervals of time; see `PieceLike`."""
    assert part.rows.interval is not None
    of = part.rows.interval[part.rows.groups.stratum[chosen]]
    N, E = np.zeros((2, len(chosen), rows.k))
    for q, (pieces, X, at, columns, _, factors) in enumerate(rows.intervals()):
        here = np.flatnonzero(of == q)
        if len(here) and pieces.stop > pieces.start:
            n, e = part.moments(X.sums, X.k, u[pieces], weights, chosen[here], pieces)
            assert e is not None
            own = 1.0 if factors is None else factors
            N[np.ix_(here, at)], E[np.ix_(here, at)] = n[:, columns] * own, e[:, columns] * own
    return N, E


@dataclass(frozen=True)
class _PointState:
    """η of some replicates at a point, and r if it has been requested."""

    eta: np.ndarray
    weights: ShardWeights
    r: np.ndarray | None = None
    shift: np.ndarray | None = None


class RiskShard(ShardBase):
    """Rows of a model with shared risk sets; see `Shard`. A step is two requests.

    Parameters
    ----------
    part : ShardRiskSets
        The likelihood's part of these rows.
    """

    def __init__(self, design: DesignLike, part: ShardRiskSets) -> None:
        super().__init__(design, part.order, part.backend)
        self.part = part
        self._bound: dict[str, tuple[ShardWeights, np.ndarray | None]] = {}
        self._here: dict[tuple[str, int | None, bytes], _PointState] = {}

    def knows(self, key: str) -> bool:
        """Return whether replicates are bound."""
        return key in self._bound

    def bind(
        self, key: str, weights: np.ndarray, offset: np.ndarray | None, context: ShardContext
    ) -> None:
        """Bind weights and context, which includes the offset; see `ContextShards.bind`."""
        part = self.part
        w = self._in_lanes(np.asarray(weights, np.float64)[part.row])
        common = {name: x for name, x in context.items() if name != "offset"}
        own = self._in_lanes(context["offset"]) if "offset" in context else None
        self._bound[key] = part.weigh(w, common), own

    def _in_lanes(self, x: np.ndarray) -> np.ndarray:
        """Pad columns to lanes with zeros."""
        B = x.shape[1]
        out = np.zeros((len(x), self.part.backend.lanes(B)))
        out[:, :B] = x
        return out

    def release(self, key: str) -> None:
        """See `Shard.release`."""
        self._bound.pop(key, None)
        for known in [k for k in self._here if k[0] == key]:
            del self._here[known]

    def _answer(self, at: At, ask: Ask, active: WorkingColumns) -> Iterable[tuple[str, np.ndarray]]:
        """See `ShardBase._answer`."""
        match ask:
            case RiskSums():
                return self._sums(at, ask, active)
            case Tops():
                here = self._at(at, ask.lane, active)
                return [("tops", self.part.tops(here.eta, here.weights))]
            case Slope():
                r = self._gradient(at, active)
                entries = np.array(active.rows.entries)
                return [("gradient", np.asarray(active.rows.rmatmul(r))), ("entries", entries)]
            case Gradients():
                return [("gradients", self._gradients(at, active))]
            case Hessian():
                return self._hessian(at, ask, active)
            case Relative():
                return self._relative_diagonals(at, ask, active)
            case _:
                raise ValueError(f"risk sets are not asked for {type(ask).__name__}")

    # -- points of replicates --------------------------------------------------------------------

    def _at(self, at: At, lane: int | None, active: WorkingColumns) -> _PointState:
        """Return η of all replicates, or of one."""
        key = at.replicates, lane, point_key(at)
        if key in self._here:
            self._here[key] = self._here.pop(key)  # Moved to the end as the most recently used.
            return self._here[key]
        if at.replicates not in self._bound:
            raise Unbound(at.replicates)
        weights, offset = self._bound[at.replicates]
        if lane is not None:
            weights = weights.of_lane(lane)
        eta = active.rows.matmul(np.ascontiguousarray(at.beta))
        if offset is not None:
            one = lane is not None and offset.shape[1] > 1
            eta = eta + (offset[:, lane : lane + 1] if one and lane is not None else offset)
        self._keep(key, here := _PointState(eta, weights))
        return here

    def _keep(self, key: tuple[str, int | None, bytes], here: _PointState) -> None:
        """Store a point; for all lanes of some replicates only the current one is kept."""
        for old in [k for k in self._here if k[:2] == key[:2] and key[1] is None]:
            del self._here[old]
        self._here[key] = here
        while len(self._here) > KEPT_POINTS:
            del self._here[next(iter(self._here))]

    def _with_rates(
        self, at: At, lane: int | None, shift: np.ndarray | None, active: WorkingColumns
    ) -> tuple[_PointState, np.ndarray]:
        """Return the point with r there, and the events' part of the loss."""
        here = self._at(at, lane, active)
        r, linear = self.part.rates(here.eta, here.weights, shift)
        self._keep(
            (at.replicates, lane, point_key(at)), _PointState(here.eta, here.weights, r, shift)
        )
        return _PointState(here.eta, here.weights, r, shift), linear

    def _r(
        self, at: At, lane: int | None, active: WorkingColumns
    ) -> tuple[np.ndarray, ShardWeights]:
        """Return r and the weights at a point with known hazards."""
        assert at.hazards is not None
        here, shift = self._at(at, lane, active), at.hazards.shift
        same = here.shift is shift or (
            here.shift is not None and shift is not None and np.array_equal(here.shift, shift)
        )
        if here.r is None or not same:
            here = self._with_rates(at, lane, shift, active)[0]
        assert here.r is not None
        return here.r, here.weights

    # -- answers ---------------------------------------------------------------------------------

    def _sums(
        self, at: At, ask: RiskSums, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute sums over risk sets; see `RiskSums`."""
        here = self._at(at, ask.lane, active)
        largest = float(np.abs(here.eta).max(initial=0.0))
        out = [("largest", np.array(largest))]
        if largest >= MAX_UNSHIFTED_PREDICTOR and ask.shift is None:
            return out
        here, linear = self._with_rates(at, ask.lane, ask.shift, active)
        assert here.r is not None
        out += [("linear", linear), *self.part.sums(here.r, here.weights).items()]
        if ask.squares:
            out.append(("squares", self.part.squares(here.r, here.weights)))
        return out

    def _gradient(self, at: At, active: WorkingColumns) -> np.ndarray:
        """Compute the derivative of the loss in η."""
        assert at.hazards is not None
        r, weights = self._r(at, None, active)
        return self.part.gradient(r, weights, at.hazards)

    def _gradients(self, at: At, active: WorkingColumns) -> np.ndarray:
        """Compute the gradient over all columns."""
        r = self._gradient(at, active)
        if self.part.order is not None:
            whole = np.zeros((self.design.n, r.shape[1]))
            whole[self.part.order] = r
            r = whole
        return np.asarray(self.design.rmatmul(r, self.part.backend))

    def _hessian(
        self, at: At, ask: Hessian, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute this shard's part of a Hessian; see `Hessian`."""
        assert at.hazards is not None
        assert ask.groups is not None
        rows = active.rows
        r, weights = self._r(at, ask.lane, active)
        out = list(moments(self.part, active, r, weights, ask.groups, ask.apart).items())
        v = self._diagonal(r, weights, at.hazards)
        if ask.matrix:
            H = hessian(rows, GroupedCurvature(v), ask.first, ask.rough)
            out.append(("matrix", np.asarray(H)[ask.first :]))
        else:
            out.append(("diagonal", np.asarray(rows.diagonal(v))))
        return out

    def _diagonal(self, r: np.ndarray, weights: ShardWeights, hazards: Hazards) -> np.ndarray:
        """Compute the diagonal of the curvature in η, (n,)."""
        return np.asarray(r * self.part.exposure(weights, hazards))[:, 0]

    def _relative_diagonals(
        self, at: At, ask: Relative, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute Hessian diagonals with own and other weights; see `Relative`."""
        assert at.hazards is not None
        r, weights = self._r(at, ask.lane, active)
        others = self._bound[ask.others][0].w
        rows, base, k = active.rows, weights.w, len(at.columns)
        if rows.layout != "rows" or bool(((base == 0) & (others > 0)).any()):
            none = np.zeros((k, 1)), np.zeros((k, others.shape[1]))
            return [("base", none[0]), ("own", none[1]), ("usable", np.array(False))]
        v = self._diagonal(r, weights, at.hazards)[:, None]
        own = v * (others / np.where(base > 0, base, 1.0))
        return [
            ("base", np.asarray(rows.diagonals(v))),
            ("own", np.asarray(rows.diagonals(own))),
            ("usable", np.array(True)),
        ]
