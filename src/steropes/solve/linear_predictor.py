"""Linear predictors and weights of a problem, computed from X in the model's row order."""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Array
from ..likelihoods.likelihood_interface import Bound
from .checked_problem_interface import SolverProblem

__all__ = ["bound_weights", "linear_predictor"]


def linear_predictor(problem: SolverProblem, scaled: np.ndarray) -> Array:
    """Compute η = X β + offset, (rows of η, 1).

    Parameters
    ----------
    scaled : (p,) array
        Coefficients of the scaled columns.
    """
    likelihood = problem.likelihood
    backend = likelihood.backend
    eta = problem.design.matmul(scaled[:, None], backend)
    if likelihood.order is not None:
        eta = eta[likelihood.order]
    if problem.offset is not None:
        eta += backend.asarray(likelihood.lift(_in_order(problem, problem.offset)))
    return eta


def bound_weights(problem: SolverProblem) -> Bound:
    """Return the problem's row weights, bound by the likelihood."""
    likelihood = problem.likelihood
    return likelihood.weigh(likelihood.backend.asarray(_in_order(problem, problem.weights)))


def _in_order(problem: SolverProblem, x: np.ndarray) -> np.ndarray:
    """Return a vector over X's rows as a column in the model's order."""
    order = problem.likelihood.order
    return (x if order is None else x[order])[:, None]
