"""Blocks of a symmetric matrix: coordinates that have much to do with each other, and systems of
each block by itself, for several replicates of which each has some of the coordinates.

Of a replicate's part of a block the Cholesky factor is packed by rows, ones of a row in a line.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .sparse import OPTIONS

__all__ = ["factor_blocks", "merge", "solve_blocks", "strong_pairs"]

TOGETHER = 64  # entries of a row that are looked at as one


@njit(**OPTIONS)
def strong_pairs(G, Y, size, a, b, least, work, pairs, strength):
    """Pairs (i, j) with |A_ij| > ``least`` in units of their sizes, i in a … b and j before i.

    Parameters
    ----------
    G, Y : (k, w) and (m, k) arrays
        A = G − Y'Y, as in `descend_panel`.
    size : (k,) array
        One over the square root of A's diagonal, zero where a coordinate is in no pair.
    work : (b,) array
        To work in.
    pairs, strength : (room, 2) int and (room,) arrays
        Written.

    Returns
    -------
    int
        How many there are, or one more than there is room for.
    """
    m, count = len(Y), 0
    for i in range(a, b):
        if size[i] == 0.0:
            continue
        row = G[i]
        scale = size[i]
        for j in range(i):
            work[j] = row[j]
        for q in range(m):
            y = Y[q, i]
            for j in range(i):
                work[j] -= y * Y[q, j]
        for j in range(i):
            work[j] = abs(work[j] * size[j]) * scale
        for start in range(0, i, TOGETHER):
            end = min(start + TOGETHER, i)
            most = 0.0
            for j in range(start, end):
                most = max(most, work[j])
            if most > least:
                for j in range(start, end):
                    if work[j] > least:
                        if count == len(strength):
                            return count + 1
                        pairs[count, 0] = i
                        pairs[count, 1] = j
                        strength[count] = work[j]
                        count += 1
    return count


@njit(**OPTIONS)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(**OPTIONS)
def merge(pairs, order, parent, count, most):
    """Join the blocks of pairs, in an order, where they have no more than ``most`` together.

    Parameters
    ----------
    parent : (k,) int array
        A coordinate of the same block, itself in one of them; updated: all have that one.
    count : (k,) int array
        Coordinates in a block, where its own one is; updated.
    """
    for t in order:
        i, j = _root(parent, pairs[t, 0]), _root(parent, pairs[t, 1])
        if i != j and count[i] + count[j] <= most:
            i, j = min(i, j), max(i, j)
            parent[j] = i
            count[i] += count[j]
    for i in range(len(parent)):
        parent[i] = _root(parent, i)


@njit(**OPTIONS)
def factor_blocks(G, Y, members, starts, c0, c1, where, support, ridge, least, places, L, local):
    """Cholesky factors of each replicate's part of the blocks c0 … c1, one after another in L.

    Parameters
    ----------
    members, starts : int arrays
        Coordinates of the matrix G − Y'Y, block by block,
    where : int array
        and the rows of ``support`` and ``ridge`` (k, B) that these are.
    least : float
        Share of its own that is left of a diagonal entry at least: columns may be equal. Where
        others explain more than all of it by as much, it is by itself.
    places : (blocks, B) int array
        Where each begins in L.
    local : int array
        To work in, as long as the largest block.
    """
    m, B = len(Y), support.shape[1]
    for c in range(c0, c1):
        for b in range(B):
            n, at = 0, places[c, b]
            for t in range(starts[c], starts[c + 1]):
                if not support[where[t], b]:
                    continue
                local[n] = t
                i = members[t]
                for s in range(n + 1):
                    j = members[local[s]]
                    value = np.float64(G[i, j])
                    for q in range(m):
                        value -= Y[q, i] * Y[q, j]
                    if s == n:
                        value += ridge[where[t], b]
                    whole = value
                    above = places[c, b] + s * (s + 1) // 2
                    for r in range(s):
                        value -= L[at + r] * L[above + r]
                    if s < n:
                        L[at + s] = value / L[above + s]
                    elif value > -least * whole:
                        L[at + s] = np.sqrt(max(value, least * whole))
                    else:  # of rounding: no others explain more of a column than there is
                        L[at : at + s] = 0.0
                        L[at + s] = np.sqrt(whole)
                n += 1
                at += n


@njit(**OPTIONS)
def solve_blocks(starts, where, support, places, L, r, z, local):
    """z = (LL')⁻¹ r of the blocks' coordinates that each replicate has; others are not touched.

    ``r`` and ``z`` are (k, B); the others as in `factor_blocks`.
    """
    B = r.shape[1]
    for c in range(len(starts) - 1):
        for b in range(B):
            n, at = 0, places[c, b]
            for t in range(starts[c], starts[c + 1]):
                i = where[t]
                if not support[i, b]:
                    continue
                value = r[i, b]
                for s in range(n):
                    value -= L[at + s] * z[local[s], b]
                z[i, b] = value / L[at + n]
                local[n] = i
                n += 1
                at += n
            for u in range(n - 1, -1, -1):
                at -= u + 1
                value = z[local[u], b] / L[at + u]
                z[local[u], b] = value
                for s in range(u):
                    z[local[s], b] -= L[at + s] * value
