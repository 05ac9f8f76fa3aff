"""A model with its data, ready for any weights and penalties."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..design.face import DesignLike
from ..errors import DataError
from ..likelihoods import Likelihood
from ..likelihoods.nuisance import NuisanceLikelihood
from ..priors import AllColumns, GroupPenalty, Penalty, Prior, PriorColumns, SmoothTerm
from ..solve import Batch, Common
from ..solve.data_term import (
    DataTerm,
    LocalTerm,
    ProfiledTerm,
    SmoothPenaltyTerm,
    WorkingColumns,
    WorkingSet,
)
from ..solve.group_penalty.group_penalty_batch import GroupPenaltyBatch
from ..solve.information_determinant import LogDeterminant
from ..solve.shared_hessian import SharedHessian
from .shifted_smooth_term import ShiftedSmoothTerm

__all__ = ["Problem"]

MOST_JOINED = 10_000  # columns under a prior that joins coefficients
FAR = 30.0  # an offset beyond which zero is no place to start from


@dataclass
class Problem:
    """A model with its data, ready for any weights and penalties.

    Attributes
    ----------
    design : Design, or what keeps its face
        Columns, the intercept first where there is one.
    likelihood : Likelihood
    weights : (n,) array
    offset : (n,) array or None
    prior : Prior or None
    names : list of str
        Columns that the prior applies to.
    n_free : int
        Leading columns (the intercept, a baseline) that no prior applies to.
    n_constant : int
        How many of them add up to a constant: the intercept, or a baseline's intervals.
    fold_label, fold_together : (n,) int arrays or None
        Outcome classes to spread over folds; strata to keep whole.
    columns : PriorColumns or None
        How the prior is asked about these columns, where its own are other ones: X's, of which some
        are given, or have several coefficients.
    final_penalty : Penalty or None
        After a fit under an adaptive prior: its weights at the coefficients.
    """

    design: DesignLike
    likelihood: Likelihood
    weights: np.ndarray
    offset: np.ndarray | None
    prior: Prior | None
    names: list[str]
    n_free: int = 0
    n_constant: int = 1
    fold_label: np.ndarray | None = None
    fold_together: np.ndarray | None = None
    columns: PriorColumns | None = None
    final_penalty: Penalty | None = None

    def penalties(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and κ of all columns in X's units: `final_penalty`, or those of `separable`."""
        if prior is self.prior and self.final_penalty is not None:
            return self._after_free_columns(self.final_penalty)
        return self.separable(prior)

    def unbounded(self, prior: Prior | None) -> np.ndarray:
        """Columns whose coefficients nothing but the data keeps finite, ascending."""
        if prior is not None and prior.bounds_all:
            return np.empty(0, np.int64)
        l1, l2 = self.penalties(prior)
        return np.flatnonzero((l1 == 0) & (l2 == 0))

    def separable(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """λ and κ of all columns, in X's units; see `Prior.separable`."""
        if prior is None:
            return np.zeros(self.design.p), np.zeros(self.design.p)
        l1, l2 = self._after_free_columns(self._prior_columns.separable(prior))
        with np.errstate(over="ignore"):
            beyond = np.isinf(l2 / self.design.scale**2)
        if beyond.any():
            raise DataError(
                f"The normal variance of column {self.names[beyond.argmax() - self.n_free]!r} is "
                "too small beside the column's numbers for any float to hold its penalty. Give "
                "the column in another unit or, to hold its coefficient at zero, say fixed={…: 0}."
            )
        return l1, l2

    @property
    def _prior_columns(self) -> PriorColumns:
        return AllColumns(self.names) if self.columns is None else self.columns

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """Compute an adaptive prior's penalty at given coefficients; see `Prior.next_penalty`.

        The coefficients are those of the columns after the ``n_free`` first ones.
        """
        return self._prior_columns.next_penalty(prior, beta, before)

    def _after_free_columns(self, penalty: Penalty) -> tuple[np.ndarray, np.ndarray]:
        free = np.zeros(self.n_free)
        return np.concatenate([free, penalty.l1]), np.concatenate([free, penalty.l2])

    def smooth_term(
        self,
        prior: Prior | None = None,
        weights: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> SmoothTerm | None:
        """What the prior, by default the problem's, adds to the objective; None for nothing.

        Weights and offsets (n, B) are those of the problem, or the ones given.
        """
        prior = self.prior if prior is None else prior
        if prior is None or prior.plain:
            return None
        if prior.information_power:
            w = self.weights[:, None] if weights is None else weights
            if offset is None and self.offset is not None:
                offset = self.offset[:, None]
            power = prior.information_power
            return LogDeterminant(self.design, self.likelihood, w, offset, power)
        term = self._prior_columns.smooth(prior)
        return None if term is None else ShiftedSmoothTerm(term, self.n_free)

    def group_penalty(self, prior: Prior | None) -> GroupPenalty | None:
        """The prior's penalty with corners that no single coefficient has, over all columns."""
        penalty = None if prior is None else self._prior_columns.group_penalty(prior)
        return None if penalty is None else penalty.shifted_by(self.n_free)

    def uncentered(self) -> Problem:
        """The same problem with every column as the user gave it: the intercept is at X = 0."""
        return replace(self, design=self.design.uncentered())

    def common(self) -> Common:
        """A working set and Hessian for batches of this problem to share."""
        likelihood = self.likelihood
        active = WorkingColumns(self.design, likelihood.order, likelihood.backend)
        return Common(active, SharedHessian(likelihood.backend.pool))

    def term(
        self,
        weights: np.ndarray | None = None,
        B: int = 1,
        active: WorkingSet | None = None,
        offset: np.ndarray | None = None,
    ) -> DataTerm:
        """The data term, with the prior's smooth term where there is one.

        Weights and offsets (n, B) are those of the problem, or the ones given.
        """
        w = self.weights[:, None] if weights is None else weights
        if offset is None and self.offset is not None:
            offset = self.offset[:, None]
        inner = self._of_data(w, offset, B, active)
        if self.prior is None or self.prior.plain or self.group_penalty(self.prior) is not None:
            return inner
        if type(self.prior).smooth is not Prior.smooth and self.design.p > MOST_JOINED:
            raise DataError(
                f"{type(self.prior).__name__} joins coefficients, whose Hessian is a matrix of all "
                f"columns: at most {MOST_JOINED:,} of them. X has {self.design.p:,}; use Normal() "
                "or Laplace(), or leave rare columns out."
            )
        return SmoothPenaltyTerm(
            inner, lambda prior: self.smooth_term(prior, w, offset), self.prior
        )

    def _of_data(
        self, weights: np.ndarray, offset: np.ndarray | None, B: int, active: WorkingSet | None
    ) -> DataTerm:
        """The data term without what the prior adds."""
        assert active is None or isinstance(active, WorkingColumns)  # as `common` makes it
        likelihood = self.likelihood
        if isinstance(likelihood, NuisanceLikelihood):
            return ProfiledTerm(self.design, likelihood, weights, offset, B, active)
        return LocalTerm(self.design, likelihood, weights, offset, B, active)

    def batch(
        self,
        weights: np.ndarray | None = None,
        B: int = 1,
        common: Common | None = None,
        offset: np.ndarray | None = None,
        per_replicate_subproblems: bool = False,
    ) -> Batch:
        """Start a batch of replicates; see `term` and `Batch`."""
        active, shared = (None, None) if common is None else (common.active, common.hessian)
        term, penalty = self.term(weights, B, active, offset), self.group_penalty(self.prior)
        if penalty is None:
            batch = Batch(term, shared, per_replicate_subproblems)
        else:
            batch = GroupPenaltyBatch(term, penalty, shared)
        if start := self.start:
            beta = np.zeros((self.design.p, 1))
            at = slice(self.n_constant)
            beta[at, 0] = self.design.scale[at] * start
            batch.start_at(np.broadcast_to(beta, (self.design.p, B)))
        return batch

    @property
    def start(self) -> float:
        """Where the intercept starts: at zero, or where with a far offset the outcome's level is.

        From where exp η is too large a Newton step brings it down by one, and of offsets that are
        far apart the largest alone say where that is not so.
        """
        if self.offset is None or not self.n_free:
            return 0.0
        # Where it is one of rows of η, the first are those of X.
        counted = self.offset[: len(self.weights)][self.weights > 0]
        if np.abs(counted).max(initial=0.0) < FAR:
            return 0.0
        middle, largest = float(np.median(counted)), float(counted.max())
        start = -(middle if largest - middle < 600 else largest)  # exp of the rest is finite
        if self.likelihood.n_eta != len(self.weights):
            return start
        asarray = self.likelihood.backend.asarray
        eta, weights = asarray(start + self.offset[:, None]), asarray(self.weights[:, None])
        return start + self.likelihood.level(eta, weights)
