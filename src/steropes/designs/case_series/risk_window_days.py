"""First and last days of risk windows around eras, within the observation of each case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Eras", "WindowRules", "join_eras", "window_spans"]


@dataclass(frozen=True)
class Eras:
    """Joined eras, sorted by group, of which each is a case with an exposure or a covariate.

    Attributes
    ----------
    group, first, last : (m,) int64 arrays
        Days are relative to the first day of observation of the case.
    number : (m,) int64 array
        Number of the era within its group, from 0.
    """

    group: NDArray
    first: NDArray
    last: NDArray
    number: NDArray

    def take(self, rows: NDArray) -> Eras:
        """Select rows."""
        return Eras(self.group[rows], self.first[rows], self.last[rows], self.number[rows])

    def following(self) -> NDArray:
        """Return the first day of the next era of the group; a day beyond all others if none."""
        found = np.full(len(self.group), np.iinfo(np.int64).max)
        same = self.group[1:] == self.group[:-1]
        found[:-1][same] = self.first[1:][same]
        return found


@dataclass(frozen=True)
class WindowRules:
    """The window of each era, or of all eras.

    Attributes
    ----------
    start, end : int or (m,) int arrays
        Offsets in days of the first and last day.
    start_at_end, end_at_end : bool or (m,) bool arrays
        Whether an offset is relative to the era's last day.
    """

    start: int | NDArray
    end: int | NDArray
    start_at_end: bool | NDArray
    end_at_end: bool | NDArray


def join_eras(group: NDArray, first: NDArray, last: NDArray, gap: int | None = 0) -> Eras:
    """Join the eras of each group that overlap or touch, or have a few days between them.

    Parameters
    ----------
    gap : int, optional
        Largest number of days between eras that are joined. None joins only eras that begin on the
        same day.
    """
    order = np.lexsort((last, first, group))
    group, first, last = (x[order].astype(np.int64) for x in (group, first, last))
    if not len(group):
        return Eras(group, first, last, group)
    new = np.ones(len(group), bool)
    same = group[1:] == group[:-1]
    if gap is None:
        new[1:] = ~(same & (first[1:] == first[:-1]))
    else:
        # The latest end so far of the group: ends of earlier groups are below any of its days.
        lowest = int(min(first.min(), last.min()))
        span = int(max(first.max(), last.max())) - lowest + 1
        heads = np.flatnonzero(np.concatenate([[True], ~same]))
        shift = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(group))) * span
        reach = np.maximum.accumulate(last - lowest + shift) - shift + lowest
        new[1:] = ~same | (first[1:] > reach[:-1] + 1 + gap)
    at = np.flatnonzero(new)
    joined = group[at]
    head = np.searchsorted(joined, joined, side="left")
    return Eras(joined, first[at], np.maximum.reduceat(last, at), np.arange(len(at)) - head)


def window_spans(
    eras: Eras, following: NDArray, rules: WindowRules, start: NDArray, end: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """Return the era, the first and the last day of each window within the time that counts.

    Parameters
    ----------
    following : (m,) int array
        First day of the next era, before which a window ends.
    start, end : (m,) int arrays
        First and last day that count of the case of each era.
    """
    low = np.where(rules.start_at_end, eras.last, eras.first) + rules.start
    high = np.minimum(np.where(rules.end_at_end, eras.last, eras.first) + rules.end, following - 1)
    kept = np.flatnonzero((high >= low) & (high >= start) & (low <= end))
    return kept, np.maximum(low[kept], start[kept]), np.minimum(high[kept], end[kept])
