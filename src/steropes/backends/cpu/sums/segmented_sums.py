"""Running sums and sums over segments, several replicates at a time."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from .compensated_sums import sum_of, two_sum

__all__ = ["range_sum", "scan", "take_out_groups"]

# The number of rows summed without compensation for several replicates.
BLOCK = 64


@njit(**ORDERED)
def scan(x, pointers, reverse, out, s0, s1):
    """Compute inclusive running sums of x (n, B) within each segment.

    The sum of the rows before a block is compensated, and to it the running sum of the block
    is added: no result is off by more than a few roundings, however long the segment is.
    """
    B = x.shape[1]
    total, lost, before, inside = np.empty(B), np.empty(B), np.empty(B), np.empty(B)
    for s in range(s0, s1):
        lo, hi = pointers[s], pointers[s + 1]
        if B == 1:  # an addition has to wait for the one before: compensation takes no longer
            one, rest = 0.0, 0.0
            for k in range(lo, hi):
                i = lo + hi - 1 - k if reverse else k
                one, error = two_sum(one, x[i, 0])
                rest += error
                out[i, 0] = sum_of(one, rest)
            continue
        total[:] = 0.0
        lost[:] = 0.0
        for start in range(lo, hi, BLOCK):
            for b in range(B):
                before[b] = sum_of(total[b], lost[b])
                inside[b] = 0.0
            for k in range(start, min(start + BLOCK, hi)):
                i = lo + hi - 1 - k if reverse else k
                for b in range(B):
                    inside[b] += x[i, b]
                    out[i, b] = before[b] + inside[b]
            for b in range(B):
                total[b], error = two_sum(total[b], inside[b])
                lost[b] += error


@njit(**ORDERED)
def range_sum(x, starts, ends, out, s0, s1):
    """Compute out[s] = Σ x[i] over the rows starts[s] … ends[s] − 1; zero if empty."""
    B = x.shape[1]
    total, lost, inside = np.empty(B), np.empty(B), np.empty(B)
    for s in range(s0, s1):
        lo, hi = starts[s], ends[s]
        total[:] = 0.0
        lost[:] = 0.0
        for start in range(lo, hi, BLOCK):
            inside[:] = 0.0
            for i in range(start, min(start + BLOCK, hi)):
                for b in range(B):
                    inside[b] += x[i, b]
            for b in range(B):
                total[b], error = two_sum(total[b], inside[b])
                lost[b] += error
        for b in range(B):
            out[s, b] = sum_of(total[b], lost[b])


@njit(**ORDERED)
def take_out_groups(u, runs, c, rows, z, held, out):
    """Subtract Σ_g c_g m_g (m_g' z), m_g = Σ_{i in g} u_i e_i, for groups that are prefixes.

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
