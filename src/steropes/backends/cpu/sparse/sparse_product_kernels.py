"""Kernels of products with sparse rows or columns, in blocks of replicates, and of Gram matrices.

A matrix comes as ``starts, ends, indices, data``: line `a` (a row of CSR or a column of CSC) has
its nonzeros at ``indices[starts[a]:ends[a]]``; ``data`` is empty when they all are one. Replicates
have the shape ``(·, B/8, 8)`` (or ``(·, 1, 4)``): eight doubles are one cache line and one AVX-512
register, so a nonzero costs one load for eight fits if their block is aligned to a cache line.
Four-fold unrolling breaks the chain of dependent additions, which otherwise limits the speed.

Sums over many lines are computed in blocks, because a plain sum of a million similar numbers is
wrong by a hundred thousand roundings (see `compensated_sums`). Long lines are split
(`Lines.in_pieces`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.simd_registers import add, add_scaled, load, store, zero
from ..compilation.unchecked_indexing import entry, put

__all__ = [
    "csc_to_csr",
    "cut_lines",
    "gather",
    "gather4",
    "gather8",
    "gather12",
    "gram",
    "scatter",
    "scatter4",
    "scatter8",
    "scatter12",
    "scatter_runs",
]


# One line in this many must have an entry in a stripe for all lines to be scanned.
FULL = 4


@njit(**OPTIONS)
def gather(starts, ends, indices, data, D, out, a0, a1):
    """out[a] += Σ_k data[k] D[indices[k]] for the lines a0 … a1.

    Four sums keep the loop from being turned into gather instructions, which are twice as slow.
    """
    for a in range(a0, a1):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        k, e = starts[a], ends[a]
        if data.size == 0:
            while k + 4 <= e:
                s0 += entry(D, entry(indices, k))
                s1 += entry(D, entry(indices, k + 1))
                s2 += entry(D, entry(indices, k + 2))
                s3 += entry(D, entry(indices, k + 3))
                k += 4
            while k < e:
                s0 += entry(D, entry(indices, k))
                k += 1
        else:
            while k + 4 <= e:
                s0 += entry(data, k) * entry(D, entry(indices, k))
                s1 += entry(data, k + 1) * entry(D, entry(indices, k + 1))
                s2 += entry(data, k + 2) * entry(D, entry(indices, k + 2))
                s3 += entry(data, k + 3) * entry(D, entry(indices, k + 3))
                k += 4
            while k < e:
                s0 += entry(data, k) * entry(D, entry(indices, k))
                k += 1
        out[a] += (s0 + s1) + (s2 + s3)


def _gather(Q):
    """Make the kernel for replicates in blocks of Q."""

    @njit(**OPTIONS)
    def gather_block(starts, ends, indices, data, D, out, a0, a1):
        for a in range(a0, a1):
            for b in range(D.shape[1]):
                s0, s1, s2, s3 = zero(Q), zero(Q), zero(Q), zero(Q)
                k, e = starts[a], ends[a]
                if data.size == 0:
                    while k + 4 <= e:
                        s0 = add(s0, load(D, entry(indices, k), b, Q))
                        s1 = add(s1, load(D, entry(indices, k + 1), b, Q))
                        s2 = add(s2, load(D, entry(indices, k + 2), b, Q))
                        s3 = add(s3, load(D, entry(indices, k + 3), b, Q))
                        k += 4
                    while k < e:
                        s0 = add(s0, load(D, entry(indices, k), b, Q))
                        k += 1
                else:
                    while k + 2 <= e:
                        s0 = add_scaled(s0, entry(data, k), load(D, entry(indices, k), b, Q))
                        i = entry(indices, k + 1)
                        s1 = add_scaled(s1, entry(data, k + 1), load(D, i, b, Q))
                        k += 2
                    while k < e:
                        s0 = add_scaled(s0, entry(data, k), load(D, entry(indices, k), b, Q))
                        k += 1
                store(out, a, b, add(load(out, a, b, Q), add(add(s0, s1), add(s2, s3))))

    return gather_block


gather4, gather8 = _gather(4), _gather(8)


@njit(**OPTIONS)
def gather12(starts, ends, indices, data, T8, T4, out, a0, a1):
    """out[a] = Σ_k data[k] D[indices[k]] of twelve replicates for the lines a0 … a1.

    D is in the first twelve of sixteen columns that begin with a cache line, seen as T8 (·, 2, 8)
    and as T4 (·, 4, 4): its rows are a whole number of lines, and indices are read once. ``out``
    is (lines, 3, 4). Each replicate's sums are added as in other blocks, to the last bit.
    """
    for a in range(a0, a1):
        s0, s1, s2, s3 = zero(8), zero(8), zero(8), zero(8)
        t0, t1, t2, t3 = zero(4), zero(4), zero(4), zero(4)
        k, e = starts[a], ends[a]
        if data.size == 0:
            while k + 4 <= e:
                i, j = entry(indices, k), entry(indices, k + 1)
                s0, t0 = add(s0, load(T8, i, 0, 8)), add(t0, load(T4, i, 2, 4))
                s1, t1 = add(s1, load(T8, j, 0, 8)), add(t1, load(T4, j, 2, 4))
                i, j = entry(indices, k + 2), entry(indices, k + 3)
                s2, t2 = add(s2, load(T8, i, 0, 8)), add(t2, load(T4, i, 2, 4))
                s3, t3 = add(s3, load(T8, j, 0, 8)), add(t3, load(T4, j, 2, 4))
                k += 4
            while k < e:
                i = entry(indices, k)
                s0, t0 = add(s0, load(T8, i, 0, 8)), add(t0, load(T4, i, 2, 4))
                k += 1
        else:
            while k + 2 <= e:
                i, j = entry(indices, k), entry(indices, k + 1)
                x, y = entry(data, k), entry(data, k + 1)
                s0 = add_scaled(s0, x, load(T8, i, 0, 8))
                t0 = add_scaled(t0, x, load(T4, i, 2, 4))
                s1 = add_scaled(s1, y, load(T8, j, 0, 8))
                t1 = add_scaled(t1, y, load(T4, j, 2, 4))
                k += 2
            while k < e:
                i, x = entry(indices, k), entry(data, k)
                s0 = add_scaled(s0, x, load(T8, i, 0, 8))
                t0 = add_scaled(t0, x, load(T4, i, 2, 4))
                k += 1
        store(out, a, 0, add(add(s0, s1), add(s2, s3)))
        store(out, a, 2, add(add(t0, t1), add(t2, t3)))


@njit(**OPTIONS)
def scatter(starts, ends, indices, data, R, out, a0, a1, own, block):
    """out[indices[k]] += data[k] R[a] over the lines a0 … a1.

    The sums of every ``block`` lines are made in ``own``, which is like ``out``, and zero before
    and after; where there is one block only ``own`` is ``out``.
    """
    for first in range(a0, a1, block):
        for a in range(first, min(first + block, a1)):
            r = R[a]
            if data.size == 0:
                for k in range(starts[a], ends[a]):
                    i = entry(indices, k)
                    put(own, i, entry(own, i) + r)
            else:
                for k in range(starts[a], ends[a]):
                    i = entry(indices, k)
                    put(own, i, entry(own, i) + entry(data, k) * r)
        if a1 - a0 > block:
            for i in range(len(out)):
                out[i] += own[i]
                own[i] = 0.0


@njit(**OPTIONS)
def scatter_runs(starts, ends, indices, data, u, pointers, out, s0, s1):
    """`scatter` over the lines of each run s0 … s1, which pointers (runs + 1,) cut, to out[s]."""
    for s in range(s0, s1):
        a0, a1 = pointers[s], pointers[s + 1]
        scatter(starts, ends, indices, data, u, out[s], a0, a1, out[s], max(a1 - a0, 1))


def _scatter(Q):
    """Make the kernel for blocks of Q replicates, which keep a line's values in a register."""

    @njit(**OPTIONS)
    def scatter_block(starts, ends, indices, data, R, out, a0, a1, own, block):
        for first in range(a0, a1, block):
            for a in range(first, min(first + block, a1)):
                for b in range(R.shape[1]):
                    r = load(R, a, b, Q)
                    if data.size == 0:
                        for k in range(starts[a], ends[a]):
                            i = entry(indices, k)
                            store(own, i, b, add(load(own, i, b, Q), r))
                    else:
                        for k in range(starts[a], ends[a]):
                            i = entry(indices, k)
                            store(own, i, b, add_scaled(load(own, i, b, Q), entry(data, k), r))
            if a1 - a0 > block:
                for i in range(len(out)):
                    for b in range(out.shape[1]):
                        store(out, i, b, add(load(out, i, b, Q), load(own, i, b, Q)))
                        store(own, i, b, zero(Q))

    return scatter_block


