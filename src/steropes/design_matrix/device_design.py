"""Columns of X on a device, while the likelihood is computed on the host.

Thresholds of cumulative models and blocks of rows are evaluated on the host. The products with X,
which take most of the time, are computed on the device; only vectors over rows and over columns are
transferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from ..backends.backend_interface import Array, Backend, SparseLines
from .column_storage import Block
from .design_of_column_blocks import Design
from .working_columns_by_row import RowMatrix

__all__ = ["DeviceDesign", "DeviceRows", "on_device"]


def on_device(design: Design, device: Backend) -> Design:
    """Return a design that multiplies on a device; the design itself if the device is the host."""
    return design if device.on_host else DeviceDesign(design.blocks, design.names, device)


class DeviceDesign(Design):
    """A design with products on a device, whose arguments and results are on the host.

    Parameters
    ----------
    blocks, names
        See `Design`.
    device : Backend
        The backend of the products. Backends that are passed to methods are ignored.
    """

    def __init__(
        self, blocks: Sequence[Block], names: Sequence[str] | None, device: Backend
    ) -> None:
        super().__init__(blocks, names)
        self.device = device

    def with_blocks(self, blocks: Sequence[Block]) -> Design:
        """See `Design.with_blocks`."""
        return DeviceDesign(blocks, self.names, self.device)

    def rmatmul(
        self, R: np.ndarray, backend: Backend, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Design.rmatmul`."""
        device = self.device
        sums = super().rmatmul(device.asarray(np.asarray(R, np.float64)), device, chosen)
        return np.asarray(device.to_host(sums))

    def matmul(self, D: np.ndarray, backend: Backend) -> np.ndarray:
        """See `Design.matmul`."""
        return np.asarray(self.device.to_host(super().matmul(D, self.device)))

    def by_rows(self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend) -> DeviceRows:
        """See `Design.by_rows`."""
        return DeviceRows(RowMatrix(self, chosen, order, self.device), backend)


class DeviceRows:
    """Rows on a device with products whose arguments and results are on the host; see `RowsLike`.

    Without ``lines`` and ``dense``, since the host cannot read the entries.
    """

    layout: ClassVar[Literal["rows"]] = "rows"
    lines: SparseLines | None = None
    dense: Array | None = None

    def __init__(self, rows: RowMatrix, backend: Backend) -> None:
        self.rows, self.device = rows, rows.backend
        self.backend: Backend = backend
        self.n, self.k, self.chosen = rows.n, rows.k, rows.chosen
        self.sparse_at = self.dense_at = np.empty(0, np.int64)

    def _to_host(self, x: Array) -> np.ndarray:
        """Transfer a result to the host."""
        return np.asarray(self.device.to_host(x))

    @property
    def entries(self) -> int:
        """See `RowsLike.entries`."""
        return self.rows.entries

    def grown(self, design: Design, chosen: np.ndarray, order: np.ndarray | None) -> DeviceRows:
        """See `RowsLike.grown`."""
        return DeviceRows(self.rows.grown(design, chosen, order), self.backend)

    def taken(self, people: np.ndarray) -> DeviceRows:
        """See `RowsLike.taken`."""
        return DeviceRows(self.rows.taken(people), self.backend)

    def matmul(self, D: np.ndarray) -> np.ndarray:
        """See `RowsLike.matmul`."""
        return self._to_host(self.rows.matmul(self.device.asarray(D)))

    def rmatmul(self, R: np.ndarray) -> np.ndarray:
        """See `RowsLike.rmatmul`."""
        return self._to_host(self.rows.rmatmul(self.device.asarray(R)))

    def gram(self, v: np.ndarray, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `RowsLike.gram`."""
        return self._to_host(self.rows.gram(self.device.asarray(v), first, rough))

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """See `RowsLike.diagonal`."""
        return self.diagonals(v[:, None])[:, 0]

    def diagonals(self, V: np.ndarray) -> np.ndarray:
        """See `RowsLike.diagonals`."""
        return self._to_host(self.rows.diagonals(self.device.asarray(V)))

    def sums(
        self, u: np.ndarray, pointers: np.ndarray, lines: np.ndarray | None = None
    ) -> np.ndarray:
        """See `RowsLike.sums`."""
        return self._to_host(self.rows.sums(self.device.asarray(u), pointers, lines))

    def between(self, first: int, last: int) -> np.ndarray:
        """See `RowsLike.between`."""
        return self._to_host(self.rows.between(first, last))
