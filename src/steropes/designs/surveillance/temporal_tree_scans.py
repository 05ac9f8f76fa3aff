"""Tree scans over windows of time after exposure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from steropes.data.input_types import TableLike
from steropes.designs.surveillance.group_sequential_bounds import check_count
from steropes.designs.surveillance.outcome_hierarchies import chosen_cuts, cut_links, read_hierarchy
from steropes.designs.surveillance.tree_scan import TreeScan, finished_table
from steropes.designs.surveillance.tree_scan_counts import whole_counts
from steropes.designs.surveillance.tree_scan_null_models import (
    lanes,
    log_of,
    replicate_seed,
    table_of_logs,
)
from steropes.designs.values.argument_checks import check_real, check_whole
from steropes.designs.values.input_checks import require_numbers
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, listed

__all__ = ["tree_temporal_scan"]

Fixed = Literal["node", "node and time"]
# Replicates that are in memory at once: each has a time for every case.
PIECE = 25


def tree_temporal_scan(
    counts: TableLike,
    tree: TableLike,
    *,
    times: tuple[int, int],
    fixed: Fixed = "node",
    window: tuple[int, int] | None = None,
    least_share: float = 0.0,
    min_cases: int = 2,
    cuts: Sequence[Hashable] | None = None,
    names: Mapping[Any, str] | None = None,
    replicates: int = 999,
    seed: int = 0,
) -> TreeScan:
    """Scan a hierarchy of outcomes for windows of time with many cases.

    The cases of each node are compared with themselves at other times, so that only the exposed
    are needed. All windows of all nodes with their descendants are tested together.

    Parameters
    ----------
    counts : DataFrame
        A row per node and time with cases: ``node``, ``time`` (such as days since exposure) and
        ``cases``. Rows of the same node and time are summed.
    tree : DataFrame
        The hierarchy, as of `tree_scan`. A table with one node scans time alone.
    times : tuple of int
        First and last time of follow-up, which is complete for everybody.
    fixed : {"node", "node and time"}, default "node"
        Numbers that replicates keep. "node": the cases of each node, at uniform times. "node and
        time": also the cases of each time over all nodes, which adjusts for times with more cases
        of everything, such as a visit at the exposure.
    window : tuple of int, optional
        Shortest and longest window in units of time. Default: 2, and half of follow-up.
    least_share : float, default 0
        Least length of a window as a share of the time from the beginning to its end; 0.2 leaves
        out short windows long after exposure.
    min_cases : int, default 2
        Least number of cases of a cut that is tested.
    cuts : sequence, optional
        Nodes that are tested. Default: all.
    names : mapping, optional
        Names of nodes, such as of OMOP concepts.
    replicates : int, default 999
        Replicates without an effect.
    seed : int, default 0
        Seed of the replicates.

    Returns
    -------
    TreeScan
        The best window of each cut: ``first`` and ``last`` are its times, and ``cases`` and
        ``expected`` are those in the window.

    Raises
    ------
    DataError
        A column, number or node is missing, a time lies outside of follow-up, or a setting has no
        meaning.

    Notes
    -----
    With c cases in the window, of which e are expected, the statistic is c ln(c/e) +
    (m − c) ln((m − c)/(m − e)). If only nodes are fixed, m is the number of cases of the cut;
    otherwise it is that of all cases. It agrees with TreeScan 2.4.

    References
    ----------
    Yih and others (2018), American Journal of Epidemiology 187:1269–1276.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import tree_temporal_scan
    >>> tree = pd.DataFrame({"node": ["rash", "fever"], "parent": ["any", "any"]})
    >>> counts = pd.DataFrame({"node": ["rash"] * 4 + ["fever"] * 3, "time": [2, 3, 4, 9, 1, 6, 8],
    ...                        "cases": [4, 5, 3, 1, 1, 2, 1]})
    >>> found = tree_temporal_scan(counts, tree, times=(1, 10), replicates=99)
    >>> found.table[["node", "first", "last", "cases", "expected"]].head(1)
       node  first  last  cases  expected
    0  rash      2     4     12       3.9
    """
    check_count("min_cases", min_cases)
    source = replicate_seed(replicates, seed)
    if fixed not in get_args(Fixed):
        raise DataError(f"fixed must be one of {listed(get_args(Fixed))}, not {fixed!r}.")
    length = _length(times)
    starts, ends = _windows(length, window, least_share)
    hierarchy = read_hierarchy(tree)
    chosen = chosen_cuts(hierarchy, cuts)
    found = _case_table(read_columns(counts, None, "counts"), times[0], length)
    at = hierarchy.positions("counts", pd.Series(found.index))
    scan = TimeScan(
        found.to_numpy(), sparse.csr_array(hierarchy.below[chosen][:, at]), fixed == "node",
        starts, ends, min_cases,
    )  # fmt: skip
    largest = np.concatenate(
        [
            scan.largest(scan.draw(rng, min(PIECE, size - done)))
            for size, rng in lanes(replicates, source)
            for done in range(0, size, PIECE)
        ]
    )
    statistic, best = (x[0] for x in scan.best(scan.cases[None].astype(np.int64)))
    until, own = scan.until(scan.cases[None])[0], np.arange(len(chosen))
    table = pd.DataFrame(
        {"node": hierarchy.nodes[chosen], "first": times[0] + starts[best],
         "last": times[0] + ends[best] - 1,
         "cases": until[own, ends[best]] - until[own, starts[best]],
         "expected": scan.expected()[own, best]}
    )  # fmt: skip
    table = table[statistic > 0].assign(
        ratio=lambda t: t["cases"] / t["expected"], excess=lambda t: t["cases"] - t["expected"],
        statistic=statistic[statistic > 0],
    )  # fmt: skip
    words = f"tree-temporal, fixed {fixed}"
    return TreeScan(
        finished_table(table, names, largest), words, len(chosen), replicates,
        cut_links(hierarchy, chosen), largest,
    )  # fmt: skip


@dataclass(frozen=True)
class TimeScan:
    """Cases by node and time, (nodes, times), and the windows that are tested."""

    cases: NDArray
    reach: sparse.csr_array
    uniform: bool
    starts: NDArray
    ends: NDArray
    least: int

    def draw(self, rng: Generator, size: int) -> NDArray:
        """Draw the times of cases without an effect, (lanes, cases), in the order of nodes."""
        times = self.cases.shape[1]
        small = np.min_scalar_type(times - 1)
        if self.uniform:
            return rng.integers(0, times, (size, int(self.cases.sum())), dtype=small)
        when = np.repeat(np.arange(times, dtype=small), self.cases.sum(axis=0))
        return rng.permuted(np.tile(when, (size, 1)), axis=1)

    def until(self, cases: NDArray) -> NDArray:
        """Sum the cases of cuts before each time, (lanes, cuts, times + 1)."""
        size, nodes, times = cases.shape
        by_node = cases.transpose(1, 0, 2).reshape(nodes, size * times)
        links = self.reach.astype(np.int64)
        by_cut = np.asarray(links @ by_node).reshape(-1, size, times).transpose(1, 0, 2)
        found = np.zeros((size, self.reach.shape[0], times + 1), np.int64)
        np.cumsum(by_cut, axis=2, out=found[:, :, 1:])
        return found

    def expected(self) -> NDArray:
        """Return the expected cases of each cut and window, (cuts, windows)."""
        of_cut = self.reach @ self.cases.sum(axis=1)
        if self.uniform:
            share = (self.ends - self.starts) / self.cases.shape[1]
        else:
            before = np.append(0, np.cumsum(self.cases.sum(axis=0)))
            share = (before[self.ends] - before[self.starts]) / before[-1]
        return np.asarray(of_cut[:, None] * share)

    @cached_property
    def sizes(self) -> NDArray:
        """Cases to which those of a window and the others of each cut add up, (cuts,)."""
        total, of_cut = self.cases.sum(), self.reach @ self.cases.sum(axis=1)
        return np.asarray(of_cut if self.uniform else np.full_like(of_cut, total), dtype=np.int64)

    @cached_property
    def table(self) -> NDArray:
        """The numbers n ln n."""
        return table_of_logs(int(self.cases.sum()))

    @cached_property
    def above(self) -> tuple[NDArray, NDArray, NDArray]:
        """The node of each case, and the cuts of each node (indptr, indices)."""
        cuts = sparse.csr_array(self.reach.T)
        node = np.repeat(np.arange(len(self.cases)), self.cases.sum(axis=1))
        return node, cuts.indptr, cuts.indices

    @cached_property
    def by_length(self) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
        """Windows in the order of their lengths.

        Returns
        -------
        order, starts, ends : (windows,) int arrays
        parts : (lengths + 1,) int array
            Where windows of a length begin.
        outer : int array
            Windows that lie in no longer one.
        """
        length = self.ends - self.starts
        order = np.argsort(length, kind="stable")
        starts, ends = pd.Series(self.starts[order]), pd.Series(self.ends[order])
        longest = starts.groupby(ends).transform("min").eq(starts)
        longest &= ends.groupby(starts).transform("max").eq(ends)
        parts = np.flatnonzero(np.diff(length[order], prepend=-1, append=-1))
        return order, starts.to_numpy(), ends.to_numpy(), parts, np.flatnonzero(longest)

    @cached_property
    def bounds(self) -> tuple[tuple[NDArray, ...], tuple[NDArray, ...]]:
        """Expected cases by cut and window, and the smallest by length, with logarithms."""
        order, _, _, parts, _ = self.by_length
        expected = self.expected()[:, order]
        small = np.where(expected > 0, expected, np.inf)
        small = np.minimum.reduceat(small, parts[:-1], axis=1)
        return (expected, *_logs(expected, self.sizes)), (small, *_logs(small, self.sizes))

    def best(self, cases: NDArray) -> tuple[NDArray, NDArray]:
        """Return the best window of each cut and its statistic, (lanes, cuts)."""
        from steropes.backends.cpu.tree_scan_kernels import best_windows

        expected = self.expected()
        found, which = best_windows(
            self.until(cases), self.starts, self.ends, self.sizes, expected,
            *_logs(expected, self.sizes), self.table, self.least,
        )  # fmt: skip
        return np.asarray(found), np.asarray(which)

    def largest(self, drawn: NDArray) -> NDArray:
        """Return the largest statistic of replicates, (lanes,), from the times of their cases."""
        from steropes.backends.cpu.tree_scan_kernels import largest_window_ratios

        until = np.empty((len(self.sizes), self.cases.shape[1] + 1), np.int32)
        found = largest_window_ratios(
            drawn, self.above, until, self.by_length[1:], self.sizes, *self.bounds, self.table,
            self.least,
        )  # fmt: skip
        return np.asarray(found)


def _logs(expected: NDArray, sizes: NDArray) -> tuple[NDArray, NDArray]:
    """Return ln e and ln(m − e), (cuts, k); 0 where they are of no use."""
    rest = sizes[:, None] - expected
    good = np.isfinite(expected) & (expected > 0) & (rest > 0)
    return log_of(np.where(good, expected, 1.0)), log_of(np.where(good, rest, 1.0))


def _length(times: tuple[int, int]) -> int:
    """Return the number of times, and refuse times that are no range."""
    given = np.atleast_1d(np.asarray(times, dtype=object))
    whole = len(given) == 2 and all(isinstance(t, int | np.integer) for t in given)
    if not whole or given[0] >= given[1]:
        raise DataError(f"times must be the first and the last time, such as (1, 28), not {times}.")
    return int(given[1] - given[0] + 1)


def _windows(
    length: int, window: tuple[int, int] | None, least_share: float
) -> tuple[NDArray, NDArray]:
    """Return the starts and ends (after the last time) of all windows."""
    shortest, longest = min(2, length // 2), length // 2
    if window is not None:
        given = np.atleast_1d(np.asarray(window, dtype=object))
        if len(given) != 2:
            raise DataError(f"window must be a shortest and a longest length, not {window!r}.")
        shortest, longest = (check_whole("window", each, 1) for each in given)
    if not shortest <= longest < length:
        raise DataError(
            f"window must be a shortest and a longest length below the {length} times of "
            f"follow-up, not {window}."
        )
    check_real("least_share", least_share, lambda x: 0 <= x <= 1, "between 0 and 1")
    start, end = np.meshgrid(np.arange(length), np.arange(1, length + 1), indexing="ij")
    size = end - start
    kept = (size >= shortest) & (size <= longest) & (size >= least_share * end)
    if not kept.any():
        raise DataError("No window is left; lower least_share or allow longer windows.")
    return start[kept], end[kept]


def _case_table(counts: pd.DataFrame, first: int, length: int) -> pd.DataFrame:
    """Return cases by node, the index, and time, the columns."""
    missing = [name for name in ("node", "time", "cases") if name not in counts]
    if missing:
        raise DataError(f"counts lacks the columns {listed(missing)}.")
    if counts["node"].isna().any():
        row = int(np.argmax(counts["node"].isna()))
        raise DataError(f"counts: row {row} (counted from 0) has no node.")
    time = require_numbers("time", counts["time"])
    outside = (time < first) | (time >= first + length) | (time != np.round(time))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"time: row {row} (counted from 0) is not a whole number from {first} to "
            f"{first + length - 1}, as times says."
        )
    cases = whole_counts("cases", counts["cases"])
    if not cases.sum():
        raise DataError("counts has no cases.")
    rows = pd.DataFrame({"node": counts["node"].to_numpy(), "time": time - first, "cases": cases})
    table = rows.pivot_table(index="node", columns="time", values="cases", aggfunc="sum")
    table = table.reindex(columns=np.arange(length)).fillna(0)
    return table[table.sum(axis=1) > 0].astype(np.int64)
