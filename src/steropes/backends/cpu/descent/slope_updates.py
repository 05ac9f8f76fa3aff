"""Updates of the slopes of all coordinates after a block of coefficients has moved.

NumPy would read and write arrays of thousands of rows and ten replicates once per operation, which
would take longer between two panels than the product with the matrix. Here it takes one pass.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS

__all__ = ["add_updates", "moved_rows"]


@njit(**OPTIONS)
def moved_rows(delta, apart, a, Z, rows, size):
    """Pack the changed coefficients in units of each replicate's largest change.

    Parameters
    ----------
    delta : (P, B) array
        Moves of the coordinates from ``a`` on.
    apart : (k,) bool array
        Coordinates that are not coupled to others.
    Z : (P, blocks, Q) array
        Output in single precision; columns after B are not written.
    rows : (P,) int array
        Which they are; written.
    size : (B,) array
        The units; written.

    Returns
    -------
    int
        How many moved.
    """
    P, B = delta.shape
    Q = Z.shape[2]
    size[:] = 0.0
    for j in range(P):
        if not apart[a + j]:
            for b in range(B):
                size[b] = max(size[b], abs(delta[j, b]))
    for b in range(B):
        if not (0.0 < size[b] < np.inf):
            size[b] = 1.0
    n = 0
    for j in range(P):
        if apart[a + j]:
            continue
        moved = False
        for b in range(B):
            moved |= delta[j, b] != 0.0
        if moved:
            for b in range(B):
                Z[n, b // Q, b % Q] = delta[j, b] / size[b]
            rows[n] = a + j
            n += 1
    return n


@njit(**OPTIONS)
def add_updates(sums, size, Y, t, apart, a, b, i0, i1, s):
    """Slopes s[i] += size · sums[i] − Σ_q Y[q, i] t[q] for i from i0 to i1.

    But for the panel a … b itself and for those ``apart``; ``sums`` is (k, ≥ B), ``size`` (B,),
    ``Y`` (m, k) and ``t`` (m, B) are what the matrix lacks, as in `descend_panel`.
    """
    m, B = t.shape
    for i in range(i0, i1):
        if a <= i < b or apart[i]:
            continue
        for c in range(B):
            value = size[c] * sums[i, c]
            for q in range(m):
                value -= Y[q, i] * t[q, c]
            s[i, c] += value
