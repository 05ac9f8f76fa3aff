"""Sparse sums of the rows of many small groups, such as strata that touch few columns.

The sums m_g of a batch of groups are written out as the lines of a sparse matrix M, so that
Σ_g c_g m_g m_g' is M' diag(c) M and the Gram kernel with its cache-sized stripes does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from ...thread_pool import balanced_chunks
from ..compilation.kernel_compiler_options import ORDERED
from ..compilation.unchecked_indexing import entry, put
from .cpu_chunk_sizes import CpuPolicy

__all__ = ["Batch", "batches", "group_sums"]


@njit(**ORDERED)
def group_sums(
    starts, ends, indices, data, u, runs, flush, at, out_ends, out_indices, out_data, s0, s1, g
):
    """Compute m = Σ u_i x_i over the groups of the runs s0 … s1 − 1, numbered from g.

    Groups are nested prefixes of runs of lines: a run (stratum) s is the lines from ``runs[s]``
    to ``runs[s + 1]``; after line i the running sum is a group's where ``flush[i]`` is not zero.
    The sum of group g goes to ``at[g]`` … ``out_ends[g]``, its indices increasing.
    """
    k = 0
    for s in range(s0, s1):
        for i in range(runs[s], runs[s + 1]):
            if ends[i] > starts[i]:
                k = max(k, indices[ends[i] - 1] + 1)  # the last index is the largest
    total = np.zeros(k)
    seen = np.zeros(k, np.bool_)
    touched = np.empty(k, np.int64)
    for s in range(s0, s1):
        n, ordered = 0, 0
        for i in range(runs[s], runs[s + 1]):
            for e in range(starts[i], ends[i]):
                j = np.int64(entry(indices, e))
                if not entry(seen, j):
                    put(seen, j, True)
                    touched[n] = j
                    n += 1
                x = u[i] * (1.0 if data.size == 0 else entry(data, e))
                put(total, j, entry(total, j) + x)
            if flush[i]:
                for a in range(ordered, n):  # those new since the last flush find their place
                    j = touched[a]
                    b = a
                    while b > 0 and touched[b - 1] > j:
                        touched[b] = touched[b - 1]
                        b -= 1
                    touched[b] = j
                ordered = n
                to = at[g]
                for a in range(n):
                    put(out_indices, to + a, touched[a])
                    put(out_data, to + a, entry(total, touched[a]))
                out_ends[g] = to + n
                g += 1
        for a in range(n):
            total[touched[a]] = 0.0
            seen[touched[a]] = False


class Batch(NamedTuple):
    """The groups of the runs s0 … s1."""

    s0: int
    s1: int
    last: np.ndarray  # the line that ends each group
    at: np.ndarray  # where room for each group's entries begins, and the end
    first: np.ndarray  # each run's first group, and the end


def batches(starts, ends, runs, flush, width: int, policy: CpuPolicy) -> Iterator[Batch]:
    """Split the runs into batches with sums that fit into the available memory."""
    for a, b in balanced_chunks(runs, -(-int(runs[-1] - runs[0]) // policy.max_group_lines)):
        lo, hi = runs[a], runs[b]
        last = np.flatnonzero(flush[lo:hi]) + lo
        first = np.searchsorted(last, runs[a : b + 1])
        entries = np.concatenate([[0], np.cumsum(ends[lo:hi] - starts[lo:hi])])
        size = entries[last + 1 - lo] - np.repeat(entries[runs[a:b] - lo], np.diff(first))
        at = np.concatenate([[0], np.cumsum(np.minimum(size, width))])
        for s, t in balanced_chunks(at[first], -(-int(at[-1]) // policy.max_group_entries)):
            g, h = first[s], first[t]
            if h > g:
                yield Batch(a + s, a + t, last[g:h], at[g : h + 1] - at[g], first[s : t + 1] - g)
