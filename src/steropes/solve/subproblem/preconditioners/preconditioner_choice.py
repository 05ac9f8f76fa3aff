"""The choice of a preconditioner for Newton steps, and its reuse between searches and matrices.

Blocks of correlated columns cost next to nothing. Where columns are correlated beyond blocks, as in
dense data, a factor of many columns is worth its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....backends.reductions_of_tall_arrays import columns
from ..reduced_hessian import MatrixEntries, ReducedHessian
from .block_preconditioner import BlockPreconditioner, ColumnBlocks
from .factor_preconditioner import FactorPreconditioner, System

__all__ = ["Inverse", "PreconditionerCache"]


class PreconditionerCache:
    """Blocks of one model's matrix, or a factor, possibly made of an earlier matrix.

    Parameters
    ----------
    whole : ReducedHessian
        The matrix of all coordinates of the model.
    last : PreconditionerCache, optional
        Of an earlier matrix over the same columns, or the first of them.
    takes : bool
        Whether ``last`` no longer needs its factor.
    other_replicate : PreconditionerCache, optional
        Of another replicate's matrix over the same columns, with usable blocks.

    Attributes
    ----------
    inherited : bool
        Whether the factor may have been made of another matrix.
    blocks_failed_at : int
        Number of columns at which blocks were found to be insufficient, or 0. They are tried again
        with twice as many, because the first few columns are the most frequent and correlated ones.
    """

    def __init__(
        self, whole: ReducedHessian, last: PreconditionerCache | None = None, takes: bool = False,
        other_replicate: PreconditionerCache | None = None,
    ) -> None:  # fmt: skip
        self.whole, self._other_replicate = whole, other_replicate
        self.policy = whole.policy.preconditioner
        self.factor: FactorPreconditioner | None = None
        if last is not None and last.factor is not None:
            self.factor = last.factor if takes else last.factor.fork()
            if takes:
                last.factor = None
        self.inherited = self.factor is not None
        self._blocks: ColumnBlocks | None = None if last is None else last._blocks
        self.blocks_failed_at: int = 0 if last is None else last.blocks_failed_at
        self._lost: int = 0 if last is None else last._lost  # Iterations lost with blocks.
        if self.blocks_failed_at and whole.k > self.policy.retry_growth * self.blocks_failed_at:
            self.blocks_failed_at, self._lost, self.factor, self.inherited = 0, 0, None, False

    @property
    def _by_blocks(self) -> bool:
        """Whether blocks are used instead of a factor."""
        many = self.whole.k > self.policy.min_factor_columns
        return self.whole.dense is None or (many and not self.blocks_failed_at)

    def prepare(
        self, at: np.ndarray, support: np.ndarray, size: np.ndarray, l2: np.ndarray,
        alone: bool = False,
    ) -> None:  # fmt: skip
        """Prepare blocks, or a factor for supports (len(at), B) of the coordinates ``at``.

        Parameters
        ----------
        size : (len(at),) array
            Size of the coefficients; small ones may soon be zero.
        l2 : (len(at), B) array
        alone : bool
            Whether a single replicate needs a factor of more than common columns.
        """
        k = self.whole.k
        if self._by_blocks:
            self.blocks()
            return
        dense = self.whole.dense
        assert dense is not None
        wanted, sizes, ridge = np.zeros((k, support.shape[1]), bool), np.zeros(k), np.zeros(k)
        wanted[at], sizes[at], ridge[at] = support, size, l2.mean(axis=1)
        if self.factor is None or not self.factor.serves(dense, wanted, ridge, alone):
            self._make(dense, wanted, sizes, ridge)

    def blocks(self) -> ColumnBlocks:
        """Return the blocks of correlated columns."""
        if self._blocks is None and self._other_replicate is not None:
            self._blocks = self._other_replicate.blocks()
        if self._blocks is None or not self._blocks.covers(self.whole):
            self._blocks = ColumnBlocks(self.whole, self._blocks)
        return self._blocks

    def record_iterations(
        self, iterations: int, at: np.ndarray, support: np.ndarray, size: np.ndarray,
        l2: np.ndarray,
    ) -> None:  # fmt: skip
        """Record a step's iterations; drop blocks or an old factor that take too many."""
        if self._by_blocks:
            self._lost += max(iterations - self.policy.enough_iterations, 0)
            if self._lost > self.whole.k // self.policy.columns_per_lost_iteration:
                self.blocks_failed_at = self.whole.k
            return
        ridge = np.zeros(self.whole.k)
        ridge[at] = l2.mean(axis=1)
        dense = self.whole.dense
        same = self.factor and dense is not None and self.factor.was_made_of(dense, ridge)
        old = self.inherited and not same
        if iterations == self.whole.policy.max_iterations and old:
            self.factor = None
            self.prepare(at, support, size, l2)

    def _make(
        self, dense: MatrixEntries, wanted: np.ndarray, sizes: np.ndarray, ridge: np.ndarray
    ) -> None:
        """Make a new factor."""
        self.factor = None  # Freed first, because two factors need not fit the memory.
        self.factor = FactorPreconditioner.of(dense, wanted, sizes, ridge)
        self.inherited = False

    def inverse(
        self, at: np.ndarray, support: np.ndarray, l2: np.ndarray, h: np.ndarray
    ) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return an approximate A⁻¹ on supports (len(at), B) of the coordinates ``at``.

        Columns in no block or factor use their diagonal ``h`` (len(at), B).
        """
        if self._by_blocks and self._blocks is not None:
            return BlockPreconditioner(self.whole, self._blocks, at, support, l2, h)
        return Inverse(self.factor, self.whole.k, at, support, h)


@dataclass(frozen=True)
class _LaneData:
    """Data that `Inverse` keeps for some of the replicates.

    Attributes
    ----------
    replicates : (b,) int array
    diagonal : (len(at), b) array
        1 / h on their supports.
    system : System or None
        The systems of a factor, if there is one.
    """

    replicates: np.ndarray
    diagonal: np.ndarray
    system: System | None


class Inverse:
    """Approximate A⁻¹ on each replicate's support; see `PreconditionerCache.inverse`."""

    def __init__(
        self, factor: FactorPreconditioner | None, k: int, at: np.ndarray, support: np.ndarray,
        h: np.ndarray,
    ) -> None:  # fmt: skip
        self.factor, self.whole = factor, (support, h)
        place = np.full(k, -1)
        place[at] = np.arange(len(at))
        own = place[[] if factor is None else factor.at]
        self.there = np.flatnonzero(own >= 0)  # Which of the factor's columns are among these.
        self.places = own[self.there]  # Their places.
        self._last = self._of(np.arange(support.shape[1]))

    def _of(self, some: np.ndarray) -> _LaneData:
        """Select the data of some replicates."""
        support, h = (columns(x, some) for x in self.whole)
        diagonal, system = np.where(support, 1.0 / np.where(support, h, 1.0), 0.0), None
        if self.factor is not None:
            within = np.zeros((len(self.factor.at), len(some)), bool)
            within[self.there] = support[self.places]
            system = self.factor.system(within)
        return _LaneData(some, diagonal, system)

    def __call__(self, r: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Apply to r (len(at), len(some)) of some of the replicates, ascending."""
        if not np.array_equal(some, self._last.replicates):
            self._last = self._of(some)
        diagonal, system = self._last.diagonal, self._last.system
        z = r * diagonal
        if self.factor is not None and system is not None:
            R = np.zeros((len(self.factor.at), len(some)))
            R[self.there] = r[self.places]
            z[self.places] = self.factor.solve(R, system)[self.there]
        return z
