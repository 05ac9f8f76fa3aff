"""What a cumulative model's fit is made of: data, levels and penalties in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...design import Design
from ...likelihoods.cumulative import Interval, Levels
from ...priors import Prior
from ...solve.cumulative_support import CumulativeProblem

__all__ = ["Problem"]


@dataclass
class Problem:
    """A model with its data.

    Attributes
    ----------
    design : Design
    y : Interval
        The outcome, after any coarsening.
    levels : Levels
    weights : (n,) array
    offset : (n,) array or None
    link : str
    prior : Prior or None
    subset : (n,) int array or None
        Which subset each row is in, for `DivideAndCombine`.
    """

    design: Design
    y: Interval
    levels: Levels
    weights: np.ndarray
    offset: np.ndarray | None
    link: str
    prior: Prior | None
    backend: Any
    subset: np.ndarray | None = None

    @property
    def names(self) -> list[str]:
        """Column names."""
        return self.design.names

    @property
    def numerical(self) -> CumulativeProblem:
        """The optimisation's view of it."""
        return CumulativeProblem(
            self.design, self.levels, self.link, self.weights, self.offset, self.backend
        )

    def penalties(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """λ and κ of all columns, in X's units."""
        if prior is None:
            return np.zeros(self.design.p), np.zeros(self.design.p)
        penalty = prior.penalty(self.names)
        return penalty.l1, penalty.l2

    def scaled(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """The same in the design's scaled columns."""
        l1, l2 = self.penalties(prior)
        s = self.design.scale
        return l1 / s, l2 / s / s
