"""Columns of splines as tables of their distinct values, which many rows share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SplineColumns"]


@dataclass(frozen=True, repr=False, eq=False)
class SplineColumns:
    """The columns of splines for n rows, (n, q), without an array of that shape.

    A spline has few distinct values: the months of the year, the months of the study, or the days
    of age on which a month or a case begins.

    Attributes
    ----------
    n : int
        Number of rows.
    tables : tuple of (d, k) arrays
        The distinct rows of each spline.
    index : tuple of (n,) int arrays
        For each spline, the row's place in its table.
    """

    n: int
    tables: tuple[NDArray, ...] = ()
    index: tuple[NDArray, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n, sum(table.shape[1] for table in self.tables)

    def take(self, rows: NDArray) -> SplineColumns:
        """Select rows by a mask or by numbers."""
        index = tuple(at[rows] for at in self.index)
        n = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return SplineColumns(n, self.tables, index)

    def dense(self, rows: slice | NDArray = slice(None)) -> NDArray:
        """Return some rows, all by default, as an array."""
        parts = [table[at[rows]] for table, at in zip(self.tables, self.index, strict=True)]
        return np.hstack(parts) if parts else np.zeros((self.n, 0))[rows]

    def column(self, j: int) -> NDArray:
        """Return one column."""
        for table, at in zip(self.tables, self.index, strict=True):
            if j < table.shape[1]:
                return table[at, j]
            j -= table.shape[1]
        raise IndexError(j)

    def key(self) -> NDArray:
        """Return a number for each row, (n,), which is equal for equal places in all tables."""
        found = np.zeros(self.n, np.int64)
        for table, at in zip(self.tables, self.index, strict=True):
            found = found * len(table) + at
        return found

    def matmul(self, beta: NDArray) -> NDArray:
        """Compute the product with coefficients, (q,)."""
        found, first = np.zeros(self.n), 0
        for table, at in zip(self.tables, self.index, strict=True):
            found += (table @ beta[first : first + table.shape[1]])[at]
            first += table.shape[1]
        return found

    def rmatmul(self, values: NDArray) -> NDArray:
        """Compute the product of the transpose with values of the rows, (n,)."""
        pairs = zip(self.tables, self.index, strict=True)
        parts = [table.T @ np.bincount(at, values, len(table)) for table, at in pairs]
        return np.concatenate(parts) if parts else np.zeros(0)
