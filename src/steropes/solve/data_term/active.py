"""The columns that matter now, by rows; the terms of one model share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...design.face import DesignLike

__all__ = ["ActiveColumns"]


class ActiveColumns:
    """Columns W of a design in the model's row order.

    Attributes
    ----------
    W : (k,) int array
        In the order in which they joined.
    inside : (p,) bool array
    rows : rows of those columns, as `Design.by_rows` makes them
    version : int
        Counts the changes of W.
    """

    def __init__(self, design: DesignLike, order: np.ndarray | None, backend: Any) -> None:
        self.design, self.order, self.backend = design, order, backend
        self.W = np.empty(0, np.int64)
        self.inside = np.zeros(design.p, bool)
        self.rows = design.by_rows(self.W, order, backend)
        self.version = 0

    def join(self, columns: np.ndarray) -> int:
        """Let columns in, at the end; returns how many were not there."""
        new = np.unique(columns[~self.inside[columns]])
        if len(new) == 0:
            return 0
        self.version += 1
        self.W = np.concatenate([self.W, new])
        self.inside[new] = True
        self.rows = self.rows.grown(self.design, self.W, self.order)
        return len(new)

    def keep(self, at: np.ndarray) -> None:
        """Let only the columns at these places stay."""
        self.version += 1
        self.inside[self.W] = False
        self.W = self.W[at]
        self.inside[self.W] = True
        del self.rows  # before the new copy is made: nothing else is as large
        self.rows = self.design.by_rows(self.W, self.order, self.backend)
