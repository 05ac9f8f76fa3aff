"""How far a point is from satisfying the optimality (KKT) conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..likelihoods.nuisance import Nuisance
from ..priors import INFINITE_PENALTY
from .hessian import diagonal
from .linear_predictor import bound_weights, linear_predictor

__all__ = [
    "certificate",
    "certificate_at",
    "certificates",
    "informative",
    "units",
    "violations",
]

AT_ONCE = 1 << 15  # numbers of many replicates that are looked at together
COLUMNS = 1024  # whose curvature is taken at once,
ENTRIES = 1 << 22  # and their entries, about
FLOOR = 1e-3  # of √H: a λ so small against the data's curvature is no unit to count in
ROUNDING = 1e-11  # share of Σ v x² below which a column's curvature may be all rounding
# Of a row's part v |x| of a score: the exponential, the two running sums, a division and a few
# products that it comes from, each off by a rounding or two, and the additions of a piece of the
# column, most of which go different ways (Higham and Mary 2019, theorem 2.8).
ROUNDINGS = 64 * 2.0**-53
FINEST = 1e-8  # violation that the roundings of a score must not reach, the default tolerance


def informative(h: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return curvatures h, raised to where the rounding of a score is no violation.

    A column that is constant within strata, or at all in Cox's model, has no information, and √H
    of whatever is left is no unit: its score is all rounding, which would count as a violation.
    A score is a sum of parts v |x|, whose roundings add up to `ROUNDINGS` Σ v |x| at most, and
    Σ v |x| is about Σ v x² (``whole``), as columns are scaled to entries near one. A unit of
    this divided by `FINEST` keeps violations by rounding below that for any number of rows. The
    column is not left out, because one with little information has an optimum.
    """
    least = np.maximum(ROUNDING * whole, (ROUNDINGS / FINEST * whole) ** 2)
    # Zero and less, which models that are not convex have far out, are no unit anyway.
    return np.where(h > 0, np.maximum(h, least), h)


