"""Weights that change from one interval of time to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .array_conversion import as_numbers

__all__ = ["IntervalWeights"]


@dataclass(frozen=True, eq=False)
class IntervalWeights:
    """Weights of rows in single intervals, as segments of curves that rows may share.

    The weight of row i in interval k, counted from 0, is ``scale[i] * values[start[i] + k]``,
    limited to the range from ``lower`` to ``upper``. The rows of one person in a sequence of
    trials read the same curve from different starts, so that no weight is stored twice.

    Parameters
    ----------
    values : (U,) array
        Positive numbers.
    start : (n,) int array
        Position in ``values`` of the first interval of each row. It may be negative for rows that
        enter later.
    scale : (n,) array
        Positive factors.
    lower, upper : float
        Limits of the weights, default none.
    """

    values: NDArray[np.float64]
    start: NDArray[np.int64]
    scale: NDArray[np.float64]
    lower: float = 0.0
    upper: float = np.inf

    @classmethod
    def of(cls, weights: object, n: int, K: int) -> IntervalWeights:
        """Read weights of n rows in K intervals, an (n, K) array or such an object."""
        if isinstance(weights, cls):
            if len(weights.start) != n:
                raise DataError(f"interval_weights has {len(weights.start)} rows, but X has {n}.")
            return weights
        table = np.asarray(as_numbers(weights, "interval_weights"), np.float64)
        if table.ndim != 2 or len(table) != n or table.shape[1] < K:
            raise DataError(
                f"interval_weights must have a row for each of {n} rows of X, and a column for "
                f"each of {K} intervals, not the shape {table.shape}."
            )
        return cls(table.ravel(), np.arange(n) * table.shape[1], np.ones(n))

    def check(self, first: NDArray, last: NDArray) -> None:
        """Refuse intervals at risk without a finite weight from 0 on; see ``first`` of the fit."""
        used = last > first
        begin, end = self.start[used] + first[used], self.start[used] + last[used]
        if len(begin) and (begin.min() < 0 or end.max() > len(self.values)):
            raise DataError("interval_weights lacks intervals in which rows are at risk.")
        bad = np.append(0, np.cumsum(~(np.isfinite(self.values) & (self.values >= 0))))
        wrong = bad[end] > bad[begin]
        if wrong.any():
            row = int(np.flatnonzero(used)[wrong.argmax()])
            raise DataError(
                f"interval_weights must be finite and not negative while a row is at risk; row "
                f"{row} has another value."
            )

    def rows(self, chosen: slice | NDArray) -> IntervalWeights:
        """Select rows."""
        return IntervalWeights(
            self.values, self.start[chosen], self.scale[chosen], self.lower, self.upper
        )

    def table(self, chosen: slice, K: int) -> NDArray[np.float64]:
        """Return the weights of some rows in all K intervals, where curves have them, or 0."""
        at = self.start[chosen, None] + np.arange(K)
        known = (at >= 0) & (at < len(self.values))
        found = self.scale[chosen, None] * self.values[np.where(known, at, 0)]
        return np.where(known, np.clip(found, self.lower, self.upper), 0.0)

    @property
    def arguments(self) -> tuple[NDArray, NDArray, NDArray, float, float]:
        """The arrays and limits as kernels take them."""
        return (
            np.ascontiguousarray(self.values, np.float64),
            np.ascontiguousarray(self.start, np.int64),
            np.ascontiguousarray(self.scale, np.float64),
            float(self.lower),
            float(self.upper),
        )
