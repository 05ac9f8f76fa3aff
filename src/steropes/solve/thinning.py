"""The first Hessian of a fit, of a part of the rows.

The first step goes far, and no Hessian at its start is right at its end, so one that is off by a
good part, where the rows are many times the columns, serves as well (sub-sampled Newton methods:
Roosta-Khorasani and Mahoney 2019). If it contracts badly a whole one takes its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["enough", "thinned", "thinning"]

MANY_PAIRS = 2e7  # of entries in rows: additions for which leaving rows out is worth it
ENOUGH = 10  # rows, or events, for each column in a part of the rows,
THINNEST = 8  # and rows for each of its rows at most


def thinning(rows: Any, evidence: int) -> int:
    """The rows of which one goes into the Hessian, 1 for all; see `Likelihood.evidence`."""
    if rows.lines is None or rows.lines.nnz**2 / max(rows.n, 1) < MANY_PAIRS:
        return 1
    return int(np.clip(evidence // (ENOUGH * rows.k), 1, THINNEST))


def thinned(w: Any, thin: int, backend: Any) -> Any:
    """Row weights (n, 1) of a random part of the rows, the same at each call, zero elsewhere."""
    kept = np.random.default_rng(0).random(len(w), np.float32) < 1 / thin
    w = w * backend.asarray(kept[:, None])
    w *= thin
    return w


def enough(v: Any, k: int) -> bool:
    """Whether curvatures v of rows count as many rows still, where a few weigh more than most."""
    most = float(v.max())
    if not 0 < most < np.inf:
        return False
    return float((v / most).sum()) ** 2 >= ENOUGH * k * float(((v / most) ** 2).sum())
