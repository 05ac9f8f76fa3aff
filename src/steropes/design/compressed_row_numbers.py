"""Compressed storage of row numbers, for designs that a fit keeps.

Row numbers ascend within a column, so only the lower 16 bits of each are stored, together with the
position in each column at which every band of 65,536 rows begins. This halves the memory. Access to
`indices` recomputes the row numbers; repeated passes over the columns first call `unpack`, which
restores them permanently.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.cpu import Lines
from ..backends.cpu.sparse.sparse_products import cut_lines
from .column_storage import SparseBlock
from .storage_constants import STORAGE

__all__ = ["PackedBlock"]

BITS = 16
# The number of rows in a band.
BAND = 1 << BITS


class PackedBlock(SparseBlock):
    """A copy of a sparse block with packed row numbers."""

    _low: np.ndarray | None  # (entries,) the last bits of the row numbers; None once unpacked
    _cuts: np.ndarray  # (bands + 1, p) where those of each band of rows begin in each column
    _whole: np.ndarray | None

    def __init__(self, block: SparseBlock) -> None:
        indices, indptr = block.indices[: int(block.indptr[-1])], block.indptr.copy()
        low = np.empty(len(indices), np.uint16)
        for a in range(0, len(indices), STORAGE.packed_at_once):
            part = slice(a, a + STORAGE.packed_at_once)
            low[part] = indices[part]  # the lower 16 bits
        own: dict[str, Any] = {
            "n": block.n, "indptr": indptr, "data": block.data.copy(),
            "scale": block.scale.copy(), "_low": low, "_dtype": indices.dtype,
            "_cuts": _cuts(indices, indptr, -(-block.n // BAND)), "_whole": None,
        }  # fmt: skip
        self.__dict__.update(own)

    @staticmethod
    def is_for(block: SparseBlock) -> bool:
        """Return whether packing a block saves memory."""
        entries, bands = int(block.indptr[-1]), -(-block.n // BAND)
        return (
            entries >= STORAGE.min_packed_entries
            and bands * block.p <= STORAGE.max_band_share * entries
        )

    @property
    def indices(self) -> np.ndarray:
        """Row numbers, recomputed at each access until `unpack` is called."""
        low = self.__dict__["_low"]
        if low is not None:
            return self._unpacked(low)
        whole: np.ndarray = self.__dict__["_whole"]
        return whole

    def unpack(self) -> None:
        """Replace the packed row numbers by the row numbers themselves."""
        low = self.__dict__["_low"]
        if low is not None:  # concurrent threads compute equal values
            self.__dict__["_whole"] = self._unpacked(low)
            self.__dict__["_low"] = None

    def taken(self, local: np.ndarray) -> Lines:
        """See `SparseBlock.taken`; unpacks first, since passes over columns are repeated."""
        self.unpack()
        return super().taken(local)

    @property
    def entries(self) -> int:
        """Stored entries."""
        return int(self.indptr[-1])

    def _unpacked(self, low: np.ndarray) -> np.ndarray:
        """Compute the row numbers from the lower bits and the bands."""
        out = np.empty(len(low), self.__dict__["_dtype"])
        cuts = self.__dict__["_cuts"]
        bands = BAND * np.arange(len(cuts) - 1, dtype=out.dtype)
        edges = np.searchsorted(
            self.indptr, np.arange(STORAGE.packed_at_once, len(low), STORAGE.packed_at_once)
        )
        edges = np.unique(np.concatenate([[0], edges, [self.p]]))
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            part = slice(int(self.indptr[a]), int(self.indptr[b]))
            counts = np.diff(cuts[:, a:b], axis=0).T
            out[part] = np.repeat(np.tile(bands, b - a), counts.ravel())
            out[part] += low[part]
        return out


def _cuts(indices: np.ndarray, indptr: np.ndarray, bands: int) -> np.ndarray:
    """Find the first entry of each column in each band of rows, (bands + 1, columns)."""
    edges = BAND * np.arange(bands + 1)
    cuts = np.empty((bands + 1, len(indptr) - 1), np.int64)
    cut_lines(indptr[:-1], indptr[1:], indices, edges, cuts)
    return cuts
