"""Counts of concordant and discordant pairs by a Fenwick tree of weights over ranks."""

from __future__ import annotations

import numpy as np
from numba import njit

from .compilation.kernel_compiler_options import OPTIONS

__all__ = ["count_pairs"]

EXACT = {**OPTIONS, "fastmath": False}


@njit(**EXACT)
def _add(tree, i, x):
    """Add x at position i of the Fenwick tree."""
    i += 1
    while i < len(tree):
        tree[i] += x
        i += i & -i


@njit(**EXACT)
def _below(tree, i):
    """Sum the weights of ranks below i."""
    s = 0.0
    while i > 0:
        s += tree[i]
        i -= i & -i
    return s


@njit(**EXACT)
def _outlived(had, had_exact, had_total, rank, sign, out):
    """Add or subtract the weights of earlier events for a row that outlives them."""
    lower, same = _below(had, rank), had_exact[rank]
    out[0] += sign * (had_total - lower - same)
    out[1] += sign * lower
    out[2] += sign * same


@njit(**EXACT)
def count_pairs(
    rank, weight, share, joins, join_end, leaves, leave_end, events, event_end, size, out
):
    """Sum the weights of each row's partners in concordant, discordant and tied pairs.

    For group g of tied events ``events[event_end[g-1]:event_end[g]]`` the rows at risk without
    them are those joined up to ``join_end[g]`` less those gone up to ``leave_end[g]``. A pair is
    concordant where the row that outlives has the lower rank, and counts ``share`` of the row with
    the event. ``out`` (n, 3) is added to.
    """
    tree, had = np.zeros(size + 1), np.zeros(size + 1)  # of those at risk, and of events so far
    exact, had_exact = np.zeros(size), np.zeros(size)
    total = had_total = 0.0
    inside = np.zeros(len(rank), np.bool_)
    j = k = e = 0
    for g in range(len(event_end)):
        while j < join_end[g]:
            i = joins[j]
            _add(tree, rank[i], weight[i])
            exact[rank[i]] += weight[i]
            total += weight[i]
            inside[i] = True
            _outlived(had, had_exact, had_total, rank[i], -1.0, out[i])
            j += 1
        while k < leave_end[g]:
            i = leaves[k]
            _add(tree, rank[i], -weight[i])
            exact[rank[i]] -= weight[i]
            total -= weight[i]
            inside[i] = False
            _outlived(had, had_exact, had_total, rank[i], 1.0, out[i])
            k += 1
        first = e
        while e < event_end[g]:
            i = events[e]
            lower, same = _below(tree, rank[i]), exact[rank[i]]
            out[i, 0] += share[i] * lower
            out[i, 1] += share[i] * (total - lower - same)
            out[i, 2] += share[i] * same
            e += 1
        for f in range(first, e):
            i = events[f]
            _add(had, rank[i], share[i] * weight[i])
            had_exact[rank[i]] += share[i] * weight[i]
            had_total += share[i] * weight[i]
    for i in range(len(rank)):
        if inside[i]:
            _outlived(had, had_exact, had_total, rank[i], 1.0, out[i])
