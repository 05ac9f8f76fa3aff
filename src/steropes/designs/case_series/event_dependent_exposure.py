"""Event-dependent exposure: estimating equations of Farrington, Whitaker and Hocine (2009).

An event may prevent, delay or cause later exposure, and a case series that takes exposure as given
is then biased. Farrington, Whitaker and Hocine (2009, Biostatistics 10:3–16) use only exposures
before the event. Each case has a stack of time from the start of observation, as if never exposed,
and one from each exposure on, as if it were the last. An event under a later exposure, which the
stack does not have, is weighted by the inverse of its rate ratio; the weighted events of a stack
then follow its time, and the equations have mean zero:

    Σ_s w_s(β) (x_s(event) − Σ_j π_sj x_sj) = 0,  π_sj ∝ days_sj exp(x_sj'β).

Exposure lasts for a time that the event does not change, observation has an end that is known also
without the event, and a person has one event. Errors are those of the sandwich over cases, which
includes the derivative of the weights.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steropes.convergence_warning import NotConvergedWarning
from steropes.designs.case_series.covariate_days import Spans
from steropes.designs.case_series.interval_splitting import split_time
from steropes.errors import SeparationError

__all__ = ["EventDependentExposure", "ExposureHistory", "fit_event_dependent_exposure"]

MAX_ITER = 100
# Largest step of a coefficient at which the equations count as solved, and smallest part of a step.
NEAR, SMALLEST = 1e-9, 1e-6
FARTHEST = 20.0  # Log rate ratios beyond this value count as infinite.


@dataclass(frozen=True)
class ExposureHistory:
    """Cases with one event each, and their exposures up to the event.

    Attributes
    ----------
    end, event : (n,) int arrays
        Last day of observation and day of the event, from day 0.
    era_case, era_first : (m,) int arrays
        First day of each exposure, sorted by case and day.
    span_era, span_column, span_first, span_last : (k,) int arrays
        Days of risk periods of each exposure, which do not overlap within a case.
    groups : Spans
        Days of groups of time, sorted by case.
    names : list of str
        Names of the columns: risk periods, then groups.
    """

    end: NDArray
    event: NDArray
    era_case: NDArray
    era_first: NDArray
    span_era: NDArray
    span_column: NDArray
    span_first: NDArray
    span_last: NDArray
    groups: Spans
    names: list[str]


@dataclass(frozen=True)
class EventDependentExposure:
    """Solution of the estimating equations.

    Attributes
    ----------
    coef : (p,) array
        Log rate ratios.
    covariance : (p, p) array
        The sandwich.
    converged : bool
    stacks : int
        Number of stacks of time.
    """

    coef: NDArray
    covariance: NDArray
    converged: bool
    stacks: int


def fit_event_dependent_exposure(history: ExposureHistory) -> EventDependentExposure:
    """Solve the estimating equations.

    Columns without a day in any stack get NaN.

    Raises
    ------
    SeparationError
        A column has no event or all events that are compared with it; the message names it.

    Warns
    -----
    NotConvergedWarning
        The equations are not solved.
    """
    h, p = history, len(history.names)
    present = np.unique(np.concatenate([h.span_column, h.groups.column]))
    names = [h.names[j] for j in present]
    number = np.searchsorted(present, np.arange(p))  # Of the columns that are present.
    own = replace(
        h,
        span_column=number[h.span_column],
        groups=replace(h.groups, column=number[h.groups.column]),
        names=names,
    )
    equations = _Equations.of(own)
    with np.errstate(over="ignore", invalid="ignore"):
        beta, value, converged = _solve(equations, names)
    if not converged:
        warnings.warn(
            "The equations of event-dependent exposure are not solved; join periods or groups.",
            NotConvergedWarning,
            stacklevel=2,
        )
    inverse = np.linalg.inv(value.slope)
    covariance = inverse @ (value.per_case.T @ value.per_case) @ inverse.T
    coef, whole = np.full(p, np.nan), np.full((p, p), np.nan)
    coef[present] = beta
    whole[np.ix_(present, present)] = 0.5 * (covariance + covariance.T)
    return EventDependentExposure(coef, whole, converged, len(equations.weight_of))


def _solve(equations: _Equations, names: list[str]) -> tuple[NDArray, _Value, bool]:
    """Solve by Newton steps; return coefficients, the equations there, and whether they hold."""
    beta = np.zeros(len(names))
    value = equations.value(beta)
    for _ in range(MAX_ITER):
        step = _step(value, value.total, names)
        size = 1.0
        while size > SMALLEST:
            ahead = equations.value(beta + size * step)
            # The step that is left is a measure of the distance that no scale changes.
            left = np.linalg.norm(_step(value, ahead.total, names))
            if np.isfinite(left) and left < np.linalg.norm(step):
                break
            size /= 2
        else:  # Only rounding errors are left, or no step helps.
            return beta, value, bool(np.abs(step).max(initial=0) < np.sqrt(NEAR))
        beta, value = beta + size * step, ahead
        if np.abs(beta).max(initial=0) > FARTHEST:
            raise _infinite([names[j] for j in np.flatnonzero(np.abs(beta) > FARTHEST)])
        if np.abs(size * step).max(initial=0) < NEAR:
            return beta, value, True
    return beta, value, False


@dataclass(frozen=True)
class _Value:
    """The equations at some coefficients: by case and in total, with their derivative."""

    per_case: NDArray
    slope: NDArray

    @property
    def total(self) -> NDArray:
        """The sum over cases."""
        return np.asarray(self.per_case.sum(0))


@dataclass(frozen=True)
class _Equations:
    """Rows of all stacks.

    Attributes
    ----------
    X : csr array (rows, p)
    log_days : (rows,) array
    head : (stacks,) int array
        First row of each stack.
    at : (stacks,) int array
        Row of the event.
    weight_of : (stacks,) int array
        Column of the later exposure at the event, or −1.
    case : (stacks,) int array
    n : int
        Number of cases.
    """

    X: sparse.csr_array
    log_days: NDArray
    head: NDArray
    at: NDArray
    weight_of: NDArray
    case: NDArray
    n: int

    @classmethod
    def of(cls, history: ExposureHistory) -> _Equations:
        """Make the stacks: one without exposure, and one from each exposure on."""
        h = history
        used = np.unique(h.span_era)
        # Under exposure from the first day on, no one is seen as if never exposed.
        at_start = np.zeros(len(h.end), bool)
        at_start[h.era_case[used[h.era_first[used] <= 0]]] = True
        without = np.flatnonzero(~at_start)
        case = np.concatenate([without, h.era_case[used]])
        era = np.concatenate([np.full(len(without), -1), used])
        start = np.concatenate([np.zeros(len(without), np.int64), np.maximum(h.era_first[used], 0)])
        stack_of_era = np.full(len(h.era_case), -1)
        stack_of_era[used] = len(without) + np.arange(len(used))
        spans = _spans_of_stacks(h, case, start, stack_of_era)
        event = h.event[case]
        rows = split_time(start, h.end[case], spans, (np.arange(len(case)), event))
        ones = np.ones(len(rows.columns))
        X = sparse.csr_array((ones, rows.columns, rows.indptr), (len(rows), len(h.names)))
        head = np.searchsorted(rows.case, np.arange(len(case)))
        days = (rows.last - rows.first + 1).astype(float)
        return cls(
            X, np.log(days), head, np.flatnonzero(rows.events), _weights(h, case, era), case,
            len(h.end),
        )  # fmt: skip

    def value(self, beta: NDArray) -> _Value:
        """Evaluate the equations."""
        eta = self.X @ beta + self.log_days
        sizes = np.diff(self.head, append=len(eta))
        top = np.repeat(np.maximum.reduceat(eta, self.head), sizes)
        share = np.exp(eta - top)
        share /= np.repeat(np.add.reduceat(share, self.head), sizes)
        weighted = sparse.csr_array(self.X.multiply(share[:, None]))
        stack = np.repeat(np.arange(len(self.head)), sizes)
        sums = sparse.csr_array((np.ones(len(eta)), (stack, np.arange(len(eta)))))
        mean = (sums @ weighted).toarray()
        later = self.weight_of >= 0
        w = np.ones(len(self.head))
        w[later] = np.exp(-beta[self.weight_of[later]])
        own = w[:, None] * (self.X[self.at].toarray() - mean)
        second = (self.X.T @ weighted.multiply(np.repeat(w, sizes)[:, None])).toarray()
        slope = (mean * w[:, None]).T @ mean - second
        np.subtract.at(slope.T, self.weight_of[later], own[later])
        per_case = np.zeros((self.n, len(beta)))
        np.add.at(per_case, self.case, own)
        return _Value(per_case, slope)


def _spans_of_stacks(
    h: ExposureHistory, case: NDArray, start: NDArray, stack_of_era: NDArray
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return the days of a stack's own exposure, and those of groups of time."""
    own, of_time = stack_of_era[h.span_era], h.groups
    low = np.searchsorted(of_time.case, case, side="left")
    counts = np.searchsorted(of_time.case, case, side="right") - low
    stack = np.repeat(np.arange(len(case)), counts)
    begins = np.concatenate([[0], np.cumsum(counts)])[:-1]
    row = np.arange(len(stack)) - np.repeat(begins - low, counts)
    first, last = np.maximum(of_time.first[row], start[stack]), of_time.last[row]
    kept = first <= last
    return (
        np.concatenate([own, stack[kept]]),
        np.concatenate([h.span_column, of_time.column[row][kept]]),
        np.concatenate([h.span_first, first[kept]]),
        np.concatenate([h.span_last, last[kept]]),
    )


