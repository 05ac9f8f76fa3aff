"""Bootstrap of a cumulative model: whole rows drawn again, as weights over the same X."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..errors import DataError
from ..likelihoods.cumulative import Interval, find_levels
from ..solve.cumulative_support import CumulativeProblem, fit_cumulative

__all__ = ["CumulativeBootstrap", "bootstrap_coefficients"]


@dataclass
class CumulativeBootstrap:
    """Coefficients of the draws.

    Attributes
    ----------
    coef : (draws, p) array
    names : list of str
    """

    coef: np.ndarray
    names: list[str]

    @property
    def nonzero(self) -> pd.Series:
        """Share of draws in which each coefficient is not zero."""
        return pd.Series((self.coef != 0).mean(axis=0), self.names)

    def confint(self, level: float = 0.95) -> pd.DataFrame:
        """Percentile intervals, columns ``lower`` and ``upper``."""
        if not 0 < level < 1:
            raise DataError(f"level must be between 0 and 1, not {level!r}.")
        ends = np.quantile(self.coef, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return pd.DataFrame(ends.T, self.names, ["lower", "upper"])


def bootstrap_coefficients(
    problem: CumulativeProblem,
    y: Interval,
    l1: np.ndarray,
    l2: np.ndarray,
    n: int,
    rng: np.random.Generator,
    tol: float,
) -> np.ndarray:
    """β in X's units for n draws of the rows that have weight, (n, p)."""
    rows = np.flatnonzero(problem.weights > 0)
    out = np.empty((n, problem.design.p))
    for draw in range(n):
        times = np.bincount(rng.integers(0, len(rows), len(rows)), minlength=len(rows))
        weights = np.zeros(len(problem.weights))
        weights[rows] = problem.weights[rows] * times
        levels = find_levels(y, weights > 0)
        part = replace(problem, weights=weights, levels=levels, newton=None)
        _, fit = fit_cumulative(part, l1, l2, tol)
        out[draw] = fit.beta / problem.design.scale
    return out
