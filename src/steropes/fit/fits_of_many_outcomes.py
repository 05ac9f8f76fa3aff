"""Fits of many outcomes with the same X: replicates that differ in y, weights and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, TypeVar

import numpy as np

from ..likelihoods import Likelihood
from ..likelihoods.hessian_structures import GroupedCurvature
from ..likelihoods.outcomes_as_replicates_likelihood import MultiOutcomeLikelihood
from ..solve import Batch, Fit
from ..solve.data_term import WorkingColumns
from ..solve.data_term.local_term import LocalCurvature
from ..solve.data_term.working_set_term import WorkingSetTerm
from ..solve.hessian import diagonal, hessian
from ..solve.linear_predictor import bound_weights
from ..solve.optimality.optimality_certificate import certificates
from ..solve.quasi_newton.hessian_representation import in_single_precision
from ..solve.quasi_newton.shared_hessian import SharedHessian
from .multi_fit_constants import OUTCOMES, REPLICATES
from .solver_problem import Problem

__all__ = ["MeanCurvature", "OutcomeFit", "fit_outcomes"]


T = TypeVar("T")

# The factors of the intermediate penalties.
PENALTY_FACTORS = (8.0, 2.8, 1.6)


class MeanCurvature(LocalCurvature):
    """A diagonal curvature in η, centred if the likelihood does not depend on the level of η.

    Parameters
    ----------
    v : (n,) array
        The diagonal, in the order of X's rows.
    columns : int
        The largest number of columns that may be nonzero in one outcome.
    """

    def __init__(
        self, likelihood: Likelihood, v: np.ndarray, active: WorkingColumns, columns: int
    ) -> None:
        self.likelihood, self.rows_enough = likelihood, OUTCOMES.rows_per_column * max(columns, 1)
        curvature = _as_curvature(likelihood, v)
        super().__init__(active, curvature, curvature.v)

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        rows, backend = self.active.rows, self.active.backend
        assert rows.layout == "rows"  # as for all families with several outcomes
        sparse = 2 * len(rows.sparse_at) > rows.k
        if not (backend.on_host and sparse and self.rows_enough < OUTCOMES.max_row_share * rows.n):
            return super().matrix(first, rough)
        at, v = systematic_sample(self.curvature.v, self.rows_enough)
        if not len(at):
            return super().matrix(first, rough)
        part, ones = rows.taken(at), np.ones((len(at), 1))
        H = hessian(part, _as_curvature(self.likelihood, v), first, rough)
        exact, now = self.diagonal(), diagonal(part, _as_curvature(self.likelihood, v))
        squares = part.diagonals(ones)[:, 0]
        # For an indicator column this is its number of ones in the sample.
        informative_rows = part.rmatmul(ones)[:, 0] ** 2 / np.where(squares > 0, squares, 1.0)
        informative_rows[rows.dense_at] = len(at)
        known = (now > 0) & (exact > 0)
        size = np.sqrt(np.where(known, exact, 0.0) / np.where(known, now, 1.0))
        size *= np.sqrt(np.minimum(1.0, informative_rows / OUTCOMES.full_rows))
        H[first:] *= size.astype(H.dtype)
        H[first:] *= size[first:].astype(H.dtype)[:, None]
        new = np.arange(first, len(H))
        H[new, new] = exact[first:]
        return H


def systematic_sample(v: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw about m rows at equal steps of the running sum of v ≥ 0.

    The probability of a row is proportional to its v, so each step of the sum contributes equally;
    a row that contains several steps is counted as often (Madow 1949, Annals of Mathematical
    Statistics 20:333).

    Returns
    -------
    at : int array
        The sampled rows.
    v : array
        The values of v that they represent.
    """
    steps = np.floor(np.cumsum(v) * (m / v.sum()) + 0.5)
    count = np.diff(steps, prepend=0.0)
    at = np.flatnonzero(count)
    return at, count[at] * (v.sum() / m)


def _as_curvature(likelihood: Likelihood, v: np.ndarray) -> GroupedCurvature:
    """Create the curvature with diagonal v, centred if the likelihood is shift invariant."""
    backend, n = likelihood.backend, len(v)
    curvature = GroupedCurvature(backend.asarray(v))
    if not likelihood.shift_invariant:
        return curvature
    c: Any = np.zeros(n)
    c[-1] = 1.0 / v.sum()
    return GroupedCurvature(curvature.v, curvature.v, np.array([0, n]), backend.asarray(c))


@dataclass(frozen=True)
class OutcomeFit:
    """The fit of one outcome.

    Attributes
    ----------
    number : int
        Position of the outcome among the problems.
    fit : Fit
        The fit with the certificate of `steropes.solve.optimality.optimality_certificate`.
    eta : (n, 1) array
        Linear predictors in the rows of X.
    """

    number: int
    fit: Fit
    eta: Any


