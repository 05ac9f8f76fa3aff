"""Violations of the optimality (KKT) conditions, and the certificate computed from X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import map_rows
from ...backends.thread_pool import ThreadPool
from ...likelihoods import Likelihood
from ...likelihoods.hessian_structures import Curvature
from ...likelihoods.likelihood_interface import Bound
from ...likelihoods.nuisance_interface import Nuisance
from ...priors import INFINITE_PENALTY
from ..checked_problem_interface import SolverProblem
from ..hessian import diagonal
from ..linear_predictor import bound_weights, linear_predictor
from ..work_sizes import SIZES

__all__ = [
    "certificate",
    "certificate_at",
    "certificates",
    "floored_curvature",
    "units",
    "violations",
    "violations_in_units",
]

# A λ below this share of √H is no usable unit.
UNIT_FLOOR = 1e-3
# A curvature below this share of Σ v x² may consist of rounding errors.
CURVATURE_ROUNDING = 1e-11
# Rounding error of a row's part v |x| of a score: from the exponential, the two running sums, a
# division and a few products, each off by one or two roundings, and from the additions within a
# chunk of the column, which mostly cancel (Higham and Mary 2019, theorem 2.8).
ROUNDINGS = 64 * 2.0**-53
# Violations by rounding stay below this, the default tolerance.
MAX_ROUNDING_VIOLATION = 1e-8


def floored_curvature(h: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Raise curvatures h to where the rounding of a score is no violation.

    A column that is constant within strata, or in all rows of Cox's model, has no information. The
    root of its remaining curvature is no usable unit, because its score consists of rounding
    errors, which would count as a violation. A score is a sum of parts v |x|, whose rounding errors
    add up to at most `ROUNDINGS` Σ v |x|, and Σ v |x| is about Σ v x² (``whole``), as columns are
    scaled to entries near one. With this sum divided by `MAX_ROUNDING_VIOLATION` as a unit,
    violations by rounding stay below that value for any number of rows. The column is kept, because
    one with little information has an optimum.
    """
    least = np.maximum(
        CURVATURE_ROUNDING * whole, (ROUNDINGS / MAX_ROUNDING_VIOLATION * whole) ** 2
    )
    # Zero and negative curvature, which nonconvex models have far out, is no unit anyway.
    return np.where(h > 0, np.maximum(h, least), h)


def units(l1: Array, h: Array) -> Array:
    """Return the unit in which each column's violation is counted.

    The unit is λ_j for a column with a Laplace part, which makes certificates comparable along a
    path. Otherwise it is √(H_jj), the standard error of the score, so that a violation is the
    distance to the optimum in the coefficient's standard errors. Both are independent of the
    column's scale.
    """
    xp = array_namespace(h)
    root = xp.sqrt(xp.maximum(h, 0.0))
    unit = xp.where(l1 > 0, xp.maximum(l1, UNIT_FLOOR * root), root)
    return xp.where(unit > 0, unit, 1.0)


def violations(g: Array, beta: Array, l1: Array, l2: Array) -> Array:
    """Compute the distance of zero from the objective's subdifferential, for each coordinate.

    Parameters
    ----------
    g : array
        Gradient of the loss at β.
    """
    if g.ndim < 2 or not g.shape == beta.shape == l1.shape == l2.shape:
        return _violations(g, beta, l1, l2)
    return map_rows(None, lambda *x: (_violations(*x),), g, beta, l1, l2)[0]


def violations_in_units(
    g: Array, beta: Array, l1: Array, l2: Array, h: Array, pool: ThreadPool | None = None
) -> tuple[Array, Array]:
    """Return violations (k, lanes) in units for score variances h (k, lanes), and the units."""

    def both(g: Array, beta: Array, l1: Array, l2: Array, h: Array) -> tuple[Array, Array]:
        unit = units(l1, h)
        return _violations(g, beta, l1, l2) / unit, unit

    v, unit = map_rows(pool, both, g, beta, l1, l2, h)
    return v, unit


