"""Counting pairs in order of time with a Fenwick tree of weights over ranks."""

from __future__ import annotations

import numpy as np
from numba import njit

from .sparse import OPTIONS

__all__ = ["count_pairs"]

EXACT = {**OPTIONS, "fastmath": False}


@njit(**EXACT)
def _add(tree, i, x):
    i += 1
    while i < len(tree):
        tree[i] += x
        i += i & -i


@njit(**EXACT)
def _below(tree, i):
    """Sum over ranks < i."""
    s = 0.0
    while i > 0:
        s += tree[i]
        i -= i & -i
    return s


@njit(**EXACT)
def count_pairs(rank, weight, joins, join_end, leaves, leave_end, events, event_end, size, out):
    """Weights of concordant, discordant and tied pairs of each event with those at risk.

    For group g of tied events ``events[event_end[g-1]:event_end[g]]`` the rows at risk without
    them are those joined up to ``join_end[g]`` less those gone up to ``leave_end[g]``. A pair is
    concordant where the row that outlives has the lower rank. ``out`` (3,) is added to.
    """
    tree = np.zeros(size + 1)
    exact = np.zeros(size)
    total = 0.0
    j = k = e = 0
    for g in range(len(event_end)):
        while j < join_end[g]:
            i = joins[j]
            _add(tree, rank[i], weight[i])
            exact[rank[i]] += weight[i]
            total += weight[i]
            j += 1
        while k < leave_end[g]:
            i = leaves[k]
            _add(tree, rank[i], -weight[i])
            exact[rank[i]] -= weight[i]
            total -= weight[i]
            k += 1
        while e < event_end[g]:
            i = events[e]
            lower, same = _below(tree, rank[i]), exact[rank[i]]
            out[0] += weight[i] * lower
            out[1] += weight[i] * (total - lower - same)
            out[2] += weight[i] * same
            e += 1
