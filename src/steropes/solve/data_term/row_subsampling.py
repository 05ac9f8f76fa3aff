"""Hessians from a random subsample of the rows.

Where a step goes far, no Hessian at its start is right at its end. A rough one serves as well if
there are many rows for each column (sub-sampled Newton methods: Roosta-Khorasani and Mahoney 2019).
If it contracts badly, a Hessian of all rows replaces it.
"""

from __future__ import annotations

import numpy as np

from ...backends.protocols import Array, Backend

__all__ = ["enough", "thinned"]

ENOUGH = 10  # A subsample needs this many effective rows or events for each column.


def thinned(w: Array, thin: int, backend: Backend) -> Array:
    """Return row weights (n, 1) of a reproducible random subsample, zero for all other rows."""
    kept = np.random.default_rng(0).random(len(w), np.float32) < 1 / thin
    w = w * backend.asarray(kept[:, None])
    w *= thin
    return w


def enough(v: Array, k: int) -> bool:
    """Return whether a subsample with curvatures v has enough effective rows for k columns.

    The effective number is (Σv)² / Σv², which is small where a few rows outweigh the others.
    """
    most = float(v.max())
    if not 0 < most < np.inf:
        return False
    return float((v / most).sum()) ** 2 >= ENOUGH * k * float(((v / most) ** 2).sum())