scatter4, scatter8 = _scatter(4), _scatter(8)


@njit(**OPTIONS)
def scatter12(starts, ends, indices, data, R, T8, T4, a0, a1, own8, own4, block):
    """Add data[k] R[a] to row indices[k] of a result seen as T8 and T4, as in `gather12`.

    R is (lines, 3, 4); ``own8``, ``own4`` and ``block`` are as in `scatter`.
    """
    for first in range(a0, a1, block):
        for a in range(first, min(first + block, a1)):
            r, t = load(R, a, 0, 8), load(R, a, 2, 4)
            if data.size == 0:
                for k in range(starts[a], ends[a]):
                    i = entry(indices, k)
                    store(own8, i, 0, add(load(own8, i, 0, 8), r))
                    store(own4, i, 2, add(load(own4, i, 2, 4), t))
            else:
                for k in range(starts[a], ends[a]):
                    i, x = entry(indices, k), entry(data, k)
                    store(own8, i, 0, add_scaled(load(own8, i, 0, 8), x, r))
                    store(own4, i, 2, add_scaled(load(own4, i, 2, 4), x, t))
        if a1 - a0 > block:
            for i in range(len(T8)):
                store(T8, i, 0, add(load(T8, i, 0, 8), load(own8, i, 0, 8)))
                store(T4, i, 2, add(load(T4, i, 2, 4), load(own4, i, 2, 4)))
                store(own8, i, 0, zero(8))
                store(own4, i, 2, zero(4))


