"""Sums over the risk sets of a survival model, and their transpose, without any subtraction.

Rows are sorted by stratum, then by time from late to early, at equal times those without the
event first. The *groups* are the distinct event times of each stratum in the same order. Row i
is in the risk set of the groups a_i … b_i − 1, its own event's group left out (the tied events
are summed apart, as Efron's method needs): a_i is the first group no later than the row's time
and b_i the first no later than its entry.

Without entry times b_i is the end of the stratum, and the sums are running sums. With them, a
difference of two running sums would lose digits; instead each range is cut at the multiple of
the highest power of two inside it, into a suffix of one dyadic block and a prefix of the next
(a disjoint sparse table), so that every sum is still a running sum of positive terms, one scan
for each of the log₂(groups) block sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backends.protocols import Array, Backend

__all__ = ["RiskGroups", "RiskSets", "RunSums", "runs_of_rows", "sort_survival"]


class RunSums(Protocol):
    """Sums over runs of rows of numbers x_i that only who makes the sums knows."""

    def __call__(self, u: Array, pointers: np.ndarray, lines: np.ndarray | None = None, /) -> Array:
        """Σ u_i x_i over each run of rows pointers[s] … pointers[s + 1], (s, k).

        With ``lines`` (L,) a stream of rows, which ``u`` (L,) and the pointers are of.
        """


def sort_survival(time: np.ndarray, event: np.ndarray, strata: np.ndarray | None) -> np.ndarray:
    """Rows by stratum, then time from late to early, then rows without the event first."""
    if strata is None and not _few(time):
        order = np.argsort(-time)
        sorted_time = time[order]
        if (sorted_time[1:] != sorted_time[:-1]).all():  # then one sort is enough
            return order
    order = np.argsort(event, kind="stable")
    order = order[np.argsort(_short(-time[order]), kind="stable")]
    if strata is None:
        return order
    return order[np.argsort(_short(np.asarray(strata)[order]), kind="stable")]


def _few(x: np.ndarray) -> bool:
    """Whether they are whole numbers, days say, that two bytes can tell apart."""
    if not len(x):
        return False
    low, high = x.min(), x.max()
    return bool(high - low < 1 << 16) and bool((x == np.floor(x)).all())


def _short(x: np.ndarray) -> np.ndarray:
    """Numbers in the same order; those of two bytes are sorted without comparisons."""
    return (x - x.min()).astype(np.uint16) if _few(x) else x


def runs_of_rows(start: np.ndarray) -> np.ndarray:
    """The run (stratum) of each row, (n,), for runs that begin and end at ``start`` (S + 1,)."""
    if len(start) == 2:
        return np.broadcast_to(np.int64(0), int(start[1]))  # takes no memory
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


@dataclass(frozen=True)
class RiskGroups:
    """Event times of strata, the strata ascending and each one's times from late to early.

    Attributes
    ----------
    time : (m,) array
    stratum : (m,) int array
    """

    time: np.ndarray
    stratum: np.ndarray

    @property
    def m(self) -> int:
        """How many there are."""
        return len(self.time)

    def only(self, chosen: np.ndarray) -> RiskGroups:
        """Some of them, ascending."""
        return RiskGroups(self.time[chosen], self.stratum[chosen])

    def keys(self, stratum: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Integers that order rows, and the groups, by stratum and then from late to early."""
        distinct, code = np.unique(np.concatenate([self.time, time]), return_inverse=True)
        size = len(distinct)
        late = size - 1 - code
        return stratum * size + late[self.m :], self.stratum * size + late[: self.m]


