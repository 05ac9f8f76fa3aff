"""Fits with some coefficients fixed at values, or under linear equations Rβ = q."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from scipy import linalg

from ..design_matrix.design_interfaces import DesignLike
from ..errors import DataError
from ..fit import Problem
from ..priors import INFINITE_PENALTY
from ..solve import Batch
from ..solve.hessian import hessian
from ..solve.linear_predictor import bound_weights, linear_predictor
from .inference_constants import RESTRICTED
from .profile_fits import hessian_of_support

__all__ = [
    "RestrictedFit",
    "centred_equations",
    "fit_under_equations",
    "fit_with_fixed_values",
    "score_statistic",
]

OVERFLOW_MESSAGE = (
    "The hypothesis is so far from the estimate that the likelihood overflows there: it moves "
    "linear predictors so far that exp overflows. Check the value and its unit."
)


class RestrictedFit:
    """The result of a restricted fit.

    Attributes
    ----------
    beta : (p,) array
        Coefficients in X's units.
    objective : float
        The loss, plus the penalty of the coefficients that are not fixed.
    """

    def __init__(self, beta: np.ndarray, objective: float) -> None:
        self.beta, self.objective = beta, objective


def fit_with_fixed_values(
    problem: Problem, l1: np.ndarray, l2: np.ndarray, columns: np.ndarray, values: np.ndarray,
    start: np.ndarray | None = None,
) -> RestrictedFit:  # fmt: skip
    """Fit a problem with some coefficients fixed, the others under their penalties.

    Parameters
    ----------
    l1, l2 : (p,) arrays
        Penalties in X's units; those of the fixed columns are ignored.
    columns : (k,) int array
        The columns whose coefficients are fixed.
    values : (k,) array
        Their values, in X's units.
    start : (p,) array, optional
        Coefficients in X's units to start from.

    Raises
    ------
    DataError
        The loss is not finite at the values, or the fit does not converge.
    """
    design, likelihood = problem.design, problem.likelihood
    offset = np.zeros((1, 1)) if problem.offset is None else problem.offset[:, None]
    if likelihood.order is None and problem.offset is not None:
        offset = likelihood.lift(offset)
    D = np.zeros((design.p, 1))
    with np.errstate(over="ignore", invalid="ignore"):  # `_start_at` raises an error
        D[columns, 0] = values * design.scale[columns]
        offset = offset + likelihood.backend.to_host(design.matmul(D, likelihood.backend))
    moved = problem if not D.any() else replace(problem, offset=offset[:, 0])
    try:
        batch = moved.batch(offset=offset) if D.any() else problem.batch()
    except FloatingPointError:  # the nuisance parameters overflow
        raise DataError(OVERFLOW_MESSAGE) from None
    if start is not None:
        begin = start * design.scale
        if D.any() or start[columns].any():
            begin = _follow_tangent(problem, begin, l1, l2, columns, D[columns, 0])
        begin[columns] = 0.0
        _start_at(batch, begin)
    l1, l2 = l1.copy(), l2.copy()
    l1[columns], l2[columns] = INFINITE_PENALTY, 0.0
    try:
        fit = batch.solve(l1, l2, tol=RESTRICTED.tol)[0]
    except FloatingPointError:  # the nuisance parameters overflow
        raise DataError(OVERFLOW_MESSAGE) from None
    if not fit.converged:
        raise DataError(
            f"The restricted fit stopped with a KKT violation of {fit.optimality:.2g}; the "
            "restriction may leave other coefficients without a finite optimum."
        )
    beta = fit.beta.copy()
    beta[columns] = values
    return RestrictedFit(beta, fit.objective)


def _start_at(batch: Batch, b: np.ndarray) -> None:
    """Start a batch of one at scaled coefficients (p,); raise an error if its loss is infinite."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            batch.start_at(b[:, None])
        there = bool(np.isfinite(batch.term.loss[0]))
    except FloatingPointError:  # the nuisance parameters overflow
        there = False
    if not there:
        raise DataError(OVERFLOW_MESSAGE)


