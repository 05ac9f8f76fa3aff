"""Accumulation of the model's rows over chunks of cases, without a second copy in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steropes.designs.case_series.interval_splitting import ModelRows

__all__ = ["RowAccumulator"]

MOST = 1 << 16  # The largest chunk of rows, so that row numbers take two bytes.


class _GrowableArray:
    """An array to which rows are appended; it is resized in place if the system allows it."""

    def __init__(self, kind: type) -> None:
        self.values: NDArray = np.empty(0, kind)
        self.n = 0

    def add(self, rows: NDArray) -> None:
        """Append rows."""
        n = self.n + len(rows)
        if n > len(self.values):  # The reserve is zeroed and so takes memory: keep it small.
            self._resize(n + n // 32)
        self.values[self.n : n] = rows
        self.n = n

    def whole(self) -> NDArray:
        """Return all rows."""
        self._resize(self.n)
        return self.values

    def last(self, n: int) -> NDArray:
        """Remove and return the last rows."""
        self.n -= n
        taken = self.values[self.n : self.n + n].copy()
        self._resize(self.n)
        return taken

    def _resize(self, n: int) -> None:
        """Resize the array; it may move, because nothing else refers to it."""
        self.values.resize(n, refcheck=False)


class RowAccumulator:
    """The rows of all chunks, in little more memory than the final arrays need.

    Parameters
    ----------
    p : int
        Number of 0/1 covariates.

    Attributes
    ----------
    case, events, days, month, age
        Growing arrays, (n,); the last two are empty without splines.
    """

    def __init__(self, p: int) -> None:
        self.p = p
        self.case, self.events = _GrowableArray(np.int32), _GrowableArray(np.int32)
        self.days, self.age = _GrowableArray(np.float64), _GrowableArray(np.float64)
        self.month = _GrowableArray(np.int32)
        # Of each chunk: column pointers, number of rows, and row numbers within the chunk.
        self._chunks: list[tuple[NDArray, int]] = []
        self._ones = _GrowableArray(np.uint16)

    def add(self, pieces: ModelRows, a: int) -> None:
        """Append the rows of a chunk that begins with case ``a``."""
        for low in range(0, len(pieces.case), MOST):
            rows = slice(low, low + MOST)
            ends = pieces.indptr[low : low + MOST + 1]
            self._add_ones(ends - ends[0], pieces.columns[ends[0] : ends[-1]])
            self.case.add(pieces.case[rows] + a)
            self.events.add(pieces.events[rows])
            self.days.add(pieces.days[rows])
            if pieces.month is not None:
                self.month.add(pieces.month[rows])
            if pieces.age is not None:
                self.age.add(pieces.age[rows])

    def _add_ones(self, indptr: NDArray, columns: NDArray) -> None:
        """Append the 0/1 covariates of some rows, transposed to columns."""
        n = len(indptr) - 1
        by_rows = sparse.csr_array((np.ones(len(columns), bool), columns, indptr), (n, self.p))
        block = by_rows.tocsc()
        self._chunks.append((block.indptr.astype(np.int32), n))
        self._ones.add(block.indices)

    def matrix(self) -> sparse.csc_array:
        """Return the 0/1 covariates by columns; chunks are freed as they are copied."""
        n = self.case.n
        counts = np.zeros(self.p, np.int64)
        for pointers, _ in self._chunks:
            counts += np.diff(pointers)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        indices = np.empty(indptr[-1], np.int32 if n <= np.iinfo(np.int32).max else np.int64)
        ends, row = indptr[1:].copy(), n
        while self._chunks:  # Start with the last one, whose memory can be freed first.
            pointers, height = self._chunks.pop()
            local, sizes = self._ones.last(int(pointers[-1])), np.diff(pointers)
            ends -= sizes
            row -= height
            places = np.repeat(ends - pointers[:-1], sizes) + np.arange(len(local))
            indices[places] = local.astype(indices.dtype) + row
        X = sparse.csc_array((n, self.p), dtype=bool)
        X.indptr, X.indices = indptr, indices
        X.data = np.ones(len(indices), bool)
        return X
