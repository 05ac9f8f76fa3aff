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
from .inference_constants import IDENTIFICATION

__all__ = ["has_tiny_weights", "refuse_weak_information", "weak_information_error"]


def refuse_weak_information(problem: Problem, beta: np.ndarray, free: np.ndarray) -> None:
    """Reject a fit in which an unpenalised column has almost no information.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    free : (k,) int array
        The unpenalised columns.

    Raises
    ------
    DataError
        Some row has a tiny positive weight, and the information on a column is below
        `IDENTIFICATION.weak_information`.
    """
    if len(free) == 0 or not has_tiny_weights(problem.weights):
        return
    likelihood = problem.likelihood
    eta, weights = fitted_state(problem, beta)
    rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
    v = likelihood.curvature(eta, weights).v
    h = likelihood.backend.to_host(rows.diagonal(v))
    if (h < IDENTIFICATION.weak_information).any():
        raise weak_information_error(
            [problem.design.names[j] for j in free[h < IDENTIFICATION.weak_information]]
        )


def has_tiny_weights(weights: np.ndarray) -> bool:
    """Return whether some positive weight is below `IDENTIFICATION.tiny_weight`."""
    return bool(((weights > 0) & (weights < IDENTIFICATION.tiny_weight)).any())


def weak_information_error(names: list[str]) -> DataError:
    """Create the error for some columns by name."""
    return DataError(
        f"sample_weight leaves nothing to estimate {listed(names)} from: the rows or events that "
        "inform it have almost no weight. Give such rows a weight of zero, which removes them, "
        "use weights of about one, or give the columns a prior."
    )