def fit_outcomes(
    problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, max_iter: int,
    use: Callable[[OutcomeFit], T],
) -> dict[int, T]:  # fmt: skip
    """Fit problems that share a design and a family of likelihoods that supports several outcomes.

    Outcomes of similar frequency form a group, since mostly the same columns are nonzero in them.
    The working set of a group starts with all columns that may be nonzero in one of its
    outcomes. The outcomes share the Hessian of their mean curvature, and
    each has its own diagonal. Their supports differ, so the quadratic models are minimised
    separately in each step, and only the products with X are computed together. The gradients of
    all columns are computed at the start and at the end, where they give the certificates. Missing
    columns found there are added, and the iterations continue.

    With many rows and enough memory, groups run in parallel threads, which is more
    efficient than parallelism within each step.

    Parameters
    ----------
    problems : sequence of Problem
        Problems with the same design; see `Likelihood.combine_outcomes`.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    tol : float
        Largest KKT violation.
    max_iter : int
        Largest number of iterations.
    use : callable
        Called with each `OutcomeFit` in the thread of its group. An outcome that converges
        slowly is passed on unconverged.

    Returns
    -------
    dict
        The results of ``use`` by the problems' numbers. A group is omitted if more columns may be
        nonzero than a Hessian can have.
    """
    backend = problems[0].likelihood.backend
    starts = np.array(backend.pool.map(_initial_intercept, [(p,) for p in problems]))
    order, stop = np.argsort(starts, kind="stable"), Event()
    lanes = REPLICATES.lanes
    groups = [(order[a : a + lanes].tolist(),) for a in range(0, len(problems), lanes)]

    def fitted(numbers: list[int]) -> dict[int, T]:
        group = _Group([problems[k] for k in numbers], l1, l2, tol, stop)
        found = group.fit(numbers, starts[numbers], max_iter)
        return {outcome.number: use(outcome) for outcome in found}

    rows = max(len(p.likelihood.row_of_x) for p in problems)
    at_once = min(backend.pool.n_threads, len(groups))
    held = 8.0 * rows * lanes * OUTCOMES.arrays_per_lane * at_once
    try:
        if rows >= OUTCOMES.min_rows_for_threads and held <= OUTCOMES.max_bytes and backend.on_host:
            # Groups of frequent outcomes take longest and start first.
            parts = backend.pool.map(fitted, groups[::-1], rows * lanes * problems[0].design.p)
        else:
            parts = [fitted(*group) for group in groups]
    except BaseException:
        stop.set()
        raise
    return {number: part for done in parts for number, part in done.items()}


