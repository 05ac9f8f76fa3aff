"""A Hessian of a part of the rows.

Where a step goes far no Hessian at its start is right at its end, so one that is off by a good
part, where the rows are many times the columns, serves as well (sub-sampled Newton methods:
Roosta-Khorasani and Mahoney 2019). If it contracts badly a whole one takes its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["enough", "thinned"]

ENOUGH = 10  # rows, or events, for each column in a part of the rows


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
