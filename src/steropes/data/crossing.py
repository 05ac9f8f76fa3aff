"""When curves of survival come down to a share: quantiles of times."""

from __future__ import annotations

import numpy as np

__all__ = ["first_crossings"]

NEAR = 1e-10  # two shares that are the same but for rounding


def first_crossings(times: np.ndarray, curves: np.ndarray, target: float) -> np.ndarray:
    """The first time at which each curve is at or below a share; NaN where it never is.

    Where a curve is level with it from one fall to the next, the middle of the two, as R's
    ``survfit`` has it.

    Parameters
    ----------
    times : (T,) array
        Ascending.
    curves : (n, T) array
        Steps that do not rise; NaN is above all shares.
    target : float

    Returns
    -------
    (n,) array
    """
    if not len(times):
        return np.full(len(curves), np.nan)
    near = np.abs(curves - target) <= NEAR
    below = (curves < target) & ~near
    reached = below | near
    first, fall = reached.argmax(axis=1), below.argmax(axis=1)
    rows = np.arange(len(curves))
    level = near[rows, first] & below[rows, fall]
    found = np.where(level, (times[first] + times[fall]) / 2, times[first])
    return np.where(reached[rows, first], found, np.nan)
