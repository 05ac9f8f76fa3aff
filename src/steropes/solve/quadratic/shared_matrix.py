"""The matrix that replicates share, with the few columns without penalty eliminated."""

from __future__ import annotations

import numpy as np

from ...backends.cpu.blocks import matrix_squares, strong_pairs
from ...backends.cpu.propagate_updates import add_updates, moved_rows
from ...backends.tall import column_max, row_any
from ...backends.threads import ThreadPool
from . import dense_products
from .coordinate_sweeps import PanelSweeps, SingleSweeps
from .correlated_pairs import found_pairs, room_for_squares
from .low_rank import LowRank
from .reduced_matrix import ReducedMatrix, Sweeps

__all__ = ["SharedMatrix", "as_precision"]

STRIPE = 256  # rows of the matrix that are worked on at once
MOST = 0.7  # share of the coordinates that are not zero up to which a product is by them alone
SOLVABLE = 794  # columns that are not solved exactly any more
REGULAR = 1e-8  # of its diagonal: what makes a singular matrix regular,
REGULAR_SINGLE = 1e-5  # and one in single precision, whose rounding leaves it indefinite
LONG = 3000  # coordinates of one replicate from which on all threads tell its moves
ALONE = 0.9  # the same of one replicate


def as_precision(x: np.ndarray, dtype: np.dtype | type) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (k, B) in units of their largest entries, which fit any precision, and the units."""
    size = column_max(np.abs(x))
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    return (x / size).astype(dtype), size


class SharedMatrix(ReducedMatrix):
    """A Hessian G as an array; it is not changed, and Y'Y is never stored.

    Parameters
    ----------
    G : (k, w) array
        Symmetric, in single or double precision, in the first k columns; what is behind them is
        not looked at.
    free : (k,) bool array
        Columns without any penalty.
    pool : ThreadPool
    """

    def __init__(self, G: np.ndarray, free: np.ndarray, pool: ThreadPool) -> None:
        self.rows = G
        self.G = G = G[:, : len(G)]
        whole = np.diagonal(G).astype(np.float64)
        super().__init__(whole, free, lambda f: G[f].astype(np.float64), pool)

    @property
    def dense(self) -> SharedMatrix:
        """See `ReducedMatrix.dense`."""
        return self

    @property
    def solvable(self) -> int:
        """See `ReducedMatrix.solvable`."""
        return SOLVABLE

    @property
    def rounding(self) -> float:
        """See `ReducedMatrix.rounding`."""
        return REGULAR if self.G.dtype == np.float64 else REGULAR_SINGLE

    def sweeps(self, low: LowRank) -> Sweeps:
        """See `ReducedMatrix.sweeps`."""
        if low.U.shape[2] == 1 and self.k < LONG:
            return SingleSweeps(self, low)
        return PanelSweeps(self, low)

    def times(self, x: np.ndarray) -> np.ndarray:
        """See `ReducedMatrix.times`."""
        f, G = self.f, self.G
        z, size = as_precision(x, G.dtype)
        z[f] = 0.0
        some = np.flatnonzero(row_any(z))
        if len(some) > (MOST if x.shape[1] > 1 else ALONE) * self.k:
            out = dense_products.times(self.rows, z, self.pool)
        else:
            out = dense_products.transposed_times(self.rows, z[some], self.pool, (0, self.k), some)
        out *= size
        if len(f):
            out -= self.Y.T @ (self.Y @ x)
            out[f] = x[f]
        return out

    def propagate_updates(self, a: int, b: int, delta: np.ndarray, s: np.ndarray) -> None:
        """See `SweepMatrix.propagate_updates`."""
        k, B = s.shape
        if b - a == k:
            return
        if not dense_products.by_memory(self.G, B):
            s += self._spread(a, b, delta)
            return
        Q, P = dense_products.width(B), b - a
        Z, rows = np.zeros((P, -(-B // Q), Q), np.float32), np.empty(P, np.int64)
        size = np.empty(B)
        n = moved_rows(delta, self.eliminated, a, Z, rows, size)
        t = self.Y[:, a:b] @ delta

        def add(sums: np.ndarray, i: int, j: int) -> None:
            add_updates(sums, size, self.Y, t, self.eliminated, a, b, i, j, s)

        dense_products.of_rows(self.rows, Z[:n], rows[:n], (0, k), self.pool, add)

    def _spread(self, a: int, b: int, delta: np.ndarray) -> np.ndarray:
        delta = delta.copy()
        delta[self.f[(self.f >= a) & (self.f < b)] - a] = 0.0
        z, size = as_precision(delta, self.G.dtype)
        some = np.flatnonzero(row_any(z))
        out = dense_products.transposed_times(self.rows, z[some], self.pool, (0, self.k), a + some)
        out *= size
        if len(self.f):
            out -= self.Y.T @ (self.Y[:, a:b] @ delta)
        out[self.f] = 0.0
        out[a:b] = 0.0
        return out

    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """See `ReducedMatrix.part`."""
        A: np.ndarray = np.empty((len(at), len(at)), dtype)

        def stripe(a: int, b: int) -> None:
            A[a:b] = self.between(at[a:b], at, dtype)

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])
        inside = np.flatnonzero(self.eliminated[at])
        A[inside, inside] = 1.0
        return A

    def lower_part(self, at: np.ndarray, size: np.ndarray, out: np.ndarray) -> None:
        """See `MatrixEntries.lower_part`."""
        m = out.shape[1]

        def stripe(a: int, b: int) -> None:
            j = min(b, m)
            out[a:b, :j] = self.between(at[a:b], at[:j], out.dtype)
            out[a:b, :j] *= (1.0 / size[a:b, None]).astype(out.dtype)
            out[a:b, :j] *= (1.0 / size[:j]).astype(out.dtype)

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])

    def between(self, rows: np.ndarray, columns: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
        """See `MatrixEntries.between`."""
        A = np.take(self.G[rows], columns, axis=1).astype(dtype, copy=False)
        if len(self.f):
            A -= self.Y[:, rows].astype(dtype, copy=False).T @ self.Y[:, columns].astype(
                dtype, copy=False
            )
            A[self.eliminated[rows]] = 0.0
            A[:, self.eliminated[columns]] = 0.0
        return A

    def only(self, at: np.ndarray) -> SharedMatrix:
        """See `ReducedMatrix.only`."""
        G = np.empty((len(at), len(at)), self.G.dtype)

        def stripe(a: int, b: int) -> None:
            np.take(self.G[at[a:b]], at, axis=1, out=G[a:b])

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])
        out = self._cut(at)
        out.G, out.rows = G, G
        return out

    # -- blocks ----------------------------------------------------------------------------------

    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedMatrix.strong_pairs`."""

        def some(a: int, b: int, least: float, *room: np.ndarray) -> int:
            count: int = strong_pairs(self.rows, self.Y, size, a, b, least, np.empty(b), *room)
            return count

        stripes = [(a, min(a + STRIPE, self.k)) for a in range(known, self.k, STRIPE)]
        return found_pairs(some, stripes, self.pool, (self.k - known) * self.k // 2)

    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """See `ReducedMatrix.correlations`: nothing."""
        return ()

    def squares(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedMatrix.squares`."""
        at, out = room_for_squares(starts)
        matrix_squares(self.rows, self.Y, members, starts, 0, len(starts) - 1, at, out)
        return at, out
