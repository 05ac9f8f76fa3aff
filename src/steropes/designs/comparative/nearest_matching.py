"""Greedy matching of the closest pairs in several dimensions, and matching with replacement."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

__all__ = ["Neighbours", "closest_pairs", "match_with_replacement"]

# Number of neighbours that are looked up at first.
FIRST = 16
# Distances are compared after rounding to this share of the largest coordinate.
ROUNDING = 1e-10

Allowed = Callable[[int, NDArray], NDArray]


@dataclass
class Neighbours:
    """The people of one group in the order of their distance from a person of the other.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        Points whose Euclidean distances are the distances of people.
    others : ndarray of int, shape (m,)
        Rows of the people who are looked up.
    rank : ndarray, shape (n,)
        Distinct numbers that decide among equal distances.
    width : float
        Largest distance.
    allowed : callable, optional
        Maps a row and rows of others to whether they may be matched.
    """

    points: NDArray
    others: NDArray
    rank: NDArray
    width: float = np.inf
    allowed: Allowed | None = None

    def __post_init__(self) -> None:
        """Build the tree."""
        self.tree = cKDTree(self.points[self.others])
        self.unit = ROUNDING * max(float(np.abs(self.points).max(initial=0.0)), 1e-300)

    def of(self, row: int, number: int) -> tuple[NDArray, NDArray, bool]:
        """Return rounded distances and rows of the first people, and whether they are all.

        There are about ``number`` of them; all people at the last distance are among them.
        """
        number = min(number, len(self.others))
        distance, at = self.tree.query(self.points[row], k=[*range(1, number + 1)])
        complete = number == len(self.others) or distance[-1] > self.width
        inside = distance <= self.width
        key = np.round(distance[inside] / self.unit)
        rows = self.others[at[inside]]
        if not complete:  # Further people may be as far as the last one.
            sure = key < key[-1]
            if not sure.any():
                return self.of(row, 4 * number)
            key, rows = key[sure], rows[sure]
        if self.allowed is not None:
            fine = self.allowed(row, rows)
            key, rows = key[fine], rows[fine]
        order = np.lexsort((self.rank[rows], key))
        return key[order], rows[order], complete


def closest_pairs(rows: NDArray, neighbours: Neighbours) -> NDArray:
    """Match one to one, always the closest pair that is left, (pairs, 2) of rows.

    Parameters
    ----------
    rows : ndarray of int
        People who are matched to the neighbours' group.
    """
    rank, free = neighbours.rank, np.zeros(len(neighbours.points), dtype=bool)
    free[neighbours.others] = True
    lists: dict[int, tuple[NDArray, NDArray, bool, int]] = {}
    heap: list[tuple[float, int, int, int, int]] = []

    def push(row: int, position: int) -> None:
        """Put the next free neighbour of a person on the heap."""
        key, others, complete, number = lists[row]
        while True:
            left = np.flatnonzero(free[others[position:]])
            if len(left):
                at = position + int(left[0])
                entry = (float(key[at]), int(rank[row]), int(rank[others[at]]), row, at)
                heapq.heappush(heap, entry)
                return
            if complete:
                return
            number *= 4
            key, others, complete = neighbours.of(row, number)
            lists[row] = key, others, complete, number
            position = 0

    for row in map(int, rows):
        lists[row] = (*neighbours.of(row, FIRST), FIRST)
        push(row, 0)
    pairs = []
    while heap:
        _, _, _, row, at = heapq.heappop(heap)
        other = int(lists[row][1][at])
        if free[other]:
            free[other] = False
            pairs.append((row, other))
            del lists[row]
        else:
            push(row, at + 1)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def match_with_replacement(
    rows: NDArray, neighbours: Neighbours, number: int = 1, tie_tolerance: float = 0.0
) -> tuple[NDArray, NDArray, NDArray]:
    """Match each person to the nearest others, who may be matched again.

    All people as near as the last of the ``number`` nearest are matched, so that the order of
    rows does not matter; they share the weight of one person (Abadie and Imbens 2006).

    Parameters
    ----------
    rows : ndarray of int
        People who are matched to the neighbours' group.
    number : int
        Number of people to match to each.
    tie_tolerance : float
        Squared distances that differ by at most this much are equal.

    Returns
    -------
    rows, others : ndarray of int
        Rows of both people of each pair.
    weight : ndarray
        Share of the pair in the matches of the first person.
    """
    found: list[tuple[NDArray, NDArray, NDArray]] = []
    for row in map(int, rows):
        asked = max(FIRST, 2 * number)
        while True:
            key, others, complete = neighbours.of(row, asked)
            if len(others) >= number:
                limit = np.sqrt((key[number - 1] * neighbours.unit) ** 2 + tie_tolerance)
                last = np.round(limit / neighbours.unit)
                if complete or key[-1] > last:
                    own = others[key <= last]
                    break
            if complete:
                own = others
                break
            asked *= 4
        if len(own):
            share = np.full(len(own), 1.0 / len(own))
            found.append((np.full(len(own), row), own, share))
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, np.empty(0)
    first, second, share = zip(*found, strict=True)
    return np.concatenate(first), np.concatenate(second), np.concatenate(share)
