"""A cache of per-column sums over rows, updated only for columns that join."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import ColumnsByRows
from ..solver_constants import DataTermPolicy
from .working_set import WorkingColumns

__all__ = ["ColumnCache"]


class ColumnCache:
    """One row of numbers for each column of a working set that changes in order and size.

    Columns join often, a few at a time, and summing over the rows of all of them again takes as
    long as a step spends on each entry.
    """

    def __init__(self, active: WorkingColumns, policy: DataTermPolicy) -> None:
        self.active, self.policy = active, policy
        self._version = -1
        self._W = np.empty(0, np.int64)
        self._values: Array = np.empty((0, 0))
        self._of_all: Array | None = None

    def clear(self) -> None:
        """Clear the cache after the point has changed."""
        self._version, self._W, self._of_all = -1, np.empty(0, np.int64), None

    def store_all(self, of_all: Array) -> None:
        """Cache the sums over all p columns, (p, lanes), not only those of the working set."""
        self._of_all = of_all

    def sums(self, make: Callable[[ColumnsByRows], Array]) -> Array:
        """Return ``make(rows)`` of the working set, (k, lanes), from the cache where possible."""
        active = self.active
        if self._version != active.version:
            self._values = self._made(make)
            self._version, self._W = active.version, active.W
        return self._values

    def _made(self, make: Callable[[ColumnsByRows], Array]) -> Array:
        """Compute the missing sums and arrange them in the order of the working set."""
        active, W = self.active, self.active.W
        if self._of_all is not None:
            return self._of_all[W]
        few = len(self._W) == 0 or active.rows.entries < self.policy.min_cached_entries
        if few or active.rows.layout != "rows":
            return make(active.rows)
        place = np.full(len(active.inside), -1, np.int64)
        place[self._W] = np.arange(len(self._W))
        at = place[W]
        new = at < 0
        if np.count_nonzero(new) > self.policy.max_new_share * len(W):
            return make(active.rows)
        values = array_namespace(self._values).zeros((len(W), self._values.shape[1]))
        values[~new] = self._values[at[~new]]
        if new.any():
            values[new] = make(active.rows_of(W[new]))
        return values
