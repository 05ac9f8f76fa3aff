"""The columns that matter now, and their rows; the terms of one model share them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...design.face import AnyRows, ColumnStore, DesignLike
from .column_hessian import StoredColumns

__all__ = ["WorkingColumns", "WorkingSet"]


class WorkingSet:
    """Columns W of p.

    Attributes
    ----------
    W : (k,) int array
        In the order in which they joined.
    inside : (p,) bool array
    version : int
        Counts the changes of W.
    """

    def __init__(self, p: int) -> None:
        self.W = np.empty(0, np.int64)
        self.inside = np.zeros(p, bool)
        self.version = 0

    def join(self, columns: np.ndarray) -> int:
        """Let columns in, at the end; returns how many were not there."""
        new = np.unique(columns[~self.inside[columns]])
        if len(new) == 0:
            return 0
        self.version += 1
        self.W = np.concatenate([self.W, new])
        self.inside[new] = True
        self._grown()
        return len(new)

    def keep(self, at: np.ndarray) -> None:
        """Let only the columns at these places stay."""
        self.version += 1
        self.inside[self.W] = False
        self.W = self.W[at]
        self.inside[self.W] = True
        self._made_anew()

    def become(self, columns: np.ndarray) -> None:
        """Let W be these columns, in this order."""
        k = len(self.W)
        if np.array_equal(columns, self.W):
            return
        grown = len(columns) > k and np.array_equal(columns[:k], self.W)
        self.version += 1
        self.inside[self.W] = False
        self.W = np.array(columns, np.int64)
        self.inside[self.W] = True
        if grown:
            self._grown()
        else:
            self._made_anew()

    def _grown(self) -> None:
        """Columns have joined at the end."""

    def _made_anew(self) -> None:
        """W is another."""


class WorkingColumns(WorkingSet):
    """Columns W of a design in the model's row order.

    Attributes
    ----------
    rows : rows of those columns, as `Design.by_rows` makes them
    """

    def __init__(self, design: DesignLike, order: np.ndarray | None, backend: Any) -> None:
        super().__init__(design.p)
        self.design, self.order, self.backend = design, order, backend
        self.rows = design.by_rows(self.W, order, backend)
        self._stored: tuple[int, StoredColumns] | None = None

    def stored(self) -> StoredColumns:
        """The columns as a plain design has them."""
        if self._stored is None or self._stored[0] != self.version:
            self._stored = (
                self.version,
                StoredColumns(cast(ColumnStore, self.design), self.W, self.order),
            )
        return self._stored[1]

    def rows_of(self, columns: np.ndarray) -> AnyRows:
        """Rows of a few columns."""
        return self.design.by_rows(columns, self.order, self.backend)

    def _grown(self) -> None:
        self.rows = self.rows.grown(self.design, self.W, self.order)

    def _made_anew(self) -> None:
        del self.rows  # before the new copy is made: nothing else is as large
        self.rows = self.design.by_rows(self.W, self.order, self.backend)
