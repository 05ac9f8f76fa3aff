"""Coefficients that nearly weightless rows alone say something about: refused.

A certificate counts in standard errors. Where the rows that a coefficient depends on weigh next
to nothing its standard error is astronomic, every value is within a small part of it, and
"converged" would mean nothing: the events of a hazard, the smaller class, a column's only rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError, listed
from .baseline_hazard import fitted_state

__all__ = [
    "WEAK_INFORMATION",
    "has_tiny_weights",
    "refuse_weak_information",
    "weak_information_error",
]

TINY_WEIGHT = 1e-6  # a positive weight from which on there is nothing to look for
WEAK_INFORMATION = 1e-9  # information on a column of size one: a standard error of some 30,000


def refuse_weak_information(problem: Any, beta: np.ndarray, free: np.ndarray) -> None:
    """Refuse a fit of which columns without penalty have next to no information.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    free : (k,) int array
        The columns without penalty.
    """
    if len(free) == 0 or not has_tiny_weights(problem.weights):
        return
    likelihood = problem.likelihood
    eta, weights = fitted_state(problem, beta)
    rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
    v = likelihood.curvature(eta, weights).v
    h = likelihood.backend.to_host(rows.diagonal(v))
    if (h < WEAK_INFORMATION).any():
        raise weak_information_error([problem.design.names[j] for j in free[h < WEAK_INFORMATION]])


def has_tiny_weights(weights: np.ndarray) -> bool:
    """Whether some positive weight is next to nothing."""
    return bool(((weights > 0) & (weights < TINY_WEIGHT)).any())


def weak_information_error(names: list[str]) -> DataError:
    """The refusal, for the columns named."""
    return DataError(
        f"sample_weight leaves nothing to estimate {listed(names)} from: the rows or events that "
        "say something about it weigh almost nothing. Give such rows a weight of zero (they are "
        "absent then), weights of about one, or the columns a prior."
    )
