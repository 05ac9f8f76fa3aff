"""A design without any array of the user's, for what lives longer than the call it was given to."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from .channel_design import ChannelDesign
from .column_storage import Block, SparseBlock
from .design_matrix import Design
from .packed_block import PackedBlock
from .piecewise_design import PiecewiseDesign

__all__ = ["owned"]


def owned(design: Any, X: Any) -> Any:
    """The same design, with copies in the place of arrays that it shares with X.

    A fit reads the row numbers of a sparse X where they are, and takes a copy of them only when it
    is done and its own arrays are gone: both are not needed at once. Of many it takes a packed one
    (`PackedBlock`): most fits are never asked for what needs X again.

    Parameters
    ----------
    design : design
        Made of X, as `as_design` with ``copy=False`` does.
    X : object
        As the user gave it.
    """
    names = ("data", "indices", "indptr", "row", "col") if sparse.issparse(X) else ()
    given = [x for x in (getattr(X, name, None) for name in names) if isinstance(x, np.ndarray)]
    return _apart(design, given) if given else design


def _apart(design: Any, given: list[np.ndarray]) -> Any:
    if isinstance(design, ChannelDesign | PiecewiseDesign):
        out = copy.copy(design)
        out.X = _apart(design.X, given)
        return out
    if not isinstance(design, Design):
        return design  # its blocks of rows are not X's
    blocks = [_own(block, given) for block in design.blocks]
    same = all(a is b for a, b in zip(blocks, design.blocks, strict=True))
    return design if same else Design(blocks, design.names)


def _own(block: Block, given: list[np.ndarray]) -> Block:
    if isinstance(block, PackedBlock):  # has nothing but its own
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
