"""Contributions of rows to the score of models whose rows are independent given X."""

from __future__ import annotations

import numpy as np

from ..fit import Problem
from ..likelihoods.independent_rows_likelihood import IndependentRowsLikelihood
from ..solve.linear_predictor import linear_predictor
from .inference_constants import BLOCKS
from .response_distributions import ResponseDistribution

__all__ = ["outcome_and_predictor", "predictor_scores", "row_scores"]


def outcome_and_predictor(problem: Problem, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return y and η with offset, (n,) each in the rows of X.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    """
    likelihood = problem.likelihood
    assert isinstance(likelihood, IndependentRowsLikelihood)
    host = likelihood.backend.to_host
    eta = linear_predictor(problem, beta * problem.design.scale)
    return host(likelihood.y)[:, 0], host(eta)[:, 0]


def predictor_scores(
    problem: Problem, distribution: ResponseDistribution, y: np.ndarray, eta: np.ndarray
) -> np.ndarray:
    """Compute the derivative of each row's log-likelihood in η, (n,), for one copy of the row.

    With a canonical link it is y − μ, which the distribution computes without cancellation.

    Parameters
    ----------
    y, eta : (n,) arrays
        From `outcome_and_predictor`.
    """
    if distribution.canonical_link:
        return distribution.response(y, eta)
    likelihood = problem.likelihood
    assert isinstance(likelihood, IndependentRowsLikelihood)
    return likelihood.predictor_scores(eta, problem.weights)


def row_scores(problem: Problem, slope: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute x times the derivative in η of each row, (n, L) in X's units.

    An intercept is the first column.

    Parameters
    ----------
    slope : (n,) array
        Derivatives from `predictor_scores`.
    columns : (L,) int array
    """
    design, backend = problem.design, problem.likelihood.backend
    center = np.asarray(design.center)
    out = np.empty((design.n, len(columns)))
    for a in range(0, len(columns), BLOCKS.columns):
        some = columns[a : a + BLOCKS.columns]
        D = np.zeros((design.p, backend.lanes(len(some))))
        D[some, np.arange(len(some))] = design.scale[some]
        X = backend.to_host(design.matmul(D, backend))[:, : len(some)]
        out[:, a : a + BLOCKS.columns] = X + center[some]
    with np.errstate(invalid="ignore"):  # 0 · ∞ if the mean of a row overflows
        return out * slope[:, None]
