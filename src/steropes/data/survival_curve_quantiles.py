"""Quantiles of times: where a survival curve crosses a given probability."""

from __future__ import annotations

import numpy as np

__all__ = ["first_crossings"]

# Probabilities that differ by less than this are equal up to rounding.
NEAR = 1e-10


def first_crossings(times: np.ndarray, curves: np.ndarray, target: float, end: float) -> np.ndarray:
    """Find the first time at which each curve is at or below a probability.

    Where a curve is horizontal at that probability, the result is the middle of the horizontal
    segment, which may last until the end of observation. This is the rule of R's
    ``quantile.survfit``.

    Parameters
    ----------
    times : (T,) array
        Ascending.
    curves : (n, T) array
        Values of nonincreasing step functions; NaN counts as above the target.
    end : float
        The last time under observation, at which the last segment ends.

    Returns
    -------
    (n,) array
        NaN where a curve stays above the probability.
    """
    if not len(times):
        return np.full(len(curves), np.nan)
    near = np.abs(curves - target) <= NEAR
    below = (curves < target) & ~near
    reached = below | near
    first, fall = reached.argmax(axis=1), below.argmax(axis=1)
    rows = np.arange(len(curves))
    segment_end = np.where(below[rows, fall], times[fall], end)
    found = np.where(near[rows, first], (times[first] + segment_end) / 2, times[first])
    return np.where(reached[rows, first], found, np.nan)
