"""The estimate of the pooled rows, computed by the solver from totals over the sites."""

from __future__ import annotations

import numpy as np

from ..backends.blas_threads import single_threaded_blas
from ..errors import DataError
from ..infer.information_matrix import refuse_collinear
from ..solve import Batch
from ..solve.optimality.optimality_certificate import floored_curvature, units, violations
from .falsified_totals import refuse_unconvex_hessian
from .federated_constants import CONVERGENCE
from .federated_cross_validation import Chosen, choose_variance
from .federated_result import FederatedResult
from .federated_solver_model import FederatedModel
from .message_exchange import Exchange
from .pooled_description import PooledDescription, describe
from .pooled_evaluations import Evaluations, SummedEvaluations
from .risk_set_evaluations import RiskSetEvaluations

__all__ = ["evaluations_of", "fit_in_rounds"]


def evaluations_of(exchange: Exchange, described: PooledDescription, l1: np.ndarray) -> Evaluations:
    """Create the evaluations of a plan's model."""
    if exchange.plan.shares_risk_sets:
        return RiskSetEvaluations(exchange, described, l1)
    return SummedEvaluations(exchange, described, l1)


def fit_in_rounds(exchange: Exchange) -> FederatedResult:
    """Fit a plan's model to the rows of all sites.

    Raises
    ------
    DataError
        A site refused a request or sent an invalid answer.
    SeparationError
        The rows of all sites do not identify the coefficients that it names.
    """
    with single_threaded_blas():
        return _fit(exchange)


def _fit(exchange: Exchange) -> FederatedResult:
    """Compute the estimate; see `fit_in_rounds`."""
    plan = exchange.plan
    reached, described = exchange.reached, describe(plan, exchange)
    model = FederatedModel(plan, described, reached)
    prior, theta, chosen, known = plan.coefficient_prior, model.start, None, []
    if plan.folds:
        assert prior is not None
        chosen = choose_variance(exchange, model, prior)
        prior, theta, known = chosen.prior, chosen.theta, chosen.known
    l1, l2 = model.penalties(prior)
    evaluations = evaluations_of(exchange, model.described, l1)
    evaluations.known += known
    term = model.term(evaluations)
    batch = Batch(term)
    batch.start_at((theta * model.scale)[:, None])
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    if len(free):
        G, raw = batch.prepare(free), batch.uncentred()
        at = np.argsort(term.W)[np.searchsorted(np.sort(term.W), free)]
        refuse_collinear(model.names, free, G[np.ix_(at, at)], raw[at], model.rows)
    divergence_check = model.divergence_check(term, l1, l2)
    fit = batch.solve(l1, l2, plan.tol, CONVERGENCE.max_iterations, divergence_check)[0]
    divergence_check(0, 0.0)
    return _result(exchange, model, evaluations, fit.beta, l1, l2, chosen)


def _result(
    exchange: Exchange, model: FederatedModel, evaluations: Evaluations, theta: np.ndarray,
    l1: np.ndarray, l2: np.ndarray, chosen: Chosen | None,
) -> FederatedResult:  # fmt: skip
    """Compute the result of a fit, with its certificate and covariance."""
    plan, head, described, scale = model.plan, model.head, model.described, model.scale
    some = np.flatnonzero((l1 == 0) | (theta != 0))
    H, raw = evaluations.exact_hessian(theta, some)
    loss, g = evaluations.value(theta)
    if not np.isfinite(loss):
        raise DataError(
            "at the estimate a site's linear predictors exceed the limit of its rules: give the "
            "columns a prior, or ask the owners to raise 'predictor'"
        )
    refuse_unconvex_hessian(H, raw)
    weight = model.weight
    h = np.zeros(len(theta))
    size = scale[some] ** 2
    h[some] = floored_curvature(np.diag(H) / size, raw / size)
    v = violations(g / scale, theta * scale, l1 / scale, l2 / scale**2)
    optimality = float((v / units(l1 / scale, h * model.noise(loss))).max(initial=0.0))
    U = np.eye(len(theta))  # to the intercept at zero
    U[:head, head:] = -described.center
    coef = U @ theta
    vcov = None
    notes = []
    used = int(np.count_nonzero(theta[head:])) + head
    used += len(exchange.sites) if plan.has_own_intercepts else 0
    degrees: float | None = None
    if not (l1 > 0).any():
        A = H / scale[some] / scale[some][:, None] + np.diag(l2[some] / scale[some] ** 2)
        size = np.sqrt(np.diag(A))
        V = np.linalg.inv(A / size / size[:, None]) / size / size[:, None]
        T = U / scale
        vcov = T @ V @ T.T
    else:
        notes.append("under a Laplace prior there are no standard errors")
    log_likelihood = described.constant - loss
    if plan.planned.quadratic:
        with np.errstate(divide="ignore"):  # all residuals are zero
            log_likelihood = -0.5 * weight * (np.log(2 * np.pi * 2.0 * loss / weight) + 1.0)
        if weight > used:
            degrees = weight - used
            vcov = None if vcov is None else vcov * (2.0 * loss / degrees)
        else:
            vcov = None
            notes.append(
                "with as many coefficients as rows the residual variance cannot be estimated"
            )
    if plan.times:
        notes.append(
            f"times were rounded up to a grid of {len(plan.times)}: the estimate is that of the "
            "pooled rows with rounded times, which differs from that of exact times because of ties"
        )
    notes += described.notes
    return FederatedResult(
        plan, model.names, coef, vcov, float(log_likelihood), optimality,
        optimality <= 10 * plan.tol, exchange.records, described.rows, described.people,
        described.events, notes, degrees, None if chosen is None else chosen.variance,
        None if chosen is None else chosen.results,
    )._describe_weights(described.weight)  # fmt: skip
