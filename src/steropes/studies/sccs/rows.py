"""The rows of the model as they come, chunk by chunk of cases, without a second copy of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steropes.studies.sccs.cutting import Pieces

__all__ = ["Rows"]


class _Growing:
    """An array that rows are added to; it grows in place where the system can."""

    def __init__(self, kind: type, width: int = 0) -> None:
        self.values: NDArray = np.empty((0, width) if width else 0, kind)
        self.n = 0

    def add(self, rows: NDArray) -> None:
        """Add rows at the end."""
        n = self.n + len(rows)
        if n > len(self.values):  # nothing else refers to the array: it may move
            self._resize(max(n, len(self.values) + len(self.values) // 8))
        self.values[self.n : n] = rows
        self.n = n

    def whole(self) -> NDArray:
        """All rows."""
        self._resize(self.n)
        return self.values

    def _resize(self, n: int) -> None:
        self.values.resize((n, *self.values.shape[1:]), refcheck=False)


class Rows:
    """The rows of all chunks, in hardly more memory than they need when they are together.

    Parameters
    ----------
    p, q : int
        How many 0/1 covariates there are, and columns of splines.

    Attributes
    ----------
    case, events, days, time
        Growing arrays, (n,) and (n, q).
    """

    def __init__(self, p: int, q: int) -> None:
        self.p = p
        self.case, self.events = _Growing(np.int32), _Growing(np.int32)
        self.days, self.time = _Growing(np.float64), _Growing(np.float64, q)
        self._blocks: list[tuple[NDArray, NDArray, int]] = []

    def add(self, pieces: Pieces, time: NDArray | None, a: int) -> None:
        """Add the rows of a chunk, which begins with case ``a``."""
        n = len(pieces.case)
        ones = np.ones(len(pieces.columns), bool)
        by_rows = sparse.csr_array((ones, pieces.columns, pieces.indptr), (n, self.p))
        block = by_rows.tocsc()
        local = block.indices.astype(np.uint16 if n <= 1 << 16 else np.int32)
        self._blocks.append((block.indptr.astype(np.int32), local, n))
        self.case.add(pieces.case + a)
        self.events.add(pieces.events)
        self.days.add(pieces.days)
        if time is not None:
            self.time.add(time)

    def matrix(self) -> sparse.csc_array:
        """The 0/1 covariates by columns; each chunk's own are let go once they are in place."""
        n = self.case.n
        counts = np.zeros(self.p, np.int64)
        for pointers, _, _ in self._blocks:
            counts += np.diff(pointers)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        indices = np.empty(indptr[-1], np.int32 if n <= np.iinfo(np.int32).max else np.int64)
        at, row = indptr[:-1].copy(), 0
        for k, (pointers, local, height) in enumerate(self._blocks):
            sizes = np.diff(pointers)
            places = np.repeat(at - pointers[:-1], sizes) + np.arange(len(local))
            indices[places] = local.astype(indices.dtype) + row
            at += sizes
            row += height
            self._blocks[k] = (pointers[:0], local[:0], 0)
        X = sparse.csc_array((n, self.p), dtype=bool)
        X.indptr, X.indices = indptr.astype(np.int64), indices
        X.data = np.ones(len(indices), bool)
        return X
