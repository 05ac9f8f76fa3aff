"""Surrogate likelihoods: one site's rows stand for all, corrected by what the others add up to.

With L the negative log-likelihood of all sites' rows, L₁ that of the lead's, W and W₁ the weights
of their rows, and b̄ a first estimate, the surrogate is

    L̃(β) = (W/W₁) L₁(β) + {∇L(b̄) − (W/W₁) ∇L₁(b̄)}'β + ½ (β − b̄)'{∇²L(b̄) − (W/W₁) ∇²L₁(b̄)}(β − b̄)

without the last term for ``order=1``. At b̄ it has the gradient and the Hessian of L; elsewhere the
lead's rows say how both change.

References
----------
Jordan, Lee and Yang (2019), JASA 114:668. Duan and others (2020), J Am Med Inform Assoc 27:376
(ODAL) and 27:1028 (ODAC). Luo and others (2022), J Am Med Inform Assoc 29:1366 (stratified by site,
ODACH).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import DataError, SeparationError
from ..priors import Normal, Prior
from ..solve import Batch
from ..solve.data_term import Accuracy, CurvatureAt, LocalTerm, SmoothPenaltyTerm
from .plan import FederatedPlan
from .protocol import Message
from .rows import SiteRows
from .site_sums import sums_at, unpacked

__all__ = ["Correction", "Surrogate", "fit_surrogate"]


@dataclass(frozen=True)
class Surrogate:
    """Where a surrogate has its optimum.

    Attributes
    ----------
    estimate : (q,) array
        The intercept at zero first, where there is one.
    hessian : (q, q) array
        Of the surrogate without the penalty, there.
    optimality : float
        Largest violation of the optimality conditions.
    """

    estimate: np.ndarray
    hessian: np.ndarray
    optimality: float


@dataclass(frozen=True)
class Correction:
    """The part of a surrogate that is not of the lead's rows; see `SmoothTerm`."""

    slope: np.ndarray
    matrix: np.ndarray
    at: np.ndarray

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Its value, (B,), for coefficients (q, B)."""
        d = beta - self.at[:, None]
        return self.slope @ d + 0.5 * (d * (self.matrix @ d)).sum(axis=0)

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """Its derivative, (q, B)."""
        return self.slope[:, None] + self.matrix @ (beta - self.at[:, None])

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Its Hessian over some columns, (k, k)."""
        return self.matrix[np.ix_(columns, columns)]


class _SurrogateTerm(SmoothPenaltyTerm):
    """The lead's losses with the correction, which need not be convex far from b̄."""

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """See `DataTerm.curvature`."""
        at = super().curvature(lane)
        if at is not None:
            at.convex = False
        return at


def fit_surrogate(rows: SiteRows, plan: FederatedPlan, request: Message) -> Surrogate:
    """Minimise the surrogate, with the plan's prior.

    Parameters
    ----------
    request : Message
        ``at`` (q,) is b̄, ``gradient`` and ``hessian`` those of all sites' L there, ``center`` (p,)
        the columns' centres that its intercept is at, and ``weight`` that of all rows.

    Raises
    ------
    DataError, SeparationError
        Where the surrogate has no finite minimum.
    """
    p, head = len(plan.columns), len(plan.intercepts)
    q = p + head
    at = np.asarray(request.array("at", (q,)), float)
    g = np.asarray(request.array("gradient", (q,)), float)
    H = unpacked(np.asarray(request.array("hessian", (q * (q + 1) // 2,)), float), q)
    center = np.asarray(request.array("center", (p,)), float)
    problem = rows.problem
    ratio = float(request.value("weight")) / float(problem.weights.sum())
    own = sums_at(rows, plan, at[None, head:], at[:head] if head else None, center, np.arange(p))
    slope = g - ratio * own.gradient[0]
    matrix = H - ratio * own.hessian[0] if plan.order == 2 else np.zeros((q, q))
    design = rows.design.with_intercept() if head else rows.design
    T = np.eye(q)  # from the lead's coefficients to the design's, in the columns' own units
    if head:
        T[0, 1:] = rows.design.center - center
    back = np.linalg.inv(T)
    correction = Correction(back.T @ slope, back.T @ matrix @ back, T @ at)
    offset = None if problem.offset is None else problem.offset[:, None]
    inner = LocalTerm(design, problem.likelihood, ratio * problem.weights[:, None], offset)

    def of(prior: Prior) -> Correction:
        return correction

    term = _SurrogateTerm(inner, of, Normal(1.0))
    batch = Batch(term)
    batch.start_at((correction.at * design.scale)[:, None])
    l1, l2 = np.zeros(q), np.zeros(q)
    prior = plan.coefficient_prior
    if prior is not None:
        penalty = prior.penalty(list(plan.columns))
        l1[head:], l2[head:] = penalty.l1, penalty.l2
    fit = batch.solve(l1, l2, plan.tol, 100)[0]
    if not fit.converged:
        raise SeparationError(
            "The surrogate likelihood has no minimum that its steps find: the lead's rows say "
            "too little about some columns. Choose a larger site as the lead, or use rounds.",
            list(plan.columns),
        )
    theta = back @ fit.beta  # in the lead's coefficients
    there = theta[:head] if head else None
    final = sums_at(rows, plan, theta[None, head:], there, center, np.arange(p))
    hessian = ratio * final.hessian[0] + matrix
    if not np.isfinite(theta).all():
        raise DataError("the surrogate's estimate is not finite")
    if head:  # the intercept at zero
        U = np.eye(q)
        U[0, 1:] = -center
        theta = U @ theta
        back = np.linalg.inv(U)
        hessian = back.T @ hessian @ back
    return Surrogate(theta, hessian, fit.optimality)
