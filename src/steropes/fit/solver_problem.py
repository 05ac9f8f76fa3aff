"""A model with its data, in the form that the solver receives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..design_matrix.design_interfaces import DesignLike
from ..design_matrix.multinomial_design import ClassDesign
from ..errors import DataError
from ..likelihoods import Likelihood
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..priors import (
    AllColumns,
    GroupPenalty,
    LimitedPenalty,
    Penalty,
    Prior,
    PriorColumns,
    SmoothTerm,
)
from ..solve import Batch, Common
from ..solve.data_term import (
    DataTerm,
    LocalTerm,
    ProfiledTerm,
    RowMultiples,
    SmoothPenaltyTerm,
    WorkingColumns,
    WorkingSet,
    weights_of_rows,
)
from ..solve.group_penalty.group_penalty_batch import GroupPenaltyBatch
from ..solve.information_determinant import LogDeterminant
from ..solve.linear_predictor import bound_weights, linear_predictor
from ..solve.quasi_newton.shared_hessian import SharedHessian
from .multi_fit_constants import REPLICATES

__all__ = ["Problem"]


class ShiftedSmoothTerm:
    """A smooth term in the columns after the first ``n_free`` ones; see `SmoothTerm`."""

    def __init__(self, inner: SmoothTerm, n_free: int) -> None:
        self.inner, self.n_free = inner, n_free

    def value(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.value`."""
        return self.inner.value(beta[self.n_free :])

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.gradient`."""
        out = np.zeros(beta.shape)
        out[self.n_free :] = self.inner.gradient(beta[self.n_free :])
        return out

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.hessian`."""
        out = np.zeros((len(columns), len(columns)))
        at = np.flatnonzero(columns >= self.n_free)
        inner = self.inner.hessian(beta[self.n_free :], columns[at] - self.n_free)
        out[np.ix_(at, at)] = inner
        return out


@dataclass
class Problem:
    """A model with its data, which creates batches with any weights and penalties.

    Attributes
    ----------
    design : DesignLike
        The columns, starting with the intercept, if any.
    weights : (n,) array
    offset : (n,) array or None
    names : list of str
        Names of the columns to which the prior applies.
    n_free : int
        Number of leading columns (the intercept, a baseline) to which no prior applies.
    n_constant : int
        How many of these add up to a constant: the intercept, or the intervals of a baseline.
    fold_label, fold_together : (n,) int arrays or None
        Outcome classes that are distributed evenly over folds; strata that are kept whole.
    columns : PriorColumns or None
        The mapping between the prior's columns and the coefficients, if these differ because some
        coefficients are fixed or a column has several.
    final_penalty : Penalty or None
        After a fit under an adaptive prior, the penalty at the fitted coefficients.
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

    def with_likelihood(self, likelihood: Likelihood) -> Problem:
        """Return the problem with another likelihood of the same rows."""
        return replace(self, likelihood=likelihood)

    def penalties(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and κ of all columns in X's units: `final_penalty`, or those of `separable`."""
        if prior is self.prior and self.final_penalty is not None:
            return self._after_free_columns(self.final_penalty)
        return self.separable(prior)

    def unbounded(self, prior: Prior | None) -> np.ndarray:
        """Return the columns with coefficients that only the data keep finite, ascending.

        Columns with limits are left out: whether a limit keeps them finite depends on the fit.
        """
        if prior is not None and prior.bounds_all:
            own = self._prior_columns.excluded(prior)
            return np.flatnonzero(self.excluded(prior)) if own.any() else np.empty(0, np.int64)
        l1, l2 = self.penalties(prior)
        free = np.flatnonzero((l1 == 0) & (l2 == 0))
        joined = self.group_penalty(prior)
        if not isinstance(joined, LimitedPenalty):
            return free
        return free[~joined.limited[free]]

    def separable(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and κ of all columns in X's units; see `Prior.separable`."""
        if prior is None:
            return np.zeros(self.design.p), np.zeros(self.design.p)
        l1, l2 = self._after_free_columns(self._prior_columns.separable(prior))
        with np.errstate(over="ignore"):
            beyond = np.isinf(l2 / self.design.scale**2)
        if beyond.any():
            raise DataError(
                f"The normal variance of column {self.names[beyond.argmax() - self.n_free]!r} is "
                "so small relative to its values that the penalty overflows. Give the column "
                "in another unit, or fix its coefficient at zero with fixed={…: 0}."
            )
        return l1, l2

    @property
    def _prior_columns(self) -> PriorColumns:
        """The mapping between the prior's columns and the coefficients."""
        return AllColumns(self.names) if self.columns is None else self.columns

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """Compute an adaptive prior's penalty at given coefficients; see `Prior.next_penalty`.

        The coefficients are those of the columns after the ``n_free`` first ones.
        """
        return self._prior_columns.next_penalty(prior, beta, before)

    def _after_free_columns(self, penalty: Penalty) -> tuple[np.ndarray, np.ndarray]:
        """Insert zero penalties for the leading columns without a prior."""
        free = np.zeros(self.n_free)
        return np.concatenate([free, penalty.l1]), np.concatenate([free, penalty.l2])

    def smooth_term(
        self,
        prior: Prior | None = None,
        weights: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> SmoothTerm | None:
        """Return the smooth term that a prior, by default the problem's, adds; None if none.

        Weights and offsets (n, B) default to those of the problem.
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

    def excluded(self, prior: Prior) -> np.ndarray:
        """Return the mask (p,) of the coefficients to which a prior does not apply."""
        own = self._prior_columns.excluded(prior)
        return np.concatenate([np.ones(self.n_free, bool), own])

    def group_penalty(self, prior: Prior | None) -> GroupPenalty | None:
        """Return the prior's group penalty over all columns; None if it has none."""
        penalty = None if prior is None else self._prior_columns.group_penalty(prior)
        return None if penalty is None else penalty.shifted_by(self.n_free)

    def uncentered(self) -> Problem:
        """Return the problem with uncentred columns, so that the intercept refers to X = 0."""
        return replace(self, design=self.design.uncentered())

    def with_known_dispersion(self, beta: np.ndarray) -> Problem:
        """Return the problem with an estimated dispersion fixed at that for β (p,) in X's units."""
        if not self.likelihood.dispersion_parameters:
            return self
        eta = linear_predictor(self, beta * self.design.scale)
        known = self.likelihood.with_known_dispersion(eta, bound_weights(self))
        return replace(self, likelihood=known)

    def without_offset(self) -> Self:
        """Return the problem with an offset of zero."""
        return replace(self, offset=None)

    def common(self) -> Common:
        """Create a working set and a Hessian for several batches of this problem to share."""
        likelihood = self.likelihood
        active = WorkingColumns(self.design, likelihood.order, likelihood.backend)
        return Common(active, SharedHessian(likelihood.backend.pool))

    def term(
        self,
        weights: np.ndarray | RowMultiples | None = None,
        B: int = 1,
        active: WorkingSet | None = None,
        offset: np.ndarray | None = None,
    ) -> DataTerm:
        """Create the data term, including the prior's smooth term, if any.

        Weights and offsets (n, B) default to those of the problem.
        """
        w = self.weights[:, None] if weights is None else weights
        if offset is None and self.offset is not None:
            offset = self.offset[:, None]
        inner = self._likelihood_term(w, offset, B, active)
        if self.prior is None or self._separable or self.group_penalty(self.prior) is not None:
            return inner
        most = REPLICATES.max_coupled_columns
        if type(self.prior).smooth is not Prior.smooth and self.design.p > most:
            raise DataError(
                f"{type(self.prior).__name__} couples coefficients, so that its Hessian is a "
                f"matrix over all columns, of which at most {most:,} are possible. "
                f"X has {self.design.p:,}; use Normal() or Laplace(), or leave out rare columns."
            )
        return SmoothPenaltyTerm(
            inner, lambda prior: self.smooth_term(prior, weights_of_rows(w), offset), self.prior
        )

    def _likelihood_term(
        self, weights: np.ndarray | RowMultiples, offset: np.ndarray | None, B: int,
        active: WorkingSet | None,
    ) -> DataTerm:  # fmt: skip
        """Create the data term of the likelihood alone."""
        assert active is None or isinstance(active, WorkingColumns)  # as `common` makes it
        likelihood = self.likelihood
        if isinstance(likelihood, NuisanceLikelihood):
            return ProfiledTerm(self.design, likelihood, weights, offset, B, active)
        resident = self._separable and self.group_penalty(self.prior) is None
        return LocalTerm(self.design, likelihood, weights, offset, B, active, resident)

    @property
    def _separable(self) -> bool:
        """Whether the prior is a sum over coefficients."""
        return self.prior is None or self.prior.plain

    def batch(
        self,
        weights: np.ndarray | RowMultiples | None = None,
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
        start = self.start + self.class_starts
        if start.any():
            beta = np.zeros((self.design.p, 1))
            at = slice(self.n_constant)
            beta[at, 0] = self.design.scale[at] * start
            batch.start_at(np.broadcast_to(beta, (self.design.p, B)))
        return batch

    @property
    def class_starts(self) -> np.ndarray:
        """The initial intercepts of classes with offsets far from zero, (n_constant,).

        They cancel the median of the offsets of a class relative to the class without intercept.
        Outcomes with an intercept each start at their levels. Other models, and offsets close to
        zero, have zeros.
        """
        out, design = np.zeros(self.n_constant), self.design
        if not self.n_constant or not isinstance(design, ClassDesign):
            return out
        own = design.channel[: self.n_constant]
        if len(own) == design.C:
            offset = np.zeros(design.n_eta) if self.offset is None else self.offset
            eta = self.likelihood.backend.asarray(self.start + offset[:, None])
            return self.likelihood.intercept_levels(eta, bound_weights(self), own)
        if self.offset is None:
            return out
        by_class = self.offset.reshape(-1, len(self.weights))[:, self.weights > 0]
        (reference,) = np.setdiff1d(np.arange(len(by_class)), own)
        middle = np.median(by_class[own] - by_class[reference], axis=1)
        return np.where(np.abs(middle) < REPLICATES.far_offset, out, -middle)

    @property
    def start(self) -> float:
        """The initial intercept: zero, or the outcome's level if it or offsets are far from zero.

        If exp η is too large at the start, a Newton step reduces η by only one. If offsets differ
        strongly, only the largest ones determine where this is not so.
        """
        if not self.n_free:
            return 0.0
        if self.offset is None:
            return self.likelihood.far_level
        # If the offset is over rows of η, the first ones are those of X.
        counted = self.offset[: len(self.weights)][self.weights > 0]
        if np.abs(counted).max(initial=0.0) < REPLICATES.far_offset:
            return self.likelihood.far_level
        middle, largest = float(np.median(counted)), float(counted.max())
        start = -(middle if largest - middle < 600 else largest)  # exp of the difference is finite
        if self.likelihood.n_eta != len(self.weights):
            return start
        eta = self.likelihood.backend.asarray(start + self.offset[:, None])
        return start + self.likelihood.level(eta, bound_weights(self))
