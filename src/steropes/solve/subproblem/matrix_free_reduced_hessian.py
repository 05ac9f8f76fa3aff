"""The Hessian that replicates share, as an operator on the columns of X."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...backends.backend_interface import ModelMinimiser
from ...backends.cpu.descent.block_cholesky import block_squares
from ...backends.reductions_of_tall_arrays import column_any
from ...backends.thread_pool import ThreadPool
from .coordinate_sweeps import own_terms
from .correlated_pairs import allocate_squares
from .low_rank_hessian_terms import LowRank
from .reduced_hessian import SINGLE_ROUNDING, ReducedHessian, Sweeps
from .subproblem_constants import PreconditionerPolicy, SubproblemPolicy

__all__ = ["ColumnOperator", "ColumnwiseReducedHessian"]

# This ridge on a unit diagonal makes a singular part regular.
REGULAR_RIDGE = 1e-8


class ColumnOperator(Protocol):
    """A Hessian over some columns that is applied to vectors and never formed.

    Attributes
    ----------
    h : (k,) array
        Its diagonal.
    """

    h: np.ndarray
    pool: ThreadPool

    @property
    def minimiser(self) -> ModelMinimiser | None:
        """The minimiser of models with this matrix on a device; None on the host."""

    @property
    def k(self) -> int:
        """Number of columns."""

    def only(self, at: np.ndarray) -> ColumnOperator:
        """Return the operator for the columns at some places, ascending."""

    def times(self, x: np.ndarray) -> np.ndarray:
        """Multiply the matrix by x (k, B)."""

    def sweep(
        self, V: np.ndarray, c: np.ndarray, eliminated: np.ndarray, s: np.ndarray, y: np.ndarray,
        h: np.ndarray, l1: np.ndarray, rest: np.ndarray,
    ) -> np.ndarray | None:  # fmt: skip
        """Sweep once over one replicate's coordinates, moving the point y (k,).

        Returns the resulting change of the slopes s (k,), which are not modified, or None if
        nothing moved. The matrix is this one plus V' diag(c) V (M, k), except that coordinates
        ``eliminated`` have no part in the columns and ones on the diagonal. Vectors are as in
        `Sweeps.run`.
        """

    def strong_pairs(
        self, Y: np.ndarray, size: np.ndarray, known: int, policy: PreconditionerPolicy
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find strong pairs of this matrix less Y'Y (M, k); see `ReducedHessian`."""

    def correlations(
        self, Y: np.ndarray, size: np.ndarray, of: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Compute correlations in blocks ``of`` under the same matrix, for `block_squares`."""


class ColumnwiseReducedHessian(ReducedHessian):
    """A Hessian G as a column operator; its products read the columns' entries.

    Where G would not fit the memory, this takes no longer than reading G.

    Parameters
    ----------
    free : (k,) bool array
        Columns without any penalty.
    """

    def __init__(
        self, columns: ColumnOperator, free: np.ndarray, policy: SubproblemPolicy | None = None
    ) -> None:
        self.columns = columns

        def rows(f: np.ndarray) -> np.ndarray:
            one = np.zeros((columns.k, len(f)))
            one[f, np.arange(len(f))] = 1.0
            return columns.times(one).T

        policy = SubproblemPolicy() if policy is None else policy
        super().__init__(columns.h, free, rows, columns.pool, policy)
        self.minimiser = columns.minimiser

    @property
    def dense(self) -> None:
        """None, because entries cannot be looked up."""

    @property
    def solvable(self) -> int:
        """See `ReducedHessian.solvable`."""
        return self.policy.max_exact_support_by_columns

    @property
    def rounding(self) -> float:
        """See `ReducedHessian.rounding`."""
        return REGULAR_RIDGE

    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """See `ReducedHessian.part`; takes one product for each column."""
        one = np.zeros((self.k, len(at)))
        one[at, np.arange(len(at))] = 1.0
        A = self.times(one)[at]
        return (0.5 * (A + A.T)).astype(dtype)

    def only(self, at: np.ndarray) -> ColumnwiseReducedHessian:
        """See `ReducedHessian.only`."""
        out = self._cut(at)
        out.columns = self.columns.only(at)
        return out

    def times(self, x: np.ndarray) -> np.ndarray:
        """See `ReducedHessian.times`."""
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
        """See `ReducedHessian.sweeps`."""
        return ColumnSweeps(self, low)

    # -- blocks ----------------------------------------------------------------------------------

    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedHessian.strong_pairs`."""
        return self.columns.strong_pairs(self.Y, size, known, self.policy.preconditioner)

    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """See `ReducedHessian.correlations`."""
        firm = self.diagonal > SINGLE_ROUNDING * self.whole
        size = np.where(firm, self.diagonal, np.inf) ** -0.5
        return self.columns.correlations(self.Y, size, of)

    def block_matrices(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedHessian.block_matrices`; correlations from an earlier point are rescaled."""
        at, out = allocate_squares(starts)
        size = np.sqrt(np.maximum(self.diagonal, 0.0))
        block_squares(*known, size, members, starts, 0, len(starts) - 1, at, out)
        return at, out


class ColumnSweeps:
    """Coordinate descent by columns, for each replicate separately; see `Sweeps`."""

    def __init__(self, matrix: ColumnwiseReducedHessian, low: LowRank) -> None:
        self.matrix = matrix
        self._terms = [own_terms(matrix.Y, low, b) for b in range(low.c.shape[1])]

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
        rest: np.ndarray,
    ) -> None:  # fmt: skip
        """See `Sweeps.run`."""
        matrix = self.matrix

        def lane(b: int) -> None:
            """Sweep over the columns of one replicate, and update its point and slopes."""
            slope, curve, first, least = (np.ascontiguousarray(x[:, b]) for x in (s, h, l1, rest))
            point = y[:, b].copy()
            change = matrix.columns.sweep(
                *self._terms[b], matrix.eliminated, slope, point, curve, first, least
            )
            if change is not None:
                s[:, b] += change + l2[:, b] * (point - y[:, b])
                y[:, b] = point

        lanes = np.flatnonzero(column_any(h > 0))
        matrix.pool.map(lane, [(int(b),) for b in lanes])
