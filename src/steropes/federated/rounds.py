"""The estimate of the pooled rows, in rounds of sums: the solver of one machine on sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import get_backend
from ..backends.blas import single_threaded_blas
from ..errors import SeparationError
from ..infer.information import refuse_dependent
from ..solve import Batch
from ..solve.certificate import units, violations
from ..solve.data_term import ShardedFamily
from .described import Described, describe
from .evaluations import Evaluations, RiskSetEvaluations, SummedEvaluations
from .exchange import Exchange
from .result import FederatedResult
from .shards import FederatedTerm, SiteShards

__all__ = ["evaluations_of", "fit_in_rounds"]

LEAST = 1e-3  # of the outcome's spread: a residual standard deviation as small as none
WORN = 1e-6  # rows' worth of information about a standardised coefficient: as good as none
FAR = 0.3  # of the largest coefficient: those that run away with it
ITERATIONS = 200


@dataclass(frozen=True)
class _Linear:
    """The residual variance of linear models, as `LinearLikelihood.dispersion` has it."""

    variance: float

    def __call__(self, loss: np.ndarray, total: np.ndarray) -> np.ndarray:
        return np.maximum(2.0 * loss / np.maximum(total, 1e-300), LEAST**2 * self.variance)


def _one(loss: np.ndarray, total: np.ndarray) -> float:
    return 1.0


def _first(parts: np.ndarray) -> np.ndarray:
    return np.asarray(parts)


def evaluations_of(exchange: Exchange, described: Described, l1: np.ndarray) -> Evaluations:
    """The sums over sites of a plan's model."""
    if exchange.plan.shares_risk_sets:
        return RiskSetEvaluations(exchange, described.center, l1, described.times)
    return SummedEvaluations(exchange, described.center, l1)


def fit_in_rounds(exchange: Exchange) -> FederatedResult:
    """Fit a plan's model to the rows of all sites.

    Raises
    ------
    DataError
        A site refused a message, or answered what it was not asked.
    SeparationError
        Coefficients that the sites' rows together do not determine, by name.
    """
    with single_threaded_blas():
        return _fit(exchange)


def _fit(exchange: Exchange) -> FederatedResult:
    plan = exchange.plan
    described = describe(plan, exchange)
    head = len(plan.intercepts)
    names = [*plan.intercepts, *plan.columns]
    l1, l2 = np.zeros(len(names)), np.zeros(len(names))
    prior = plan.coefficient_prior
    if prior is not None:
        penalty = prior.penalty(list(plan.columns))
        l1[head:], l2[head:] = penalty.l1, penalty.l2
    evaluations = evaluations_of(exchange, described, l1)
    scale = np.concatenate([np.ones(head), described.scale])
    weight, rows = sum(described.weight.values()), sum(described.rows.values())
    linear = plan.model == "linear"
    family = ShardedFamily(
        described.grouped or plan.shares_risk_sets,
        np.inf if linear else 2.0,
        _Linear(described.outcome_variance) if linear else _one,
        _first,
    )
    shards = SiteShards(evaluations, scale, weight, rows)
    term = FederatedTerm(shards, family, scale, get_backend("cpu").pool, np.ones((1, 1)))
    batch = Batch(term)
    beta = np.zeros((len(names), 1))
    beta[:head, 0] = described.start
    batch.start_at(beta)
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    if len(free):
        G, raw = batch.prepare(free), batch.uncentred()
        at = np.argsort(term.W)[np.searchsorted(np.sort(term.W), free)]
        refuse_dependent(names, free, G[np.ix_(at, at)], raw[at], rows)
    watch = _Watch(term, free, weight / rows, names, linear)
    fit = batch.solve(l1, l2, plan.tol, ITERATIONS, watch)[0]
    watch(0, 0.0)
    return _result(exchange, described, evaluations, names, fit.beta, l1, l2, scale)


class _Watch:
    """Stops a fit whose unpenalised coefficients run away, by name."""

    def __init__(
        self, term: FederatedTerm, free: np.ndarray, weight: float, names: list[str], linear: bool
    ) -> None:
        self.term, self.free, self.weight, self.names = term, free, weight, names
        self.linear = linear

    def __call__(self, step: int, violation: float) -> None:
        """Look at the information at the point."""
        if self.linear or not len(self.free):
            return
        at = self.term.curvature(0)
        assert at is not None
        W = self.term.W
        place = np.argsort(W)[np.searchsorted(np.sort(W), self.free)]
        H = at.matrix()[np.ix_(place, place)]
        size = np.sqrt(np.maximum(np.diag(H), 1e-300))
        values, vectors = np.linalg.eigh(H / size / size[:, None])
        own = 1.0 / np.maximum((vectors**2 / np.maximum(values, 1e-300)).sum(axis=1), 1e-300)
        worn = self.free[own * size**2 <= WORN * self.weight]
        if not len(worn):
            return
        far = np.abs(self.term.beta[worn, 0])  # in units of the columns' spread
        named = [self.names[j] for j in worn[far >= FAR * far.max()]][:8]
        raise SeparationError(
            "The likelihood seems to have no finite maximum: the coefficients of "
            f"{', '.join(map(repr, named))} run away (the outcome is separated by them, over all "
            "sites). Drop or merge these columns, or give them a prior.",
            named,
        )


def _result(
    exchange: Exchange, described: Described, evaluations: Evaluations, names: list[str],
    theta: np.ndarray, l1: np.ndarray, l2: np.ndarray, scale: np.ndarray,
) -> FederatedResult:  # fmt: skip
    """The fit's tables, its certificate recomputed at the end."""
    plan, head = exchange.plan, len(exchange.plan.intercepts)
    some = np.flatnonzero((l1 == 0) | (theta != 0))
    H, _ = evaluations.exact_hessian(theta, some)
    loss, g = evaluations.value(theta)
    weight = sum(described.weight.values())
    noise = 1.0
    if plan.model == "linear":
        noise = float(_Linear(described.outcome_variance)(np.array(loss), np.array(weight)))
    h = np.zeros(len(theta))
    h[some] = np.diag(H) / scale[some] ** 2
    v = violations(g / scale, theta * scale, l1 / scale, l2 / scale**2)
    optimality = float((v / units(l1 / scale, h * noise)).max(initial=0.0))
    U = np.eye(len(theta))  # to the intercepts at zero
    U[:head, head:] = -described.center
    coef = U @ theta
    vcov = None
    notes = []
    used = int(np.count_nonzero(theta[head:])) + head
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
    if plan.model == "linear":
        degrees = weight - used
        sigma2 = 2.0 * loss / degrees
        log_likelihood = -0.5 * weight * (np.log(2 * np.pi * 2.0 * loss / weight) + 1.0)
        vcov = None if vcov is None else vcov * sigma2
    if plan.times:
        notes.append(
            f"times were rounded up to a grid of {len(plan.times)}: the estimate is that of the "
            "pooled rows with times so rounded, and differs from that of exact times by what ties "
            "lose"
        )
    return FederatedResult(
        plan, names, coef, vcov, float(log_likelihood), optimality, optimality <= 10 * plan.tol,
        exchange.records, described.rows, described.people, described.events, notes, degrees,
    )  # fmt: skip