class _Group:
    """A group of outcomes that are the lanes of one batch."""

    def __init__(
        self, problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, stop: Event
    ) -> None:
        first = problems[0]
        self.problems, self.l1, self.l2, self.tol, self.stop = problems, l1, l2, tol, stop
        self.design, backend = first.design, first.likelihood.backend
        self.likelihood = _joint_likelihood(problems)
        self.active = WorkingColumns(self.design, None, backend)
        self.hessian = SharedHessian(backend.pool)
        weights, offset = _weights_and_offsets(problems)
        self.term = WorkingSetTerm(
            self.design, self.likelihood, weights, offset, len(problems), self.active
        )
        self.batch = Batch(self.term, self.hessian, per_replicate_subproblems=True)
        self.fits: list[Fit] = []

    def fit(self, numbers: list[int], starts: np.ndarray, max_iter: int) -> Iterator[OutcomeFit]:
        """Fit the group and yield its outcomes; yields none if too many columns are near λ.

        ``numbers`` are the outcomes' positions, and ``starts`` the initial intercepts.
        """
        batch, active = self.batch, self.active
        begin = np.zeros((self.design.p, len(numbers)))
        if self.problems[0].n_free:
            begin[0] = starts
        batch.start_at(begin)
        slopes = self._relative_slopes()
        left = max_iter
        way = self._penalty_factors(slopes)
        for factor in way:
            self._add_near_columns(slopes, factor)
            left -= self._descend(
                min(left, OUTCOMES.first_steps), factor, OUTCOMES.intermediate_tol
            )
            self.hessian.forget()
            slopes = self._relative_slopes()
        if np.count_nonzero(active.inside | (slopes > OUTCOMES.near_share)) > OUTCOMES.max_columns:
            return
        self._add_near_columns(slopes)
        self._descend(min(left, OUTCOMES.first_steps))
        self._recompute_hessian()
        left = min(left, OUTCOMES.max_steps) - OUTCOMES.first_steps
        if way and self.tol < OUTCOMES.preliminary_tol:
            left -= self._descend(max(left, 0), tol=OUTCOMES.preliminary_tol)
            self._add_columns(np.asarray(self._relative_slopes() > 1.0))
        for _ in range(OUTCOMES.max_rounds):
            left -= self._descend(max(left, 0))
            beta = np.stack([fit.beta for fit in self.fits], axis=1)
            values, violations, eta = certificates(
                self.problems, self.term, beta, self.l1, self.l2, self.tol
            )
            owed = self.tol * (self.l1 / self.design.scale)[:, None]
            missing = np.asarray((violations > owed).any(axis=1))
            if left <= 0 or not self._add_columns(missing):
                break
        for b, k in enumerate(numbers):
            yield OutcomeFit(
                k, replace(self.fits[b], optimality=float(values[b])), eta[:, b : b + 1]
            )

    def _relative_slopes(self) -> np.ndarray:
        """Compute the largest slope of each column over the outcomes, in units of λ, (p,)."""
        slopes = (
            np.abs(self.term.all_gradients(OUTCOMES.slope_error)).max(axis=1) * self.design.scale
        )
        return np.where(self.l1 > 0, slopes / np.where(self.l1 > 0, self.l1, 1.0), np.inf)

    def _penalty_factors(self, slopes: np.ndarray) -> list[float]:
        """Return factors of intermediate, stronger penalties, in decreasing order.

        None are returned if few columns are near λ. Of many correlated columns that are near λ
        at the start, most no longer are once the first ones are nonzero.
        """
        penalised = np.isfinite(slopes)
        if np.count_nonzero(penalised & (slopes > OUTCOMES.near_share)) < OUTCOMES.min_near_columns:
            return []
        return [f for f in PENALTY_FACTORS if f < slopes[penalised].max()]

    def _add_near_columns(self, slopes: np.ndarray, factor: float = 1.0) -> None:
        """Add the columns that are near λ under a penalty stronger by ``factor``."""
        self.active.join(np.flatnonzero(slopes > OUTCOMES.near_share * factor))
        self._share_hessian()

    def _add_columns(self, missing: np.ndarray) -> bool:
        """Add columns, (p,) bool, and return whether any of them was missing."""
        return self.active.join(np.flatnonzero(missing & (self.l1 > 0))) > 0

    def _recompute_hessian(self) -> None:
        """Recompute the Hessian after the first steps."""
        if not self.likelihood.quadratic:  # the Hessian of a quadratic loss is constant
            self.hessian.forget()
            self._share_hessian()

    def _descend(self, most: int, factor: float = 1.0, tol: float = 0.0) -> int:
        """Iterate under a penalty stronger by ``factor``; return the largest number of steps."""
        self.fits = self.batch.solve(
            factor * self.l1, factor * self.l2, tol=max(tol, self.tol), max_iter=most,
            callback=self._stop_if_cancelled, look="after",
        )  # fmt: skip
        return max(fit.n_iter for fit in self.fits)

    def _stop_if_cancelled(self, *_: object) -> None:
        """Interrupt the group's fit if another group has failed."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def _share_hessian(self) -> None:
        """Compute the shared Hessian from the mean of the outcomes' current curvatures."""
        term, active, backend = self.term, self.active, self.likelihood.backend
        V, rows = backend.to_host(term.curvatures()), active.rows
        assert rows.layout == "rows"  # as for all families with several outcomes
        total = V.sum(axis=0)
        counted = np.isfinite(total) & (total > 0)
        share = np.where(counted, len(V) / (term.B * np.where(counted, total, 1.0)), 0.0)
        V = np.where(counted, V, 0.0)
        own = backend.to_host(rows.diagonals(backend.asarray(V)))
        mean = own @ share
        ratio = own / np.where(mean > 0, mean, 1.0)[:, None]
        term.set_relative(np.clip(np.where(ratio > 0, ratio, 1.0), 1e-4, 1e4))
        unit = (self.l1 / self.design.scale)[active.W, None]
        slope = np.abs(term.gradient()[:, : term.B])
        may = (slope > OUTCOMES.near_share * unit) | (self.batch.beta[active.W] != 0)
        columns = int(may.sum(axis=0).max())
        curvature = MeanCurvature(self.likelihood, V @ share, active, columns)
        rough = in_single_precision(term, bool((self.l1 > 0).any()), self.batch.policy.hessian)
        self.hessian.compute(term, curvature, 0, rough)


def _joint_likelihood(group: Sequence[Problem]) -> Likelihood:
    """Combine several likelihoods into one that has an outcome for each replicate."""
    first = group[0].likelihood
    each = [p.likelihood for p in group]
    if first.order is None:
        return first.combine_outcomes(each, first.backend.lanes(len(group)))
    return MultiOutcomeLikelihood(each, group[0].design.n)


def _weights_and_offsets(group: Sequence[Problem]) -> tuple[np.ndarray, np.ndarray | None]:
    """Stack the weights and offsets of the outcomes, (n, B)."""
    weights = np.stack([p.weights for p in group], axis=1)
    if all(p.offset is None for p in group):
        return weights, None
    zero = np.zeros(len(weights))
    return weights, np.stack([zero if p.offset is None else p.offset for p in group], axis=1)


def _initial_intercept(problem: Problem) -> float:
    """Compute the intercept at which an outcome starts, which fits the outcome's level."""
    likelihood = problem.likelihood
    if not problem.n_free:
        return problem.start
    eta = np.full((1, 1), problem.start)
    if problem.offset is not None:
        eta = eta + problem.offset[likelihood.row_of_x][:, None]
    return problem.start + likelihood.level(likelihood.backend.asarray(eta), bound_weights(problem))
