"""Blocks of strongly coupled coordinates and their Cholesky factors, for preconditioners.

Each of several replicates has a subset of the coordinates. The Cholesky factor of its part of a
block is packed by rows, and the rows are contiguous.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.unchecked_indexing import entry, put

__all__ = [
    "block_squares",
    "column_squares",
    "factor_blocks",
    "matrix_squares",
    "merge",
    "solve_blocks",
    "strong_column_pairs",
    "strong_pairs",
]

# The number of entries of a row that are tested together.
TOGETHER = 64


@njit(**OPTIONS)
def _take_strong(work, i, size, least, count, pairs, strength):
    """Store the pairs of i and earlier coordinates with scaled values above ``least``."""
    scale = size[i]
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
def strong_pairs(G, Y, size, a, b, least, work, pairs, strength):
    """Find pairs (i, j), j < i, with |A_ij| > ``least`` in units of their sizes, a ≤ i < b.

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
        The number of pairs, or the capacity plus one if it is exceeded.
    """
    m, count = len(Y), 0
    for i in range(a, b):
        if size[i] == 0.0:
            continue
        row = G[i]
        for j in range(i):
            work[j] = row[j]
        for q in range(m):
            y = Y[q, i]
            for j in range(i):
                work[j] -= y * Y[q, j]
        count = _take_strong(work, i, size, least, count, pairs, strength)
        if count > len(strength):
            return count
    return count


@njit(**OPTIONS)
def strong_column_pairs(
    starts, ends, indices, data, row_starts, row_ends, row_columns, row_data, v, V, c, size,
    a0, a1, least, work, pairs, strength,
):  # fmt: skip
    """Find such pairs of X' diag(v) X + V' diag(c) V from the columns and rows of X.

    Parameters
    ----------
    starts, ends, indices, data, row_starts, row_ends, row_columns, row_data : arrays
        Columns of X, and the same entries by rows, columns ascending.
    v, V, c : (n,), (M, k) and (M,) arrays
    a0, a1 : int
        The columns to pair with earlier ones.
    """
    count = 0
    for a in range(a0, a1):
        if size[a] == 0.0:
            continue
        for j in range(a):
            work[j] = 0.0
        for k in range(starts[a], ends[a]):
            i = entry(indices, k)
            x = v[i] if data.size == 0 else v[i] * data[k]
            for e in range(row_starts[i], row_ends[i]):
                j = entry(row_columns, e)
                if j >= a:
                    break
                put(work, j, entry(work, j) + (x if data.size == 0 else x * row_data[e]))
        for q in range(len(c)):
            u = c[q] * V[q, a]
            for j in range(a):
                work[j] += u * V[q, j]
        count = _take_strong(work, a, size, least, count, pairs, strength)
        if count > len(strength):
            return count
    return count


@njit(**OPTIONS)
def column_squares(
    starts, ends, indices, data, v, V, c, size, members, begins, b0, b1, at, z, squares
):  # fmt: skip
    """Compute correlations under X' diag(v) X + V' diag(c) V within the blocks b0 … b1 − 1.

    Parameters
    ----------
    members, begins : int arrays
        The columns, block by block.
    at : (blocks,) int array
        Where each block's square begins in ``squares``, which is written below its diagonal too.
    z : (n,) array
        Zeros to work in, which are zeros again.
    """
    for b in range(b0, b1):
        n = begins[b + 1] - begins[b]
        for s in range(n):
            a = members[begins[b] + s]
            squares[at[b] + s * n + s] = 1.0
            for k in range(starts[a], ends[a]):
                i = entry(indices, k)
                z[i] = v[i] if data.size == 0 else v[i] * data[k]
            for t in range(s):
                o = members[begins[b] + t]
                value = 0.0
                for q in range(len(c)):
                    value += c[q] * V[q, a] * V[q, o]
                if data.size == 0:
                    for k in range(starts[o], ends[o]):
                        value += entry(z, entry(indices, k))
                else:
                    for k in range(starts[o], ends[o]):
                        value += data[k] * entry(z, entry(indices, k))
                value *= size[a] * size[o]
                squares[at[b] + s * n + t] = value
                squares[at[b] + t * n + s] = value
            for k in range(starts[a], ends[a]):
                z[entry(indices, k)] = 0.0


@njit(**OPTIONS)
def matrix_squares(G, Y, members, starts, c0, c1, at, squares):
    """Extract the lower triangles of G − Y'Y for the blocks c0 … c1 − 1."""
    for c in range(c0, c1):
        n = starts[c + 1] - starts[c]
        for s in range(n):
            i = members[starts[c] + s]
            for t in range(s + 1):
                j = members[starts[c] + t]
                value = np.float64(G[i, j])
                for q in range(len(Y)):
                    value -= Y[q, i] * Y[q, j]
                squares[at[c] + s * n + t] = value