def _follow_tangent(
    problem: Problem, b: np.ndarray, l1: np.ndarray, l2: np.ndarray, columns: np.ndarray,
    values: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Move the other coefficients along the tangent as some are moved to given values.

    ``b`` (p,) is the fit and ``values`` (k,) are the new values, both in the scaled columns.
    Without this step the fit would start far from its optimum if a column is far from zero relative
    to its standard deviation, such as a calendar year, or nearly collinear with a fixed one.
    """
    batch, out = problem.batch(), b.copy()
    batch.start_at(b[:, None])
    support, H = hessian_of_support(batch, b / problem.design.scale, l1, l2, columns)
    if H.ndim == 1:
        return out
    held = np.isin(support, columns)
    change = values[np.argsort(columns)] - b[support[held]]
    cross = H[np.ix_(~held, held)] @ change
    others = support[~held]
    try:
        moved = out[others] - _solve(H[np.ix_(~held, ~held)], cross)
    except DataError:  # any start will do
        return out
    turned = (l1[others] > 0) & (moved * out[others] <= 0)
    out[others] = np.where(turned, 0.0, moved)
    return out


def fit_under_equations(
    problem: Problem, beta: np.ndarray, R: np.ndarray, q: np.ndarray
) -> RestrictedFit:
    """Maximise the likelihood under Rβ = q by Newton steps within the restriction.

    The computation uses the scaled and centred columns. In X's units, equations about the intercept
    would lose their digits if a column is far from zero relative to its standard deviation, such as
    a calendar year.

    Parameters
    ----------
    problem : steropes.fit.Problem
        A problem without penalties.
    beta : (p,) array
        The unrestricted fit, in X's units (the intercept at the columns' centres).
    R : (r, p) array
        Equations of full rank for coefficients in X's units with the intercept at X = 0.
    q : (r,) array

    Raises
    ------
    DataError
        The likelihood overflows under the restriction, or the steps do not reach an optimum.
    """
    design = problem.design
    R = centred_equations(design, R)
    size = np.linalg.norm(R, axis=1)
    R, q = R / size[:, None], q / size
    b = beta * design.scale
    loss, g, H = _derivatives(problem, b, True)
    # Start at the optimum of the quadratic approximation around the fit.
    toward = _solve(H, R.T)
    b = b - toward @ _solve(R @ toward, R @ b - q)
    Z = linalg.qr(R.T)[0][:, len(R) :]
    loss, g, H = _derivatives(problem, b, True)
    if not np.isfinite(loss):
        raise DataError(OVERFLOW_MESSAGE)
    noise = _score_variance(problem, loss)
    for _ in range(RESTRICTED.max_steps):
        step = -Z @ _solve(Z.T @ H @ Z, Z.T @ g)
        decrement = float(-g @ step)
        if not decrement > RESTRICTED.tol**2 * noise:
            break
        for halving in range(RESTRICTED.max_halvings):
            new, *_ = _derivatives(problem, b + 0.5**halving * step, False)
            if new <= loss:
                break
        else:
            break
        b = b + 0.5**halving * step
        loss, g, H = _derivatives(problem, b, True)
    if not decrement <= RESTRICTED.max_decrement * noise + RESTRICTED.rounding * abs(loss):
        raise DataError(
            f"The fit under the hypothesis stopped short of its optimum (Newton decrement "
            f"{decrement / noise:.2g}); the restriction may leave other coefficients without a "
            "finite optimum."
        )
    return RestrictedFit(b / design.scale, loss)


def centred_equations(design: DesignLike, R: np.ndarray) -> np.ndarray:
    """Convert equations R (r, p) from X's units to the scaled, centred columns."""
    return R @ design.uncentered_coefficients(np.diag(1.0 / design.scale))


def _solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Compute A⁻¹B for an information matrix A, scaled by its diagonal.

    Raises
    ------
    DataError
        A is singular, which happens so far out that no row informs some coefficient.
    """
    if not len(A):
        return B
    size = np.sqrt(np.where(np.diag(A) > 0, np.diag(A), 1.0))
    by = size if B.ndim == 1 else size[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        C, right = A / size / size[:, None], B / by
    if not (np.isfinite(C).all() and np.isfinite(right).all()):
        raise DataError(OVERFLOW_MESSAGE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", linalg.LinAlgWarning)
            found = linalg.solve(C, right, assume_a="sym")
    except (linalg.LinAlgError, linalg.LinAlgWarning):
        raise DataError(
            "The information is singular under the hypothesis, which leaves other coefficients "
            "without a finite optimum. Check the values of the hypothesis and the units of X."
        ) from None
    return np.asarray(found / by)


def score_statistic(problem: Problem, beta: np.ndarray) -> float:
    """Compute the score statistic g'H⁻¹g of all columns at restricted coefficients."""
    loss, g, H = _derivatives(problem, beta * problem.design.scale, True)
    if not np.isfinite(loss):
        raise DataError(OVERFLOW_MESSAGE)
    return float(g @ _solve(H, g) / _score_variance(problem, loss))


def _score_variance(problem: Problem, loss: float) -> float:
    """Return the variance of a score per unit of information, a linear model's dispersion."""
    total = np.array([problem.weights.sum()])
    return float(np.max(problem.likelihood.score_variance(np.array([loss]), total)))


def _derivatives(
    problem: Problem, scaled: np.ndarray, second: bool
) -> tuple[float, np.ndarray, np.ndarray]:
    """Evaluate the loss and, if ``second``, its gradient and Hessian in the scaled columns."""
    likelihood, design = problem.likelihood, problem.design
    backend, order = likelihood.backend, likelihood.order
    eta, weights = linear_predictor(problem, scaled), bound_weights(problem)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            loss, r = likelihood.evaluate(eta, weights)
        value = float(backend.to_host(loss)[0])
    except FloatingPointError:  # the nuisance parameters overflow
        value = np.inf
    if not np.isfinite(value):
        return np.inf, np.empty(0), np.empty((0, 0))
    if not second:
        return value, np.empty(0), np.empty((0, 0))
    rows = design.by_rows(np.arange(design.p), order, backend)
    g = np.asarray(backend.to_host(rows.rmatmul(r)))[:, 0]
    H = hessian(rows, likelihood.curvature(eta, weights, exact=True))
    return value, g, np.asarray(backend.to_host(H))
