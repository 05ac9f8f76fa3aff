"""Splitting of time into intervals of constant covariates, for a chunk of cases at a time.

An interval is a row of the model. Intervals of a case with the same covariates are merged into one
row, because their order does not matter (Suchard and others 2013, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ModelRows",
    "TimeIntervals",
    "case_day_key",
    "merge_equal_intervals",
    "sorted_distinct",
    "split_time",
]

DAY = 22  # The number of bits for a day within a case: 11,400 years, as dates end in 9999.
MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class TimeIntervals:
    """Intervals of some cases, sorted by case and day, with their covariates.

    Attributes
    ----------
    case : (n,) int array
        Relative to the first case of the chunk.
    first, last : (n,) int arrays
        First and last day of each interval.
    events : (n,) int array
    indptr, columns : int arrays
        The covariates that are one in each row, ascending.
    """

    case: NDArray
    first: NDArray
    last: NDArray
    events: NDArray
    indptr: NDArray
    columns: NDArray

    def __len__(self) -> int:
        return len(self.case)

    def take(self, rows: NDArray) -> TimeIntervals:
        """Select rows by number."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(self.indptr[:-1][rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return TimeIntervals(
            self.case[rows], self.first[rows], self.last[rows], self.events[rows], indptr,
            self.columns[at],
        )  # fmt: skip


@dataclass(frozen=True)
class ModelRows:
    """Rows of the model: merged intervals of a case with the same covariates.

    Attributes
    ----------
    case, events : (n,) int arrays
    days : (n,) float array
        Length of the row in days, or its weight.
    month : (n,) int array or None
        Months since year 0, if there are splines.
    age : (n,) float array or None
        Age in days on the first day of the month or of the case, if a spline depends on it.
    """

    case: NDArray
    events: NDArray
    days: NDArray
    indptr: NDArray
    columns: NDArray
    month: NDArray | None = None
    age: NDArray | None = None


def split_time(
    start: NDArray,
    end: NDArray,
    spans: tuple[NDArray, NDArray, NDArray, NDArray],
    outcomes: tuple[NDArray, NDArray],
    cuts: tuple[NDArray, NDArray] | None = None,
) -> TimeIntervals:
    """Split the time of some cases at the ends of their spans.

    Parameters
    ----------
    start, end : (k,) int arrays
        First and last day of each case.
    spans : (case, column, first, last)
        Within the cases' days; spans of one case and column do not overlap.
    outcomes : (case, day)
        Within the cases' days.
    cuts : (case, day), optional
        Further days on which an interval begins.
    """
    k = np.arange(len(start), dtype=np.int64)
    of, column, first, last = spans
    ends = case_day_key(k, end + 1)
    points = [case_day_key(k, start), ends, case_day_key(of, first), case_day_key(of, last + 1)]
    if cuts is not None:
        points.append(case_day_key(*cuts))
    edges = sorted_distinct(np.concatenate(points))
    row_of = np.delete(edges, np.searchsorted(edges, ends))  # The last edge starts no row.
    case = row_of >> DAY
    day = row_of & ((1 << DAY) - 1)
    following = edges[np.searchsorted(edges, row_of) + 1] & ((1 << DAY) - 1)
    # A span's rows: the edges before its ends, minus one for each completed case.
    a = np.searchsorted(edges, case_day_key(of, first)) - of
    b = np.searchsorted(edges, case_day_key(of, last + 1)) - of
    counts = b - a
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(a - starts[:-1], counts) + np.arange(starts[-1])
    columns = np.repeat(column, counts)
    bits = int(columns.max(initial=0)).bit_length()
    columns = np.sort((rows << bits) | columns) & ((1 << bits) - 1)  # By row, then column.
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(row_of)))])
    at = np.searchsorted(row_of, case_day_key(*outcomes), side="right") - 1
    events = np.bincount(at, minlength=len(row_of)).astype(np.int64)
    return TimeIntervals(case, day, following - 1, events, indptr, columns)


def merge_equal_intervals(cut: TimeIntervals, days: NDArray) -> ModelRows:
    """Merge the rows of a case that have the same covariates.

    Rows are compared by two 64-bit sums of hashes of their columns and by the number of columns.
    """
    weights = [_hash(cut.columns, salt) for salt in (1, 2)]
    sums = [np.concatenate([[np.uint64(0)], np.cumsum(w)]) for w in weights]  # Modulo 2^64.
    marks = [s[cut.indptr[1:]] - s[cut.indptr[:-1]] for s in sums]
    counts = np.diff(cut.indptr)
    # A collision of the first sum may separate equal rows in the sort, which then stay separate.
    order = np.lexsort((marks[0], cut.case))
    new = np.zeros(len(cut), bool)
    new[:1] = True
    for values in (*marks, counts, cut.case):
        ordered = values[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(len(cut), np.int64)
    group[order] = np.cumsum(new) - 1
    # Groups are numbered in the order of their first rows.
    heads = order[new]
    rank = np.empty(len(heads), np.int64)
    rank[np.argsort(heads, kind="stable")] = np.arange(len(heads))
    group = rank[group]
    head = cut.take(np.sort(heads))
    n = len(heads)
    return ModelRows(
        head.case,
        np.bincount(group, cut.events, minlength=n).astype(np.int64),
        np.bincount(group, days, minlength=n),
        head.indptr,
        head.columns,
    )


def sorted_distinct(x: NDArray) -> NDArray:
    """Return distinct integers in ascending order; sorting is faster than hashing for such keys."""
    x = np.sort(x)
    first = np.ones(len(x), bool)
    first[1:] = x[1:] != x[:-1]
    return x[first]


def case_day_key(case: NDArray, day: NDArray) -> NDArray:
    """Encode case and day as one sortable number."""
    return (np.asarray(case, np.int64) << DAY) | np.asarray(day, np.int64)


def _hash(columns: NDArray, salt: int) -> NDArray:
    """Hash each column to a 64-bit number (splitmix64)."""
    golden, first, second = MIX
    with np.errstate(over="ignore"):
        z = (columns.astype(np.uint64) + np.uint64(salt) * np.uint64(1 << 40)) * golden + golden
        z = (z ^ (z >> np.uint64(30))) * first
        z = (z ^ (z >> np.uint64(27))) * second
        return z ^ (z >> np.uint64(31))
