"""Solving with a triangular factor for one right-hand side, without Python's lock.

LAPACK's ``potrs`` copies the factor into tiles as if there were many right-hand sides, which for
one takes four times as long, and SciPy holds the lock meanwhile: replicates would wait in turn.
"""

from __future__ import annotations

from numba import njit

from .sparse import OPTIONS

__all__ = ["solve_factored"]


@njit(**OPTIONS)
def solve_factored(L, x):
    """From r to (LL')⁻¹r in place, of a lower triangular L (n, n) with rows in a row of memory."""
    n = len(x)
    for i in range(n):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]
    for i in range(n - 1, -1, -1):
        here = x[i] / L[i, i]
        x[i] = here
        for j in range(i):
            x[j] -= L[i, j] * here
