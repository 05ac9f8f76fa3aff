"""A symmetric matrix to which rows and columns are added, a few at a time."""

from __future__ import annotations

import numpy as np

from ...backends.thread_pool import ThreadPool

__all__ = ["GrowingMatrix"]

SPARE = 0.5  # rows and columns that there is room for, for each that there is,
LEAST = 256  # but no more than so many,
MORE = 4  # or so many for each that joined the last time: pages are large, and used a bit are taken
STRIPE = 256  # rows that are copied at once


class GrowingMatrix:
    """A (k, k) matrix in the corner of a larger one.

    A Hessian grows by a few columns many times; to copy it each time costs more than the columns,
    most of it for memory that has not been touched before.

    Parameters
    ----------
    H : (k, k) array
        It is kept.
    pool : ThreadPool
    """

    def __init__(self, H: np.ndarray, pool: ThreadPool) -> None:
        self._room, self.k, self._pool = H, len(H), pool

    @property
    def matrix(self) -> np.ndarray:
        """It, (k, k); of no contiguous memory where there is room behind it."""
        return self._room[: self.k, : self.k]

    @property
    def rows(self) -> np.ndarray:
        """Its rows with what is behind them, (k, at least k), contiguous."""
        return self._room[: self.k]

    def grow(self, H: np.ndarray) -> None:
        """Add what a larger matrix (k', k') has in its rows from k on."""
        first, self.k = self.k, len(H)
        if self.k > len(self._room):
            self._move(first, H.dtype)
        room, k = self._room, self.k

        def stripe(a: int, b: int) -> None:
            room[first:k, a:b] = H[first:, a:b]
            room[a : min(b, first), first:k] = H[first:, a : min(b, first)].T

        self._pool.map(stripe, _stripes(k), k * (k - first))

    def _move(self, first: int, dtype: np.dtype) -> None:
        spare = max(LEAST, MORE * (self.k - first))
        old, room = self._room, _with_room(self.k, dtype, spare)

        def stripe(a: int, b: int) -> None:
            room[a:b, :first] = old[a:b, :first]

        self._pool.map(stripe, _stripes(first), first * first)
        self._room = room


def _with_room(k: int, dtype: np.dtype, most: int | None = None) -> np.ndarray:
    """An empty matrix for k rows and columns and some more."""
    size = k + int(SPARE * k) if most is None else k + min(int(SPARE * k), most)
    return np.empty((size, size), dtype)


def _stripes(n: int) -> list[tuple[int, int]]:
    return [(a, min(a + STRIPE, n)) for a in range(0, n, STRIPE)]
