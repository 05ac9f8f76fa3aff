"""Sums over the rows that are known of columns, and made only for those that have joined since."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...design.face import AnyRows
from .working_columns import WorkingColumns

__all__ = ["ColumnCache"]

MANY = 1_000_000  # entries of the working set from which on it is worth looking for what is known,
SOME = 0.5  # unless more of the columns than that are new


class ColumnCache:
    """One row of numbers for each column of a working set, whose order and extent change.

    A few columns join many times, and to sum over the rows of all of them anew takes as long as
    a step does with each entry.

    Parameters
    ----------
    active : WorkingColumns
    """

    def __init__(self, active: WorkingColumns) -> None:
        self.active = active
        self._version = -1
        self._W = np.empty(0, np.int64)
        self._values = np.empty((0, 0))
        self._of_all: np.ndarray | None = None

    def forget(self) -> None:
        """What was known is of another point."""
        self._version, self._W, self._of_all = -1, np.empty(0, np.int64), None

    def know(self, of_all: np.ndarray) -> None:
        """Be told of all columns, (p, lanes), those outside of the working set included."""
        self._of_all = of_all

    def sums(self, make: Callable[[AnyRows], np.ndarray]) -> np.ndarray:
        """What ``make`` says of rows of columns, (k, lanes), of the working set as it is."""
        active = self.active
        if self._version != active.version:
            self._values = self._made(make)
            self._version, self._W = active.version, active.W
        return self._values

    def _made(self, make: Callable[[AnyRows], np.ndarray]) -> np.ndarray:
        active, W = self.active, self.active.W
        if self._of_all is not None:
            return self._of_all[W]
        if len(self._W) == 0 or active.rows.layout != "rows" or active.rows.entries < MANY:
            return make(active.rows)
        place = np.full(len(active.inside), -1, np.int64)
        place[self._W] = np.arange(len(self._W))
        at = place[W]
        new = at < 0
        if np.count_nonzero(new) > SOME * len(W):
            return make(active.rows)
        values = np.empty((len(W), self._values.shape[1]))
        values[~new] = self._values[at[~new]]
        if new.any():
            values[new] = make(active.rows_of(W[new]))
        return values
