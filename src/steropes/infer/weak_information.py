"""Rejection of fits in which only rows of negligible weight inform a coefficient.

A certificate is measured in standard errors. If the rows that a coefficient depends on have
negligible weights, its standard error is astronomic and every value is within a small fraction of
it, so that "converged" would mean nothing. Such rows are the events of a hazard, the smaller class
of a binary outcome, or the only nonzero rows of a column.
"""

from __future__ import annotations

import numpy as np

from ..errors import DataError, listed
from ..fit import Problem
from .baseline_hazard import fitted_state

__all__ = [
    "WEAK_INFORMATION",
    "has_tiny_weights",
    "refuse_weak_information",
    "weak_information_error",
]

# The check is skipped if all positive weights are at least this large.
TINY_WEIGHT = 1e-6
# The smallest information accepted on a column of size one; its standard error is about 30,000.
WEAK_INFORMATION = 1e-9


def refuse_weak_information(problem: Problem, beta: np.ndarray, free: np.ndarray) -> None:
    """Reject a fit in which an unpenalised column has almost no information.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    free : (k,) int array
        The unpenalised columns.

    Raises
    ------
    DataError
        Some row has a tiny positive weight, and the information on a column is below
        `WEAK_INFORMATION`.
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
    """Return whether some positive weight is below `TINY_WEIGHT`."""
    return bool(((weights > 0) & (weights < TINY_WEIGHT)).any())


def weak_information_error(names: list[str]) -> DataError:
    """Create the error for some columns by name."""
    return DataError(
        f"sample_weight leaves nothing to estimate {listed(names)} from: the rows or events that "
        "inform it have almost no weight. Give such rows a weight of zero, which removes them, "
        "use weights of about one, or give the columns a prior."
    )
