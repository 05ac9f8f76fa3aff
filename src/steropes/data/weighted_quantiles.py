"""Quantiles of values with weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["weighted_quantiles"]


def weighted_quantiles(x: np.ndarray, weight: np.ndarray, q: ArrayLike) -> np.ndarray:
    """Compute quantiles of values that count as often as their weights.

    With whole weights they are numpy's quantiles of repeated values, as in R's
    ``Hmisc::wtd.quantile``. Weights with a mean below one are divided by their mean.

    Parameters
    ----------
    x, weight : (n,) arrays
        Values, and nonnegative weights with a positive sum.
    q : (m,) array
        Probabilities.
    """
    used = weight > 0
    x, weight = x[used], weight[used]
    order = np.argsort(x, kind="stable")
    x, ends = x[order], np.cumsum(weight[order])
    ends = ends * max(1.0, len(x) / ends[-1])
    rounding = 1e-12 * ends[-1]
    place = np.asarray(q, np.float64) * (ends[-1] - 1.0)
    # A value at a whole place is returned without rounding, because events at it may be counted.
    whole = np.rint(place)
    place = np.where(np.abs(place - whole) <= rounding, whole, place)
    below = np.floor(place)
    low, high = (
        x[np.minimum(np.searchsorted(ends, k + rounding, side="right"), len(x) - 1)]
        for k in (below, below + 1.0)
    )
    return np.asarray(low + (high - low) * (place - below))
