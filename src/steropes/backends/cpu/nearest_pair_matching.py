"""Greedy matching of the nearest people of two arms on a line."""

from __future__ import annotations

import numpy as np
from numba import njit

from .compilation.kernel_compiler_options import OPTIONS

__all__ = ["match_nearest", "sort_equal"]


@njit(**OPTIONS)
def sort_equal(order, value, arm, rank):
    """Sort people of equal value and arm by rank.

    ``order`` has positions of people sorted by value, then by arm. Returns a sorted copy.
    """
    n = len(order)
    found = order.copy()
    first = 0
    for i in range(1, n + 1):
        if i < n:
            a, b = order[first], order[i]
            if value[a] == value[b] and arm[a] == arm[b]:
                continue
        if i - first > 1:
            run = order[first:i]
            found[first:i] = run[np.argsort(rank[run])]
        first = i
    return found


@njit(**OPTIONS)
def match_nearest(value, arm, rank, width):
    """Match the nearest treated and comparator people until none are within ``width``.

    The input is sorted by value, then by arm, then by rank, and ranks are distinct. Pairs at equal
    distances are matched in the order of their treated, then of their comparator ranks. Returns
    the pairs as (treated, comparator) positions.

    People of equal value are matched first, which leaves groups of equal value and of one arm.
    Adjacent groups of one arm form a run; in each group the next person has the smallest rank.
    A nearest pair always consists of the last group of a run and the first group of the next one.
    The loop moves to the right as long as the next pair of runs is nearer, and matches where it is
    not: such a pair is nearer than any other of its two people, so that the greedy algorithm
    matches it, too, whatever it matches before. As pairs of runs further left are unchanged,
    the loop continues next to them, and takes O(n) steps in all.
    """
    n = len(value)
    pairs = np.empty((n // 2, 2), np.int64)
    where, stop = np.empty(n, np.int64), np.empty(n, np.int64)  # The unmatched of each group.
    k, m, i = 0, 0, 0
    while i < n:
        middle = i
        while middle < n and value[middle] == value[i] and arm[middle] == 0:
            middle += 1
        end = middle
        while end < n and value[end] == value[i]:
            end += 1
        both = min(middle - i, end - middle)
        for j in range(both):
            pairs[k, 0], pairs[k, 1] = middle + j, i + j
            k += 1
        if i + both < middle:
            where[m], stop[m] = i + both, middle
            m += 1
        elif middle + both < end:
            where[m], stop[m] = middle + both, end
            m += 1
        i = end

    # Groups of a run are linked by ``before`` and ``after``, and runs by ``left`` and ``right``.
    before, after = np.arange(-1, m - 1), np.arange(1, m + 1)
    first, last = np.empty(m, np.int64), np.empty(m, np.int64)
    runs = 0
    for g in range(m):
        if g == 0 or arm[where[g]] != arm[where[g - 1]]:
            first[runs] = g
            runs += 1
        last[runs - 1] = g
    left, right = np.arange(-1, runs - 1), np.arange(1, runs + 1)
    r = 0 if runs else -1
    if runs:
        right[runs - 1] = -1
    while r >= 0 and right[r] >= 0:
        s = right[r]
        t = right[s]
        g, h = last[r], first[s]
        x, y = where[g], where[h]
        if value[y] - value[x] > width or (
            t >= 0 and _nearer(where[last[s]], where[first[t]], x, y, value, arm, rank)
        ):
            r = s
            continue
        pairs[k, 0], pairs[k, 1] = (x, y) if arm[x] else (y, x)
        k += 1
        where[g] += 1
        where[h] += 1
        if where[g] == stop[g]:
            first[r], last[r] = (-1, -1) if first[r] == g else (first[r], before[g])
        if where[h] == stop[h]:
            first[s], last[s] = (-1, -1) if last[s] == h else (after[h], last[s])
        # Used-up runs are removed, and the runs on both sides of a single one become one run.
        c = left[r] if left[r] >= 0 else r  # The first run that may have a new pair on its right.
        if first[r] < 0:
            c = left[r]
            if first[s] < 0:
                _link(c, t, left, right)
            elif c < 0:
                left[s] = -1
            else:
                _join(c, s, before, after, first, last, left, right)
            if c < 0:
                c = t if first[s] < 0 else s
        elif first[s] < 0:
            _join(r, t, before, after, first, last, left, right)
        r = left[c] if c >= 0 and left[c] >= 0 else c
    return pairs[:k]


@njit(inline="always", **OPTIONS)
def _nearer(a, b, x, y, value, arm, rank):
    """Check whether positions a and b, of two arms, are matched before x and y."""
    one, other = value[b] - value[a], value[y] - value[x]
    if one != other:
        return one < other
    if not arm[a]:
        a, b = b, a
    if not arm[x]:
        x, y = y, x
    return rank[a] < rank[x] or (rank[a] == rank[x] and rank[b] < rank[y])


@njit(inline="always", **OPTIONS)
def _link(q, t, left, right):
    """Make two runs neighbours; −1 is the end of the line."""
    if q >= 0:
        right[q] = t
    if t >= 0:
        left[t] = q


@njit(inline="always", **OPTIONS)
def _join(r, t, before, after, first, last, left, right):
    """Append the groups of run t to run r; −1 is the end of the line."""
    if t < 0:
        right[r] = -1
        return
    after[last[r]], before[first[t]] = first[t], last[r]
    last[r] = last[t]
    _link(r, right[t], left, right)
