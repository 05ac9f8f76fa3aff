"""The levels on which the likelihood puts mass, and the levels that each row covers.

Without censoring the levels are the distinct outcomes. With censoring they are the right ends of
Turnbull's (1976) innermost intervals, a left end directly followed by a right end. No other
distribution has a larger likelihood, because moving other mass into one of them never lowers it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import DataError
from ..likelihood_constants import LEVELS
from .censored_outcome import Interval

__all__ = ["Levels", "find_levels", "fold_label", "place"]


@dataclass
class Levels:
    """Levels 0 … M − 1 in increasing order and the rows that cover them.

    Attributes
    ----------
    values : (M,) array
        y of each level; +∞ for mass above the largest right-censored outcome.
    order : (n,) int array
        Row of X for each row of the model. Rows without weight are left out and the others are
        sorted by level.
    low, up : (n,) int32 arrays
        Thresholds below and above the levels that a row covers; −1 and M − 1 mean none. A row that
        covers level j alone has low = j − 1 and up = j.
    pointers : (M + 1,) int array
        Boundaries of the levels among the rows. A row that covers several levels belongs to the
        last, and a right-censored row to the first.
    chain : bool
        Whether no row that is bounded on both sides covers several levels, so that the Hessian of
        the thresholds is tridiagonal.
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
    """Find the levels of an outcome among the rows ``used`` (n,), bool."""
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
    """Assign each of n rows of X to a quantile group of the outcome, for balanced folds."""
    label = np.zeros(n, np.int64)
    label[levels.order] = np.arange(len(levels.order)) * LEVELS.fold_groups // len(levels.order)
    return label


def _unique(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the distinct values and the code of each y."""
    values, code = np.unique(y, return_inverse=True)
    return values, code.reshape(-1)


def _innermost(lower: np.ndarray, upper: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Compute the right ends of Turnbull's innermost intervals.

    A censored row is (l, u], open at l, and an exact one is [y, y].
    """
    # The order of ends at one value: exact [y, exact y] and right u], left (l.
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
    """Sort rows by level; raise if there are fewer than two levels."""
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
    """Find the thresholds (low, up) around new outcomes.

    An exact outcome between two levels belongs to the bin (y_j−1, y_j] of the next level, and one
    beyond the last level to the last, so that its probability is never zero.
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
