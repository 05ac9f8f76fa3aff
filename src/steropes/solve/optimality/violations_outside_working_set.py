"""Violations of the optimality conditions by columns outside of the working set."""

from __future__ import annotations

import numpy as np

from ...backends.tall_reductions import column_max, row_max

__all__ = ["outside_violations"]

# This many entries, which stay in the cache, are processed together.
ENTRIES_AT_ONCE = 1 << 15


def outside_violations(
    g: np.ndarray, l1: np.ndarray, inside: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the violations of columns with coefficients of zero.

    Parameters
    ----------
    g, l1 : (p, B) arrays
        Gradients of the loss and λ.
    inside : (p,) bool array
        Columns of the working set, which are left out.

    Returns
    -------
    (p,) array
        The largest violation of each column, in units of λ, or of 1 without λ; zero inside.
    (B,) array
        The largest violation of each replicate.
    """
    p, B = g.shape
    urgency, largest = np.zeros(p), np.zeros(B)
    step = max(1, ENTRIES_AT_ONCE // B)
    for a in range(0, p, step):
        at = slice(a, a + step)
        size = l1[at]
        v = np.abs(g[at])
        v -= size
        v /= np.where(size > 0, size, 1.0)
        v[inside[at]] = 0.0
        urgency[at] = np.maximum(row_max(v), 0.0)
        np.maximum(largest, column_max(v), out=largest)
    return urgency, largest
