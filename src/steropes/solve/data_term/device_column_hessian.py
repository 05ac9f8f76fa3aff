"""A Hessian as an operator on the working columns of a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ...backends.backend_interface import Array, ModelMinimiser
from ...design_matrix.design_interfaces import RowsLike
from ..subproblem.subproblem_constants import PreconditionerPolicy
from .column_hessian import ColumnHessian

__all__ = ["DeviceColumns"]


class DeviceColumns:
    """X' H_η X over the columns of some rows on a device; see `ColumnOperator`.

    Models are minimised by products on the device. The operator of the host remains for models
    without a finite minimum there.

    Parameters
    ----------
    v : (n,) array
        The diagonal of H_η, at least zero.
    product : callable
        Multiplies directions (n, B) by H_η.
    grouped : bool
        Whether H_η has more than its diagonal.

    Attributes
    ----------
    h : (k,) array
        The diagonal of the matrix with all rows in one group, as in `ColumnHessian`.
    """

    def __init__(
        self, rows: RowsLike, v: Array, product: Callable[[Array], Array], grouped: bool,
        on_host: Callable[[], ColumnHessian],
    ) -> None:  # fmt: skip
        self.rows, self.product, self._make = rows, product, on_host
        self.backend, self.pool = rows.backend, rows.backend.pool
        h = rows.diagonal(v)
        if grouped:
            total = self.backend.xp.maximum(v.sum(), 1e-300)
            h = self.backend.xp.maximum(h - rows.rmatmul(v[:, None])[:, 0] ** 2 / total, 0.0)
        self.h: np.ndarray = self.backend.to_host(h)

    @property
    def k(self) -> int:
        """Number of columns."""
        return self.rows.k

    def _times(self, x: Array) -> Array:
        """Multiply the matrix by x (k, B) on the device."""
        return self.rows.rmatmul(self.product(self.rows.matmul(x)))

    def times(self, x: np.ndarray) -> np.ndarray:
        """Multiply the matrix by x (k, B)."""
        out: np.ndarray = self.backend.to_host(self._times(self.backend.asarray(x)))
        return out

    @cached_property
    def minimiser(self) -> ModelMinimiser | None:
        """The minimiser of models with this matrix."""
        return self.backend.operator_minimiser(self._times)

    # -- operations of the host ------------------------------------------------------------------

    @cached_property
    def _host(self) -> ColumnHessian:
        """The operator of the host."""
        return self._make()

    def only(self, at: np.ndarray) -> ColumnHessian:
        """See `ColumnOperator.only`."""
        return self._host.only(at)

    def sweep(
        self, V: np.ndarray, c: np.ndarray, eliminated: np.ndarray, s: np.ndarray, y: np.ndarray,
        h: np.ndarray, l1: np.ndarray, rest: np.ndarray,
    ) -> np.ndarray | None:  # fmt: skip
        """See `ColumnOperator.sweep`."""
        return self._host.sweep(V, c, eliminated, s, y, h, l1, rest)

    def strong_pairs(
        self, Y: np.ndarray, size: np.ndarray, known: int, policy: PreconditionerPolicy
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `ColumnOperator.strong_pairs`."""
        return self._host.strong_pairs(Y, size, known, policy)

    def correlations(
        self, Y: np.ndarray, size: np.ndarray, of: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """See `ColumnOperator.correlations`."""
        return self._host.correlations(Y, size, of)
