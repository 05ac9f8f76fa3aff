"""The rows of the model as they come, chunk by chunk of cases, without a second copy of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steropes.studies.sccs.interval_splitting import Pieces

__all__ = ["Rows"]

MOST = 1 << 16  # rows of a chunk, whose numbers are of two bytes


class _Growing:
    """An array that rows are added to; it grows and shrinks in place where the system can."""

    def __init__(self, kind: type, width: int = 0) -> None:
        self.values: NDArray = np.empty((0, width) if width else 0, kind)
        self.n = 0

    def add(self, rows: NDArray) -> None:
        """Add rows at the end."""
        n = self.n + len(rows)
        if n > len(self.values):  # what is not used yet is zeroed, and so takes memory: a little
            self._resize(n + n // 32)
        self.values[self.n : n] = rows
        self.n = n

    def whole(self) -> NDArray:
        """All rows."""
        self._resize(self.n)
        return self.values

    def last(self, n: int) -> NDArray:
        """Take the last rows away."""
        self.n -= n
        taken = self.values[self.n : self.n + n].copy()
        self._resize(self.n)
        return taken

    def _resize(self, n: int) -> None:
        # nothing else refers to the array: it may move
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
        # of each chunk: its pointers and rows, and the ones by columns, counted from its first row
        self._chunks: list[tuple[NDArray, int]] = []
        self._ones = _Growing(np.uint16)

    def add(self, pieces: Pieces, time: NDArray | None, a: int) -> None:
        """Add the rows of a chunk, which begins with case ``a``."""
        for low in range(0, len(pieces.case), MOST):
            rows = slice(low, low + MOST)
            ends = pieces.indptr[low : low + MOST + 1]
            self._add_ones(ends - ends[0], pieces.columns[ends[0] : ends[-1]])
            self.case.add(pieces.case[rows] + a)
            self.events.add(pieces.events[rows])
            self.days.add(pieces.days[rows])
            if time is not None:
                self.time.add(time[rows])

    def _add_ones(self, indptr: NDArray, columns: NDArray) -> None:
        n = len(indptr) - 1
        by_rows = sparse.csr_array((np.ones(len(columns), bool), columns, indptr), (n, self.p))
        block = by_rows.tocsc()
        self._chunks.append((block.indptr.astype(np.int32), n))
        self._ones.add(block.indices)

    def matrix(self) -> sparse.csc_array:
        """The 0/1 covariates by columns; the chunks are let go as they are put in place."""
        n = self.case.n
        counts = np.zeros(self.p, np.int64)
        for pointers, _ in self._chunks:
            counts += np.diff(pointers)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        indices = np.empty(indptr[-1], np.int32 if n <= np.iinfo(np.int32).max else np.int64)
        ends, row = indptr[1:].copy(), n
        while self._chunks:  # from the last, whose memory goes first
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
