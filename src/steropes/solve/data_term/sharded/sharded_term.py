"""The negative log-likelihood of rows in shards: each shard answers, and the answers are summed.

The shards' losses, gradients and Hessians add up to those of the model, so the steps are those of
one machine. A step is one request for losses and gradients over the working set; a Hessian or the
gradient over all columns takes one more. Answers are added in the order of the shards, so the last
digits depend on how rows are divided into shards, but not on their place or speed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....backends.thread_pool import ThreadPool
from ....likelihoods.nuisance_interface import Nuisance
from ....likelihoods.shard_risk_sets import Hazards
from ....priors import Prior
from ..data_term_interfaces import Accuracy, CurvatureAt, Trial
from ..term_without_nuisance import TermWithoutNuisance
from ..working_set import WorkingSet
from .shard_messages import (
    Answer,
    Ask,
    At,
    Gradients,
    Hessian,
    LeftOut,
    Relative,
    Request,
    Shards,
    Totals,
    Value,
    added,
)

__all__ = ["ShardedCurvature", "ShardedFamily", "ShardedState", "ShardedTerm"]


@dataclass(frozen=True)
class ShardedFamily:
    """Properties of a likelihood that are known without its rows.

    Attributes
    ----------
    grouped : bool
        Whether its curvature has rank-one terms.
    trust_radius : float
        See `DataTerm`.
    dispersion : callable
        See `Likelihood.dispersion`.
    score_of : callable
        See `Likelihood.score_of`.
    """

    grouped: bool
    trust_radius: float
    dispersion: Callable[[np.ndarray, np.ndarray], np.ndarray | float]
    score_of: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ShardedState:
    """The totals at the replicates' points.

    Attributes
    ----------
    loss : (lanes,) array
    gradient : (int, (k, lanes) array) or None
        The version of the working set and the gradient over it; None until it is requested.
    hazards : Hazards or None
        See `At`.
    """

    loss: np.ndarray
    gradient: tuple[int, np.ndarray] | None = None
    hazards: Hazards | None = None


class ShardedTerm(TermWithoutNuisance):
    """Replicates of one model with rows in shards.

    Parameters
    ----------
    scale : (p,) array
        The number by which each column was divided.
    pool : ThreadPool
        For local computations.
    weights : (n, B) or (n, 1) array
        Row weights of the replicates.
    offset : (n, B) or (n, 1) array or None
    B, lanes : int
        Number of replicates, and of lanes to which the shards pad them.
    active : WorkingSet, optional
        A working set that is shared with other terms of the same model.
    """

    columnar = False
    effective_rows = 0  # Hessians use all rows, since shards work in parallel.

    def __init__(
        self,
        shards: Shards,
        family: ShardedFamily,
        scale: np.ndarray,
        pool: ThreadPool,
        weights: np.ndarray,
        offset: np.ndarray | None = None,
        B: int = 1,
        lanes: int = 1,
        active: WorkingSet | None = None,
    ) -> None:
        self.shards, self.family, self.pool = shards, family, pool
        self.scale, self.p, self.B, self.lanes = scale, len(scale), B, lanes
        self.rows, self.trust_radius = max(shards.rows, 1), family.trust_radius
        self.active = WorkingSet(self.p) if active is None else active
        self.key = self._bind(weights, offset)
        weakref.finalize(self, shards.release, self.key).atexit = False
        self.beta = np.zeros((self.p, lanes))
        self._here: ShardedState | None = None
        self._entries = (-1, 0)
        self.total = self._totals()

    def _bind(self, weights: np.ndarray, offset: np.ndarray | None) -> str:
        """Bind the weights and offset at the shards and return the key."""
        return self.shards.bind(weights, offset, self.B)

    def _totals(self) -> np.ndarray:
        """Request the sums of the row weights, (lanes,)."""
        return added(self._ask(self._at(), Totals()), "weight")

    def _at(self) -> At:
        """Return the current points for a request."""
        return At(self.key, self.W, self.beta[self.W])

    def _ask(self, at: At, ask: Ask) -> list[Answer]:
        """Send one question to all shards and return their answers."""
        return list(self.shards.ask(Request(at, (ask,))))

    # -- the working set ---------------------------------------------------------------------

    @property
    def W(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.active.W

    @property
    def inside(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.active.inside

    @property
    def entries(self) -> int:
        """Stored entries of the working set, as of the last request; see `DataTerm`."""
        version, entries = self._entries
        return entries if version == self.active.version else self.rows * len(self.W)

    def hessian_cost(self, coarse: bool) -> float:
        """Estimate the cost as for rows on one machine; k² numbers are sent in addition.

        See `DataTerm.hessian_cost`.
        """
        return self.entries / self.rows / (10.0 * (0.5 + 0.2 * self.lanes)) + 1.0

    def asarray(self, x: np.ndarray) -> np.ndarray:
        """Return the array, as all are on the host; see `DataTerm.asarray`."""
        return x

    def join(self, columns: np.ndarray) -> int:
        """See `DataTerm.join`."""
        return self.active.join(columns)

    def set_prior(self, prior: Prior) -> bool:
        """Return False: the losses are those of the data alone."""
        return False

    # -- the points ----------------------------------------------------------------------------

    def place(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """See `DataTerm.place`."""
        self.beta = np.array(beta, np.float64)
        self._here = None

    @property
    def totals_at_points(self) -> ShardedState:
        """The totals at the points, requested if necessary."""
        if self._here is None:
            self._here = self.evaluate_at(self._at())
        return self._here

    @property
    def loss(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.totals_at_points.loss

    @property
    def dispersion(self) -> np.ndarray | float:
        """See `DataTerm.dispersion`."""
        return self.family.dispersion(self.loss, self.total)

    def evaluate_at(self, at: At) -> ShardedState:
        """Request losses at a point, with gradients, because most trial points are accepted."""
        answers = self._ask(at, Value())
        self.record_entries(answers)
        with np.errstate(invalid="ignore"):  # Slopes at the end of a long step may be infinite.
            gradient = added(answers, "gradient")
        return ShardedState(added(answers, "loss"), (self.active.version, gradient))

    def record_entries(self, answers: Sequence[Answer]) -> None:
        """Store the number of entries of the working set."""
        self._entries = self.active.version, int(added(answers, "entries"))

    def move_to(self, beta: np.ndarray, reached: ShardedState) -> None:
        """Move the points to these coefficients of the working set, (k, lanes)."""
        self.beta[self.W] = beta
        self._here = reached

    def gradient(self) -> np.ndarray:
        """See `DataTerm.gradient`."""
        known = self.totals_at_points.gradient
        if known is None or known[0] != self.active.version:
            known = self.active.version, self._slope()
            self._here = replace(self.totals_at_points, gradient=known)
        return known[1]

    def _slope(self) -> np.ndarray:
        """Request the gradient over the working set at the points, (k, lanes)."""
        known = self.evaluate_at(self._at()).gradient
        assert known is not None
        return known[1]

    def gradients(self, tol: float) -> np.ndarray:
        """See `DataTerm.gradients`."""
        g = added(self._ask(self._at(), Gradients(tol)), "gradients")
        g[self.W] = self.gradient()
        return g

    def along(self, D: np.ndarray, live: np.ndarray) -> Trial:
        """See `DataTerm.along`."""
        return ShardedTrial(self, D)

    # -- curvature -----------------------------------------------------------------------------

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """Return the curvature; None for a subsample, which shards do not support.

        See `DataTerm.curvature`.
        """
        return None if thin > 1 else ShardedCurvature(self, lane)

    def relative(self, curvature: CurvatureAt) -> np.ndarray | None:
        """See `DataTerm.relative`."""
        # Terms that share a Hessian have the same type.
        assert isinstance(curvature, ShardedCurvature)
        answers = self._ask(curvature.at, Relative(curvature.lane, self.key))
        if not all(bool(a["usable"]) for a in answers):
            return None
        k = len(self.W)
        h0, h = added(answers, "base")[:k], added(answers, "own")[:k]
        return np.clip(np.where(h0 > 0, h / np.where(h0 > 0, h0, 1.0), 1.0), 1e-2, 1e2)

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """See `DataTerm.left_out_score`."""
        whole = self.shards.bind(weights[:, None], None, 1)
        try:
            parts = added(self._ask(self._at(), LeftOut(whole, difference)), "score")
        finally:
            self.shards.release(whole)
        score = self.family.score_of(parts[0])
        return score - self.family.score_of(parts[1]) if difference else score


class ShardedTrial:
    """A direction in the coefficients; see `Trial`."""

    def __init__(self, term: ShardedTerm, D: np.ndarray) -> None:
        self.term, self.D, self.start = term, D, term.beta[term.W]
        self.end: tuple[np.ndarray, ShardedState] | None = None

    def loss(self, t: np.ndarray) -> np.ndarray:
        """See `Trial.loss`."""
        term = self.term
        beta = self.start + t * self.D
        self.end = beta, term.evaluate_at(At(term.key, term.W, beta))
        return self.end[1].loss

    def commit(self) -> None:
        """See `Trial.commit`."""
        if self.end is None:
            raise RuntimeError("commit() before loss()")
        self.term.move_to(*self.end)


class ShardedCurvature:
    """The curvature at the point where a replicate was when this was created; see `CurvatureAt`."""

    convex = True

    def __init__(self, term: ShardedTerm, lane: int) -> None:
        self.term, self.lane, self.grouped = term, lane, term.family.grouped
        some = np.flatnonzero(term.beta[:, lane])
        self._columns, self._beta = some, term.beta[some, lane]
        self._diagonals: tuple[int, np.ndarray, np.ndarray] | None = None

    @property
    def at(self) -> At:
        """The point of requests for this curvature."""
        return self.place()

    def place(self) -> At:
        """Return the point over the current working set."""
        beta = np.zeros(self.term.p)
        beta[self._columns] = self._beta
        W = self.term.W
        gone = self._columns[~self.term.inside[self._columns]]
        if len(gone):  # Columns that have left since then are appended to the request.
            W = np.concatenate([W, gone])
        return At(self.term.key, W, beta[W][:, None])

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        k = len(self.term.W)
        answers = self.term._ask(self.at, Hessian(self.lane, True, first, rough))
        strip = added(answers, "matrix")[: k - first, :k]
        H = np.empty((k, k), answers[0]["matrix"].dtype)
        H[first:] = strip
        return H

    def diagonal(self) -> np.ndarray:
        """See `CurvatureAt.diagonal`."""
        return self._diagonal_pair()[0]

    def by_columns(self) -> None:
        """Return None, because shards have no column operator."""

    def on_device(self, *_: object) -> None:
        """Return None, because models are minimised where the shards are summed."""

    def sent(self, G: np.ndarray) -> None:
        """Return None for the same reason."""

    def uncentred(self) -> np.ndarray:
        """See `CurvatureAt.uncentred`."""
        return self._diagonal_pair()[1]

    def _diagonal_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the diagonal and the uncentred diagonal (k,), requested once per working set."""
        version, k = self.term.active.version, len(self.term.W)
        if self._diagonals is None or self._diagonals[0] != version:
            answers = self.term._ask(self.at, Hessian(self.lane, False))
            both = added(answers, "diagonal")[:k], added(answers, "uncentred")[:k]
            self._diagonals = version, *both
        return self._diagonals[1:]
