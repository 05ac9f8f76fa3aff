"""Time cut where a covariate changes: intervals of constant covariates, a chunk of cases a time.

An interval is a row of the model; within a case, intervals with the same covariates are one row,
as their order says nothing (Suchard and others 2013, 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cut", "Pieces", "cut_time", "merge_alike", "sorted_distinct"]

DAY = 21  # bits for a day within a case: 5,700 years
MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class Cut:
    """Rows of some cases, in the order of cases and days, and the covariates of each.

    Attributes
    ----------
    case : (n,) int array
        Counted from the first case of the chunk.
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

    def take(self, rows: NDArray) -> Cut:
        """Some of the rows, by number, in that order."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(self.indptr[:-1][rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return Cut(
            self.case[rows], self.first[rows], self.last[rows], self.events[rows], indptr,
            self.columns[at],
        )  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """Rows of the model: intervals of a case with the same covariates put together.

    Attributes
    ----------
    case, events : (n,) int arrays
    days : (n,) float array
        Length, or the weight of it.
    indptr, columns : int arrays
    """

    case: NDArray
    events: NDArray
    days: NDArray
    indptr: NDArray
    columns: NDArray


def cut_time(
    start: NDArray,
    end: NDArray,
    spans: tuple[NDArray, NDArray, NDArray, NDArray],
    outcomes: tuple[NDArray, NDArray],
    cuts: tuple[NDArray, NDArray] | None = None,
) -> Cut:
    """Cut the time of some cases at the ends of their spans.

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
    ends = _key(k, end + 1)
    points = [_key(k, start), ends, _key(of, first), _key(of, last + 1)]
    if cuts is not None:
        points.append(_key(*cuts))
    edges = sorted_distinct(np.concatenate(points))
    row_of = np.delete(edges, np.searchsorted(edges, ends))  # the last edge of a case opens no row
    case = row_of >> DAY
    day = row_of & ((1 << DAY) - 1)
    following = edges[np.searchsorted(edges, row_of) + 1] & ((1 << DAY) - 1)
    # spans to rows: the edges before a place, less one for each case that has ended
    a = np.searchsorted(edges, _key(of, first)) - of
    b = np.searchsorted(edges, _key(of, last + 1)) - of
    counts = b - a
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(a - starts[:-1], counts) + np.arange(starts[-1])
    columns = np.repeat(column, counts)
    bits = int(columns.max(initial=0)).bit_length()
    columns = np.sort((rows << bits) | columns) & ((1 << bits) - 1)  # by row, then column
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(row_of)))])
    at = np.searchsorted(row_of, _key(*outcomes), side="right") - 1
    events = np.bincount(at, minlength=len(row_of)).astype(np.int64)
    return Cut(case, day, following - 1, events, indptr, columns)


def merge_alike(cut: Cut, days: NDArray) -> Pieces:
    """Put together the rows of a case that have the same covariates.

    Rows are told apart by two 64-bit sums of hashes of their columns, and by their number.
    """
    weights = [_hash(cut.columns, salt) for salt in (1, 2)]
    sums = [np.concatenate([[np.uint64(0)], np.cumsum(w)]) for w in weights]  # modulo 2^64
    marks = [s[cut.indptr[1:]] - s[cut.indptr[:-1]] for s in sums]
    counts = np.diff(cut.indptr)
    # rows that the first sum fails to tell apart may stand between equal ones, which then stay two
    order = np.lexsort((marks[0], cut.case))
    new = np.zeros(len(cut), bool)
    new[:1] = True
    for values in (*marks, counts, cut.case):
        ordered = values[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(len(cut), np.int64)
    group[order] = np.cumsum(new) - 1
    # groups in the order of their first rows
    heads = order[new]
    rank = np.empty(len(heads), np.int64)
    rank[np.argsort(heads, kind="stable")] = np.arange(len(heads))
    group = rank[group]
    head = cut.take(np.sort(heads))
    n = len(heads)
    return Pieces(
        head.case,
        np.bincount(group, cut.events, minlength=n).astype(np.int64),
        np.bincount(group, days, minlength=n),
        head.indptr,
        head.columns,
    )


def sorted_distinct(x: NDArray) -> NDArray:
    """Distinct integers, ascending; by sorting, as hashing is slower on keys of this kind."""
    x = np.sort(x)
    first = np.ones(len(x), bool)
    first[1:] = x[1:] != x[:-1]
    return x[first]


def _key(case: NDArray, day: NDArray) -> NDArray:
    return (np.asarray(case, np.int64) << DAY) | np.asarray(day, np.int64)


def _hash(columns: NDArray, salt: int) -> NDArray:
    """A mixed 64-bit number for each column (splitmix64)."""
    golden, first, second = MIX
    with np.errstate(over="ignore"):
        z = (columns.astype(np.uint64) + np.uint64(salt) * np.uint64(1 << 40)) * golden + golden
        z = (z ^ (z >> np.uint64(30))) * first
        z = (z ^ (z >> np.uint64(27))) * second
        return z ^ (z >> np.uint64(31))