def _violations(g: Array, beta: Array, l1: Array, l2: Array) -> Array:
    """Compute `violations` of one part."""
    xp, slope = array_namespace(g), g + l2 * beta
    return xp.where(
        beta != 0, xp.abs(slope + l1 * xp.sign(beta)), xp.maximum(xp.abs(slope) - l1, 0.0)
    )


def certificate(
    problem: SolverProblem, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float = 0.0,
    nuisance: Nuisance | None = None,
) -> float:  # fmt: skip
    """Compute the largest violation of the optimality conditions over all columns, in `units`.

    Nothing of the optimisation is used: the linear predictor and the gradient are products with X
    itself in double precision, and the units use the curvature at ``beta``. Errors in a working
    copy of the rows, or in an outdated Hessian, therefore show up here.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    l1, l2 : (p,) arrays
        λ and κ in X's units.
    tol : float
        Violations up to this times λ are not examined, because a larger unit makes them smaller.
    nuisance : Nuisance, optional
        The likelihood's own parameters at the end of the fit. The certificate covers both together.
    """
    return certificate_at(problem, beta, l1, l2, tol, nuisance)[0]


def certificate_at(
    problem: SolverProblem, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float = 0.0,
    nuisance: Nuisance | None = None,
) -> tuple[float, Array]:  # fmt: skip
    """Compute `certificate` and the linear predictors (rows of η, 1) that it is based on."""
    design, likelihood = problem.design, problem.likelihood
    backend = likelihood.backend
    beta, (l1, l2) = beta * design.scale, _scaled(l1, l2, design.scale)
    there = _evaluate_end(problem, beta, nuisance, tol)
    if not np.isfinite(there.loss[0]):
        return np.inf, there.eta
    r, order = there.r, likelihood.order
    if order is not None:
        whole = backend.xp.zeros((design.n, 1))
        whole[order] = r
        r = whole
    g = backend.to_host(design.rmatmul(r, backend))[:, 0]
    there, r = there._replace(r=None), None  # As large as the predictors and no longer needed.
    return _largest_violation(problem, g, beta, l1, l2, tol, there)[0], there.eta


class BoundRows(Protocol):
    """The rows of several outcomes, as `LocalTerm` holds them.

    Attributes
    ----------
    lanes : int
        Number of outcomes, padded to the width of the kernels.
    offset : (n, lanes) or (1, 1) array
    bound : Bound
        The row weights.
    """

    likelihood: Likelihood
    lanes: int
    offset: Array
    bound: Bound


def certificates(
    problems: Sequence[SolverProblem], term: BoundRows, beta: np.ndarray, l1: np.ndarray,
    l2: np.ndarray, tol: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, Array]:  # fmt: skip
    """Compute `certificate` of several outcomes over one X, sharing the products with X.

    Parameters
    ----------
    problems : sequence of steropes.fit.Problem
        Of one design, with separable priors.
    term : LocalTerm
        The same outcomes as a batch, in the order of X's rows. Its weights and offsets are used,
        but not its point.
    beta : (p, B) array
        Coefficients in X's units.
    l1, l2 : (p,) arrays

    Returns
    -------
    (B,) array
        The certificates.
    (p, B) array
        Violations in the scaled columns.
    (n, lanes) array
        Linear predictors.
    """
    design, likelihood = problems[0].design, term.likelihood
    backend = likelihood.backend
    scaled = np.zeros((design.p, term.lanes))
    scaled[:, : len(problems)] = beta * design.scale[:, None]
    l1, l2 = _scaled(l1, l2, design.scale)
    eta = design.matmul(scaled, backend)
    eta += term.offset
    loss, r = likelihood.evaluate(eta, term.bound)
    loss, g = backend.to_host(loss), backend.to_host(design.rmatmul(r, backend))
    values, v = np.full(len(problems), np.inf), np.zeros((design.p, len(problems)))
    for b, problem in enumerate(problems):
        if not np.isfinite(loss[b]):
            continue
        order = problem.likelihood.order
        own = eta[:, b : b + 1] if order is None else eta[order, b : b + 1]
        curvature = partial(problem.likelihood.curvature, own, bound_weights(problem))
        there = _FitEnd(own, loss[b : b + 1], None, order, curvature, 0.0)
        values[b], v[:, b] = _largest_violation(problem, g[:, b], scaled[:, b], l1, l2, tol, there)
    return values, v, eta


