"""Correlations of stored columns of X, for Hessians that are never formed as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...backends.cpu import CpuBackend, Lines
from ...backends.cpu.descent.block_cholesky import column_squares, strong_column_pairs
from ...backends.thread_pool import ThreadPool, balanced_chunks
from ..subproblem.correlated_pairs import collect_pairs
from ..subproblem.subproblem_constants import PreconditionerPolicy
from ..work_sizes import SIZES, pieces

__all__ = ["Correlations", "Piece", "correlations", "strong_pairs"]


class Piece(NamedTuple):
    """Some columns of the working set that one block of X stores.

    Attributes
    ----------
    at : (c,) int array
        The place of each column in the working set, ascending.
    """

    lines: Lines
    at: np.ndarray
    sparse: bool

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays of the columns that kernels take."""
        x = self.lines
        return x.starts, x.ends, x.indices, x.data

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The same arrays followed by the columns' places."""
        return *self.arrays, self.at

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of columns with nearly equal numbers of entries."""
        work = np.cumsum(np.append(0, self.lines.ends - self.lines.starts + 1))
        return balanced_chunks(work, SIZES.correlation_chunks)


def strong_pairs(
    piece: Piece, v: np.ndarray, terms: tuple[np.ndarray, np.ndarray], size: np.ndarray,
    known: int, backend: CpuBackend, policy: PreconditionerPolicy,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Find strongly correlated pairs within one piece; see `ReducedHessian.strong_pairs`.

    ``terms`` are V and c of the matrix X' diag(v) X + V' diag(c) V of these columns.
    """
    first, k, n = int(np.searchsorted(piece.at, known)), len(piece.at), len(v)
    if first == k:
        return np.empty((0, 2), np.int64), np.empty(0)
    rows = backend.to_rows([(piece.lines, np.arange(k))], np.arange(n), n, k)
    by_rows = rows.starts, rows.ends, rows.indices, rows.data
    own = size[piece.at]

    def some(a: int, b: int, least: float, *room: np.ndarray) -> int:
        count: int = strong_column_pairs(
            *piece.arrays, *by_rows, v, *terms, own, a, b, least, np.empty(b), *room
        )
        return count

    stripes = pieces(SIZES.correlation_task_columns, k, first)
    pairs, strength = collect_pairs(some, stripes, backend.pool, (k - first) * k, policy)
    return piece.at[pairs], strength


class Correlations(NamedTuple):
    """Correlations within blocks of columns, one square array for each block.

    Attributes
    ----------
    squares : array
        The squares of all blocks, one after the other.
    at : (m,) int array
        Places of the columns that share a block with others.
    first, width, place : (m,) int arrays
        Start of the square of each column's block, its number of rows, and the column's row in it.
    """

    squares: np.ndarray
    at: np.ndarray
    first: np.ndarray
    width: np.ndarray
    place: np.ndarray


def correlations(
    piece: Piece, v: np.ndarray, terms: tuple[np.ndarray, np.ndarray], size: np.ndarray,
    of: np.ndarray, pool: ThreadPool,
) -> Correlations:  # fmt: skip
    """Compute correlations of one piece's columns within the blocks ``of``; see `strong_pairs`."""
    group, own = of[piece.at], size[piece.at]
    several = np.flatnonzero(np.bincount(group, minlength=len(of))[group] > 1)
    members = several[np.argsort(group[several], kind="stable")]
    starts = np.flatnonzero(np.diff(group[members], prepend=-1, append=-1))
    lengths = np.diff(starts)
    at = np.cumsum(lengths**2) - lengths**2
    squares = np.empty(int((lengths**2).sum()))

    def some(a: int, b: int) -> None:
        z = np.zeros(len(v))
        column_squares(*piece.arrays, v, *terms, own, members, starts, a, b, at, z, squares)

    work = np.append(0, np.cumsum(lengths.astype(float) ** 2))
    pool.map(some, balanced_chunks(work, SIZES.correlation_chunks), int(work[-1]))
    place = np.arange(len(members)) - np.repeat(starts[:-1], lengths)
    width = np.repeat(lengths, lengths)
    return Correlations(squares, piece.at[members], np.repeat(at, lengths), width, place)