@njit(**OPTIONS)
def _first_from(indices, s, e, row):
    """Find the first position from s to e with an index of at least ``row``."""
    while s < e:
        m = (s + e) >> 1
        if entry(indices, m) < row:
            s = m + 1
        else:
            e = m
    return s


@njit(**OPTIONS)
def gram(starts, ends, indices, data, v, G, cuts, at, line, upto):
    """G[b, a] += Σ_i v_i x_ia x_ib for a ≤ b and cuts[0] ≤ b < cuts[-1].

    The indices of each line must increase. The stripe of G between two cuts stays in the cache
    while all lines are added to it in order, so that the sums do not depend on the thread of a
    stripe. ``at`` (lines,) counts the entries of each line that are done. Where most lines have no
    entry in a stripe, the entries of several lines are sorted by stripe first; their number is
    limited by the lengths of ``line`` and ``upto``, which hold at least one line.
    """
    n, b0, b1, stripes = len(starts), cuts[0], cuts[-1], len(cuts) - 1
    total = 0
    for i in range(n):
        lo, hi = starts[i], ends[i]
        s = hi
        if v[i] != 0.0 and hi > lo and entry(indices, hi - 1) >= b0:
            s = _first_from(indices, lo, hi, b0)
        at[i] = s - lo
        total += hi - s
    if FULL * total + 2 * n > n * stripes:
        for c in range(1, len(cuts)):
            b1 = cuts[c]
            for i in range(n):
                lo, hi = starts[i], ends[i]
                s = lo + at[i]
                if s >= hi or entry(indices, s) >= b1:
                    continue
                if data.size == 0:
                    x = v[i]
                    while s < hi and entry(indices, s) < b1:
                        row = G[entry(indices, s)]
                        for k in range(lo, s + 1):
                            j = entry(indices, k)
                            put(row, j, entry(row, j) + x)
                        s += 1
                else:
                    while s < hi and entry(indices, s) < b1:
                        row = G[entry(indices, s)]
                        x = v[i] * entry(data, s)
                        for k in range(lo, s + 1):
                            j = entry(indices, k)
                            put(row, j, entry(row, j) + x * entry(data, k))
                        s += 1
                at[i] = s - lo
        return
    stripe, begin = np.empty(b1 - b0, np.int32), np.empty(len(cuts) + 1, np.int64)
    for c in range(1, len(cuts)):
        stripe[cuts[c - 1] - b0 : cuts[c] - b0] = c
    first = 0
    while first < n:
        begin[:] = 0
        last, total = first, 0
        while last < n and total + ends[last] - starts[last] - at[last] <= len(line):
            s, hi = starts[last] + at[last], ends[last]
            while s < hi and entry(indices, s) < b1:
                begin[stripe[entry(indices, s) - b0] + 1] += 1
                total += 1
                s += 1
            last += 1
        for c in range(1, len(begin)):
            begin[c] += begin[c - 1]
        for i in range(first, last):
            lo, hi = starts[i], ends[i]
            s = lo + at[i]
            while s < hi and entry(indices, s) < b1:
                to = begin[stripe[entry(indices, s) - b0]]
                begin[stripe[entry(indices, s) - b0]] = to + 1
                line[to], upto[to] = i, s - lo
                s += 1
        for e in range(total):
            i = line[e]
            lo, s = starts[i], starts[i] + upto[e]
            row = G[entry(indices, s)]
            if data.size == 0:
                x = v[i]
                for k in range(lo, s + 1):
                    j = entry(indices, k)
                    put(row, j, entry(row, j) + x)
            else:
                x = v[i] * entry(data, s)
                for k in range(lo, s + 1):
                    j = entry(indices, k)
                    put(row, j, entry(row, j) + x * entry(data, k))
        first = last


