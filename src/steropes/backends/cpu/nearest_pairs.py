"""Greedy matching of neighbours on a line by a heap of distances."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numba import njit

from .kernel_options import OPTIONS

__all__ = ["match_neighbours"]


@njit(**OPTIONS)
def match_neighbours(value, arm, row, first, width):
    """Match the nearest treated and comparator people until none are within ``width``.

    The input is sorted by value, and group g of equal values begins at ``first[g]`` and has people
    of one arm only, sorted by row. Pairs at equal distances are matched in the order of their
    treated rows, then of their comparator rows. Returns the pairs as (treated, comparator)
    positions.
    """
    m = len(first)
    where = first.copy()  # The next unmatched position of each group.
    stop = np.append(first[1:], len(value))
    before, after = np.arange(-1, m - 1), np.arange(1, m + 1)
    after[m - 1] = -1
    # Entries are (distance, treated row, comparator row, group, next group).
    heap = [(0.0, 0, 0, 0, 0) for _ in range(0)]
    for g in range(m - 1):
        h = g + 1
        distance = value[first[h]] - value[first[g]]
        if arm[first[g]] != arm[first[h]] and distance <= width:
            t, c = (g, h) if arm[first[g]] else (h, g)
            heap.append((distance, row[first[t]], row[first[c]], g, h))
    heapify(heap)
    pairs = np.empty((len(value) // 2, 2), np.int64)
    k = 0
    while len(heap):
        _, treated_row, comparator_row, g, h = heappop(heap)
        if where[g] == stop[g] or where[h] == stop[h]:
            continue
        t, c = (g, h) if arm[first[g]] else (h, g)
        if row[where[t]] == treated_row and row[where[c]] == comparator_row:
            pairs[k, 0], pairs[k, 1] = where[t], where[c]
            k += 1
            where[t] += 1
            where[c] += 1
            # The neighbours of groups that are used up meet.
            if where[h] == stop[h]:
                h = after[h]
                after[g] = h
                if h >= 0:
                    before[h] = g
            if where[g] == stop[g]:
                g = before[g]
                if h >= 0:
                    before[h] = g
                if g >= 0:
                    after[g] = h
        # A group's next person may differ from the one when the entry was added.
        if g >= 0 and h >= 0 and after[g] == h and arm[first[g]] != arm[first[h]]:
            distance = value[first[h]] - value[first[g]]
            if distance <= width:
                t, c = (g, h) if arm[first[g]] else (h, g)
                heappush(heap, (distance, row[where[t]], row[where[c]], g, h))
    return pairs[:k]
