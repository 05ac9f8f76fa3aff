"""Fits under restrictions: some coefficients at given values, or linear equations Rβ = q."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..priors import HELD
from ..solve.hessian import hessian
from ..solve.predictor import bound_weights, linear_predictor

__all__ = ["RestrictedFit", "held_fit", "restricted_fit", "score_statistic"]

TOL = 1e-8  # largest step or violation, in standard errors or units of λ
STEPS = 100
HALVINGS = 40


class RestrictedFit:
    """Where a restricted fit ended.

    Attributes
    ----------
    beta : (p,) array
        In X's units.
    objective : float
        Loss and penalty of what is not held.
    """

    def __init__(self, beta: np.ndarray, objective: float) -> None:
        self.beta, self.objective = beta, objective


def held_fit(
    problem: Any, l1: np.ndarray, l2: np.ndarray, columns: np.ndarray, values: np.ndarray,
    start: np.ndarray | None = None,
) -> RestrictedFit:  # fmt: skip
    """Fit all other columns, under their penalties, with some at values in X's units.

    Parameters
    ----------
    problem : steropes.fit.Problem
    l1, l2 : (p,) arrays
        Penalties; those of the held columns are left out.
    columns : (k,) int array
    values : (k,) array
    start : (p,) array, optional
        Coefficients in X's units to start from.
    """
    design, likelihood = problem.design, problem.likelihood
    offset = np.zeros((1, 1)) if problem.offset is None else problem.offset[:, None]
    if likelihood.order is None and problem.offset is not None:
        offset = likelihood.lift(offset)
    D = np.zeros((design.p, 1))
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        D[columns, 0] = values * design.scale[columns]
        offset = offset + likelihood.backend.to_host(design.matmul(D, likelihood.backend))
    l1, l2 = l1.copy(), l2.copy()
    l1[columns], l2[columns] = HELD, 0.0
    moved = problem if not D.any() else replace(problem, offset=offset[:, 0])
    batch = moved.batch(offset=offset) if D.any() else problem.batch()
    begin = np.zeros(design.p) if start is None else start * design.scale
    begin[columns] = 0.0
    _refuse_overflow(moved, begin)
    if start is not None:
        batch.start_at(begin[:, None])
    fit = batch.solve(l1, l2, tol=TOL)[0]
    if not fit.converged:
        raise DataError(
            f"The restricted fit stopped with a KKT violation of {fit.optimality:.2g}; the "
            "restriction may leave other coefficients without a finite optimum."
        )
    beta = fit.beta.copy()
    beta[columns] = values
    return RestrictedFit(beta, fit.objective)


def restricted_fit(
    problem: Any, beta: np.ndarray, V: np.ndarray, R: np.ndarray, q: np.ndarray
) -> RestrictedFit:
    """Maximum likelihood under Rβ = q, by Newton's steps within the restriction.

    Parameters
    ----------
    problem : steropes.fit.Problem
        Without penalties.
    beta : (p,) array
        The fit, in X's units (the intercept at the columns' centres).
    V : (p, p) array
        The covariance matrix, of coefficients in X's units with the intercept at X = 0.
    R : (r, p) array
        Of full rank, of the same coefficients.
    q : (r,) array
    """
    design = problem.design
    to_units = design.uncentered_coefficients(np.diag(1.0 / design.scale))
    size = np.linalg.norm(R @ to_units, axis=1)  # units of the columns may be worlds apart
    R, q = R / size[:, None], q / size
    # The best of a quadratic likelihood under the restriction is where to start.
    gap = R @ design.uncentered_coefficients(beta) - q
    move = V @ R.T @ linalg.solve(R @ V @ R.T, gap, assume_a="sym")
    move = 2.0 * move - design.uncentered_coefficients(move)  # (I − N)⁻¹, N² = 0
    b = (beta - move) * design.scale
    Z = linalg.null_space(R @ to_units)
    _refuse_overflow(problem, b)
    loss, g, H = _derivatives(problem, b, True)
    for _ in range(STEPS):
        if Z.shape[1] == 0:
            break
        A = Z.T @ H @ Z
        size = np.sqrt(np.where(np.diag(A) > 0, np.diag(A), 1.0))
        slope = (Z.T @ g) / size
        step = -Z @ (linalg.solve(A / size / size[:, None], slope, assume_a="sym") / size)
        decrement = float(-g @ step)
        if not decrement > TOL**2:
            break
        for halving in range(HALVINGS):
            new, *_ = _derivatives(problem, b + 0.5**halving * step, False)
            if new <= loss:
                break
        else:
            break
        b = b + 0.5**halving * step
        loss, g, H = _derivatives(problem, b, True)
    return RestrictedFit(b / design.scale, loss)


def _refuse_overflow(problem: Any, scaled: np.ndarray) -> None:
    """Refuse a restriction under which the likelihood overflows.

    Parameters
    ----------
    problem : steropes.fit.Problem
    scaled : (p,) array
        Coefficients of the scaled columns that satisfy the restriction.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        loss, *_ = _derivatives(problem, scaled, False)
    if not np.isfinite(loss):
        raise DataError(
            "The hypothesis is so far from the estimate that the likelihood overflows there: it "
            "moves linear predictors further than exp can hold. Check the value and its unit."
        )


def score_statistic(problem: Any, beta: np.ndarray) -> float:
    """g'H⁻¹g with the gradient and information of all columns at restricted coefficients."""
    loss, g, H = _derivatives(problem, beta * problem.design.scale, True)
    size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    statistic = (g / size) @ linalg.solve(H / size / size[:, None], g / size, assume_a="sym")
    likelihood = problem.likelihood
    total = np.array([problem.weights.sum()])
    return float(statistic / np.max(likelihood.score_variance(np.array([loss]), total)))


def _derivatives(problem: Any, scaled: np.ndarray, second: bool) -> tuple[float, Any, Any]:
    """Loss, and where wanted gradient and exact Hessian, in the scaled columns."""
    likelihood, design = problem.likelihood, problem.design
    backend, order = likelihood.backend, likelihood.order
    with np.errstate(over="ignore", invalid="ignore"):
        eta, weights = linear_predictor(problem, scaled), bound_weights(problem)
        loss, r = likelihood.evaluate(eta, weights)
    value = float(backend.to_host(loss)[0])
    if not second:
        return (value if np.isfinite(value) else np.inf), None, None
    rows = design.by_rows(np.arange(design.p), order, backend)
    g = np.asarray(backend.to_host(rows.rmatmul(r)))[:, 0]
    H = hessian(rows, likelihood.curvature(eta, weights, exact=True))
    return value, g, np.asarray(backend.to_host(H))
