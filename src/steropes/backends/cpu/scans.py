"""Running sums and sums over segments, several replicates at a time."""

from __future__ import annotations

from numba import njit

from .sparse import ORDERED

__all__ = ["range_sum", "scan"]

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
