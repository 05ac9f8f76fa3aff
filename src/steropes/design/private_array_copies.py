"""Copies of arrays that a design shares with the user's X, for designs that a fit keeps."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from .column_storage import Block, SparseBlock
from .compressed_row_numbers import PackedBlock
from .design_interfaces import DesignLike, PlainDesign
from .design_matrix import Design
from .multinomial_design import ClassDesign
from .piecewise_design import PiecewiseDesign
from .pooled_logistic_design import ChannelDesign

__all__ = ["copy_shared_arrays"]


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