@njit(**OPTIONS)
def block_squares(known, first, width, place, size, members, starts, c0, c1, at, squares):
    """Extract the triangles from stored squares of whole blocks in units of ``size``.

    The square of coordinate i begins at ``first[i]`` in ``known``, with ``width[i]`` rows, of which
    it is ``place[i]``.
    """
    for c in range(c0, c1):
        n = starts[c + 1] - starts[c]
        for s in range(n):
            i = members[starts[c] + s]
            for t in range(s + 1):
                j = members[starts[c] + t]
                value = known[first[i] + place[i] * width[i] + place[j]]
                squares[at[c] + s * n + t] = value * size[i] * size[j]


@njit(**OPTIONS)
def _root(parent, i):
    """Find the coordinate that represents the block of i, and shorten the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(**OPTIONS)
def merge(pairs, order, parent, count, most):
    """Merge the blocks of pairs, in the given order, if the result has at most ``most``.

    Parameters
    ----------
    parent : (k,) int array
        Parent of each coordinate in the tree of its block (union-find), and of a root itself;
        on return, the root of each coordinate.
    count : (k,) int array
        Number of coordinates of each block, at its root; updated.
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
def factor_blocks(squares, at, starts, c0, c1, where, support, ridge, least, places, L, local):
    """Compute the Cholesky factors of each replicate's part of the blocks c0 … c1 − 1 into L.

    Parameters
    ----------
    squares, at : (entries,) and (blocks,) arrays
        The blocks' matrices up to their diagonals, and where each begins.
    starts, where : int arrays
        Where each block begins in ``where``, the rows of ``support`` and ``ridge`` (k, B).
    least : float
        Smallest pivot, as a share of the diagonal entry, because columns may be equal. Below minus
        this share, which only rounding can cause, the coordinate is decoupled from the others.
    places : (blocks, B) int array
        Positions in L at which the factors begin.
    local : int array
        Work space with the length of the largest block.
    """
    B = support.shape[1]
    for c in range(c0, c1):
        width = starts[c + 1] - starts[c]
        for b in range(B):
            n, line = 0, places[c, b]
            for t in range(width):
                row = where[starts[c] + t]
                if not support[row, b]:
                    continue
                local[n] = t
                for s in range(n + 1):
                    value = squares[at[c] + t * width + local[s]]
                    if s == n:
                        value += ridge[row, b]
                    whole = value
                    above = places[c, b] + s * (s + 1) // 2
                    for r in range(s):
                        value -= L[line + r] * L[above + r]
                    if s < n:
                        L[line + s] = value / L[above + s]
                    elif value > -least * whole:
                        L[line + s] = np.sqrt(max(value, least * whole))
                    else:  # rounding: others cannot explain more than the whole column
                        L[line : line + s] = 0.0
                        L[line + s] = np.sqrt(whole)
                n += 1
                line += n


@njit(**OPTIONS)
def solve_blocks(starts, where, support, places, L, r, z, local):
    """Compute z = (LL')⁻¹ r for the coordinates of each replicate; others stay unchanged.

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
