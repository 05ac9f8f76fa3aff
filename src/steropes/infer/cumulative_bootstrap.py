"""Bootstrap of a cumulative model: whole rows drawn again, as weights over the same X."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import DataError
from ..fit import Problem, Replicates
from ..fit.replicates import LANES
from ..priors import Prior
from ..solve import Fit

__all__ = ["CumulativeBootstrap", "bootstrap_coefficients"]

TOL = 1e-6  # KKT violation of a draw


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
    problem: Problem, fit: Fit, prior: Prior | None, n: int, rng: np.random.Generator
) -> np.ndarray:
    """β in X's units for n draws of the rows that have weight, (n, p).

    Draws are replicates of the problem that start from its fit, in groups that do not depend on
    n: a draw is the same however many follow.
    """
    rows = np.flatnonzero(problem.weights > 0)
    whole = -(-n // LANES) * LANES
    seeds = rng.integers(0, 2**63, whole)  # the last ones only make the last group whole

    def weights(numbers: list[int]) -> np.ndarray:
        out = np.zeros((len(problem.weights), len(numbers)))
        for b, k in enumerate(numbers):
            drawn = np.random.default_rng(seeds[k]).integers(0, len(rows), len(rows))
            times = np.bincount(drawn, minlength=len(rows))
            out[rows, b] = problem.weights[rows] * times
        return out

    start = (fit.beta * problem.design.scale)[:, None]
    draws = Replicates(problem, problem.common(), whole, weights, memory=0.0)
    out = np.empty((whole, problem.design.p))
    l1, l2 = problem.penalties(prior)
    for group in draws.solve(l1, l2, TOL, lambda k: start, "during", fit.nuisance):
        out[group.numbers] = [fit.beta for fit in group.fits]
    return out[:n]
