"""Sums over the risk sets of a survival model, and their transpose, without cancellation.

Rows are sorted by stratum, then by time from late to early, and at equal times rows without the
event come first. The *groups* are the distinct event times of each stratum in the same order. Row
i is in the risk sets of the groups a_i … b_i − 1 without the group of its own event, because the
tied events are summed separately for Efron's method. Here a_i is the first group not later than
the row's time and b_i the first not later than its entry.

Without entry times b_i is the end of the stratum, and the sums are running sums. With entry times,
the difference of two running sums would lose digits. Instead, each range is cut at the multiple of
the highest power of two inside it, into a suffix of one dyadic block and a prefix of the next (a
disjoint sparse table), so that every sum is a running sum of positive terms. There is one scan for
each of the log₂(groups) block sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from ..backends.backend_interface import Array, Backend

__all__ = ["RiskGroups", "RiskSets", "RunSums", "runs_of_rows", "sort_survival"]


class RunSums(Protocol):
    """Sums over runs of rows of vectors x_i that only the implementation knows."""

    def __call__(self, u: Array, pointers: np.ndarray, lines: np.ndarray | None = None, /) -> Array:
        """Compute Σ u_i x_i over each run of rows pointers[s] … pointers[s + 1] − 1, (s, k).

        With ``lines`` (L,), a stream of row numbers, ``u`` (L,) and the pointers refer to the
        stream.
        """


def sort_survival(
    time: np.ndarray, event: np.ndarray, strata: np.ndarray | None, backend: Backend
) -> np.ndarray:
    """Sort rows by stratum, time from late to early, and rows without the event first."""
    return backend.lexsort((event, -time) if strata is None else (event, -time, strata))


def runs_of_rows(start: np.ndarray) -> np.ndarray:
    """Expand run boundaries ``start`` (S + 1,) to the run number of each row, (n,)."""
    if len(start) == 2:
        return np.broadcast_to(np.int64(0), int(start[1]))  # takes no memory
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


@dataclass(frozen=True)
class RiskGroups:
    """Event times by stratum, the strata ascending and the times from late to early.

    Attributes
    ----------
    time : (m,) array
    stratum : (m,) int array
    """

    time: np.ndarray
    stratum: np.ndarray

    @property
    def m(self) -> int:
        """Number of groups."""
        return len(self.time)

    def only(self, chosen: np.ndarray) -> RiskGroups:
        """Select some of the groups, ascending."""
        return RiskGroups(self.time[chosen], self.stratum[chosen])

    def keys(self, stratum: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute integer keys that order rows and groups by stratum, then from late to early."""
        distinct, code = np.unique(np.concatenate([self.time, time]), return_inverse=True)
        size = len(distinct)
        late = size - 1 - code
        return stratum * size + late[self.m :], self.stratum * size + late[: self.m]


class _Groups(NamedTuple):
    """Groups (event times) and the events in them.

    Attributes
    ----------
    event_rows, group_of_event : (events,) int arrays
        Row and group of each event.
    event_start : (m + 1,) int array
        Boundaries of the tied events of each group among the events.
    time, stratum : (m,) arrays
        Time and stratum of each group.
    start : (S + 1,) int array
        Boundaries of the strata among the groups.
    first_row : (m,) int array
        The row at which the tied events of each group begin, or would begin.
    """

    event_rows: np.ndarray
    group_of_event: np.ndarray
    event_start: np.ndarray
    time: np.ndarray
    stratum: np.ndarray
    start: np.ndarray
    first_row: np.ndarray


def _groups_of(
    time: np.ndarray, event: np.ndarray, stratum: np.ndarray, strata_start: np.ndarray
) -> _Groups:
    """Form the groups from the events of these rows."""
    at = np.flatnonzero(event)
    new = np.ones(len(at), bool)
    new[1:] = (time[at[1:]] != time[at[:-1]]) | (stratum[at[1:]] != stratum[at[:-1]])
    first = np.flatnonzero(new)
    event_start = np.append(first, len(at))
    if len(first) == len(at):  # without ties, equal arrays share memory
        of_event, first_row = event_start[:-1], at
    else:
        of_event = np.cumsum(new) - 1
        first_row = at[first]  # the tied events of a group are contiguous rows
    start = np.searchsorted(first_row, strata_start)
    return _Groups(
        at, of_event, event_start, time[first_row], runs_of_rows(start), start, first_row
    )


def _given_groups(
    groups: RiskGroups, time: np.ndarray, event: np.ndarray, stratum: np.ndarray,
    strata_start: np.ndarray,
) -> _Groups:  # fmt: skip
    """Assign events to given groups, which may have no event here."""
    start = np.searchsorted(groups.stratum, np.arange(len(strata_start)))
    key, group_key = groups.keys(stratum, time)
    at = np.flatnonzero(event)
    own = np.searchsorted(group_key, key[at])
    known = own < groups.m
    known[known] = group_key[own[known]] == key[at][known]
    event_rows, of_event = at[known], own[known]
    event_start = np.searchsorted(of_event, np.arange(groups.m + 1))
    first_row = np.searchsorted(key, group_key, side="right") - np.diff(event_start)
    return _Groups(event_rows, of_event, event_start, groups.time, groups.stratum, start, first_row)


