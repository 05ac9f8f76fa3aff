"""A symmetric matrix to which rows and columns are appended a few at a time."""

from __future__ import annotations

import numpy as np

from ...backends.thread_pool import ThreadPool
from ..solver_constants import DEFAULT, HessianPolicy

__all__ = ["GrowingMatrix"]

# Each task copies this many rows.
ROWS_PER_TASK = 256


class GrowingMatrix:
    """A (k, k) matrix in the corner of a larger one.

    A Hessian grows many times by a few columns. Copying it each time would cost more than the
    columns, mostly for memory that has not been touched before.

    Parameters
    ----------
    H : (k, k) array
        It is kept, not copied.
    """

    def __init__(
        self, H: np.ndarray, pool: ThreadPool, policy: HessianPolicy = DEFAULT.hessian
    ) -> None:
        self._room, self.k, self._pool, self.policy = H, len(H), pool, policy

    @property
    def matrix(self) -> np.ndarray:
        """The matrix, (k, k), which is not contiguous if it has room behind it."""
        return self._room[: self.k, : self.k]

    @property
    def rows(self) -> np.ndarray:
        """The rows including the room behind them, (k, at least k), contiguous."""
        return self._room[: self.k]

    def grow(self, H: np.ndarray) -> None:
        """Append the rows from k on of a larger matrix (k', k')."""
        first, self.k = self.k, len(H)
        if self.k > len(self._room):
            self._move(first, H.dtype)
        room, k = self._room, self.k

        def stripe(a: int, b: int) -> None:
            room[first:k, a:b] = H[first:, a:b]
            room[a : min(b, first), first:k] = H[first:, a : min(b, first)].T

        self._pool.map(stripe, _stripes(k), k * (k - first))

    def _move(self, first: int, dtype: np.dtype) -> None:
        """Copy the first rows and columns to an array with room for k and some more."""
        policy = self.policy
        most = max(policy.min_spare, policy.spare_per_new * (self.k - first))
        size = self.k + min(int(policy.spare_share * self.k), most)
        old, room = self._room, np.empty((size, size), dtype)

        def stripe(a: int, b: int) -> None:
            room[a:b, :first] = old[a:b, :first]

        self._pool.map(stripe, _stripes(first), first * first)
        self._room = room


def _stripes(n: int) -> list[tuple[int, int]]:
    """Divide n rows into tasks."""
    return [(a, min(a + ROWS_PER_TASK, n)) for a in range(0, n, ROWS_PER_TASK)]
