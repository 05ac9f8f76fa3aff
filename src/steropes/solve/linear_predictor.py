"""Linear predictors and weights of a problem, from X itself and in the model's order."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["bound_weights", "linear_predictor"]


def linear_predictor(problem: Any, scaled: np.ndarray) -> Any:
    """η = X β + offset, (rows of η, 1).

    Parameters
    ----------
    problem : steropes.fit.Problem
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


def bound_weights(problem: Any) -> Any:
    """The row weights, bound by the likelihood."""
    likelihood = problem.likelihood
    return likelihood.weigh(likelihood.backend.asarray(_in_order(problem, problem.weights)))


def _in_order(problem: Any, x: np.ndarray) -> np.ndarray:
    order = problem.likelihood.order
    return (x if order is None else x[order])[:, None]
