"""Interface of cumulative models with few thresholds whose rows are in shards: sums by threshold.

Given α, the loss of a cumulative model is a sum over rows, and so are the quantities that eliminate
α from its quadratic model (`nuisance_likelihood`): g = ∂L/∂α, T = ∂²L/∂α² and C X, a row of p
numbers for each parameter. With few parameters these are fewer numbers than there are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .nuisance_interface import Nuisance

__all__ = ["LevelPoint", "MovableThresholds", "ShardedThresholds"]


@dataclass(frozen=True)
class LevelPoint:
    """Thresholds of B replicates, padded with zeros at the end.

    Attributes
    ----------
    alpha, delta : (K, B) arrays
        See `Thresholds`.
    clipped : (B,) bool array
        Whether negative curvatures of rows, which are rounding errors, count as zero.
    t : (K, B) array or None
        T⁻¹g, if a gradient with α eliminated is needed.
    """

    alpha: np.ndarray
    delta: np.ndarray
    clipped: np.ndarray
    t: np.ndarray | None = None


class MovableThresholds(Protocol):
    """Thresholds α that can move along a step; see `Thresholds`."""

    alpha: np.ndarray
    delta: np.ndarray

    def moved(self, step: np.ndarray, t: float) -> MovableThresholds:
        """Move a fraction t along a step."""


class ShardedThresholds(Protocol):
    """A likelihood of all rows and the distribution of its rows over shards."""

    def parts(self) -> list[Any]:
        """Return factories of the shards' `ShardLevels`; see `Likelihood.parts`."""

    def shard_contexts(
        self, weights: np.ndarray, offset: np.ndarray | None
    ) -> Sequence[dict[str, np.ndarray]]:
        """Collect the data of row weights (n, B) and offsets that each shard receives.

        ``rank`` (M, B) maps each level of all rows to a level of each replicate.
        """

    def begin(self, level: float, weights: np.ndarray, like: Nuisance | None) -> MovableThresholds:
        """Compute an initial α if the mean of η is ``level``; see `NuisanceLikelihood.begin`."""

    def nuisance(self, weights: np.ndarray, at: MovableThresholds) -> Nuisance:
        """Return the nuisance parameters of a replicate at given thresholds."""
