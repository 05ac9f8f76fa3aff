"""Interface of the settings of cross-validation and information criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .cyclops_search import CyclopsSearch

__all__ = ["FoldSettings", "Seed", "VarianceChooser"]

# The arguments that `random_generator` accepts.
Seed: TypeAlias = (
    int
    | np.integer
    | Sequence[int]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | np.random.RandomState
    | None
)


class VarianceChooser(Protocol):
    """Settings that `CrossValidation` and `InformationCriterion` have in common."""

    @property
    def search(self) -> str | Sequence[float] | np.ndarray | CyclopsSearch:
        """The variances to evaluate, or how to find them."""

    @property
    def compare(self) -> Mapping[str, Sequence[object]] | None:
        """Other settings of the prior to compare."""


class FoldSettings(VarianceChooser, Protocol):
    """Settings of a cross-validation; see `CrossValidation`."""

    @property
    def folds(self) -> int | Sequence[tuple[ArrayLike, ArrayLike]]:
        """Number of folds, or splits."""

    @property
    def repeats(self) -> int:
        """Number of divisions into folds."""

    @property
    def rule(self) -> str:
        """Rule by which a variance is chosen from the scores."""

    @property
    def scoring(self) -> str | Callable[..., float]:
        """Kind of held-out score."""

    @property
    def groups(self) -> ArrayLike | None:
        """Labels of rows that stay together."""

    @property
    def stratify(self) -> bool | ArrayLike:
        """Classes that are distributed evenly."""

    @property
    def random_state(self) -> Seed:
        """Seed of the divisions."""

    @property
    def memory(self) -> float:
        """Bytes for the states of replicates."""

    @property
    def tol(self) -> float:
        """Tolerance of the folds' fits."""