@njit(**OPTIONS)
def csc_to_csr(
    starts, ends, indices, data, position, locals_, cursor, out_indices, out_data, r0, r1
):
    """Turn chosen columns into rows in the model's order; rows at position -1 are left out.

    ``cursor[r]`` is where row r's next entry goes. Columns are taken in the order given, which
    must be that of ``locals_``, so the entries of each row come out sorted. Only the rows
    r0 … r1 of X are taken, few enough that their cursors stay in the cache. Without anywhere to
    write to, entries are counted: by the same function, as each takes its time to compile.
    """
    writes = out_indices.size != 0
    for a in range(len(starts)):
        j = locals_[a]
        for k in range(_first_from(indices, starts[a], ends[a], r0), ends[a]):
            i = entry(indices, k)
            if i >= r1:
                break
            r = entry(position, i)
            if r >= 0:
                at = entry(cursor, r)
                if writes:
                    put(out_indices, at, j)
                if out_data.size != 0:
                    put(out_data, at, 1.0 if data.size == 0 else entry(data, k))
                put(cursor, r, at + 1)


@njit(**OPTIONS)
def cut_lines(starts, ends, indices, edges, cuts):
    """Find the first position cuts[c, a] at which line a's ascending indices reach edges[c]."""
    for a in range(len(starts)):
        at = starts[a]
        for c in range(len(edges)):
            at = _first_from(indices, at, ends[a], edges[c])
            cuts[c, a] = at
