"""A Hessian as an operator on the stored columns of X, used where its array would be too large."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from ...backends.cpu import NO_DATA, CpuBackend, Lines
from ...backends.cpu.descent.column_descent import add_columns, column_sums, sweep_columns
from ...backends.thread_pool import balanced_chunks
from ...design_matrix.column_storage import DenseBlock, SparseBlock
from ...design_matrix.design_interfaces import ColumnStore
from ..subproblem.subproblem_constants import PreconditionerPolicy
from ..work_sizes import SIZES
from .preconditioner_correlations import Piece, correlations, strong_pairs

__all__ = ["ColumnHessian", "StoredColumns"]


class StoredColumns:
    """The working set's columns as X stores them.

    Parameters
    ----------
    W : (k,) int array
    order : (m,) int array or None
        The row of X for each row of the model.
    """

    def __init__(self, design: ColumnStore, W: np.ndarray, order: np.ndarray | None) -> None:
        self.n, self.k, self.order = design.n, len(W), order
        self.pieces: list[Piece] = []
        for block, local, at in design.columns(W):
            sparse = isinstance(block, SparseBlock)
            if isinstance(block, SparseBlock):
                lines = block.taken(local)
            else:  # Dense columns are represented as sparse ones without gaps.
                every = np.arange(self.n, dtype=np.int64)
                data = NO_DATA
                if isinstance(block, DenseBlock):
                    data = np.ascontiguousarray(block.values[:, local].T).ravel()
                starts = np.arange(len(local)) * self.n
                lines = Lines(starts, starts + self.n, np.tile(every, len(local)), data, self.n)
            self.pieces.append(Piece(lines, np.ascontiguousarray(at), sparse))

    def only(self, at: np.ndarray) -> StoredColumns:
        """Select columns by ascending positions; their entries are shared, not copied."""
        place = np.full(self.k, -1)
        place[at] = np.arange(len(at))
        out = copy.copy(self)
        out.k, out.pieces = len(at), []
        for piece in self.pieces:
            here = np.flatnonzero(place[piece.at] >= 0)
            if len(here):
                at = place[piece.at[here]]
                out.pieces.append(Piece(piece.lines.take(here), at, piece.sparse))
        return out

    def of_rows(self, v: np.ndarray) -> np.ndarray:
        """Convert a vector (m,) over the model's rows to one over X's rows, (n,)."""
        if self.order is not None:
            v = np.bincount(self.order, v, minlength=self.n)
        return np.ascontiguousarray(v)


class ColumnHessian:
    """X' H_η X over some columns, applied to vectors and never formed.

    Where H_η has more than its diagonal v, the likelihood is invariant to a shift of η. Descent
    then uses the surrogate X' diag(v) X − c m m' with m = X' v and c = 1 / Σv. It is the covariance
    of the columns under the weights v, which is at least the sum of their covariances within groups
    of rows.

    Parameters
    ----------
    v : (m,) array
        The diagonal of H_η, at least zero, over the model's rows.
    product : callable or None
        Multiplies a direction (m,) by H_η, where that is more than diag(v).

    Attributes
    ----------
    pool : ThreadPool
    h : (k,) array
        The diagonal of the matrix that descent uses.
    """

    def __init__(
        self, columns: StoredColumns, v: np.ndarray,
        product: Callable[[np.ndarray], np.ndarray] | None, backend: CpuBackend,
    ) -> None:  # fmt: skip
        self.columns, self.backend, self.pool = columns, backend, backend.pool
        self.product = product
        self.v = v = columns.of_rows(v)
        self.m = np.zeros(columns.k)
        self.c = 0.0 if product is None else 1.0 / max(float(v.sum()), 1e-300)
        self.h = np.empty(columns.k)
        squared = copy.copy(columns)
        squared.pieces = [
            p._replace(lines=p.lines._replace(data=p.lines.data**2)) for p in columns.pieces
        ]
        self._sums(squared, v, self.h)
        if self.c:
            self._sums(columns, v, self.m)
            self.h = np.maximum(self.h - self.c * self.m**2, 0.0)

    @property
    def k(self) -> int:
        """Number of columns."""
        return self.columns.k

    @property
    def minimiser(self) -> None:
        """See `ColumnOperator.minimiser`."""

    def only(self, at: np.ndarray) -> ColumnHessian:
        """Return the operator for some columns, given by ascending positions."""
        out = copy.copy(self)
        out.columns, out.h, out.m = self.columns.only(at), self.h[at], self.m[at]
        return out

    # -- products ----------------------------------------------------------------------------

    def times(self, x: np.ndarray) -> np.ndarray:
        """Multiply the matrix by x (k, B)."""
        B, out = x.shape[1], np.empty(x.shape[::-1])
        lanes = [np.ascontiguousarray(x[:, b]) for b in range(B)]
        if B == 1:
            self._sums(self.columns, self._curved(self._predictor(lanes[0])), out[0])
        else:

            def lane(b: int) -> None:
                z = np.zeros(self.columns.n)
                for piece in self.columns.pieces:
                    add_columns(*piece.columns, lanes[b], 0, len(piece.at), z)
                self._transposed_product(self._curved(z), out[b])

            self.pool.map(lane, [(b,) for b in range(B)])
        return np.ascontiguousarray(out.T)

    def _curved(self, z: np.ndarray) -> np.ndarray:
        """Compute H_η z for a direction in X's rows, overwriting z."""
        order = self.columns.order
        if self.product is None:
            z *= self.v
            return z
        if order is None:
            return self.product(z)
        return self.columns.of_rows(self.product(z[order]))

    def _transposed_product(self, z: np.ndarray, out: np.ndarray) -> None:
        """Compute X' z into ``out`` (k,) in one thread."""
        for piece in self.columns.pieces:
            column_sums(*piece.columns, z, 0, len(piece.at), out)

    def _predictor(self, x: np.ndarray) -> np.ndarray:
        """Compute X x of one vector in all threads; partial sums are added in a fixed order."""
        out = np.zeros(self.columns.n)
        for piece in self.columns.pieces:
            read = np.where(x[piece.at] != 0, piece.lines.ends - piece.lines.starts, 0)

            def some(a: int, b: int, piece: Piece = piece) -> np.ndarray:
                z = np.zeros(self.columns.n)
                add_columns(*piece.columns, x, a, b, z)
                return z

            for z in self.pool.map(
                some, balanced_chunks(np.append(0, np.cumsum(read)), SIZES.column_partial_sums)
            ):
                out += z
        return out

    def _sums(self, columns: StoredColumns, z: np.ndarray, out: np.ndarray) -> None:
        """Compute X' z into ``out`` (k,) in all threads."""
        for piece in columns.pieces:

            def some(a: int, b: int, piece: Piece = piece) -> None:
                column_sums(*piece.columns, z, a, b, out)

            self.pool.map(some, piece.chunks)

    # -- descent -----------------------------------------------------------------------------

    def sweep(
        self, V: np.ndarray, c: np.ndarray, eliminated: np.ndarray, s: np.ndarray, y: np.ndarray,
        h: np.ndarray, l1: np.ndarray, rest: np.ndarray,
    ) -> np.ndarray | None:  # fmt: skip
        """Sweep over the columns; see `ColumnOperator.sweep` and the kernel `sweep_columns`."""
        V, c = np.vstack([np.where(eliminated, 0.0, self.m), V]), np.append(-self.c, c)
        z, delta, done = np.zeros(self.columns.n), np.zeros(self.k), np.zeros(len(c))
        moved = False
        for piece in self.columns.pieces:
            moved |= sweep_columns(
                *piece.columns, self.v, V, c, eliminated, s, y, h, l1, rest, delta, done, z
            )
        if not moved:
            return None
        out = np.empty(self.k)
        # Replace the surrogate's product by that of H_η, which is zero wherever v is.
        if self.product is not None:
            z = self._curved(np.divide(z, self.v, out=np.zeros(len(z)), where=self.v > 0))
            c[0] = 0.0
        self._transposed_product(z, out)
        out[eliminated] = delta[eliminated]
        return out + (c * done) @ V

    # -- blocks of correlated columns ----------------------------------------------------------

    def strong_pairs(
        self, Y: np.ndarray, size: np.ndarray, known: int, policy: PreconditionerPolicy
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find strongly correlated pairs of sparse columns; see `ReducedHessian.strong_pairs`.

        Correlations are those of the matrix that descent uses, less Y'Y (M, k). Only columns of the
        same sparse block are compared.
        """
        found = [
            strong_pairs(piece, self.v, self._terms(Y, piece.at), size, known, self.backend, policy)
            for piece in self.columns.pieces
            if piece.sparse
        ]
        pairs = np.concatenate([np.empty((0, 2), np.int64), *(p for p, _ in found)])
        return pairs, np.concatenate([np.empty(0), *(s for _, s in found)])

    def correlations(
        self, Y: np.ndarray, size: np.ndarray, of: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Compute correlations within blocks ``of`` (k,), in the form for `block_squares`."""
        first, width, place = np.zeros(self.k, np.int64), np.ones(self.k, np.int64), 0 * of
        parts, begin = [np.ones(1)], 1  # A column without a block has a square of one.
        for piece in self.columns.pieces:
            if not piece.sparse:
                continue
            own = correlations(piece, self.v, self._terms(Y, piece.at), size, of, self.pool)
            first[own.at], width[own.at], place[own.at] = begin + own.first, own.width, own.place
            parts.append(own.squares)
            begin += len(own.squares)
        return np.concatenate(parts), first, width, place

    def _terms(self, Y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return V and c of the low-rank part V' diag(c) V for columns at some positions."""
        V = np.ascontiguousarray(np.vstack([self.m[at], Y[:, at]]))
        return V, np.append(-self.c, np.full(len(Y), -1.0))
