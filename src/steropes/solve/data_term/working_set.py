"""The working set of columns and its rows, which the terms of one model share."""

from __future__ import annotations

from typing import cast

import numpy as np

from ...backends.backend_interface import Backend
from ...design_matrix.design_interfaces import ColumnsByRows, ColumnStore, DesignLike
from .column_hessian import StoredColumns

__all__ = ["WorkingColumns", "WorkingSet"]


class WorkingSet:
    """A working set W of p columns.

    Attributes
    ----------
    W : (k,) int array
        The columns, in the order in which they joined.
    inside : (p,) bool array
    version : int
        Number of changes of W.
    """

    def __init__(self, p: int) -> None:
        self.W = np.empty(0, np.int64)
        self.inside = np.zeros(p, bool)
        self.version = 0

    def join(self, columns: np.ndarray) -> int:
        """Append columns that are not yet in the set; return how many."""
        new = np.unique(columns[~self.inside[columns]])
        if len(new) == 0:
            return 0
        self.version += 1
        self.W = np.concatenate([self.W, new])
        self.inside[new] = True
        self._extend()
        return len(new)

    def set_columns(self, columns: np.ndarray) -> None:
        """Set W to these columns, in this order."""
        k = len(self.W)
        if np.array_equal(columns, self.W):
            return
        grown = len(columns) > k and np.array_equal(columns[:k], self.W)
        self.version += 1
        self.inside[self.W] = False
        self.W = np.array(columns, np.int64)
        self.inside[self.W] = True
        if grown:
            self._extend()
        else:
            self._rebuild()

    def _extend(self) -> None:
        """Update dependent data after columns were appended."""

    def _rebuild(self) -> None:
        """Rebuild dependent data after any other change of W."""


class WorkingColumns(WorkingSet):
    """A working set of a design's columns with their rows, in the model's row order.

    Attributes
    ----------
    rows : rows of those columns, from `Design.by_rows`
    """

    def __init__(self, design: DesignLike, order: np.ndarray | None, backend: Backend) -> None:
        super().__init__(design.p)
        self.design, self.order, self.backend = design, order, backend
        self.rows = design.by_rows(self.W, order, backend)
        self._stored: tuple[np.ndarray, StoredColumns] | None = None

    def stored(self, W: np.ndarray) -> StoredColumns:
        """Return the columns W, the working set now or earlier, as a plain design stores them."""
        if self._stored is None or self._stored[0] is not W:
            self._stored = W, StoredColumns(cast(ColumnStore, self.design), W, self.order)
        return self._stored[1]

    def rows_of(self, columns: np.ndarray) -> ColumnsByRows:
        """Return the rows of a few columns."""
        return self.design.by_rows(columns, self.order, self.backend)

    def _extend(self) -> None:
        """Append the new columns to the rows."""
        self.rows = self.rows.grown(self.design, self.W, self.order)

    def _rebuild(self) -> None:
        """Rebuild the rows."""
        del self.rows  # Freed first, because nothing else is as large as the two copies.
        self.rows = self.design.by_rows(self.W, self.order, self.backend)
