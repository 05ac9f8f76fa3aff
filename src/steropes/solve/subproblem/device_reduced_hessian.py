"""The Hessian that replicates share, stored on a device."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array, DeviceMatrix
from ...backends.thread_pool import ThreadPool
from .dense_reduced_hessian import DenseReducedHessian
from .low_rank_hessian_terms import LowRank
from .reduced_hessian import ReducedHessian, Sweeps
from .subproblem_constants import SubproblemPolicy

__all__ = ["DeviceReducedHessian"]


class DeviceReducedHessian(ReducedHessian):
    """A Hessian G on a device, on which models are minimised.

    G is transferred to the host only for models without a finite minimum on the device.

    Parameters
    ----------
    free : (k,) bool array
        Columns without any penalty.
    """

    on_device = True

    def __init__(
        self, matrix: DeviceMatrix, free: np.ndarray, pool: ThreadPool,
        policy: SubproblemPolicy | None = None,
    ) -> None:  # fmt: skip
        policy = SubproblemPolicy() if policy is None else policy
        super().__init__(matrix.diagonal, free, matrix.rows, pool, policy)
        self.minimiser = self.matrix = matrix

    @cached_property
    def dense(self) -> DenseReducedHessian:
        """The same matrix on the host."""
        return DenseReducedHessian(self.matrix.to_host(), self.free, self.pool, self.policy)

    def times(self, x: Array) -> Array:
        """See `ReducedHessian.times`."""
        f, z = self.f, x
        if len(f):
            z = x.copy()
            z[f] = 0.0
        out = self.matrix.times(z)
        if len(f):
            Y = array_namespace(x).asarray(self.Y)
            out -= Y.T @ (Y @ x)
            out[f] = x[f]
        return out

    # -- operations of the host ------------------------------------------------------------------

    @property
    def solvable(self) -> int:
        """See `ReducedHessian.solvable`."""
        return self.dense.solvable

    @property
    def rounding(self) -> float:
        """See `ReducedHessian.rounding`."""
        return self.dense.rounding

    def sweeps(self, low: LowRank) -> Sweeps:
        """See `ReducedHessian.sweeps`."""
        return self.dense.sweeps(low)

    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """See `ReducedHessian.part`."""
        return self.dense.part(at, dtype)

    def only(self, at: np.ndarray) -> ReducedHessian:
        """See `ReducedHessian.only`."""
        return self.dense.only(at)

    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedHessian.strong_pairs`."""
        return self.dense.strong_pairs(size, known)

    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """See `ReducedHessian.correlations`."""
        return self.dense.correlations(of)

    def block_matrices(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ReducedHessian.block_matrices`."""
        return self.dense.block_matrices(members, starts, known)
