"""Sparse matrices stored by rows or by columns, in the arrays that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...thread_pool import CHUNKS, balanced_chunks

__all__ = ["CHUNKS", "FEW", "LONG", "NO_DATA", "PIECE", "Lines", "index_type", "pieces"]

# The data of lines in which all entries are one.
NO_DATA = np.empty(0)

# The number of entries, or lines, beyond which a plain sum loses too many digits.
LONG = 8192
# The number of entries that are summed together in longer sums.
PIECE = 1024
# The number of entries below which rows use the index type of columns, and thus their kernels.
FEW = 500_000


@dataclass(frozen=True, eq=False)
class Lines:
    """A sparse matrix by lines (rows or columns); ``data`` is empty when all entries are one."""

    starts: np.ndarray
    ends: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    width: int

    @cached_property
    def nnz(self) -> int:
        """Number of entries."""
        return int((self.ends - self.starts).sum())

    @cached_property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of lines with nearly equal work."""
        n = len(self.starts)
        step = 1 + (n >> 20)  # of many lines only every step-th is a place to cut
        if step == 1:
            done = np.zeros(n + 1, np.int64)
            np.cumsum(self.ends - self.starts + 1, out=done[1:])
            return balanced_chunks(done, CHUNKS)
        work = [
            np.add.reduceat(self.ends[a:b] - self.starts[a:b] + 1, np.arange(0, b - a, step))
            for a, b in pieces(n, step << 14)
        ]
        cuts = balanced_chunks(np.cumsum(np.concatenate([[0], *work])), CHUNKS)
        return [(a * step, min(b * step, n)) for a, b in cuts]

    def in_pieces(self) -> tuple[Lines, np.ndarray] | None:
        """Cut lines into pieces of at most `PIECE` entries; None if no line is long.

        Line a consists of the pieces first[a] … first[a + 1] − 1, with first as the second result.
        """
        size = self.ends - self.starts
        if not len(size) or size.max() <= LONG:
            return None
        count = np.maximum(-(-size // PIECE), 1)
        first = np.zeros(len(size) + 1, np.int64)
        np.cumsum(count, out=first[1:])
        of = np.repeat(np.arange(len(size)), count)
        starts = self.starts[of] + PIECE * (np.arange(first[-1]) - first[of])
        ends = np.minimum(starts + PIECE, self.ends[of])
        return replace(self, starts=starts, ends=ends), first

    def take(self, lines: np.ndarray) -> Lines:
        """Return a view of some lines."""
        return replace(self, starts=self.starts[lines], ends=self.ends[lines])

    def _replace(self, **changes) -> Lines:
        return replace(self, **changes)


def pieces(n: int, size: int) -> list[tuple[int, int]]:
    """Split n items into ranges of equal size."""
    return [(a, min(a + size, n)) for a in range(0, n, size)]


def index_type(width: int, entries: int) -> type[np.integer]:
    """Choose the index type of rows, the narrowest unless X has few entries.

    Kernels are compiled for each type, which would take longer than a small problem.
    """
    return np.uint16 if width <= np.iinfo(np.uint16).max and entries >= FEW else np.int32
