"""Residuals of linear, logistic and Poisson regression, whose rows are independent given X.

They refer to one copy of each row (a weight is a number of copies) and are computed from η, so that
no digits are lost if a probability is close to 0 or 1: McCullagh and Nelder (1989), §2.4.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import expit, xlogy

from ..fit import Problem
from ..likelihoods import LinearLikelihood, LogisticLikelihood, PoissonLikelihood
from ..solve.linear_predictor import linear_predictor

__all__ = ["Family", "outcome_and_predictor", "response_residuals", "row_scores"]

Family = Literal["linear", "logistic", "poisson"]

# The number of columns processed together.
COLUMNS = 64


def outcome_and_predictor(problem: Problem, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return y and η with offset, (n,) each in the rows of X.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    """
    likelihood = problem.likelihood
    assert isinstance(likelihood, LinearLikelihood | LogisticLikelihood | PoissonLikelihood)
    host = likelihood.backend.to_host
    eta = linear_predictor(problem, beta * problem.design.scale)
    return host(likelihood.y)[:, 0], host(eta)[:, 0]


def response_residuals(family: Family, kind: str, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Compute residuals "response" (y − μ), "pearson" (divided by √V(μ)) or "deviance", (n,).

    Parameters
    ----------
    family : {"linear", "logistic", "poisson"}
    kind : str
    y, eta : (n,) arrays
        y is 0 or 1 for logistic models.
    """
    if family == "linear":
        return y - eta
    side = np.where(y > 0.5, 1.0, -1.0)
    if family == "logistic":  # with m = ±η, y − μ = ± 1 / (1 + exp m)
        margin = side * eta
        if kind == "response":
            return side * expit(-margin)
        if kind == "pearson":
            with np.errstate(over="ignore"):  # a row of nearly zero probability
                return side * np.exp(-margin / 2)
        return side * np.sqrt(2.0 * np.logaddexp(0.0, -margin))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.exp(eta)
        if kind == "pearson":  # (y − μ) / √μ, finite even if μ overflows
            return np.where(y > 0, y * np.exp(-eta / 2), 0.0) - np.exp(eta / 2)
    if kind == "response":
        return y - mean
    unit = xlogy(y, y) - y * eta - (y - mean)
    return np.sign(y - mean) * np.sqrt(np.maximum(2.0 * unit, 0.0))


def row_scores(problem: Problem, response: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute x (y − μ) of each row, (n, L) in X's units; an intercept is the first column.

    Parameters
    ----------
    problem : steropes.fit.Problem
    response : (n,) array
        y − μ.
    columns : (L,) int array
    """
    design, backend = problem.design, problem.likelihood.backend
    center = np.asarray(design.center)
    out = np.empty((design.n, len(columns)))
    for a in range(0, len(columns), COLUMNS):
        some = columns[a : a + COLUMNS]
        D = np.zeros((design.p, backend.lanes(len(some))))
        D[some, np.arange(len(some))] = design.scale[some]
        X = backend.to_host(design.matmul(D, backend))[:, : len(some)]
        out[:, a : a + COLUMNS] = X + center[some]
    with np.errstate(invalid="ignore"):  # 0 · ∞ if the mean of a row overflows
        return out * response[:, None]