class _Groups(NamedTuple):
    """Groups of rows, and the events in them.

    Attributes
    ----------
    event_rows, group_of_event : (events,) int arrays
    event_start : (m + 1,) int array
        Where the tied events of each group begin and end among the events.
    time, stratum : (m,) arrays
    start : (S + 1,) int array
        Where the strata begin and end among the groups.
    first_row : (m,) int array
        Where the tied events of each group begin among the rows, or would.
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
    """The groups of the events."""
    at = np.flatnonzero(event)
    new = np.ones(len(at), bool)
    new[1:] = (time[at[1:]] != time[at[:-1]]) | (stratum[at[1:]] != stratum[at[:-1]])
    first = np.flatnonzero(new)
    event_start = np.append(first, len(at))
    if len(first) == len(at):  # no ties: what would be the same is held once
        of_event, first_row = event_start[:-1], at
    else:
        of_event = np.cumsum(new) - 1
        first_row = at[first]  # of a group's tied events, which are rows side by side
    start = np.searchsorted(first_row, strata_start)
    return _Groups(
        at, of_event, event_start, time[first_row], runs_of_rows(start), start, first_row
    )


def _given_groups(
    groups: RiskGroups, time: np.ndarray, event: np.ndarray, stratum: np.ndarray,
    strata_start: np.ndarray,
) -> _Groups:  # fmt: skip
    """The groups that are given."""
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
    """Which rows are at risk at which event times.

    Parameters
    ----------
    time, event : (n,) arrays
        Sorted as `sort_survival` does; event is 0 or 1.
    entry : (n,) array or None
        At risk on (entry, time].
    strata_start : (S + 1,) int array
        Where the strata begin and end among the rows.
    groups : RiskGroups, optional
        The groups where rows that are elsewhere have a part in them: some may have no event here,
        and an event at another time is none. Default: those of the events.

    Attributes
    ----------
    stratum : (n,) int array
    place : (n,) int array
        Each row's place in the table of `over_groups` where tied events have a sum of their own.
    a, b, end : (n,) int arrays
        With entry times: the groups [a, b) that each row is in the risk set of, and the end of
        its stratum's groups. Without them ``b`` is None, and `first_group` says what a is.
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
        # a: groups whose first event row comes after the row's own place; the tied events of a
        # group come after all others with that time, so this leaves their own group out. Rows at
        # the end of their stratum's groups are never at risk again.
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
            self.place = np.arange(n)

    def _joining(self) -> np.ndarray:
        """Where the run of rows that join at each group begins; they end where it does."""
        start = self.groups_start
        filled = np.flatnonzero(np.diff(start) > 0)
        out = np.empty(self.m, np.int64)
        out[1:] = self.tied_start[:-1]
        # Rows of a stratum that are in no risk set would join the next stratum's first group;
        # its run begins at the stratum's first row instead.
        out[start[filled]] = self.strata_start[filled]
        return out

    @property
    def place_own(self) -> np.ndarray:
        """Each row's place in the table of `over_groups` where tied events have no own sum."""
        if self.b is not None:
            return self.place
        place = self.place.copy()
        place[self.event_rows] = self.group_of_event
        return place

    @property
    def ever(self) -> np.ndarray:
        """Rows that are in some risk set, (n,) bool."""
        if self.b is None:
            return self.place != self.m
        ever = self.a < self.b
        ever[self.event_rows] = True
        return ever

    def first_group(self, rows: np.ndarray) -> np.ndarray:
        """The first group that rows without an event are in the risk set of."""
        if self.b is not None:
            return self.a[rows]
        place = self.place[rows].astype(np.int64)
        return np.where(place < self.m, place, self.groups_start[self.stratum[rows] + 1])

    def _first_not_after(self, entry: np.ndarray, stratum: np.ndarray) -> np.ndarray:
        """For each row, the first group of its stratum with time ≤ entry."""
        # Times fall inside a stratum, so one search over (stratum, −time) pairs serves all.
        distinct, code = np.unique(np.concatenate([self.group_time, entry]), return_inverse=True)
        size = len(distinct)
        key = self.group_stratum * size + (size - 1 - code[: self.m])
        return np.searchsorted(key, stratum * size + (size - 1 - code[self.m :]), side="left")

    def _dyadic(self, a: np.ndarray, b: np.ndarray) -> list[tuple]:
        """Split the ranges [a, b) by the block size at which they are cut."""
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
        """Rows sorted by group, with pointers for the segment sum, and the groups as given."""
        by = np.argsort(group, kind="stable")
        pointers = np.searchsorted(group[by], np.arange(self.m + 1))
        return rows[by], pointers, rows, group

    def _blocks(self, size: int) -> np.ndarray:
        return np.append(np.arange(0, self.m, size), self.m)

    def over_rows(self, r: Any) -> Any:
        """Σ of r (n, B) over the rows at risk in each group, its own events left out: (m, B)."""
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

    def moments_over_rows(self, sums: RunSums, u: np.ndarray, k: int) -> Any:
        """`over_rows` of u_i x_i, of k numbers x_i a row that are known by their sums: (m, k)."""
        bk = self.backend
        if self.b is None:  # a run for each group, and what lies between
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

    def over_groups(self, c: Any, own: Any) -> tuple[Any, Any]:
        """The transpose: Σ of c (m, B) over the groups each row is at risk in.

        Parameters
        ----------
        c : (m, B) array
            Counted for the rows at risk that are not among the group's tied events.
        own : (m, B) array
            Counted instead for the tied events themselves.

        Returns
        -------
        table : (·, B) array
        at : (n,) int array
            The sum for row i is ``table[at[i]]``: many rows share one, and a table is small.
        """
        bk, xp = self.backend, self.backend.xp
        if self.b is None:
            after = bk.scan(c, self.groups_start, True)
            if own is c:
                return xp.concatenate([after, xp.zeros((1, c.shape[1]))]), self.place_own
            zero = xp.zeros((1, c.shape[1]))
            # The tied events of a group: its own share, and the groups after it in the stratum.
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

    def over_events(self, r: Any) -> Any:
        """Σ of r (n, B) over the tied events of each group: (m, B)."""
        return self.backend.range_sum(r, self.tied_start, self.tied_end)
