"""The columns that a fit works on, stored by rows for fast products in the solver."""

from __future__ import annotations

import copy
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg.blas import dgemm

from ..backends.backend_interface import Backend, Lines
from ..backends.cpu.sparse.sparse_lines import FEW
from ..backends.reductions_of_tall_arrays import transposed_product
from .column_storage import Block, ConstantBlock, DenseBlock, SparseBlock
from .design_interfaces import ColumnStore
from .storage_and_scaling_constants import STORAGE

__all__ = ["RowMatrix"]


class RowMatrix:
    """Chosen columns of a design, stored by rows in the model's row order.

    Dense columns keep the order of the chosen columns.

    With storage by rows, both products stream through memory and access only the small p × B side
    at random. 16-bit column numbers halve the size of the copy.

    Parameters
    ----------
    chosen : (k,) int array
        Columns, numbered locally 0 … k − 1 in this order.
    order : (m,) int array or None
        The row of X for each row of the model; None is the identity.
    backend
        See `steropes.backends`.
    position : (design.n,) int array, optional
        The model's row of each row of X, or −1, if it is known.
    """

    layout: ClassVar[Literal["rows"]] = "rows"

    def __init__(
        self,
        design: ColumnStore,
        chosen: np.ndarray,
        order: np.ndarray | None,
        backend: Backend,
        position: np.ndarray | None = None,
    ) -> None:
        self.backend = backend
        self.chosen = np.asarray(chosen, dtype=np.int64)
        k, n = len(self.chosen), design.n if order is None else len(order)
        position = _positions(design.n, order) if position is None else position
        # A device keeps its copy of the positions as long as they exist.
        self._position = None if backend.on_host else position
        sparse_at, dense_at, dense = [], [], []
        parts = list(design.columns(self.chosen))
        led = _led(parts) if backend.on_host and order is None else None
        if led is not None:
            dense = [led]
            dense_at = [at for b, _, at in parts if not isinstance(b, SparseBlock)]
        for b, local, at in parts:
            if isinstance(b, SparseBlock):
                sparse_at.append((b.taken(local), at))
            elif led is not None:
                continue
            elif isinstance(b, DenseBlock):
                x = b.taken(local, backend)
                dense.append(x if order is None else backend.xp.take(x, order, axis=0))
                dense_at.append(at)
            elif isinstance(b, ConstantBlock):
                dense.append(backend.xp.ones((n, 1)))
                dense_at.append(at)
        self.n, self.k = n, k
        self.dense_at = np.concatenate(dense_at) if dense_at else np.empty(0, np.int64)
        self.dense = None
        if dense:
            if len(dense) > 1:
                together = backend.xp.concatenate(dense, axis=1)
            else:  # A view of some columns of a block would be slow and keep the block.
                together = dense[0]
                if backend.on_host and together.base is not None:
                    together = together.copy()
            if (np.diff(self.dense_at) < 0).any():  # columns of several blocks are unordered
                by = np.argsort(self.dense_at)
                self.dense_at, together = self.dense_at[by], together[:, by]
            self.dense = backend.xp.ascontiguousarray(together)
        self.sparse_at = (
            np.sort(np.concatenate([at for _, at in sparse_at]))
            if sparse_at
            else np.empty(0, np.int64)
        )
        self.lines = None
        if sparse_at:
            self.lines = backend.to_rows(sparse_at, position, n, k)

    @property
    def entries(self) -> int:
        """Number of stored entries, including those of dense columns."""
        return len(self.dense_at) * self.n + (0 if self.lines is None else self.lines.nnz)

    def grown(self, design: ColumnStore, chosen: np.ndarray, order: np.ndarray | None) -> RowMatrix:
        """Append columns: ``chosen`` begins with the present columns.

        Only the new columns are converted to rows if there are many entries. The present object
        must not be used afterwards.
        """
        if self.k == 0 or (self.backend.on_host and self.entries < FEW):
            return RowMatrix(design, chosen, order, self.backend, self._position)
        new = RowMatrix(design, chosen[self.k :], order, self.backend, self._position)
        out = copy.copy(self)
        out.chosen, out.k = np.asarray(chosen, np.int64), len(chosen)
        out.dense_at = np.concatenate([self.dense_at, new.dense_at + self.k])
        out.sparse_at = np.concatenate([self.sparse_at, new.sparse_at + self.k])
        if self.dense is None:
            out.dense = new.dense
        elif new.dense is not None:
            out.dense = self.backend.xp.concatenate([self.dense, new.dense], axis=1)
        if self.lines is None and new.lines is not None:
            return RowMatrix(design, chosen, order, self.backend, self._position)
        if self.lines is not None and new.lines is not None:
            out.lines = self.backend.append_columns(self.lines, new.lines, self.k, out.k)
        elif self.lines is not None:
            out.lines = self.lines._replace(width=out.k)
        return out

    def matmul(self, D: np.ndarray) -> np.ndarray:
        """Compute X D: (k, B) → (n, B)."""
        if self.lines is not None:
            out = self.backend.gather(self.lines, D)
        else:
            out = self.backend.xp.zeros((self.n, D.shape[1]))
        if self.dense is None:
            return out
        d = D[self.dense_at]
        if self.backend.on_host and d.shape[1] > 1 and len(d) <= STORAGE.thin_columns:
            # Added in place, because a separate product takes longer than the sparse columns.
            dgemm(1.0, d.T, self.dense.T, beta=1.0, c=out.T, overwrite_c=True)
        else:
            out += self.dense @ d
        return out

    def rmatmul(self, R: np.ndarray) -> np.ndarray:
        """Compute X' R: (n, B) → (k, B)."""
        if self.lines is not None:
            out = self.backend.scatter(self.lines, R)
        else:
            out = self.backend.xp.zeros((self.k, R.shape[1]))
        if self.dense is not None:
            here = self.backend.on_host
            out[self.dense_at] = transposed_product(self.dense, R) if here else self.dense.T @ R
        return out

    def gram(self, v: np.ndarray, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `RowsLike.gram`."""
        xp = self.backend.xp
        # Single precision is used only for sums that cannot overflow.
        rough = rough and self.n * float(v.max() if len(v) else 0.0) < STORAGE.max_single_precision
        G = xp.zeros((self.k, self.k), np.float32 if rough else np.float64)
        S, D = self.sparse_at, self.dense_at
        lines, dense = self.lines, self.dense
        if self.backend.on_host and 2 * np.count_nonzero(v) < self.n:
            at = np.flatnonzero(v)  # rows without weight are skipped
            v = v[at]
            lines = None if lines is None else lines.take(at)
            dense = None if dense is None else dense[at]
        if lines is not None:
            self.backend.gram(lines, v, G, first, rough)
            self._mirror(G, first)
        if dense is not None:
            late, late_dense = first <= S, first <= D
            G[np.ix_(D[late_dense], D)] = self._dense_gram(dense, v)[late_dense]
            if lines is not None:
                cross = self._lines_times(lines, dense * v[:, None])[S]
                G[np.ix_(S[late], D)] = cross[late]
                G[np.ix_(D[late_dense], S)] = cross.T[late_dense]
        return G

    def _dense_gram(self, dense: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Compute Z' diag(v) Z of dense columns, on the host in pieces that stay in the cache."""
        if not self.backend.on_host:
            return dense.T @ (dense * v[:, None])
        n, k = dense.shape
        G = np.zeros((k, k))
        for a in range(0, n, STORAGE.squared_rows):
            Z = dense[a : a + STORAGE.squared_rows]
            G += Z.T @ (Z * v[a : a + STORAGE.squared_rows, None])
        return G

    def _mirror(self, G: np.ndarray, first: int) -> None:
        """Copy rows ``first`` … of the lower triangle to the upper one, which is zero.

        Earlier rows stay unchanged, since each would need a page of memory.
        """
        tril = self.backend.xp.tril

        def stripe(a: int, b: int) -> None:
            G[first:a, a:b] = G[a:b, first:a].T
            square = G[a:b, a:b]
            square += tril(square, -1).T

        k = len(G)
        stripes = [
            (a, min(a + STORAGE.mirrored_rows, k)) for a in range(first, k, STORAGE.mirrored_rows)
        ]
        if self.backend.on_host:
            self.backend.pool.map(stripe, stripes, (k - first) ** 2)
            return
        for a, b in stripes:
            stripe(a, b)

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """Compute Σ_i v_i x_ij² of each column, (k,)."""
        return self.diagonals(v[:, None])[:, 0]

    def diagonals(self, V: np.ndarray) -> np.ndarray:
        """Compute `diagonal` for several v: (n, B) → (k, B), with B padded to `Backend.lanes`."""
        if self.lines is not None:
            squared = self.lines  # Zeros and ones are their own squares.
            if len(self.lines.data):
                squared = self.lines._replace(data=self.lines.data**2)
            out = self.backend.scatter(squared, V)
        else:
            out = self.backend.xp.zeros((self.k, V.shape[1]))
        if self.dense is not None:
            h = self.backend.xp.zeros((len(self.dense_at), V.shape[1]))
            for i in range(0, self.n, STORAGE.squared_rows):  # the squares stay in the cache
                h += (self.dense[i : i + STORAGE.squared_rows] ** 2).T @ V[
                    i : i + STORAGE.squared_rows
                ]
            out[self.dense_at] = h
        return out

    def taken(self, people: np.ndarray) -> RowMatrix:
        """Select rows; sparse entries are shared, not copied."""
        out = copy.copy(self)
        out.n = len(people)
        out.lines = None if self.lines is None else self.lines.take(people)
        out.dense = None if self.dense is None else self.dense[people]
        return out

    def between(self, first: int, last: int) -> np.ndarray:
        """Return the rows first … last − 1 as a dense array, (last − first, k)."""
        if not self.backend.on_host:
            ones = self.backend.xp.ones(self.n)
            return self.sums(ones, np.arange(first, last + 1))
        out = self.backend.xp.zeros((last - first, self.k))
        if self.dense is not None:
            out[:, self.dense_at] = self.dense[first:last]
        if self.lines is not None and last > first:
            x = self.lines
            counts = x.ends[first:last] - x.starts[first:last]
            at = slice(int(x.starts[first]), int(x.ends[last - 1]))
            value = x.data[at] if x.data.size else 1.0
            out[np.repeat(np.arange(last - first), counts), x.indices[at]] = value
        return out

    def sums(
        self, u: np.ndarray, pointers: np.ndarray, lines: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute Σ u_i x_i over each run of rows pointers[s] … pointers[s + 1] − 1, (s, k).

        With ``lines``, a stream of row numbers, ``u`` and the pointers refer to the stream.
        """
        if self.lines is not None:
            entries = self.lines if lines is None else self.lines.take(lines)
            out = self.backend.line_sums(entries, u, pointers)
        else:
            out = self.backend.xp.zeros((len(pointers) - 1, self.k))
        if self.dense is not None:
            dense = self.dense if lines is None else self.dense[lines]
            out[:, self.dense_at] = self.backend.segment_sum(dense * u[:, None], pointers)
        return out

    def _lines_times(self, lines: Lines, Z: np.ndarray) -> np.ndarray:
        """Multiply the transpose of sparse lines with a dense matrix of any width."""
        k = Z.shape[1]
        padded = self.backend.xp.zeros((len(Z), self.backend.lanes(k)))
        padded[:, :k] = Z
        return self.backend.scatter(lines, padded)[:, :k]


def _led(parts: list[tuple[Block, np.ndarray, np.ndarray]]) -> np.ndarray | None:
    """Return the intercept and all dense columns if one block has them by row already."""
    dense = [(b, local) for b, local, _ in parts if not isinstance(b, SparseBlock)]
    if len(dense) != 2 or not isinstance(dense[0][0], ConstantBlock):
        return None
    block, local = dense[1]
    if not isinstance(block, DenseBlock) or not np.array_equal(local, np.arange(block.p)):
        return None
    return block.led


def _positions(n: int, order: np.ndarray | None) -> np.ndarray:
    """Return the model's row of each of n rows of X, −1 for rows that the model leaves out."""
    index = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    if order is None:
        return np.arange(n, dtype=index)
    position = np.full(n, -1, index)
    position[order] = np.arange(len(order), dtype=index)
    return position
