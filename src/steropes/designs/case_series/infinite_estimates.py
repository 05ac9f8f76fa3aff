"""Covariates with a zero or infinite estimate, and the rows that vanish in the limit.

If a covariate has no event (within the cases in which it varies), the likelihood increases as its
rate ratio goes to zero, where its rows have no weight; if it has all events, the other rows of
those cases have no weight in the limit.

The same holds for a segment of a spline, the rows with a value in one of its columns, and for its
base, one minus the sum of its columns, relative to which the columns are infinite without an event.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series.interval_rows import Intervals

# Smaller values of a column of a spline are rounding errors.
LEAST_VALUE = 1e-12

__all__ = ["find_infinite_estimates", "limiting_estimate", "rows_of_empty_segments"]


def find_infinite_estimates(
    intervals: Intervals, free: NDArray
) -> tuple[dict[int, float], NDArray]:
    """Find columns without a finite estimate, and the rows that count at these limits.

    The value is −inf (no event in the column among the cases in which it varies), +inf (all
    events), or NaN if it does not vary within any case with an event.
    """
    case = intervals.case
    rows = np.ones(len(case), bool)
    ends: dict[int, float] = {}
    p = intervals.X.shape[1]
    rows &= ~rows_of_empty_segments(intervals, free, ends)
    looking = True
    while looking:
        looking = False
        for j in np.flatnonzero(free[:p]):
            if int(j) in ends:
                continue
            end, gone = limiting_estimate(intervals, int(j), rows)
            if end is None:
                continue
            ends[int(j)] = end
            if not math.isnan(end):
                rows &= ~gone
                looking = True  # The remaining rows may decide about another column.
    return ends, rows


def rows_of_empty_segments(
    intervals: Intervals, free: NDArray, ends: dict[int, float] | None = None
) -> NDArray:
    """Mark the rows of segments of splines without events, and enter their columns in ``ends``.

    If the base of a spline has no event, the remaining columns add up to one where it has no
    weight. One of them is left out (NaN), relative to which the others are estimated.
    """
    ends = {} if ends is None else ends
    gone = np.zeros(len(intervals.case), bool)
    at = intervals.X.shape[1]
    for table, index in zip(intervals.splines.tables, intervals.splines.index, strict=True):
        own = np.arange(at, at + table.shape[1])
        at += table.shape[1]
        if not free[own].all():  # A penalised spline has a finite maximum.
            continue
        base = (1 - table.sum(axis=1) > LEAST_VALUE)[index]
        based = _is_empty(intervals, base, gone)
        gone |= base & based
        for j, values in zip(own.tolist(), table.T, strict=True):
            on = (values > LEAST_VALUE)[index]
            if _is_empty(intervals, on, gone):
                gone |= on
                ends[j] = -math.inf
        left = [j for j in own.tolist() if j not in ends]
        if based and left:
            ends[left[0]] = math.nan
    return gone


def _is_empty(intervals: Intervals, on: NDArray, gone: NDArray) -> bool:
    """Check whether rows have no event although they are compared with others of their case."""
    if not on.any() or intervals.events[on].sum() > 0:
        return False
    if (on & gone).any():
        return True
    case, n_cases = intervals.case, int(intervals.case[-1]) + 1
    total = np.bincount(case[~gone], intervals.events[~gone], minlength=n_cases)
    return bool(((np.bincount(case[on], minlength=n_cases) > 0) & (total > 0)).any())


def limiting_estimate(intervals: Intervals, j: int, rows: NDArray) -> tuple[float | None, NDArray]:
    """Return the limit of the estimate of column j and the rows that vanish there.

    The limit is −inf, +inf, NaN if the column does not vary within any case with an event, or None
    if the estimate is finite.
    """
    case, events = intervals.case, intervals.events
    n_cases = int(case[-1]) + 1 if len(case) else 0
    on = np.zeros(len(case), bool)
    on[intervals.X.indices[intervals.X.indptr[j] : intervals.X.indptr[j + 1]]] = True
    on &= rows
    off = rows & ~on
    total = np.bincount(case[rows], events[rows], minlength=n_cases)
    some_on = np.bincount(case[on], minlength=n_cases) > 0
    some_off = np.bincount(case[off], minlength=n_cases) > 0
    varies = some_on & some_off & (total > 0)
    if not varies.any():
        return math.nan, np.zeros(len(case), bool)
    inside = varies[case]
    if events[on & inside].sum() == 0:
        return -math.inf, on & inside
    if events[off & inside].sum() == 0:
        return math.inf, off & inside
    return None, np.zeros(len(case), bool)
