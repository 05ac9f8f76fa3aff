"""The Hessians of a batch's models: when the shared one is computed, and who gets one of their own.

The shared Hessian is kept while the replicates contract well, whatever point it is of. Where they
do not it is computed again, and a replicate that still lags gets its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..data_term import Accuracy, DataTerm
from ..proximal_newton.descent_state import DescentState
from ..proximal_newton.elastic_net_penalty import ElasticNetPenalty
from ..proximal_newton.step import Curvatures
from ..solver_policy import HessianPolicy
from ..subproblem import ColumnMatrix, QuadraticModel, SharedMatrix
from .bfgs import BfgsPairs
from .hessian_form import in_single_precision, one_row_in, too_wide
from .shared_hessian import SharedHessian

__all__ = ["Hessians"]


class Hessians:
    """What is known of the Hessians of a batch's replicates.

    Parameters
    ----------
    term, shared, per_replicate_subproblems
        As of `Batch`.
    policy : HessianPolicy

    Attributes
    ----------
    alone : bool
        Whether it is a single fit, which shares with nobody.
    own : dict of int to (columns, Quadratic)
        Of replicates that the shared Hessian fails.
    lane : int
        The replicate whose curvature the shared Hessian is, −1 for none yet.
    moved : bool
        Whether the points have moved since it was computed.
    fresh : bool
        Whether the next step's, or the last one's, is of where the points are, nearly.
    thinner : float
        Hessians of a part of the rows that there may still be.
    """

    def __init__(
        self, term: DataTerm, shared: SharedHessian | None, per_replicate_subproblems: bool,
        policy: HessianPolicy,
    ) -> None:  # fmt: skip
        self.policy = policy
        self.term, self.per_replicate_subproblems = term, per_replicate_subproblems
        self.alone = shared is None and term.B == 1
        self.shared = SharedHessian(term.pool) if shared is None else shared
        self.bfgs = BfgsPairs()
        self.own: dict[int, tuple[np.ndarray, QuadraticModel]] = {}
        self.lane = -1
        self.moved = self.fresh = False
        self._idle = False  # whether the last step moved nobody
        self.thinner = 0.0
        self._penalty: ElasticNetPenalty | None = None
        self._sigma: tuple[int, np.ndarray] | None = None
        self._exact = False  # whether a coarse Hessian was found to be too coarse

    def set_penalty(self, penalty: ElasticNetPenalty) -> None:
        """Be of models with a penalty, to which a descent begins."""
        self._penalty = penalty
        self.fresh = self._idle = False
        # Replicates that share a Hessian differ in their factors: no ridge is that of all.
        self.shared.ridge = penalty.l2[:, 0] if self.alone else None

    # -- where the points are --------------------------------------------------------------------

    def left(self) -> None:
        """Take note that the points are elsewhere now."""
        self.moved = True

    def stepped(self, moved: bool) -> None:
        """Take note of a step, and whether it moved anybody."""
        self._idle = not moved
        self.moved |= moved

    # -- what they are ---------------------------------------------------------------------------

    def follow(self) -> None:
        """Let the shared Hessian be of the working set as it is, or at least its diagonal."""
        if self.shared.known and self.shared.by_columns != self._by_columns():
            self.shared.forget()
        self.shared.follow(self.term, self._rough, self._units)
        if len(self.shared.h) != len(self.term.W):
            self.compute(max(self.lane, 0) if self.alone else 0)

    def compute(self, lane: int) -> None:
        """Compute the shared Hessian again, where a replicate is."""
        self.lane = lane
        self.shared.forget()  # the curvature too, before there is the next
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
        """Let so many Hessians from now on be of a part of the rows, where that will do."""
        self.thinner = times

    def again(self, lane: int) -> None:
        """Compute it for a step that a replicate is about to take, or to try again."""
        self.compute(lane)
        self.fresh = True

    def curvatures(self) -> Curvatures:
        """What a step takes of them."""
        own: dict[int, Callable[[], QuadraticModel]]
        free = None if self._penalty is None else self._penalty.free[self.term.W]
        if self._by_columns() and not self.alone and self.shared.known and free is not None:
            # Each is made where it is used, not all at once: they are as large as the rows.
            self.shared.model(free).factors.blocks()
            own = {b: partial(self._own_by_columns, b) for b in range(self.term.B)}
        else:
            own = {b: partial(_itself, q) for b, q in self._still_own()}
        return Curvatures(
            self.shared, self._factors(), self.bfgs, own, self.per_replicate_subproblems
        )

    @property
    def score_variance(self) -> np.ndarray:
        """Variance of the score of each column of the working set, (k, lanes)."""
        own = self._factors() ** 2 if self.per_replicate_subproblems else self._weights
        h = self.shared.h if self.lasso else self.shared.information
        return h[:, None] * (own * self.term.dispersion)

    @property
    def lasso(self) -> bool:
        """Whether any of the penalty is in ℓ1."""
        return self._penalty is not None and self._penalty.lasso

    # -- when each is made -----------------------------------------------------------------------

    def renew(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> None:
        """See to them before a step: keep the shared one, compute it again, or give some their own.

        Parameters
        ----------
        run : DescentState
        violation : (lanes,) array
        todo : (lanes,) bool array
            Replicates that are not there yet.
        """
        slow = run.rates.slow(violation, todo)
        if (
            len(slow)
            and self.shared.known
            and violation.max(where=todo, initial=0.0) < self.policy.coarse_violation
        ):
            self._exact = True
        settled = self.fresh and run.steps >= self.policy.settling_steps
        if settled and self.shared.thinned and run.rates.stand(violation, todo):
            self.thinner = 0  # the part of the rows has none of a rare column's ones, perhaps
            self.shared.forget()
        if self._by_columns() and not self.alone:
            if not self.shared.known:
                self.compute(int(np.argmax(np.where(todo, violation, 0.0))))
            self.fresh = True  # each has its own where it is
        elif self.per_replicate_subproblems and self.shared.known:
            self.fresh = True  # there is no other
        elif self._due(run, violation, todo):
            worst = int(np.argmax(np.where(todo, violation, 0.0))) if self.term.B > 1 else 0
            self.again(worst)
            run.renewed += 1
        elif (
            len(slow)
            and self.term.B > 1
            and self.fresh
            and run.may_differ(len(self.term.W), violation, todo)
        ):
            for b in slow:
                own = self._own_model(int(b)) if b < self.term.B and b != self.lane else None
                if own is not None:
                    self.own[int(b)] = self.term.W.copy(), own
            # The shared one is of a point that its replicate has left since.
            self.fresh = self._idle
        else:
            self.fresh = self.fresh and self._idle

    def wanting(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Whether steps go so badly with the Hessian there is that the next one has another."""
        return self.shared.known and not self._newton and self._due(run, violation, todo)

    def _due(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Whether the shared one is to be computed before a step."""
        if not self.shared.known or self._newton:
            return True
        slow = len(run.rates.slow(violation, todo)) > 0
        return slow and not self.fresh and self._worth_it(run, violation)

    def _still_own(self) -> list[tuple[int, QuadraticModel]]:
        """The replicates' own models that are of the working set as it is."""
        W = self.term.W
        return [(b, q) for b, (own, q) in self.own.items() if np.array_equal(own, W)]

    @property
    def _rough(self) -> bool:
        """Whether a Hessian may be rounded to single precision."""
        return in_single_precision(self.term, self.lasso, self.policy)

    @property
    def _units(self) -> np.ndarray | None:
        """Places of columns that violations are counted by the curvature of; None for all."""
        if self._penalty is None:
            return None
        free = np.flatnonzero((self._penalty.l1[self.term.W] == 0).any(axis=1))
        return free if len(free) <= self.policy.max_exact_diagonal else None

    def _by_columns(self) -> bool:
        """Whether there are too many columns for a Gram matrix."""
        penalty, W = self._penalty, self.term.W
        free = penalty is None or bool(
            np.count_nonzero(penalty.free[W]) > self.policy.max_free_share * len(W)
        )
        return too_wide(self.term, self.lasso, free, self.shared.grouped, self.policy)

    def _thin(self) -> int:
        """The rows of which one goes into the Hessian, 1 for all."""
        if self.thinner <= 0 or self._penalty is None or self._by_columns():
            return 1
        return one_row_in(self.term, self._penalty, self.policy)

    @property
    def _newton(self) -> bool:
        """Whether each step has a Hessian of its own, which costs little more than the step.

        Under an ℓ1 penalty it is not needed, and summed over groups of rows it takes as long again.
        """
        one = self.term.B == 1 and self.moved and not (self.lasso and self.shared.grouped)
        return one and self._cost < self.policy.cheap_cost

    @property
    def _accuracy(self) -> Accuracy:
        """How near a Hessian has to be; what is not made may as well be exact."""
        if self._by_columns():
            return "exact"
        return "near" if self._exact else "coarse"

    @property
    def _cost(self) -> float:
        """What a Hessian costs, in steps."""
        if self._by_columns():
            return self.policy.column_hessian_cost
        return self.term.hessian_cost(not self._exact)

    def _worth_it(self, run: DescentState, violation: np.ndarray) -> bool:
        if self.shared.thinned and run.steps < self.policy.settling_steps:
            return False
        return run.rates.worth_hessian(violation, run.tol, self._cost)

    def _own_model(self, b: int) -> QuadraticModel | None:
        """The model with a replicate's own Hessian; None where ten of them would be too large."""
        assert self._penalty is not None
        free = self._penalty.free[self.term.W]
        self.shared.count += 1
        if len(self.term.W) > self.policy.max_own_columns:
            if not self.term.columnar:
                return None
            others = [q for _, q in self._still_own()]
            own = self._own_by_columns(b, *others[:1])
            own.factors.blocks()  # now, not by each of several threads
            return own
        at = self.term.curvature(b, accuracy=self._accuracy)
        assert at is not None
        G = at.matrix(rough=self._rough)
        G = self.shared.usable(self.term, at, G, self._penalty.l2[:, b])
        return QuadraticModel(SharedMatrix(G, free, self.term.pool))

    def _own_by_columns(
        self, b: int, other_replicate: QuadraticModel | None = None
    ) -> QuadraticModel:
        """The same, exact and by columns; blocks are those of another's."""
        assert self._penalty is not None
        free = self._penalty.free[self.term.W]
        at = self.term.curvature(b, accuracy="exact")
        columns = None if at is None else at.by_columns()
        assert columns is not None
        if other_replicate is None and self.shared.by_columns:
            other_replicate = self.shared.model(free)
        return QuadraticModel(ColumnMatrix(columns, free), None, other_replicate)

    def _factors(self) -> np.ndarray:
        """Factors σ with which a replicate's Hessian is diag(σ) G diag(σ), (k, lanes)."""
        if self._sigma is None or self._sigma[0] != self.shared.version:
            relative = None
            if self.term.B > 1 and self.shared.at is not None:
                relative = self.term.relative(self.shared.at)
            if relative is None:
                relative = np.broadcast_to(self._weights, (len(self.term.W), self.term.lanes))
            self._sigma = (self.shared.version, np.sqrt(relative))
        return self._sigma[1]

    @property
    def _weights(self) -> np.ndarray:
        """Row weight of each replicate relative to that of the shared Hessian, (lanes,)."""
        return np.where(self.term.total > 0, self.term.total / self.shared.weight, 1.0)


def _itself(model: QuadraticModel) -> QuadraticModel:
    return model
