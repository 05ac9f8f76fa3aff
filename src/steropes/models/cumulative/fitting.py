"""One fit, or one a subset, with the refusals around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DataError, SeparationError
from ...infer.cumulative_checks import refuse_separated, refuse_undetermined_columns
from ...infer.cumulative_divide import combine_thresholds, subset_positions
from ...likelihoods.cumulative import CumulativeLikelihood, Levels, find_levels
from ...priors import Prior
from ...solve.cumulative import CumulativeFit
from ...solve.cumulative_support import fit_cumulative
from .problem import Problem

__all__ = ["FittedPart", "fit_part", "fit_subsets"]


@dataclass
class FittedPart:
    """A fit with the rows it is of.

    Attributes
    ----------
    values : (M,) array
        Levels with mass.
    alpha : (M − 1,) array
        Thresholds for X as the user has it.
    beta : (p,) array
        Coefficients of the design's scaled columns.
    """

    likelihood: CumulativeLikelihood
    fit: CumulativeFit
    values: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray


def fit_part(
    problem: Problem,
    prior: Prior | None,
    levels: Levels,
    tol: float,
    max_iter: int,
    step: Callable[[int, float], None] | None,
) -> FittedPart:
    """Fit the rows of some levels."""
    l1, l2 = problem.scaled(prior)
    numerical = problem.numerical
    numerical.levels = levels
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    h0 = refuse_undetermined_columns(numerical, problem.names, free) if len(free) else None
    likelihood, fit = fit_cumulative(numerical, l1, l2, tol, max_iter, step)
    if h0 is not None and numerical.newton is not None:
        refuse_separated(numerical, numerical.newton, fit, problem.names, free, h0)
    alpha = fit.at.alpha + float(fit.center @ fit.beta)
    return FittedPart(likelihood, fit, likelihood.levels.values, alpha, fit.beta)


def fit_subsets(
    problem: Problem,
    prior: Prior | None,
    tol: float,
    max_iter: int,
    step: Callable[[int, float], None] | None,
) -> tuple[Any, ...]:
    """Fit every subset and combine: (parts, values, α, β, loss)."""
    subset = problem.subset
    assert subset is not None
    values = problem.levels.values
    parts = []
    for k in range(int(subset.max()) + 1):
        rows = subset == k
        where = f"Subset {k} of DivideAndCombine: {{}} Use fewer subsets."
        try:
            levels = find_levels(problem.y, rows)
            parts.append(fit_part(problem, prior, levels, tol, max_iter, step))
        except SeparationError as error:
            raise SeparationError(where.format(error), error.columns) from None
        except DataError as error:
            raise DataError(where.format(error)) from None
    positions = [subset_positions(values, p.values) for p in parts]
    alpha = combine_thresholds(positions, [p.alpha for p in parts])
    beta = np.mean([p.beta for p in parts], axis=0)
    return parts, values, alpha, beta, float(sum(p.fit.loss for p in parts))
