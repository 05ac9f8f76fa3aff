"""Columns of row numbers in half the room, for a fit that is done.

Row numbers of a column ascend, so all that is stored of one is its last 16 bits, and where in each
column those of every 65,536 rows begin. Whoever asks for the row numbers has them all made again.
Who goes over the columns does so many times: for that they are made once, and stay (`unpack`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.cpu import Lines
from ..backends.cpu.sparse_products import cut_lines
from .column_storage import SparseBlock

__all__ = ["PackedBlock"]

BITS = 16
BAND = 1 << BITS  # rows
LEAST = 1 << 20  # entries from which on it is worth it
SHARE = 0.1  # of the entries: how many bands of columns there may be
AT_ONCE = 1 << 20  # entries that are turned together, in the cache


class PackedBlock(SparseBlock):
    """A block with copies of all arrays of another one, its row numbers packed.

    Parameters
    ----------
    block : SparseBlock
    """

    _low: np.ndarray | None  # (entries,) the last bits of the row numbers; None once unpacked
    _cuts: np.ndarray  # (bands + 1, p) where those of each band of rows begin in each column
    _whole: np.ndarray | None

    def __init__(self, block: SparseBlock) -> None:
        indices, indptr = block.indices[: int(block.indptr[-1])], block.indptr.copy()
        low = np.empty(len(indices), np.uint16)
        for a in range(0, len(indices), AT_ONCE):
            part = slice(a, a + AT_ONCE)
            low[part] = indices[part]  # its last bits
        own: dict[str, Any] = {
            "n": block.n, "indptr": indptr, "data": block.data.copy(),
            "scale": block.scale.copy(), "_low": low, "_dtype": indices.dtype,
            "_cuts": _cuts(indices, indptr, -(-block.n // BAND)), "_whole": None,
        }  # fmt: skip
        self.__dict__.update(own)

    @staticmethod
    def is_for(block: SparseBlock) -> bool:
        """Whether a block is large enough, and its columns not too many for their rows."""
        entries, bands = int(block.indptr[-1]), -(-block.n // BAND)
        return entries >= LEAST and bands * block.p <= SHARE * entries

    @property
    def indices(self) -> np.ndarray:
        """Row numbers; made anew at each call until they are unpacked."""
        low = self.__dict__["_low"]
        if low is not None:
            return self._unpacked(low)
        whole: np.ndarray = self.__dict__["_whole"]
        return whole

    def unpack(self) -> None:
        """Make the row numbers once and for all, in the place of the packed ones."""
        low = self.__dict__["_low"]
        if low is not None:  # another thread may be at it: what it makes is the same
            self.__dict__["_whole"] = self._unpacked(low)
            self.__dict__["_low"] = None

    def taken(self, local: np.ndarray) -> Lines:
        """See `SparseBlock.taken`; unpacks, as who goes over columns does so again and again."""
        self.unpack()
        return super().taken(local)

    @property
    def entries(self) -> int:
        """Stored entries."""
        return int(self.indptr[-1])

    def _unpacked(self, low: np.ndarray) -> np.ndarray:
        out = np.empty(len(low), self.__dict__["_dtype"])
        cuts = self.__dict__["_cuts"]
        bands = BAND * np.arange(len(cuts) - 1, dtype=out.dtype)
        edges = np.searchsorted(self.indptr, np.arange(AT_ONCE, len(low), AT_ONCE))
        edges = np.unique(np.concatenate([[0], edges, [self.p]]))
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            part = slice(int(self.indptr[a]), int(self.indptr[b]))
            counts = np.diff(cuts[:, a:b], axis=0).T
            out[part] = np.repeat(np.tile(bands, b - a), counts.ravel())
            out[part] += low[part]
        return out


def _cuts(indices: np.ndarray, indptr: np.ndarray, bands: int) -> np.ndarray:
    """Where the row numbers of each column reach each band of rows, (bands + 1, columns)."""
    edges = BAND * np.arange(bands + 1)
    cuts = np.empty((bands + 1, len(indptr) - 1), np.int64)
    cut_lines(indptr[:-1], indptr[1:], indices, edges, cuts)
    return cuts
