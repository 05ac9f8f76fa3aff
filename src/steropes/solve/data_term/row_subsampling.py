"""Hessians from a random subsample of the rows.

Where a step goes far, no Hessian at its start is right at its end. A rough one serves as well if
there are many rows for each column (sub-sampled Newton methods: Roosta-Khorasani and Mahoney 2019).
If it contracts badly, a Hessian of all rows replaces it.
"""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import Array, Backend

__all__ = ["effective_rows", "thinned"]


def thinned(w: Array, thin: int, backend: Backend) -> Array:
    """Return row weights (n, 1) of a reproducible random subsample, zero for all other rows."""
    kept = np.random.default_rng(0).random(len(w), np.float32) < 1 / thin
    w = w * backend.asarray(kept[:, None])
    w *= thin
    return w


def effective_rows(v: Array) -> float:
    """Return (Σv)² / Σv² of curvatures v, which is small if a few rows outweigh the others."""
    most = float(v.max())
    if not 0 < most < np.inf:
        return 0.0
    return float((v / most).sum()) ** 2 / float(((v / most) ** 2).sum())
