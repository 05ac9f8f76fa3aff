"""A preconditioner that solves small blocks of strongly correlated columns exactly.

Columns of health data form small correlated groups: a diagnosis in four nested windows, or an
ancestor and its descendants. Once these are accounted for, only weak correlations remain, and
conjugate gradients take two or three iterations where the diagonal alone needs ten.
"""

from __future__ import annotations

import numpy as np

from ....backends.cpu.descent.block_cholesky import factor_blocks, merge, solve_blocks
from ....backends.reductions_of_tall_arrays import columns
from ....backends.thread_pool import balanced_chunks
from ...work_sizes import SIZES
from ..reduced_hessian import SINGLE_ROUNDING, ReducedHessian

__all__ = ["BlockPreconditioner", "ColumnBlocks"]

# Unexplained shares of columns within blocks are at least this, so that equal ones are regular.
MIN_UNEXPLAINED = 1e-4


class ColumnBlocks:
    """A division of a shared matrix's columns into correlated blocks.

    Parameters
    ----------
    last : ColumnBlocks, optional
        Of an earlier matrix over the first of these columns, whose blocks are kept.

    Attributes
    ----------
    of : (k,) int array
        A representative column of each column's block.
    correlations : tuple of arrays
        See `ReducedHessian.correlations`.
    """

    def __init__(self, shared: ReducedHessian, last: ColumnBlocks | None = None) -> None:
        k = shared.k
        known = 0 if last is None else len(last.of)
        self.of: np.ndarray = np.arange(k)
        count = np.ones(k, np.int64)
        if last is not None:
            self.of[:known] = last.of
            count[:known] = np.bincount(last.of, minlength=known)
        size = np.where(_firm(shared), shared.diagonal, np.inf) ** -0.5
        pairs, strength = shared.strong_pairs(size, known)
        merge(pairs, np.argsort(-strength, kind="stable"), self.of, count, _max_columns(shared))
        self.correlations = shared.correlations(self.of)
        self._of_columns = shared.dense is None

    def covers(self, shared: ReducedHessian) -> bool:
        """Return whether the blocks cover all coordinates of a matrix of the same kind."""
        return len(self.of) >= shared.k and self._of_columns == (shared.dense is None)


def _max_columns(shared: ReducedHessian) -> int:
    """Return the largest number of columns in a block."""
    return shared.policy.preconditioner.max_block_columns


def _firm(shared: ReducedHessian) -> np.ndarray:
    """Return which columns are not eliminated and have more left than rounding error.

    Reused blocks may come from a time when other columns were eliminated.
    """
    firm: np.ndarray = shared.diagonal > SINGLE_ROUNDING * shared.whole
    return firm & ~shared.eliminated


class BlockPreconditioner:
    """Approximate A⁻¹ on each replicate's support, from its part of each block and the diagonal.

    Parameters
    ----------
    shared : ReducedHessian
        The whole matrix.
    at : (n,) int array
        The columns of the systems.
    support : (n, B) bool array
    ridge, h : (n, B) arrays
        The ridge added to each replicate's diagonal, and its total diagonal.
    """

    def __init__(
        self, shared: ReducedHessian, blocks: ColumnBlocks, at: np.ndarray, support: np.ndarray,
        ridge: np.ndarray, h: np.ndarray,
    ) -> None:  # fmt: skip
        of = blocks.of[at]
        count = np.bincount(of, minlength=shared.k)
        several = np.flatnonzero((count[of] > 1) & _firm(shared)[at])
        where = several[np.argsort(of[several], kind="stable")]
        first = np.flatnonzero(np.diff(of[where], prepend=-1))
        self.where, self.starts = where, np.append(first, len(where))
        support = np.ascontiguousarray(support)
        diagonal = np.where(support, 1.0 / np.where(support, h, 1.0), 0.0)
        there = np.zeros((len(first), support.shape[1]), np.int64)
        if len(first):
            there = np.add.reduceat(support[where], first, axis=0, dtype=np.int64)
        room = there * (there + 1) // 2
        places = np.cumsum(room).reshape(room.shape) - room
        most = _max_columns(shared)
        self.L, self._local = np.empty(int(room.sum())), np.empty(most, np.int64)
        ridge = np.ascontiguousarray(ridge)
        begins, squares = shared.block_matrices(at[where], self.starts, blocks.correlations)

        def factor(c0: int, c1: int) -> None:
            factor_blocks(
                squares, begins, self.starts, c0, c1, where, support, ridge, MIN_UNEXPLAINED,
                places, self.L, np.empty(most, np.int64),
            )  # fmt: skip

        work = np.concatenate([[0], np.cumsum((there.astype(float) ** 3).sum(axis=1))])
        shared.pool.map(factor, balanced_chunks(work, SIZES.block_groups), int(work[-1]))
        self._some = np.arange(support.shape[1])
        self._own = self._whole = support, diagonal, places

    def __call__(self, r: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Apply to r (n, len(some)) of some of the replicates, ascending."""
        if not np.array_equal(some, self._some):
            self._some, (support, diagonal, places) = some, self._whole
            places = np.ascontiguousarray(places[:, some])
            self._own = columns(support, some), columns(diagonal, some), places
        support, diagonal, places = self._own
        z: np.ndarray = r * diagonal
        solve_blocks(
            self.starts, self.where, support, places, self.L, np.ascontiguousarray(r), z,
            self._local,
        )  # fmt: skip
        return z