def _scaled(l1: np.ndarray, l2: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert penalties of columns in X's units to those of the scaled columns."""
    with np.errstate(over="ignore"):  # An infinite penalty stays infinite in any unit.
        first = np.minimum(l1 / scale, INFINITE_PENALTY)
    return first, l2 / scale / scale


def _largest_violation(
    problem: SolverProblem, g: np.ndarray, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray,
    tol: float, there: _FitEnd,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Return the largest violation in `units`, and all violations, of the scaled columns."""
    design, likelihood = problem.design, problem.likelihood
    backend = likelihood.backend
    smooth, user = problem.smooth_term(), beta / design.scale
    if smooth is not None:
        g = g + smooth.gradient(user[:, None])[:, 0] / design.scale
    joined = problem.group_penalty(problem.prior)
    if joined is None:
        v = violations(g, beta, l1, l2)
    else:
        found = joined.violations((g * design.scale)[:, None], user[:, None])
        v = found[:, 0] / design.scale
    unit = np.where(l1 > 0, l1, 1.0)
    counted = np.flatnonzero((l1 == 0) | (v > tol * l1))
    curvature: Curvature | None = None
    if len(counted):
        with np.errstate(all="ignore"):  # Curvature may not be finite where coefficients diverge.
            curvature = there.curvature()
    order = likelihood.order
    total = problem.weights if order is None else problem.weights[order]
    noise = float(np.max(likelihood.dispersion(there.loss, total.sum(keepdims=True))))
    step = int(
        np.clip(
            SIZES.curvature_entries * design.p // max(design.nnz, 1), 1, SIZES.curvature_columns
        )
    )
    for a in range(0, len(counted), step):
        at = counted[a : a + step]
        assert curvature is not None
        with np.errstate(all="ignore"):
            rows = design.by_rows(at, there.order, backend)
            h = backend.to_host(diagonal(rows, curvature))
        if not np.isfinite(h).all():
            return np.inf, v
        if (l1[at] == 0).any():
            h = floored_curvature(h, backend.to_host(rows.diagonal(abs(curvature.v))))
        if smooth is not None:
            h = h + np.diag(smooth.hessian(user, at)) / design.scale[at] ** 2
        unit[at] = units(l1[at], h * noise)
    return max(float((v / unit).max(initial=0.0)), there.unsettled), v


class _FitEnd(NamedTuple):
    """The likelihood at the end of a fit."""

    eta: Array
    loss: np.ndarray
    r: Array
    order: np.ndarray | None  # of the curvature's rows
    curvature: Callable[[], Curvature]
    unsettled: float


def _evaluate_end(
    problem: SolverProblem, scaled: np.ndarray, nuisance: Nuisance | None, tol: float
) -> _FitEnd:
    """Evaluate the likelihood at the end of a fit."""
    likelihood, eta = problem.likelihood, linear_predictor(problem, scaled)
    if nuisance is None:
        weights = bound_weights(problem)
        loss, r = likelihood.evaluate(eta, weights)
        loss = likelihood.backend.to_host(loss)
        curvature = partial(likelihood.curvature, eta, weights)
        return _FitEnd(eta, loss, r, likelihood.order, curvature, 0.0)
    own = np.ascontiguousarray(eta[:, 0])
    point = nuisance.at(own)
    loss = np.array([point.loss])
    if not np.isfinite(point.loss):
        return _FitEnd(eta, loss, None, None, point.curvature, np.inf)
    r = point.gradient()[:, None]
    unsettled = np.inf if nuisance.readmitted(own, tol) is not None else point.unsettled

    def in_rows_of_x() -> Curvature:  # The rows stay in the order of X.
        return point.curvature().among(likelihood.order, problem.design.n)

    return _FitEnd(eta, loss, r, None, in_rows_of_x, unsettled)
