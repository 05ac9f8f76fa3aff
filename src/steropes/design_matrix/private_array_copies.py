"""Private copies of what a design shares with X, with packed row numbers, for a fit to keep."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from ..backends.cpu import Lines
from ..backends.cpu.sparse.sparse_product_kernels import cut_lines
from .column_storage import Block, SparseBlock
from .design_interfaces import DesignLike, PlainDesign
from .design_of_column_blocks import Design
from .multinomial_design import ClassDesign
from .piecewise_design import PiecewiseDesign
from .storage_and_scaling_constants import STORAGE
from .time_channel_design import ChannelDesign

__all__ = ["PackedBlock", "copy_shared_arrays"]


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


def copy_shared_arrays(design: DesignLike, X: object) -> DesignLike:
    """Replace arrays that a design shares with X by copies.

    A fit uses the row numbers of a sparse X in place. They are copied when the fit is finished and
    its own arrays have been freed, which lowers peak memory. Many row numbers are stored in packed
    form (`PackedBlock`), because most fits never need X again.

    Parameters
    ----------
    design : design
        A design created by `as_design` with ``copy=False``.
    X : object
        The input from which it was created.
    """
    names = ("data", "indices", "indptr", "row", "col") if sparse.issparse(X) else ()
    given = [x for x in (getattr(X, name, None) for name in names) if isinstance(x, np.ndarray)]
    return _apart(design, given) if given else design


def _apart(design: DesignLike, given: list[np.ndarray]) -> DesignLike:
    """Copy the arrays of a design that share memory with ``given``."""
    if isinstance(design, ClassDesign):
        return design.with_x(cast(PlainDesign, _apart(design.X, given)))
    if isinstance(design, ChannelDesign | PiecewiseDesign):
        out = copy.copy(design)
        out.X = cast(PlainDesign, _apart(design.X, given))
        return out
    if not isinstance(design, Design):
        return design  # sharded designs share nothing with X
    blocks = [_own(block, given) for block in design.blocks]
    same = all(a is b for a, b in zip(blocks, design.blocks, strict=True))
    return design if same else design.with_blocks(blocks)


def _own(block: Block, given: list[np.ndarray]) -> Block:
    """Copy the arrays of a block that share memory with ``given``."""
    if isinstance(block, PackedBlock):  # already owns its arrays
        return block
    arrays = {f.name: getattr(block, f.name) for f in fields(block)}
    shared = {
        name: x
        for name, x in arrays.items()
        if isinstance(x, np.ndarray) and any(np.may_share_memory(x, y) for y in given)
    }
    if isinstance(block, SparseBlock) and "indices" in shared and PackedBlock.is_for(block):
        return PackedBlock(block)
    copies: dict[str, Any] = {name: x.copy() for name, x in shared.items()}
    return replace(block, **copies) if copies else block
