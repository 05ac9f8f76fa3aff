"""Weighted Gram matrices of sparse lines, and of sums over groups of lines."""

from __future__ import annotations

import numpy as np

from ...thread_pool import ThreadPool, balanced_chunks
from . import sparse_group_sums as groups
from . import sparse_products as sparse
from .cpu_chunk_sizes import CpuPolicy
from .gram_matrix import small_gram, split_gram
from .sparse_lines import CHUNKS, Lines

__all__ = ["add_gram", "subtract_group_gram"]


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
