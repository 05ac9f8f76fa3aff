"""Covariates with a zero or infinite estimate, and the rows that vanish in the limit.

If a covariate has no event (within the cases in which it varies), the likelihood increases as its
rate ratio goes to zero, where its rows have no weight; if it has all events, the other rows of
those cases have no weight in the limit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from steropes.studies.sccs.intervals import Intervals

__all__ = ["find_infinite_estimates", "limiting_estimate"]


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
