"""Models over time whose X is in blocks: each block makes the columns of its own rows.

A design with several linear predictors a row (`ChannelDesign`), or with pieces of rows
(`PiecewiseDesign`), is made over X; where X is in blocks, so can it be over each of them, as people
are whole there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ...design import Design
from ...design.channels import ChannelDesign
from ...design.face import DesignLike
from ...design.piecewise import PiecewiseDesign, StepEffects
from .sharded_design import ShardedDesign

__all__ = ["ColumnMaker", "column_makers", "rows_in_blocks", "rows_of_eta"]

ColumnMaker = Callable[[Design], DesignLike]  # from a block of X to the model's columns of it


def rows_in_blocks(design: DesignLike) -> ShardedDesign | None:
    """The X in blocks that a model's design is made over; None where X is whole."""
    X = design.X if isinstance(design, ChannelDesign | PiecewiseDesign) else design
    return X if isinstance(X, ShardedDesign) else None


def rows_of_eta(design: DesignLike, cuts: np.ndarray) -> list[np.ndarray] | None:
    """The rows of η that each block has, where these are others than those of X."""
    if isinstance(design, ChannelDesign):
        shared = design.C * design.n + np.arange(design.K)  # the baseline's, which all have
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
    """How each block makes the model's columns; None where they are X's."""
    if isinstance(design, ChannelDesign):
        return [partial(_channels, design.arguments)] * (len(cuts) - 1)
    if isinstance(design, PiecewiseDesign):
        rows = rows_of_eta(design, cuts)
        assert rows is not None
        return [
            partial(
                _pieces, design.effects, design.person[at] - first,
                np.searchsorted(at, design.start),
            )
            for at, first in zip(rows, cuts[:-1], strict=True)
        ]  # fmt: skip
    return None


def _channels(arguments: tuple[Any, ...], X: Design) -> DesignLike:
    return ChannelDesign(X, *arguments)


def _pieces(effects: StepEffects, person: np.ndarray, start: np.ndarray, X: Design) -> DesignLike:
    return PiecewiseDesign(X, effects, person, start)
