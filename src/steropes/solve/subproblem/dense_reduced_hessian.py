"""The Hessian that replicates share, stored as an array."""

from __future__ import annotations

import numpy as np

from ...backends.cpu.descent.block_cholesky import matrix_squares, strong_pairs
from ...backends.cpu.descent.slope_updates import add_updates, moved_rows
from ...backends.reductions_of_tall_arrays import column_max, row_any
from ...backends.thread_pool import ThreadPool
from ..work_sizes import SIZES, pieces
from . import dense_products
from .coordinate_sweeps import PanelSweeps, SingleSweeps
from .correlated_pairs import allocate_squares, collect_pairs
from .low_rank_hessian_terms import LowRank
from .reduced_hessian import ReducedHessian, Sweeps
from .subproblem_constants import SubproblemPolicy

__all__ = ["DenseReducedHessian", "as_precision"]

# This ridge on a unit diagonal makes a singular matrix regular.
REGULAR_RIDGE = 1e-8
# The ridge is larger in single precision, whose rounding can make the matrix indefinite.
REGULAR_RIDGE_SINGLE = 1e-5


def as_precision(x: np.ndarray, dtype: np.dtype | type) -> tuple[np.ndarray, np.ndarray]:
    """Scale vectors (k, B) to largest entries of one, convert them, and return the scales."""
    size = column_max(np.abs(x))
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    return (x / size).astype(dtype), size


class DenseReducedHessian(ReducedHessian):
    """A Hessian G as an array, which is not modified; Y'Y is never stored.

    Parameters
    ----------
    G : (k, w) array
        Symmetric, in single or double precision, in the first k columns; others are ignored.
    free : (k,) bool array
        Columns without any penalty.
    """

    def __init__(
        self, G: np.ndarray, free: np.ndarray, pool: ThreadPool,
        policy: SubproblemPolicy | None = None,
    ) -> None:  # fmt: skip
        self.rows = G
        self.G = G = G[:, : len(G)]
        whole = np.diagonal(G).astype(np.float64)
        policy = SubproblemPolicy() if policy is None else policy
        super().__init__(whole, free, lambda f: G[f].astype(np.float64), pool, policy)

    @property
    def dense(self) -> DenseReducedHessian:
        """See `ReducedHessian.dense`."""
        return self

    @property
    def solvable(self) -> int:
        """See `ReducedHessian.solvable`."""
        return self.policy.max_exact_support

    @property
    def rounding(self) -> float:
        """See `ReducedHessian.rounding`."""
        return REGULAR_RIDGE if self.G.dtype == np.float64 else REGULAR_RIDGE_SINGLE

    def sweeps(self, low: LowRank) -> Sweeps:
        """See `ReducedHessian.sweeps`."""
        if low.U.shape[2] == 1 and self.k < self.policy.min_panel_columns:
            return SingleSweeps(self, low)
        return PanelSweeps(self, low)

    def times(self, x: np.ndarray) -> np.ndarray:
        """See `ReducedHessian.times`."""
        f, G = self.f, self.G
        z, size = as_precision(x, G.dtype)
        z[f] = 0.0
        some = np.flatnonzero(row_any(z))
        policy = self.policy
        share = policy.max_read_share if x.shape[1] > 1 else policy.max_read_share_alone
        if len(some) > share * self.k:
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
        """Compute the effect of changes of the coordinates a … b on all other slopes."""
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
        """See `ReducedHessian.part`."""
        A: np.ndarray = np.empty((len(at), len(at)), dtype)

        def stripe(a: int, b: int) -> None:
            A[a:b] = self.between(at[a:b], at, dtype)

        self.pool.map(stripe, pieces(SIZES.dense_task_rows, len(at)))
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

        self.pool.map(stripe, pieces(SIZES.dense_task_rows, len(at)))

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

    def only(self, at: np.ndarray) -> DenseReducedHessian:
        """See `ReducedHessian.only`."""
        G = np.empty((len(at), len(at)), self.G.dtype)

        def stripe(a: int, b: int) -> None:
            np.take(self.G[at[a:b]], at, axis=1, out=G[a:b])

        self.pool.map(stripe, pieces(SIZES.dense_task_rows, len(at)))
        out = self._cut(at)
        out.G, out.rows = G, G
        return out

    # -- blocks ----------------------------------------------------------------------------------

    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedHessian.strong_pairs`."""

        def some(a: int, b: int, least: float, *room: np.ndarray) -> int:
            count: int = strong_pairs(self.rows, self.Y, size, a, b, least, np.empty(b), *room)
            return count

        stripes = pieces(SIZES.dense_task_rows, self.k, known)
        work = (self.k - known) * self.k // 2
        return collect_pairs(some, stripes, self.pool, work, self.policy.preconditioner)

    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return nothing, because entries can be looked up."""
        return ()

    def block_matrices(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedHessian.block_matrices`."""
        at, out = allocate_squares(starts)
        matrix_squares(self.rows, self.Y, members, starts, 0, len(starts) - 1, at, out)
        return at, out
