"""Designs in which some columns are replaced by linear combinations of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from .column_storage import Block, ConstantBlock, DenseBlock, SparseBlock
from .design_interfaces import DesignLike
from .design_of_column_blocks import Design
from .piecewise_design import PiecewiseDesign, StepEffects
from .time_channel_design import ChannelDesign

__all__ = ["subtract_columns"]


def subtract_columns(
    design: DesignLike, columns: np.ndarray, pivots: np.ndarray, W: np.ndarray
) -> DesignLike | None:
    """Replace columns by themselves minus combinations of other columns.

    Column ``columns[i]`` becomes x_columns[i] − Σ_m x_pivots[m] W[m, i] in X's units, and so does
    its centre; all others remain. Combinations of sparse columns are sparse.

    Parameters
    ----------
    columns : (k,) int array
    pivots : (r,) int array
        None of them is in ``columns``.
    W : (r, k) array

    Returns
    -------
    DesignLike or None
        None if the design cannot hold such a column, because the rows are on other processes or
        the effects act in different periods of time.
    """
    if not len(columns):
        return design
    if isinstance(design, Design):
        T = np.concatenate([np.eye(len(columns)), -W])
        made = _combinations(design, np.concatenate([columns, pivots]), T)
        return _replaced(design, columns, made)
    if isinstance(design, PiecewiseDesign) and isinstance(design.X, Design):
        return _in_pieces(design, columns, pivots, W)
    if isinstance(design, ChannelDesign) and isinstance(design.X, Design):
        return _in_channels(design, columns, pivots, W)
    return None


def _combinations(design: Design, used: np.ndarray, T: np.ndarray) -> Block:
    """Build the combinations X[:, used] T of columns in X's units as one block."""
    parts = list(design.columns(used))
    sparse_parts = [(b, local, at) for b, local, at in parts if isinstance(b, SparseBlock)]
    if len(sparse_parts) == len(parts):
        x = sparse.hstack([_csc(b.only(np.sort(local))) for b, local, _ in sparse_parts], "csc")
        at = np.concatenate([at[np.argsort(local)] for _, local, at in parts])
        made = sparse.csc_array(x @ T[at])
        made.eliminate_zeros()
        made.sort_indices()
        return SparseBlock.valued(design.n, made.indptr, made.indices, made.data)
    out, center = np.zeros((design.n, T.shape[1])), np.zeros(T.shape[1])
    for block, local, at in parts:
        if isinstance(block, ConstantBlock):
            out += T[at]
        elif isinstance(block, DenseBlock):
            out += block.taken(local) @ (block.scale[local][:, None] * T[at])
            center += block.center[local] @ T[at]
        else:
            by = np.argsort(local)
            out += _csc(block.only(local[by])) @ T[at[by]]
    return replace(DenseBlock.standardized(out, center=False), center=center)


def _csc(block: SparseBlock) -> sparse.csc_array:
    """Return a sparse block as a matrix in X's units."""
    indices = block.indices[: int(block.indptr[-1])]
    data = block.data[: len(indices)] if len(block.data) else np.ones(len(indices))
    data = data * np.repeat(block.scale, np.diff(block.indptr))
    return sparse.csc_array((data, indices, block.indptr), shape=(block.n, block.p))


def _replaced(design: Design, columns: np.ndarray, made: Block) -> Design:
    """Return a design with the columns of a block in place of some columns."""
    blocks: list[Block] = []
    for block, start in zip(design.blocks, design.block_start[:-1], strict=True):
        inside = np.flatnonzero((columns >= start) & (columns < start + block.p))
        if not len(inside):
            blocks.append(block)
            continue
        edge = 0
        for i in inside[np.argsort(columns[inside])]:
            local = int(columns[i] - start)
            if local > edge:
                blocks.append(block.only(np.arange(edge, local)))
            blocks.append(made.only(np.array([i])))
            edge = local + 1
        if edge < block.p:
            blocks.append(block.only(np.arange(edge, block.p)))
    return design.with_blocks(blocks)


def _in_pieces(
    design: PiecewiseDesign, columns: np.ndarray, pivots: np.ndarray, W: np.ndarray
) -> PiecewiseDesign | None:
    """Replace columns with effects by intervals; all must change alike with time.

    The difference of the effects of one column in two adjacent periods is possible, too: the
    replaced column acts in both.
    """
    effects, X = design.effects, design.X
    assert isinstance(X, Design)
    source, first, last = effects.source.copy(), effects.first.copy(), effects.last.copy()
    if _are_adjacent(effects, columns, pivots, W):
        (j,), (k,) = columns, pivots
        first[j], last[j] = min(first[j], first[k]), max(last[j], last[k])
        sources, T = source[[j]], np.ones((1, 1))
    else:
        for i, j in enumerate(columns):
            with_ = pivots[W[:, i] != 0]
            if (first[with_] != first[j]).any() or (last[with_] != last[j]).any():
                return None
            values = effects.values
            if values is not None and (values[with_] != values[j]).any():
                return None
        sources, place = np.unique(source[np.concatenate([columns, pivots])], return_inverse=True)
        T = np.zeros((len(sources), len(columns)))
        np.add.at(T, (place[: len(columns)], np.arange(len(columns))), 1.0)
        np.subtract.at(T, place[len(columns) :], W)
    # A column of X has one coefficient in each interval, so the replaced ones are further columns.
    extra = [f"combination {i}" for i in range(len(columns))]
    wider = Design([*X.blocks, _combinations(X, sources, T)], [*X.names, *extra])
    source[columns] = X.p + np.arange(len(columns))
    changed = StepEffects(
        source, first, last, effects.names, effects.Q, effects.values, effects.functions
    )
    return PiecewiseDesign(wider, changed, design.person, design.start)


def _are_adjacent(
    effects: StepEffects, columns: np.ndarray, pivots: np.ndarray, W: np.ndarray
) -> bool:
    """Return whether W is −1 for the effects of one column in two adjacent periods."""
    if len(columns) != 1 or len(pivots) != 1 or W[0, 0] != -1.0:
        return False
    j, k = int(columns[0]), int(pivots[0])
    if effects.source[j] != effects.source[k]:
        return False
    return bool(effects.last[j] + 1 == effects.first[k] or effects.last[k] + 1 == effects.first[j])


def _in_channels(
    design: ChannelDesign, columns: np.ndarray, pivots: np.ndarray, W: np.ndarray
) -> ChannelDesign | None:
    """Replace columns with constant effects in a model with a baseline."""
    basis, functions, pairs, names = design.arguments
    X = design.X
    assert isinstance(X, Design)
    both = np.concatenate([columns, pivots])
    constant = (both >= design.M) & (both < design.M + X.p)
    columns, pivots = columns - design.M, pivots - design.M
    changing = np.asarray(pairs, np.int64).reshape(-1, 2)[:, 0]
    if not constant.all() or np.isin(columns, changing).any():
        return None
    replaced = subtract_columns(X, columns, pivots, W)
    assert isinstance(replaced, Design)
    return ChannelDesign(replaced, basis, functions, pairs, names)
