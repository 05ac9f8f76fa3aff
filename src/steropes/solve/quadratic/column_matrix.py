"""The matrix that replicates share where it is known by the columns that it is made of alone."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...backends.cpu.blocks import block_squares
from ...backends.tall import column_any
from ...backends.threads import ThreadPool
from .coordinate_sweeps import own_terms
from .correlated_pairs import room_for_squares
from .low_rank import LowRank
from .reduced_matrix import ReducedMatrix, Sweeps

__all__ = ["ColumnMatrix", "ColumnOperator"]

SOLVABLE = 100  # columns whose products are worth an exact solution
REGULAR = 1e-8  # of its diagonal: what makes a singular part regular
ROUNDING = 1e-7  # of a column's own curvature: what is left of less is rounding


class ColumnOperator(Protocol):
    """A Hessian over some columns that is never made, only multiplied by.

    Attributes
    ----------
    h : (k,) array
        Its diagonal.
    """

    h: np.ndarray
    pool: ThreadPool

    @property
    def k(self) -> int:
        """How many columns there are."""

    def only(self, at: np.ndarray) -> ColumnOperator:
        """The same of the columns at some places, ascending."""

    def times(self, x: np.ndarray) -> np.ndarray:
        """The matrix times x (k, B)."""

    def sweep(
        self, V: np.ndarray, c: np.ndarray, eliminated: np.ndarray, s: np.ndarray, y: np.ndarray,
        h: np.ndarray, l1: np.ndarray,
    ) -> np.ndarray | None:  # fmt: skip
        """One pass of descent for one replicate: the point y (k,) moves.

        Returns what that changes of the slopes s (k,), which stay as they are, or None where
        nothing moved. The matrix is this one and V' diag(c) V (M, k), but that coordinates
        ``eliminated`` have nothing of the columns and ones on the diagonal. Vectors are as in
        `Sweeps.run`.
        """

    def strong_pairs(
        self, Y: np.ndarray, size: np.ndarray, known: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedMatrix.strong_pairs`, of this matrix less Y'Y (M, k)."""

    def correlations(
        self, Y: np.ndarray, size: np.ndarray, of: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Correlations under the same matrix in blocks ``of``, as `block_squares` takes them."""


class ColumnMatrix(ReducedMatrix):
    """A Hessian G of columns; products with it read their entries.

    Of as many columns as there is no memory for G, that takes no longer than to read G would.

    Parameters
    ----------
    columns : ColumnOperator
    free : (k,) bool array
        Columns without any penalty.
    """

    def __init__(self, columns: ColumnOperator, free: np.ndarray) -> None:
        self.columns = columns

        def rows(f: np.ndarray) -> np.ndarray:
            one = np.zeros((columns.k, len(f)))
            one[f, np.arange(len(f))] = 1.0
            return columns.times(one).T

        super().__init__(columns.h, free, rows, columns.pool)

    @property
    def dense(self) -> None:
        """See `ReducedMatrix.dense`: there is none."""

    @property
    def solvable(self) -> int:
        """See `ReducedMatrix.solvable`."""
        return SOLVABLE

    @property
    def rounding(self) -> float:
        """See `ReducedMatrix.rounding`."""
        return REGULAR

    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """See `ReducedMatrix.part`: a product for each column."""
        one = np.zeros((self.k, len(at)))
        one[at, np.arange(len(at))] = 1.0
        A = self.times(one)[at]
        return (0.5 * (A + A.T)).astype(dtype)

    def only(self, at: np.ndarray) -> ColumnMatrix:
        """See `ReducedMatrix.only`."""
        out = self._cut(at)
        out.columns = self.columns.only(at)
        return out

    def times(self, x: np.ndarray) -> np.ndarray:
        """See `ReducedMatrix.times`."""
        f = self.f
        if not len(f):
            return self.columns.times(x)
        z = x.copy()
        z[f] = 0.0
        out = self.columns.times(z)
        out -= self.Y.T @ (self.Y @ x)
        out[f] = x[f]
        return out

    def sweeps(self, low: LowRank) -> Sweeps:
        """See `ReducedMatrix.sweeps`."""
        return ColumnSweeps(self, low)

    # -- blocks ----------------------------------------------------------------------------------

    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedMatrix.strong_pairs`."""
        return self.columns.strong_pairs(self.Y, size, known)

    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """See `ReducedMatrix.correlations`."""
        firm = self.diagonal > ROUNDING * self.whole
        size = np.where(firm, self.diagonal, np.inf) ** -0.5
        return self.columns.correlations(self.Y, size, of)

    def squares(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedMatrix.squares`: correlations of another point may do, in today's units."""
        at, out = room_for_squares(starts)
        size = np.sqrt(np.maximum(self.diagonal, 0.0))
        block_squares(*known, size, members, starts, 0, len(starts) - 1, at, out)
        return at, out


class ColumnSweeps:
    """Descent on columns, each replicate by itself; see `Sweeps`."""

    def __init__(self, matrix: ColumnMatrix, low: LowRank) -> None:
        self.matrix = matrix
        self._terms = [own_terms(matrix.Y, low, b) for b in range(low.c.shape[1])]

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
    ) -> None:  # fmt: skip
        """See `Sweeps.run`."""
        matrix = self.matrix

        def lane(b: int) -> None:
            slope, curve, first = (np.ascontiguousarray(x[:, b]) for x in (s, h, l1))
            point = y[:, b].copy()
            change = matrix.columns.sweep(
                *self._terms[b], matrix.eliminated, slope, point, curve, first
            )
            if change is not None:
                s[:, b] += change + l2[:, b] * (point - y[:, b])
                y[:, b] = point

        lanes = np.flatnonzero(column_any(h > 0))
        matrix.pool.map(lane, [(int(b),) for b in lanes])