def units(l1: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The unit in which each column's violation is counted.

    λ_j for a column with a Laplace part, which makes the certificate comparable along a path;
    otherwise √(H_jj), the standard error of the score, so that a violation is the distance to
    the optimum in the coefficient's own standard errors. Both are free of the column's scale.
    """
    root = np.sqrt(np.maximum(h, 0.0))
    unit = np.where(l1 > 0, np.maximum(l1, FLOOR * root), root)
    return np.where(unit > 0, unit, 1.0)


def violations(g: np.ndarray, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> np.ndarray:
    """Distance of zero from the subdifferential of the objective, for each coordinate.

    Parameters
    ----------
    g : array
        Gradient of the loss at β.
    """
    if g.ndim < 2 or g.size <= AT_ONCE or not g.shape == beta.shape == l1.shape == l2.shape:
        return _violations(g, beta, l1, l2)
    out, rows = np.empty(g.shape), max(1, AT_ONCE // g.shape[1])
    for a in range(0, len(g), rows):  # a formula of ten arrays stays in the cache
        at = slice(a, a + rows)
        out[at] = _violations(g[at], beta[at], l1[at], l2[at])
    return out


def _violations(g: np.ndarray, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> np.ndarray:
    slope = g + l2 * beta
    return np.where(
        beta != 0, np.abs(slope + l1 * np.sign(beta)), np.maximum(np.abs(slope) - l1, 0.0)
    )


def certificate(
    problem: Any, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float = 0.0,
    nuisance: Nuisance | None = None,
) -> float:  # fmt: skip
    """The largest violation of the optimality conditions over all columns, in `units`.

    Nothing of the optimisation is used: the linear predictor and the gradient are products with
    X itself in double precision, and the curvature of the units is that at ``beta``. So whatever
    a working copy of the rows or a Hessian from elsewhere has wrong shows here.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    l1, l2 : (p,) arrays
        λ and κ in X's units.
    tol : float
        Violations up to this times λ are not looked into: a larger unit makes them smaller.
    nuisance : Nuisance, optional
        The likelihood's own parameters where the fit ended. The certificate is of both together.
    """
    return certificate_at(problem, beta, l1, l2, tol, nuisance)[0]


def certificate_at(
    problem: Any, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float = 0.0,
    nuisance: Nuisance | None = None,
) -> tuple[float, Any]:  # fmt: skip
    """`certificate`, and the linear predictors (rows of η, 1) that it was made of."""
    design, likelihood = problem.design, problem.likelihood
    backend = likelihood.backend
    beta, (l1, l2) = beta * design.scale, _scaled(l1, l2, design.scale)
    there = _at(problem, beta, nuisance, tol)
    if not np.isfinite(there.loss[0]):
        return np.inf, there.eta
    r, order = there.r, likelihood.order
    if order is not None:
        whole = backend.xp.zeros((design.n, 1))
        whole[order] = r
        r = whole
    g = backend.to_host(design.rmatmul(r, backend))[:, 0]
    there, r = there._replace(r=None), None  # as large as the predictors, and of no more use
    return _largest(problem, g, beta, l1, l2, tol, there)[0], there.eta


def certificates(
    problems: Sequence[Any], term: Any, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray,
    tol: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, Any]:  # fmt: skip
    """`certificate` of several outcomes over one X, whose products with X are made together.

    Parameters
    ----------
    problems : sequence of steropes.fit.Problem
        Of one design, with priors of each coefficient by itself.
    term : LocalTerm
        The same outcomes side by side, in the order of X's rows; its weights and offsets are
        used, and nothing of where it is.
    beta : (p, B) array
        Coefficients in X's units.
    l1, l2 : (p,) arrays
    tol : float

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
        there = _There(own, loss[b : b + 1], None, order, curvature, 0.0)
        values[b], v[:, b] = _largest(problem, g[:, b], scaled[:, b], l1, l2, tol, there)
    return values, v, eta


def _scaled(l1: np.ndarray, l2: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Penalties of columns in X's units, in those of the scaled columns."""
    with np.errstate(over="ignore"):  # what is held stays so in a column of any unit
        first = np.minimum(l1 / scale, INFINITE_PENALTY)
    return first, l2 / scale / scale


def _largest(
    problem: Any, g: np.ndarray, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float,
    there: _There,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """The largest violation in `units`, and all of them, of what is in the scaled columns."""
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
    curvature: Any = None
    if len(counted):
        with np.errstate(all="ignore"):  # where coefficients run away there may be no numbers
            curvature = there.curvature()
    order = likelihood.order
    total = problem.weights if order is None else problem.weights[order]
    noise = float(np.max(likelihood.dispersion(there.loss, total.sum(keepdims=True))))
    step = int(np.clip(ENTRIES * design.p // max(design.nnz, 1), 1, COLUMNS))
    for a in range(0, len(counted), step):
        at = counted[a : a + step]
        with np.errstate(all="ignore"):
            rows = design.by_rows(at, there.order, backend)
            h = backend.to_host(diagonal(rows, curvature))
        if not np.isfinite(h).all():
            return np.inf, v
        if (l1[at] == 0).any():
            h = informative(h, backend.to_host(rows.diagonal(abs(curvature.v))))
        if smooth is not None:
            h = h + np.diag(smooth.hessian(user, at)) / design.scale[at] ** 2
        unit[at] = units(l1[at], h * noise)
    return max(float((v / unit).max(initial=0.0)), there.unsettled), v


class _There(NamedTuple):
    """A likelihood where the fit ended."""

    eta: Any
    loss: np.ndarray
    r: Any
    order: np.ndarray | None  # of the curvature's rows
    curvature: Callable[[], Any]
    unsettled: float


def _at(problem: Any, scaled: np.ndarray, nuisance: Nuisance | None, tol: float) -> _There:
    likelihood, eta = problem.likelihood, linear_predictor(problem, scaled)
    if nuisance is None:
        weights = bound_weights(problem)
        loss, r = likelihood.evaluate(eta, weights)
        loss = likelihood.backend.to_host(loss)
        curvature = partial(likelihood.curvature, eta, weights)
        return _There(eta, loss, r, likelihood.order, curvature, 0.0)
    own = np.ascontiguousarray(eta[:, 0])
    point = nuisance.at(own)
    loss = np.array([point.loss])
    if not np.isfinite(point.loss):
        return _There(eta, loss, None, None, point.curvature, np.inf)
    r = point.gradient()[:, None]
    unsettled = np.inf if nuisance.readmitted(own, tol) is not None else point.unsettled

    def in_rows_of_x() -> Any:  # which need not be moved then
        return point.curvature().among(likelihood.order, problem.design.n)

    return _There(eta, loss, r, None, in_rows_of_x, unsettled)
