"""Creation of a time-dependent model's columns within each block of X.

A design with several linear predictors per row (`ChannelDesign`), or with pieces of rows
(`PiecewiseDesign`), is derived from X. If X is in blocks it can be derived within each block,
because all data of a person are in one block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from ...design_matrix import Design
from ...design_matrix.design_interfaces import DesignLike
from ...design_matrix.piecewise_design import PiecewiseDesign, StepEffects
from ...design_matrix.time_channel_design import ChannelArguments, ChannelDesign
from .sharded_design import ShardedDesign

__all__ = ["ColumnMaker", "column_makers", "eta_rows_by_block", "sharded_x"]

# Creates the model's columns from a block of X.
ColumnMaker = Callable[[Design], DesignLike]


def sharded_x(design: DesignLike) -> ShardedDesign | None:
    """Return the sharded X that underlies a model's design; None if X is not sharded."""
    X = design.X if isinstance(design, ChannelDesign | PiecewiseDesign) else design
    return X if isinstance(X, ShardedDesign) else None


def eta_rows_by_block(design: DesignLike, cuts: np.ndarray) -> list[np.ndarray] | None:
    """Return the rows of η of each block; None if they are the rows of X."""
    if isinstance(design, ChannelDesign):
        shared = design.C * design.n + np.arange(design.K)  # rows of the baseline, in all blocks
        channels = design.n * np.arange(design.C)[:, None]
        return [
            np.concatenate([(channels + np.arange(a, b)).ravel(), shared])
            for a, b in pairwise(cuts)
        ]
    if isinstance(design, PiecewiseDesign):
        block = np.searchsorted(cuts, design.person, side="right") - 1
        return [np.flatnonzero(block == k) for k in range(len(cuts) - 1)]
    return None


def column_makers(design: DesignLike, cuts: np.ndarray) -> list[ColumnMaker] | None:
    """Return functions that create the model's columns in each block; None if they are X's."""
    if isinstance(design, ChannelDesign):
        return [partial(_channels, design.arguments)] * (len(cuts) - 1)
    if isinstance(design, PiecewiseDesign):
        rows = eta_rows_by_block(design, cuts)
        assert rows is not None
        return [
            partial(
                _pieces, design.effects, design.person[at] - first,
                np.searchsorted(at, design.start),
            )
            for at, first in zip(rows, cuts[:-1], strict=True)
        ]  # fmt: skip
    return None


def _channels(arguments: ChannelArguments, X: Design) -> DesignLike:
    """Create a block's design with several linear predictors per row."""
    return ChannelDesign(X, *arguments)


def _pieces(effects: StepEffects, person: np.ndarray, start: np.ndarray, X: Design) -> DesignLike:
    """Create a block's design of pieces of rows."""
    return PiecewiseDesign(X, effects, person, start)