def _weights(h: ExposureHistory, case: NDArray, era: NDArray) -> NDArray:
    """Return the column of the risk period at the event of each stack, if it is a later one's."""
    on = (h.span_first <= h.event[h.era_case[h.span_era]]) & (
        h.span_last >= h.event[h.era_case[h.span_era]]
    )
    column, of = np.full(len(h.end), -1), np.full(len(h.end), -1)
    column[h.era_case[h.span_era[on]]] = h.span_column[on]
    of[h.era_case[h.span_era[on]]] = h.span_era[on]
    return np.where(of[case] > era, column[case], -1)


def _step(value: _Value, total: NDArray, names: list[str]) -> NDArray:
    """Return the Newton step; raise if the data do not determine a column."""
    scale = np.sqrt(np.abs(np.diag(value.slope)))
    if not (scale > 0).all():
        raise _infinite([names[j] for j in np.flatnonzero(~(scale > 0))])
    try:
        return np.asarray(-np.linalg.solve(value.slope, total))
    except np.linalg.LinAlgError:
        raise _infinite(names) from None


def _infinite(names: list[str]) -> SeparationError:
    """Describe columns without a finite estimate."""
    return SeparationError(
        "The equations of event-dependent exposure have no finite solution for "
        f"{', '.join(map(repr, names))}: it has no event, all events, or no days to compare. Join "
        "periods or groups, or leave it out.",
        names,
    )
