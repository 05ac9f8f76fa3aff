"""Weighted Gram matrices X'VX of sparse rows or columns, and of sums over groups of them.

Most pairs of entries in a row belong to a few frequent columns. For these, a dense single-precision
product is about thirty times cheaper per entry than additions at indirect addresses. Pairs of a
frequent and a rare column become sums of short dense rows, and only pairs of rare columns are added
individually. Sums of the first two kinds are rounded to single precision, which suffices for the
curvature of a Newton step but not for a standard error.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...thread_pool import ThreadPool, balanced_chunks
from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.unchecked_indexing import entry, put
from . import sparse_group_sums as groups
from . import sparse_product_kernels as sparse
from .cpu_chunk_sizes import CpuPolicy
from .sparse_lines import CHUNKS, Lines

__all__ = ["add_gram", "subtract_group_gram"]

# The number of rows that are transposed together.
BLOCK = 64


@njit(**OPTIONS)
def _count(starts, ends, indices, a0, a1, counts):
    """Add the number of entries in each column, over lines a0 … a1 − 1."""
    for a in range(a0, a1):
        for k in range(starts[a], ends[a]):
            j = entry(indices, k)
            put(counts, j, entry(counts, j) + 1)


@njit(**OPTIONS)
def _count_rare(starts, ends, indices, dense, a0, a1, counts):
    """Count the entries of rare columns, where ``dense`` is negative, in each line."""
    for a in range(a0, a1):
        c = 0
        for k in range(starts[a], ends[a]):
            c += entry(dense, entry(indices, k)) < 0
        counts[a] = c


@njit(**OPTIONS)
def _fill_rare(starts, ends, indices, data, dense, at, a0, a1, out, out_data):
    """Copy the entries of rare columns in lines a0 … a1 − 1 to their places ``at``."""
    for a in range(a0, a1):
        to = at[a]
        for k in range(starts[a], ends[a]):
            j = entry(indices, k)
            if entry(dense, j) < 0:
                put(out, to, j)
                if data.size != 0:
                    put(out_data, to, entry(data, k))
                to += 1


@njit(**OPTIONS)
def _fill_tiles(starts, ends, indices, data, dense, root, a0, a1, Z):
    """Fill Z[tile, row, column] with √v x of the frequent columns, and zero elsewhere."""
    width = Z.shape[2]
    Z[:, : a1 - a0] = 0.0
    for a in range(a0, a1):
        for k in range(starts[a], ends[a]):
            d = entry(dense, entry(indices, k))
            if d >= 0:
                x = root[a] if data.size == 0 else root[a] * entry(data, k)
                Z[d // width, a - a0, d % width] = x


@njit(**OPTIONS)
def _by_column(starts, ends, indices, data, root, a0, a1, k, begin, row, value):
    """Sort the rare entries of a block of rows by column: begin (k + 1,), row and √v x."""
    begin[:] = 0
    for a in range(a0, a1):
        for e in range(starts[a], ends[a]):
            j = entry(indices, e) + 1
            put(begin, j, entry(begin, j) + 1)
    for j in range(k):
        begin[j + 1] += begin[j]
    for a in range(a0, a1):
        for e in range(starts[a], ends[a]):
            j = entry(indices, e)
            at = entry(begin, j)
            put(row, at, a - a0)
            put(value, at, root[a] if data.size == 0 else root[a] * entry(data, e))
            put(begin, j, at + 1)
    for j in range(k, 0, -1):
        begin[j] = begin[j - 1]
    begin[0] = 0


@njit(**OPTIONS)
def _rare_times_tile(begin, row, value, j0, rare, Z, T):
    """Add Σ value Z[row] over the entries of the columns from j0 on to T[rare[j]]."""
    width = Z.shape[1]
    for j in range(j0, len(begin) - 1):
        if begin[j] == begin[j + 1]:
            continue
        t, e, end = T[rare[j]], begin[j], begin[j + 1]
        while e + 4 <= end:  # four rows at once: t is read and written a quarter as often
            z0, z1, z2, z3 = Z[row[e]], Z[row[e + 1]], Z[row[e + 2]], Z[row[e + 3]]
            x0, x1, x2, x3 = value[e], value[e + 1], value[e + 2], value[e + 3]
            for c in range(width):
                t[c] += (x0 * z0[c] + x1 * z1[c]) + (x2 * z2[c] + x3 * z3[c])
            e += 4
        while e < end:
            z0, x0 = Z[row[e]], value[e]
            for c in range(width):
                t[c] += x0 * z0[c]
            e += 1


@njit(**OPTIONS)
def _put(T, columns, frequent, scale, first, s0, s1, G):
    """Write products of rare and frequent columns to the lower triangle of G by blocks."""
    width = T.shape[2]
    for a in range(s0, s1, BLOCK):
        for d in range(len(frequent)):
            f, t, c = frequent[d], T[d // width], d % width
            for s in range(a, min(a + BLOCK, s1)):
                j = columns[s]
                if max(j, f) >= first:
                    if f > j:
                        G[f, j] = scale * t[s, c]
                    else:
                        G[j, f] = scale * t[s, c]


def small_gram(lines: Lines, v: np.ndarray, G: np.ndarray, first: int) -> None:
    """Compute `CpuBackend.gram` for few rows and columns without compiling a kernel."""
    counts = lines.ends - lines.starts
    row = np.repeat(np.arange(len(counts)), counts)
    at = np.arange(len(row)) + np.repeat(lines.starts - np.cumsum(counts) + counts, counts)
    Z = np.zeros((len(counts), len(G)))
    Z[row, lines.indices[at]] = lines.data[at] if lines.data.size else 1.0
    G[first:] += np.tril((Z[:, first:] * v[:, None]).T @ Z, first)


def split_gram(
    lines: Lines, v: np.ndarray, G: np.ndarray, first: int, pool: ThreadPool, policy: CpuPolicy
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Add the frequent columns' part of X' diag(v) X to the lower triangle of G.

    Parameters
    ----------
    lines : Lines
        X by rows.
    v : (n,) array
        At least zero.
    first : int
        First row of G to compute.

    Returns
    -------
    starts, ends, indices, data
        The entries of the rare columns, with pairs that remain to be added; None if nothing was
        done.
    """
    n, k = len(lines.starts), len(G)
    chunks, step = lines.chunks, policy.tile_rows
    if k == 0:
        return None
    pairs = 0.5 * (1.0 - (first / k) ** 2) * lines.nnz / max(n, 1)
    if pairs < policy.min_pairs_per_entry or n < 4 * step or not 0 <= v.min() < v.max() < np.inf:
        return None
    x = (lines.starts, lines.ends, lines.indices)

    def count(a: int, b: int) -> np.ndarray:
        counts = np.zeros(k, np.int64)
        _count(*x, a, b, counts)
        return counts

    share = sum(pool.map(count, chunks)) / n
    frequent = np.flatnonzero(share >= policy.frequent_share)
    if len(frequent) < policy.min_frequent_columns:
        return None
    dense = np.full(k, -1, np.int32)
    dense[frequent] = np.arange(len(frequent))
    rare = np.flatnonzero(dense < 0)
    lines_rare = _rare_lines(x, lines.data, dense, chunks, pool)
    largest = float(v.max())
    root = np.sqrt(v / largest).astype(np.float32)
    # Lower triangle, rows from `first` on: of the frequent columns the later ones with all, of
    # rare columns before `first` only their products with those.
    late = int(np.searchsorted(frequent, first))
    tiles = -(-len(frequent) // policy.tile_columns)
    width = -(-len(frequent) // tiles)
    late_tile = late // width
    place = np.full(k, -1, np.int32)
    place[rare] = np.arange(len(rare))
    size = 4 * width * tiles * (len(rare) + width * tiles)
    work = np.concatenate([[0], np.cumsum(lines.ends - lines.starts + 1)])
    parts = balanced_chunks(
        work, int(np.clip(policy.max_tile_bytes // max(size, 1), 2, policy.max_tile_chunks))
    )

    def part(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        T = np.zeros((tiles, len(rare), width), np.float32)
        DD = np.zeros((tiles, tiles, width, width), np.float32)
        Z = np.zeros((tiles, step, width), np.float32)
        product = np.empty((width, width), np.float32)
        begin = np.empty(k + 1, np.int64)
        starts, ends, indices, data = lines_rare
        longest = max(int(ends[min(i + step, b) - 1] - starts[i]) for i in range(a, b, step))
        row, value = np.empty(longest, np.int32), np.empty(longest, np.float32)
        for i in range(a, b, step):
            e = min(i + step, b)
            m = e - i
            _fill_tiles(*x, lines.data, dense, root, i, e, Z)
            _by_column(starts, ends, indices, data, root, i, e, k, begin, row, value)
            for s in range(tiles):
                j0 = first if s < late_tile else 0
                _rare_times_tile(begin, row, value, j0, place, Z[s], T[s])
                if s < late_tile:
                    continue
                for t in range(s + 1):
                    np.dot(Z[s, :m].T, Z[t, :m], out=product)
                    DD[s, t] += product
        return T, DD

    sums = pool.map(part, parts)
    T, DD = sums[0]
    for more, products in sums[1:]:
        T += more
        DD += products
    pool.map(
        lambda a, b: _put(T, rare, frequent, largest, first, a, b, G),
        balanced_chunks(np.arange(len(rare) + 1), policy.max_tile_chunks),
    )
    for s in range(late_tile, tiles):
        a = frequent[s * width : (s + 1) * width]
        for t in range(s + 1):
            b = frequent[t * width : (t + 1) * width]
            block = largest * DD[s, t, : len(a), : len(b)].astype(np.float64)
            G[np.ix_(a, b)] = np.tril(block) if s == t else block
    return lines_rare


def _rare_lines(x, data, dense, chunks, pool):
    """Extract the entries of the rare columns by row."""
    starts, _, indices = x
    counts = np.zeros(len(starts) + 1, np.int64)
    pool.map(lambda a, b: _count_rare(*x, dense, a, b, counts[1:]), chunks)
    np.cumsum(counts, out=counts)
    out = np.empty(int(counts[-1]), indices.dtype)
    out_data = np.empty(len(out) if data.size else 0)
    pool.map(lambda a, b: _fill_rare(*x, data, dense, counts[:-1], a, b, out, out_data), chunks)
    return counts[:-1], counts[1:], out, out_data


def add_gram(
    pool: ThreadPool,
    policy: CpuPolicy,
    lines: Lines,
    v: np.ndarray,
    G: np.ndarray,
    first: int = 0,
    rough: bool = False,
) -> None:
    """Add Σ_i v_i x_i x_i' to the lower triangle of G, for the rows of G from ``first`` on.

    With ``rough``, single precision is used; it requires v ≥ 0 and G = 0.
    """
    few = len(lines.starts) * len(G) <= policy.max_dense_gram_values
    if few and len(G) <= policy.max_dense_gram_columns:
        small_gram(lines, v, G, first)
        return
    parts = split_gram(lines, v, G, first, pool, policy) if rough else None
    if parts is None:
        parts = lines.starts, lines.ends, lines.indices, lines.data
    # There must be room for at least one line.
    n, room = len(parts[0]), max(policy.gram_entries, len(G))

    def some(cuts: np.ndarray) -> None:
        sparse.gram(*parts, v, G, cuts, *(np.empty(size, np.int32) for size in (n, room, room)))

    per_call = policy.gram_groups_per_thread * pool.n_threads
    parts_of_triangle = min(CHUNKS, per_call) if first else CHUNKS
    fewest = 1 if pool.n_threads == 1 else policy.min_gram_stripes
    pool.map(some, _stripes(policy, len(G), first, parts_of_triangle, fewest))


def subtract_group_gram(
    pool: ThreadPool, policy: CpuPolicy, lines: Lines, u, runs, flush, c, G: np.ndarray
) -> None:
    """Subtract Σ_g c_g m_g m_g' from the lower triangle of G, m_g = Σ u_i x_i of group g.

    Groups are nested prefixes of runs of lines (`sparse_group_sums.group_sums`); c (lines,)
    counts where ``flush`` is not zero.
    """
    for batch in groups.batches(lines.starts, lines.ends, runs, flush, len(G), policy):
        add_gram(pool, policy, _group_sums(pool, lines, u, runs, flush, batch), -c[batch.last], G)


def _group_sums(pool: ThreadPool, lines: Lines, u, runs, flush, batch: groups.Batch) -> Lines:
    """Compute the sums of one batch of groups as sparse lines."""
    x, s0, at = lines, batch.s0, batch.at
    ends, indices = np.empty(len(batch.last), np.int64), np.empty(at[-1], x.indices.dtype)
    data = np.empty(at[-1])
    pool.map(
        lambda s, t: groups.group_sums(
            x.starts, x.ends, x.indices, x.data, u, runs, flush,
            at, ends, indices, data, s0 + s, s0 + t, batch.first[s],
        ),
        balanced_chunks(runs[s0 : batch.s1 + 1], CHUNKS),
    )  # fmt: skip
    return Lines(at[:-1], ends, indices, data, x.width)


def _stripes(
    policy: CpuPolicy, k: int, first: int, groups: int, fewest: int
) -> list[tuple[np.ndarray]]:
    """Cut a lower triangle into stripes of rows of equal area that fit into the cache.

    At least ``fewest`` stripes are formed, in at most ``groups`` groups of consecutive stripes.
    """
    if first >= k:
        return []
    area = np.arange(k + 1, dtype=np.float64) ** 2
    area -= area[first]
    n = max(fewest, int(np.ceil(area[-1] * 4 / policy.gram_stripe_bytes)))
    stripes = balanced_chunks(np.maximum(area, 0.0), n)
    cuts = np.array([max(a, first) for a, _ in stripes] + [k])
    together = np.array_split(np.arange(len(stripes)), min(groups, len(stripes)))
    return [(cuts[g[0] : g[-1] + 2],) for g in together]