class RiskSets:
    """The risk sets of sorted rows at the event times, for sums over rows and over groups.

    Parameters
    ----------
    time, event : (n,) arrays
        Sorted as by `sort_survival`; event is 0 or 1.
    entry : (n,) array or None
        At risk on (entry, time].
    strata_start : (S + 1,) int array
        Boundaries of the strata among the rows.
    groups : RiskGroups, optional
        The groups if rows of other shards belong to the risk sets. Some may have no event here, and
        events at other times are ignored. Default: the groups of the events.

    Attributes
    ----------
    stratum : (n,) int array
    place : (n,) int array
        Index of each row in the table of `over_groups` if tied events have separate sums.
    a, b, end : (n,) int arrays
        With entry times, the groups [a, b) at which each row is at risk, and the end of the groups
        of its stratum. Without entry times ``b`` is None, and `first_group` computes a.
    """

    def __init__(
        self,
        time: np.ndarray,
        event: np.ndarray,
        entry: np.ndarray | None,
        strata_start: np.ndarray,
        backend: Backend,
        groups: RiskGroups | None = None,
    ) -> None:
        self.backend = backend
        n = len(time)
        self.strata_start = strata_start
        self.stratum = stratum = runs_of_rows(strata_start)
        if groups is None:
            found = _groups_of(time, event, stratum, strata_start)
        else:
            found = _given_groups(groups, time, event, stratum, strata_start)
        self.event_rows, self.event_start = found.event_rows, found.event_start
        self.group_of_event = found.group_of_event
        self.group_time, self.group_stratum = found.time, found.stratum
        self.m, self.groups_start = len(found.time), found.start
        at, first_row = found.event_rows, found.first_row
        self.tied_start, self.tied_end = first_row, first_row + np.diff(self.event_start)
        # a is the first group whose first event row follows the row. The tied events of a group
        # come after all other rows with that time, so a excludes their own group. Rows after the
        # last group of their stratum are never at risk.
        places = np.int32 if n < 2**30 else np.int64
        opens = np.zeros(n + 1, np.int8 if groups is None else places)
        if groups is None:
            opens[first_row] = 1
        else:  # several groups may open at a row, or after the last one
            np.add.at(opens, first_row, 1)
        a = np.cumsum(opens[:n], dtype=places)
        del opens
        if entry is None:
            self.b = None
            self.join_start, self.join_end = self._joining(), self.tied_start
            if len(strata_start) > 2:
                a[a >= self.groups_start[stratum + 1]] = self.m
            a[at] = self.m + 1 + self.group_of_event
            self.place = a
        else:
            self.end = self.groups_start[stratum + 1]
            self.b = np.clip(self._first_not_after(entry, stratum), a, self.end)
            self.a = np.minimum(a, self.end)
            self._levels = self._dyadic(self.a, self.b)
            self._block_starts: dict[int, np.ndarray] = {}
            self.place = np.arange(n)

    def _joining(self) -> np.ndarray:
        """Find the first row of the run that joins the risk set at each group."""
        start = self.groups_start
        filled = np.flatnonzero(np.diff(start) > 0)
        out = np.empty(self.m, np.int64)
        out[1:] = self.tied_start[:-1]
        # Rows in no risk set of their stratum must not join the first group of the next one, so its
        # run begins at the first row of the stratum.
        out[start[filled]] = self.strata_start[filled]
        return out

    @cached_property
    def place_own(self) -> np.ndarray:
        """Index of each row in the table of `over_groups` if tied events have no separate sum."""
        if self.b is not None:
            return self.place
        place = self.place.copy()
        place[self.event_rows] = self.group_of_event
        return place

    @property
    def ever(self) -> np.ndarray:
        """Whether each row is in some risk set, (n,) bool."""
        if self.b is None:
            return self.place != self.m
        ever = self.a < self.b
        ever[self.event_rows] = True
        return ever

    def first_group(self, rows: np.ndarray) -> np.ndarray:
        """Find the first group at which rows without an event are at risk."""
        if self.b is not None:
            return self.a[rows]
        place = self.place[rows].astype(np.int64)
        return np.where(place < self.m, place, self.groups_start[self.stratum[rows] + 1])

    def _first_not_after(self, entry: np.ndarray, stratum: np.ndarray) -> np.ndarray:
        """Find the first group with time ≤ entry in the stratum of each row."""
        # Times descend within a stratum, so one search over (stratum, −time) keys serves all rows.
        distinct, code = np.unique(np.concatenate([self.group_time, entry]), return_inverse=True)
        size = len(distinct)
        key = self.group_stratum * size + (size - 1 - code[: self.m])
        return np.searchsorted(key, stratum * size + (size - 1 - code[self.m :]), side="left")

    def _dyadic(self, a: np.ndarray, b: np.ndarray) -> list[tuple]:
        """Group the ranges [a, b) by the block size at which they are cut."""
        size = b - a
        last = np.where(size > 0, b - 1, a)
        level = np.frexp((a ^ last).astype(np.float64))[1]  # bits: 0 where one group
        levels: list[tuple] = []
        for h in np.unique(level[size > 0]):
            rows = np.flatnonzero((level == h) & (size > 0))
            if h == 0:
                levels.append((0, self._runs(rows, a[rows]), None))
            else:
                left, right = self._runs(rows, a[rows]), self._runs(rows, last[rows])
                levels.append((1 << (int(h) - 1), left, right))
        return levels

    def _runs(self, rows: np.ndarray, group: np.ndarray) -> tuple:
        """Sort rows by group: sorted rows, segment pointers, rows and groups."""
        by = np.argsort(group, kind="stable")
        pointers = np.searchsorted(group[by], np.arange(self.m + 1))
        return rows[by], pointers, rows, group

    def _blocks(self, size: int) -> np.ndarray:
        """Return the boundaries of blocks of ``size`` groups, the same array each time."""
        if size not in self._block_starts:
            self._block_starts[size] = np.append(np.arange(0, self.m, size), self.m)
        return self._block_starts[size]

    def over_rows(self, r: Array) -> Array:
        """Sum r (n, B) over the rows at risk in each group without its tied events, (m, B)."""
        bk = self.backend
        if self.b is None:
            joined = bk.range_sum(r, self.join_start, self.join_end)
            return bk.scan(joined, self.groups_start)
        total = bk.xp.zeros((self.m, r.shape[1]))
        for size, left, right in self._levels:
            x = bk.segment_sum(r[left[0]], left[1])
            if right is None:
                total += x
                continue
            total += bk.scan(x, self._blocks(size))
            total += bk.scan(bk.segment_sum(r[right[0]], right[1]), self._blocks(size), True)
        return total

    def moments_over_rows(self, sums: RunSums, u: np.ndarray, k: int) -> Array:
        """Sum u_i x_i as `over_rows` does, for vectors x_i known only by their sums, (m, k)."""
        bk = self.backend
        if self.b is None:  # alternate runs: rows that join, and rows between
            ends = np.stack([self.join_start, self.join_end], 1).ravel()
            joined = sums(u, np.append(ends, self.join_end[-1:]))[::2]
            return bk.scan(joined, self.groups_start)
        total = bk.xp.zeros((self.m, k))
        for size, left, right in self._levels:
            x = sums(u[left[0]], left[1], left[0])
            if right is None:
                total += x
                continue
            blocks = self._blocks(size)
            total += bk.scan(x, blocks)
            total += bk.scan(sums(u[right[0]], right[1], right[0]), blocks, True)
        return total

    def over_groups(self, c: Array, own: Array) -> tuple[Array, Array]:
        """Sum c (m, B) over the groups at which each row is at risk: the transpose of `over_rows`.

        Parameters
        ----------
        c : (m, B) array
            Values for the rows at risk other than the tied events of the group.
        own : (m, B) array
            Values for the tied events.

        Returns
        -------
        table : (·, B) array
            Distinct sums. Many rows share one, so the table is small.
        at : (n,) int array
            The sum of row i is ``table[at[i]]``.
        """
        bk, xp = self.backend, self.backend.xp
        if self.b is None:
            after = bk.scan(c, self.groups_start, True)
            if own is c:
                return xp.concatenate([after, xp.zeros((1, c.shape[1]))]), self.place_own
            zero = xp.zeros((1, c.shape[1]))
            # Tied events receive their group's own value and the following groups of the stratum.
            following = xp.concatenate([after[1:], zero])
            following[self.groups_start[1:][np.diff(self.groups_start) > 0] - 1] = 0.0
            return xp.concatenate([after, zero, following + own]), self.place
        total = xp.zeros((len(self.a), c.shape[1]))
        for size, left, right in self._levels:
            if right is None:
                total[left[2]] += c[left[3]]
                continue
            blocks = self._blocks(size)
            total[left[2]] += bk.scan(c, blocks, True)[left[3]]
            total[right[2]] += bk.scan(c, blocks)[right[3]]
        total[self.event_rows] += own[self.group_of_event]
        return total, self.place

    def over_events(self, r: Array) -> Array:
        """Sum r (n, B) over the tied events of each group, (m, B)."""
        return self.backend.range_sum(r, self.tied_start, self.tied_end)
