"""When the Hessian of a batch is recomputed, and which replicates receive one of their own.

The shared Hessian is kept as long as the replicates contract well, whatever its point. If they do
not, it is computed again, and a replicate that remains slow receives its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...backends.array_namespace import array_namespace, to_host
from ...backends.backend_interface import Array
from ..data_term import Accuracy, DataTerm
from ..elastic_net_penalty import ElasticNetPenalty
from ..quasi_newton.bfgs_hessian_updates import BfgsPairs
from ..quasi_newton.hessian_representation import in_single_precision, one_row_in, too_wide
from ..quasi_newton.shared_hessian import SharedHessian
from ..solver_constants import SolverPolicy
from ..subproblem import (
    ColumnwiseReducedHessian,
    DenseReducedHessian,
    DeviceReducedHessian,
    QuadraticModel,
)
from .descent_state import DescentState
from .step_phases import Curvatures

__all__ = ["Hessians"]


class Hessians:
    """The shared Hessian of a batch's replicates, and those of slow replicates.

    Parameters
    ----------
    term, shared, per_replicate_subproblems
        As in `Batch`.

    Attributes
    ----------
    alone : bool
        Whether it is a single fit that shares its Hessian with no other batch.
    own : dict of int to (columns, QuadraticModel)
        Models of replicates with their own Hessian, and the working set of each.
    lane : int
        The replicate whose curvature the shared Hessian has, −1 for none yet.
    moved : bool
        Whether the points have moved since it was computed.
    fresh : bool
        Whether the Hessian of the next step, or of the last one, was computed nearly at its point.
    thinner : float
        Number of subsampled Hessians that may still be computed.
    """

    def __init__(
        self, term: DataTerm, shared: SharedHessian | None, per_replicate_subproblems: bool,
        policy: SolverPolicy,
    ) -> None:  # fmt: skip
        self.policy, self.subproblem = policy.hessian, policy.subproblem
        self.term, self.per_replicate_subproblems = term, per_replicate_subproblems
        self.alone = shared is None and term.B == 1
        self.shared = SharedHessian(term.pool, policy) if shared is None else shared
        self.bfgs = BfgsPairs(policy.hessian)
        self.own: dict[int, tuple[np.ndarray, QuadraticModel]] = {}
        self.lane = -1
        self.moved = self.fresh = False
        self._idle = False  # Whether the last step moved no replicate.
        self.thinner = 0.0
        self._penalty: ElasticNetPenalty | None = None
        self._sigma: tuple[int, Array] | None = None
        self._exact = False  # Whether a coarse Hessian was found to be too coarse.

    def set_penalty(self, penalty: ElasticNetPenalty) -> None:
        """Set the penalty for the coming descent."""
        self._penalty = penalty
        self.fresh = self._idle = False
        # Replicates that share a Hessian have different factors, so they have no common ridge.
        self.shared.ridge = penalty.l2[:, 0] if self.alone else None

    # -- the points ------------------------------------------------------------------------------

    def left(self) -> None:
        """Record that the points were moved other than by steps."""
        self.moved = True

    def stepped(self, moved: bool) -> None:
        """Record a step, and whether it moved any replicate."""
        self._idle = not moved
        self.moved |= moved

    # -- the Hessians ----------------------------------------------------------------------------

    def follow(self) -> None:
        """Extend the shared Hessian, or at least its diagonal, to the current working set."""
        if self.shared.known and self.shared.by_columns != self._by_columns():
            self.shared.forget()
        self.shared.follow(self.term, self._rough, self._units)
        if len(self.shared.h) != len(self.term.W):
            self.compute(max(self.lane, 0) if self.alone else 0)

    def compute(self, lane: int) -> None:
        """Recompute the shared Hessian at a replicate's point."""
        self.lane = lane
        self.shared.forget()  # Freed before the next is allocated.
        thin = self._thin()
        at = self.term.curvature(lane, thin) if thin > 1 else None
        self.shared.thinned = at is not None
        self.thinner -= thin > 1
        if at is None:
            at = self.term.curvature(lane, accuracy=self._accuracy)
        assert at is not None
        self.shared.compute(self.term, at, lane, self._rough, not self._by_columns(), self._units)
        self.moved = False
        self.own.clear()

    def thinned_at_most(self, times: float) -> None:
        """Allow this many subsampled Hessians from now on, where they suffice."""
        self.thinner = times

    def again(self, lane: int) -> None:
        """Recompute the shared Hessian for the next step of a replicate, or for another attempt."""
        self.compute(lane)
        self.fresh = True

    def curvatures(self) -> Curvatures:
        """Return the Hessians for a step."""
        own: dict[int, Callable[[], QuadraticModel]]
        free = None if self._penalty is None else self._penalty.free[self.term.W]
        if self._by_columns() and not self.alone and self.shared.known and free is not None:
            # Each is computed when it is used, because it is as large as the rows.
            model = self.shared.model(free)
            if model.shared.minimiser is None:
                model.factors.blocks()
            own = {b: partial(self._own_by_columns, b) for b in range(self.term.B)}
        else:
            own = {b: partial(_itself, q) for b, q in self._still_own()}
        return Curvatures(
            self.shared, self._factors(), self.bfgs, own, self.per_replicate_subproblems
        )

    @property
    def score_variance(self) -> Array:
        """Variances of the scores of the working set's columns, (k, lanes)."""
        here = self.term.asarray
        own = self._factors() ** 2 if self.per_replicate_subproblems else here(self._weights)
        h = self.shared.h if self.lasso else self.shared.information
        return here(h)[:, None] * (own * here(np.asarray(self.term.dispersion)))

    @property
    def lasso(self) -> bool:
        """Whether the penalty has an ℓ1 part."""
        return self._penalty is not None and self._penalty.lasso

    # -- when to compute them --------------------------------------------------------------------

    def renew(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> None:
        """Keep the shared Hessian for a step, recompute it, or compute slow replicates' own.

        Parameters
        ----------
        violation : (lanes,) array
        todo : (lanes,) bool array
            Replicates that have not reached the aim.
        """
        slow = run.rates.slow(violation, todo)
        if (
            len(slow)
            and self.shared.known
            and violation.max(where=todo, initial=0.0) < self.policy.coarse_violation
        ):
            self._exact = True
        settled = self.fresh and run.steps >= self.policy.settling_steps
        if settled and self.shared.thinned and len(run.rates.standing(violation, todo)):
            self.thinner = 0  # The subsample may lack the ones of a rare column.
            self.shared.forget()
        if self._by_columns() and not self.alone:
            if not self.shared.known:
                self.compute(int(np.argmax(np.where(todo, violation, 0.0))))
            self.fresh = True  # Each replicate has its own at its point.
        elif self.per_replicate_subproblems and self.shared.known:
            self.fresh = True  # It is never recomputed.
        elif self._due(run, violation, todo):
            worst = int(np.argmax(np.where(todo, violation, 0.0))) if self.term.B > 1 else 0
            self.again(worst)
        elif len(slow) and self.term.B > 1 and self.fresh:
            for b in self._in_need(slow, run, violation, todo):
                own = self._own_model(int(b)) if b < self.term.B and b != self.lane else None
                if own is not None:
                    self.own[int(b)] = self.term.W.copy(), own
            # The shared Hessian is that of a point which its replicate has left.
            self.fresh = self._idle
        else:
            self.fresh = self.fresh and self._idle

    def _in_need(
        self, slow: np.ndarray, run: DescentState, violation: np.ndarray, todo: np.ndarray
    ) -> np.ndarray:
        """Return the slow replicates that receive their own Hessians.

        All of them do if these Hessians cost less than the steps that they are likely to save.
        Otherwise, under an ℓ1 penalty, only those do whose last step brought hardly anything.
        Without an ℓ1 penalty all do as soon as there is one of those.

        For a Cox model of 20,000 × 3,000 with 10 × 10 folds, which differ much, this is 51 Hessians
        for all folds in one batch, in place of 345 with one for every slow replicate, and 86 steps
        in place of 79. On the CPU, with 12 folds in a batch, the model takes 15 % less time. Draws
        without an ℓ1 penalty would take a tenth longer if they had the rule of the lasso.
        """
        standing, others = run.rates.standing(violation, todo), violation.copy()
        if self.lasso:
            others[standing] = 0.0
        if run.rates.worth_hessian(others, run.tol, len(slow) * self._cost):
            return slow
        return np.intersect1d(slow, standing) if self.lasso else slow[:0]

    def wanting(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Return whether steps contract so badly that the next one would use a new Hessian."""
        return self.shared.known and not self._newton and self._due(run, violation, todo)

    def _due(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Return whether to recompute the shared Hessian before a step."""
        if not self.shared.known or self._newton:
            return True
        slow = len(run.rates.slow(violation, todo)) > 0
        return slow and not self.fresh and self._worth_it(run, violation)

    def _still_own(self) -> list[tuple[int, QuadraticModel]]:
        """Return the replicates' own models over the current working set."""
        W = self.term.W
        return [(b, q) for b, (own, q) in self.own.items() if np.array_equal(own, W)]

    @property
    def _rough(self) -> bool:
        """Whether a Hessian may be rounded to single precision."""
        return in_single_precision(self.term, self.lasso, self.policy)

    @property
    def _units(self) -> np.ndarray | None:
        """Places of columns with violations in units of their curvature; None means all."""
        if self._penalty is None:
            return None
        free = np.flatnonzero(np.logical_not(self._penalty.every_l1[self.term.W]))
        return free if len(free) <= self.policy.max_exact_diagonal else None

    def _by_columns(self) -> bool:
        """Return whether the working set is too wide for a Gram matrix."""
        penalty, W = self._penalty, self.term.W
        free = penalty is None or bool(
            np.count_nonzero(penalty.free[W]) > self.policy.max_free_share * len(W)
        )
        return too_wide(self.term, self.lasso, free, self.shared.grouped, self.policy)

    def _thin(self) -> int:
        """Return m if one row in m enters the next Hessian, 1 for all rows."""
        if self.thinner <= 0 or self._penalty is None or self._by_columns():
            return 1
        return one_row_in(self.term, self._penalty, self.policy)

    @property
    def _newton(self) -> bool:
        """Whether each step has a new Hessian, which costs little more than the step.

        Under an ℓ1 penalty it is not needed, and rank-one terms double its cost.
        """
        one = self.term.B == 1 and self.moved and not (self.lasso and self.shared.grouped)
        return one and self._cost < self.policy.cheap_cost

    @property
    def _accuracy(self) -> Accuracy:
        """Accuracy of a Hessian; that of an operator costs nothing more if it is exact."""
        if self._by_columns():
            return "exact"
        return "near" if self._exact else "coarse"

    @property
    def _cost(self) -> float:
        """Cost of a Hessian, in steps."""
        if self._by_columns():
            return self.policy.column_hessian_cost
        return self.term.hessian_cost(not self._exact)

    def _worth_it(self, run: DescentState, violation: np.ndarray) -> bool:
        """Return whether a new Hessian is worth its cost after the first few steps."""
        if self.shared.thinned and run.steps < self.policy.settling_steps:
            return False
        most = self.policy.patient_columns if self.alone else self.policy.dear_columns
        patient = len(self.term.W) > most
        return run.rates.worth_hessian(violation, run.tol, self._cost, patient)

    def _own_model(self, b: int) -> QuadraticModel | None:
        """Return the model with a replicate's own Hessian; None if ten would be too large."""
        assert self._penalty is not None
        free = self._penalty.free[self.term.W]
        self.shared.count += 1
        if len(self.term.W) > self.policy.max_own_columns:
            if not self.term.columnar:
                return None
            others = [q for _, q in self._still_own()]
            own = self._own_by_columns(b, *others[:1])
            if own.shared.minimiser is None:
                own.factors.blocks()  # Computed here, not by each of several threads.
            return own
        at = self.term.curvature(b, accuracy=self._accuracy)
        assert at is not None
        wide, pool = len(self.term.W) >= self.subproblem.min_device_columns, self.term.pool
        kept = at.on_device(None, self._rough) if wide else None
        if kept is not None:
            return QuadraticModel(DeviceReducedHessian(kept, free, pool, self.subproblem))
        G = at.matrix(rough=self._rough)
        G = self.shared.usable(self.term, at, G, to_host(self._penalty.l2[:, b]))
        matrix = DenseReducedHessian(G, free, pool, self.subproblem)
        if wide:
            matrix.minimiser = at.sent(matrix.G)
        return QuadraticModel(matrix)

    def _own_by_columns(
        self, b: int, other_replicate: QuadraticModel | None = None
    ) -> QuadraticModel:
        """Return the same as an exact column operator, with the blocks of another model."""
        assert self._penalty is not None
        free = self._penalty.free[self.term.W]
        at = self.term.curvature(b, accuracy="exact")
        columns = None if at is None else at.by_columns()
        assert columns is not None
        if other_replicate is None and self.shared.by_columns:
            other_replicate = self.shared.model(free)
        return QuadraticModel(
            ColumnwiseReducedHessian(columns, free, self.subproblem), None, other_replicate
        )

    def _factors(self) -> Array:
        """Return σ (k, lanes) such that a replicate's Hessian is about diag(σ) G diag(σ)."""
        if self._sigma is None or self._sigma[0] != self.shared.version:
            relative = None
            if self.term.B > 1 and self.shared.at is not None:
                relative = self.term.relative(self.shared.at)
            if relative is None:
                weights = self.term.asarray(self._weights)
                shape = len(self.term.W), self.term.lanes
                relative = array_namespace(weights).broadcast_to(weights, shape)
            self._sigma = (self.shared.version, array_namespace(relative).sqrt(relative))
        return self._sigma[1]

    @property
    def _weights(self) -> np.ndarray:
        """Row weights of the replicates relative to that of the shared Hessian, (lanes,)."""
        return np.where(self.term.total > 0, self.term.total / self.shared.weight, 1.0)


def _itself(model: QuadraticModel) -> QuadraticModel:
    """Return the model itself, as a function that can be pickled."""
    return model
