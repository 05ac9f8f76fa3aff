"""A likelihood with few nuisance parameters from sums by them, which blocks of rows add up.

With α given, the loss of a cumulative model is a sum over rows, and so is all that it takes to
eliminate α from its quadratic model (`nuisance_likelihood`): g = ∂L/∂α, T = ∂²L/∂α² and C X, a
row of p numbers for each of α. Where these are few, they are fewer numbers than there are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from .nuisance_likelihood import Nuisance

__all__ = ["LevelExchange", "LevelPoint", "Moved"]


@dataclass(frozen=True)
class LevelPoint:
    """Thresholds of B replicates; those of one that has fewer come first, and zeros then.

    Attributes
    ----------
    alpha, delta : (K, B) arrays
        See `Thresholds`.
    clipped : (B,) bool array
        Whether rows' curvatures below zero, which are rounding, count as zero.
    t : (K, B) array or None
        T⁻¹g, where a gradient with α eliminated is wanted.
    """

    alpha: np.ndarray
    delta: np.ndarray
    clipped: np.ndarray
    t: np.ndarray | None = None


class Moved(Protocol):
    """α that can be moved; see `Thresholds`."""

    alpha: np.ndarray
    delta: np.ndarray

    def moved(self, step: np.ndarray, t: float) -> Any:
        """Go t along a step."""


class LevelExchange(Protocol):
    """Such a likelihood of all rows, and how its rows are spread over blocks."""

    def parts(self) -> list[Any]:
        """Makers of the blocks' `LevelPart`; see `Likelihood.parts`."""

    def shard_contexts(
        self, weights: np.ndarray, offset: np.ndarray | None
    ) -> Sequence[dict[str, np.ndarray]]:
        """What each block is told of replicates' row weights (n, B), and of its offsets.

        ``rank`` (M, B) is the level that each level of all rows is of in each replicate.
        """

    def begin(self, level: float, weights: np.ndarray, like: Nuisance | None) -> Moved:
        """α to start from where η is ``level`` in the mean; see `NuisanceLikelihood.begin`."""

    def nuisance(self, weights: np.ndarray, at: Moved) -> Nuisance:
        """α of a replicate as others know it."""
