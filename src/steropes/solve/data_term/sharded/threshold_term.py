"""The negative log-likelihood of cumulative models whose rows are in shards.

The thresholds are kept here. A step sends them with the coefficients, and shards answer with sums
by threshold (`likelihoods.sharded_thresholds_interface`). From their totals follow the gradient
with the thresholds eliminated, the thresholds' own step and the last term of the Hessian. A step is
thus one request, whose answer grows with the working set times the number of thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....likelihoods.nuisance_hessian import Chain
from ....likelihoods.nuisance_interface import Nuisance
from ....likelihoods.nuisance_likelihood import NuisanceLikelihood, gone
from ....likelihoods.sharded_thresholds_interface import (
    LevelPoint,
    MovableThresholds,
    ShardedThresholds,
)
from ..data_term_interfaces import Accuracy, CurvatureAt, Trial
from ..working_set import WorkingSet
from .shard_messages import (
    Answer,
    At,
    ContextShards,
    Gradients,
    Hessian,
    LeftOut,
    LevelMean,
    LevelSums,
    added,
)
from .sharded_term import ShardedCurvature, ShardedFamily, ShardedTerm

__all__ = ["LevelTerm"]


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


class LevelTerm(ShardedTerm):
    """Replicates of one model with few thresholds and with rows in shards.

    Parameters
    ----------
    likelihood : NuisanceLikelihood
        Of all rows; only its outcomes are used.
    scale, weights, offset, B, active
        As in `ShardedTerm`.
    """

    def __init__(
        self,
        shards: ContextShards,
        exchange: ShardedThresholds,
        likelihood: NuisanceLikelihood,
        scale: np.ndarray,
        weights: np.ndarray,
        offset: np.ndarray | None = None,
        B: int = 1,
        active: WorkingSet | None = None,
    ) -> None:
        self.exchange, self.context_shards, self.offset = exchange, shards, offset
        self.own = np.broadcast_to(weights, (shards.rows, B))
        backend = likelihood.backend
        family = ShardedFamily(
            likelihood.grouped, likelihood.trust_radius, likelihood.dispersion, likelihood.score_of
        )
        self._thresholds: list[MovableThresholds] | None = None
        self._state: LevelState | None = None
        super().__init__(
            shards, family, scale, backend.pool, weights, offset, B, backend.lanes(B), active
        )

    def _bind(self, weights: np.ndarray, offset: np.ndarray | None) -> str:
        """See `ShardedTerm._bind`."""
        return self._bound(self.own, offset)

    def _bound(self, weights: np.ndarray, offset: np.ndarray | None) -> str:
        """Bind weights and offset with their contexts and return the key."""
        contexts = self.exchange.shard_contexts(weights, offset)
        return self.context_shards.bind(weights, offset, weights.shape[1], contexts)

    def _totals(self) -> np.ndarray:
        """See `ShardedTerm._totals`."""
        out = np.zeros(self.lanes)
        out[: self.B] = added(self._ask(self._at(), LevelMean()), "weight")
        return out

    # -- the points ----------------------------------------------------------------------------

    def place(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """Move the points; thresholds keep their values where the loss is finite.

        See `DataTerm.place`.
        """
        before = self._thresholds
        self.beta, self._state = np.array(beta, np.float64), None
        if before is not None and like is None:
            found = np.isfinite(self.state.loss[: self.B])
            if found.all():
                return
        fresh = self._initial_thresholds(like)
        if before is not None and like is None:
            fresh = [old if ok else new for old, new, ok in zip(before, fresh, found, strict=True)]
        self._thresholds, self._state = fresh, None

    def _initial_thresholds(self, like: Nuisance | None = None) -> list[MovableThresholds]:
        """Choose initial thresholds from the mean linear predictor of each replicate."""
        level = added(self._ask(self._at(), LevelMean()), "eta") / self.total[: self.B]
        lanes = range(self.B)
        return [self.exchange.begin(float(level[b]), self.own[:, b], like) for b in lanes]

    @property
    def state(self) -> LevelState:
        """The replicates' state, with sums over the current working set."""
        if self._thresholds is None:
            self._thresholds = self._initial_thresholds()
        if self._state is None or self._state.version != self.active.version:
            self._state = self.evaluate_state(self.beta[self.W], self._thresholds)
        return self._state

    def evaluate_state(self, beta: np.ndarray, thresholds: list[MovableThresholds]) -> LevelState:
        """Request the sums at a point."""
        state = LevelState(thresholds, self._point(thresholds), self.active.version)
        self._request_sums(state, beta)
        finite = np.isfinite(state.loss[: self.B])
        bad = np.array([ok and not state.block(b).positive for b, ok in enumerate(finite)])
        if bad.any():  # T is not positive because of rounding far from the optimum.
            state = LevelState(thresholds, replace(state.point, clipped=bad), self.active.version)
            self._request_sums(state, beta)
        return state

    def _request_sums(self, state: LevelState, beta: np.ndarray) -> None:
        """Request the sums at coefficients (k, lanes) and store them in the state."""
        answers = self._ask(At(self.key, self.W, beta, levels=state.point), LevelSums())
        self.record_entries(answers)
        state.add_answers(answers)

    def _point(self, thresholds: Sequence[MovableThresholds]) -> LevelPoint:
        """Convert thresholds to the form of a request."""
        alpha, delta = (
            _padded([getattr(t, name) for t in thresholds]) for name in ("alpha", "delta")
        )
        return LevelPoint(alpha, delta, np.zeros(len(thresholds), bool))

    def move_to_state(self, beta: np.ndarray, state: LevelState) -> None:
        """Move the points to an evaluated trial."""
        self.beta[self.W] = beta
        self._thresholds, self._state = state.thresholds, state

    @property
    def loss(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.state.loss

    @property
    def nuisance_decrement(self) -> np.ndarray:
        """See `DataTerm`."""
        out, state = np.zeros(self.lanes), self.state
        out[: self.B] = [state.decrement(b) for b in range(self.B)]
        return out

    @property
    def nuisance_error(self) -> np.ndarray:
        """See `DataTerm`."""
        K = np.ones(self.lanes)
        K[: self.B] = [max(len(t.alpha), 1) for t in self.state.thresholds]
        return np.sqrt(np.maximum(self.nuisance_decrement, 0.0) / K)

    def nuisance(self, lane: int) -> Nuisance | None:
        """See `DataTerm.nuisance`."""
        return self.exchange.nuisance(self.own[:, lane], self.state.thresholds[lane])

    def gradient(self) -> np.ndarray:
        """See `DataTerm.gradient`."""
        state = self.state
        g = np.array(state.slope)
        for b in range(self.B):
            g[:, b] += state.cross_product(b).T @ require_positive(*state.solved(b))
        return g

    def gradients(self, tol: float) -> np.ndarray:
        """See `DataTerm.gradients`."""
        own, state = self.gradient(), self.state
        t = _padded([state.solved(b)[1] for b in range(self.B)])
        at = At(self.key, self.W, self.beta[self.W], levels=replace(state.point, t=t))
        g = added(self._ask(at, Gradients(tol)), "gradients")
        g[self.W] = own
        return g

    def along(self, D: np.ndarray, live: np.ndarray) -> Trial:
        """See `DataTerm.along`."""
        return LevelTrial(self, D, live)

    # -- curvature and scores --------------------------------------------------------------------

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """Return the curvature; None for a subsample, which shards do not support.

        See `DataTerm.curvature`.
        """
        return None if thin > 1 else LevelCurvature(self, lane)

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """Compute held-out scores; rows are independent, so both kinds of score are equal.

        See `DataTerm.left_out_score`.
        """
        whole = self._bound(weights[:, None], None)
        at = At(self.key, self.W, self.beta[self.W], levels=self.state.point)
        try:
            return added(self._ask(at, LeftOut(whole, difference)), "score")
        finally:
            self.shards.release(whole)


class LevelTrial:
    """A direction in the coefficients together with that of the thresholds; see `Trial`."""

    def __init__(self, term: LevelTerm, D: np.ndarray, live: np.ndarray) -> None:
        self.term, self.D, self.start = term, D, term.beta[term.W]
        self.state, self.live = term.state, live
        self.steps = {b: self._step(b) for b in range(term.B) if live[b]}
        self.end: tuple[np.ndarray, LevelState] | None = None

    def _step(self, b: int) -> np.ndarray:
        """Compute the thresholds' step that goes with a replicate's direction."""
        block, t = self.state.solved(b)
        return np.asarray(
            block.solve(self.state.cross_product(b) @ self.D[:, b]) - require_positive(block, t)
        )

    def loss(self, t: np.ndarray) -> np.ndarray:
        """See `Trial.loss`."""
        t = np.where(self.live, t, 0.0)
        thresholds = list(self.state.thresholds)
        for b, step in self.steps.items():
            if t[b] != 0:
                thresholds[b] = thresholds[b].moved(step, float(t[b]))
        beta = self.start + t * self.D
        self.end = beta, self.term.evaluate_state(beta, thresholds)
        return self.end[1].feasible_losses(self.term.total)

    def commit(self) -> None:
        """See `Trial.commit`."""
        if self.end is None:
            raise RuntimeError("commit() before loss()")
        self.term.move_to_state(*self.end)


@dataclass(frozen=True)
class _FrozenThresholds:
    """A replicate's thresholds and their block at the point of a curvature."""

    point: LevelPoint
    block: Chain


class LevelCurvature(ShardedCurvature):
    """The curvature with the thresholds eliminated; see `ShardedCurvature`."""

    def __init__(self, term: LevelTerm, lane: int) -> None:
        super().__init__(term, lane)
        state, one = term.state, slice(lane, lane + 1)
        some, p = slice(len(state.thresholds[lane].alpha)), state.point
        point = LevelPoint(p.alpha[some, one], p.delta[some, one], p.clipped[one])
        block, t = state.solved(lane)
        require_positive(block, t)
        self.kept = _FrozenThresholds(point, block)

    @property
    def at(self) -> At:
        """The point of requests, with its thresholds; see `ShardedCurvature.at`."""
        return replace(self.place(), levels=self.kept.point)

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        k = len(self.term.W)
        answers = self.term._ask(self.at, Hessian(self.lane, True, first, rough))
        strip = added(answers, "matrix")[: k - first, :k]
        M = added(answers, "cross")[:, :k]
        strip -= M[:, first:].T @ self.kept.block.solve(M)
        H = np.empty((k, k), answers[0]["matrix"].dtype)
        H[first:] = strip
        return H

    def _diagonal_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """See `ShardedCurvature._diagonal_pair`."""
        version, k = self.term.active.version, len(self.term.W)
        if self._diagonals is None or self._diagonals[0] != version:
            answers = self.term._ask(self.at, Hessian(self.lane, False))
            raw, M = added(answers, "diagonal")[:k], added(answers, "cross")[:, :k]
            h = raw - (M * self.kept.block.solve(M)).sum(axis=0)
            self._diagonals = version, np.maximum(h, 0.0), raw
        return self._diagonals[1:]


def _padded(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Stack vectors as columns (K, B), padded with zeros."""
    out = np.zeros((max(len(x) for x in parts), len(parts)))
    for b, x in enumerate(parts):
        out[: len(x), b] = x
    return out
