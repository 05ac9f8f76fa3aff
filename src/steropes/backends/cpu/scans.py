"""Running sums and sums over segments, several replicates at a time."""

from __future__ import annotations

from numba import njit

from .sparse import ORDERED

__all__ = ["range_sum", "scan", "take_out_groups"]

# No reassociation: the order of the additions is part of what a scan promises.
SCAN = ORDERED


@njit(**SCAN)
def scan(x, pointers, reverse, out, s0, s1):
    """Inclusive running sum of x (n, B) within each segment pointers[s] … pointers[s+1]."""
    B = x.shape[1]
    for s in range(s0, s1):
        lo, hi = pointers[s], pointers[s + 1]
        if hi <= lo:
            continue
        if reverse:
            for b in range(B):
                out[hi - 1, b] = x[hi - 1, b]
            for i in range(hi - 2, lo - 1, -1):
                for b in range(B):
                    out[i, b] = x[i, b] + out[i + 1, b]
        else:
            for b in range(B):
                out[lo, b] = x[lo, b]
            for i in range(lo + 1, hi):
                for b in range(B):
                    out[i, b] = x[i, b] + out[i - 1, b]


@njit(**SCAN)
def range_sum(x, starts, ends, out, s0, s1, acc):
    """out[s] = Σ x[i] over the rows starts[s] … ends[s], added up in acc (B,); zero if empty."""
    B = x.shape[1]
    for s in range(s0, s1):
        for b in range(B):
            acc[b] = 0.0
        for i in range(starts[s], ends[s]):
            for b in range(B):
                acc[b] += x[i, b]
        for b in range(B):
            out[s, b] = acc[b]


@njit(**SCAN)
def take_out_groups(u, runs, c, rows, z, held, out):
    """out −= Σ_g c_g m_g (m_g' z),  m_g = Σ_{i in g} u_i e_i, of groups that are prefixes of runs.

    Parameters
    ----------
    u, c : (L,) arrays
        Of the lines: their weights, and that of the group that ends with each.
    runs : (S + 1,) int array
    rows : (L,) or (0,) int array
        The row of each line; empty where they are the rows themselves.
    z, out : (n,) arrays
    held : (L,) array
        To work in.
    """
    for s in range(len(runs) - 1):
        total = 0.0
        for line in range(runs[s], runs[s + 1]):
            i = line if rows.size == 0 else rows[line]
            total += u[line] * z[i]
            held[line] = c[line] * total
        total = 0.0
        for line in range(runs[s + 1] - 1, runs[s] - 1, -1):
            i = line if rows.size == 0 else rows[line]
            total += held[line]
            out[i] -= u[line] * total
