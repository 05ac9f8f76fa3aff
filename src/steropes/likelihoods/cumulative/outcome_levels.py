"""The distinct outcomes (levels) that the likelihood puts mass on, and what each row covers.

Without censoring they are the distinct outcomes. With it they are the right ends of Turnbull's
(1976) innermost intervals, a left end directly followed by a right end: no other distribution
has a larger likelihood, since mass elsewhere can be moved into one of them without harm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import DataError
from .censored_outcome import Interval

__all__ = ["GROUPS", "Levels", "find_levels", "fold_label", "place"]

GROUPS = 20  # parts of the outcome's distribution that are spread evenly over folds


@dataclass
class Levels:
    """Levels 0 … M−1 in increasing order and the rows over them.

    Attributes
    ----------
    values : (M,) array
        y of each level; +∞ for mass above the largest right-censored outcome.
    order : (n,) int array
        The user's row for each row of the model: rows without weight are left out and the
        others sorted by level.
    low, up : (n,) int32 arrays
        The thresholds below and above what the row covers: ``low`` = −1 and ``up`` = M − 1
        where there is none. A row that covers level j alone has low = j − 1, up = j.
    pointers : (M + 1,) int array
        Where the rows of each level begin; a row that covers several counts at its last one,
        a right-censored one at its first.
    chain : bool
        Whether no row covers more than one level and is bounded on both sides, so that the
        thresholds' Hessian is tridiagonal.
    """

    values: np.ndarray
    order: np.ndarray
    low: np.ndarray
    up: np.ndarray
    pointers: np.ndarray
    chain: bool

    @property
    def M(self) -> int:
        """Number of levels."""
        return len(self.values)


def find_levels(y: Interval, used: np.ndarray) -> Levels:
    """Levels of an outcome among the rows ``used`` (n,) bool."""
    rows = np.flatnonzero(used)
    if y.upper is None:
        values, code = _unique(y.lower[rows])
        return _sorted(values, rows, code - 1, code)
    lower, upper = y.lower[rows], y.upper[rows]
    exact = lower == upper
    values = _innermost(lower, upper, exact)
    # Covered levels have values in (lower, upper], or equal to an exact outcome.
    up = np.searchsorted(values, upper, side="right") - 1
    low = np.searchsorted(values, lower, side="right") - 1
    low[exact] = up[exact] - 1
    return _sorted(values, rows, low, up)


def fold_label(levels: Levels, n: int) -> np.ndarray:
    """A class for each of n rows of X, to be spread evenly: its part of the distribution."""
    label = np.zeros(n, np.int64)
    label[levels.order] = np.arange(len(levels.order)) * GROUPS // len(levels.order)
    return label


def _unique(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, code = np.unique(y, return_inverse=True)
    return values, code.reshape(-1)


def _innermost(lower: np.ndarray, upper: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Right ends of the innermost intervals; (l, u] is open at l and an exact y is [y, y]."""
    # Kinds in the order in which they come at one value: [y  y]  right ends u]  left ends (l.
    kind = np.concatenate(
        [np.zeros(exact.sum()), np.ones(exact.sum()), np.full((~exact).sum(), 1.0),
         np.full((~exact).sum(), 2.0)]
    )  # fmt: skip
    value = np.concatenate([lower[exact], upper[exact], upper[~exact], lower[~exact]])
    left = np.concatenate(
        [np.ones(exact.sum(), bool), np.zeros(exact.sum() + (~exact).sum(), bool),
         np.ones((~exact).sum(), bool)]
    )  # fmt: skip
    order = np.lexsort((kind, value))
    value, left = value[order], left[order]
    at = np.flatnonzero(left[:-1] & ~left[1:])
    return np.unique(value[at + 1])


def _sorted(values: np.ndarray, rows: np.ndarray, low: np.ndarray, up: np.ndarray) -> Levels:
    M = len(values)
    if M < 2:
        what = "no row has a positive weight" if M == 0 else f"every outcome is {values[0]:g}"
        raise DataError(
            f"y must have at least two distinct outcomes among the rows that count; {what}."
        )
    level = np.where(up < M - 1, up, low + 1)
    order = np.argsort(level, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(level, minlength=M))])
    low, up = low[order].astype(np.int32), up[order].astype(np.int32)
    wide = (low >= 0) & (up < M - 1) & (up - low > 1)
    return Levels(values, rows[order], low, up, pointers, not wide.any())


def place(values: np.ndarray, y: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds (low, up) around new outcomes, each joined to the level it falls into.

    An exact outcome between two levels belongs to the bin (y_j−1, y_j] of the next level, one
    beyond the last to the last, so that its probability is never zero.
    """
    M = len(values)
    if y.upper is None:
        up = np.minimum(np.searchsorted(values, y.lower, side="left"), M - 1)
        return (up - 1).astype(np.int32), up.astype(np.int32)
    exact = y.lower == y.upper
    up = np.minimum(np.searchsorted(values, y.upper, side="left"), M - 1)
    low = np.searchsorted(values, y.lower, side="right") - 1
    low = np.where(exact, up - 1, np.minimum(low, up - 1))
    return low.astype(np.int32), up.astype(np.int32)
