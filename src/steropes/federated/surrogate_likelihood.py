"""Surrogate likelihoods: the likelihood of one site, corrected by derivatives of the total.

Let L be the negative log-likelihood of the rows of all sites and L₁ that of the lead's rows, W and
W₁ the weights of these rows, and b̄ an initial estimate. The surrogate is

    L̃(β) = (W/W₁) L₁(β) + {∇L(b̄) − (W/W₁) ∇L₁(b̄)}'β + ½ (β − b̄)'{∇²L(b̄) − (W/W₁) ∇²L₁(b̄)}(β − b̄)

without the last term for ``order=1``. At b̄ it has the gradient and the Hessian of L; elsewhere the
lead's rows determine how both change.

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
from .federated_plan import FederatedPlan
from .messages import Message
from .site_rows import SiteRows
from .site_sums import sums_at, unpack_lower

__all__ = ["Correction", "Surrogate", "fit_surrogate"]


@dataclass(frozen=True)
class Surrogate:
    """The optimum of a surrogate.

    Attributes
    ----------
    estimate : (q,) array
        Coefficients, starting with the intercept at X = 0, if any.
    hessian : (q, q) array
        Hessian of the surrogate there, without the penalty.
    optimality : float
        Largest violation of the optimality conditions.
    """

    estimate: np.ndarray
    hessian: np.ndarray
    optimality: float


@dataclass(frozen=True)
class Correction:
    """The linear and quadratic correction of the lead's likelihood; see `SmoothTerm`."""

    slope: np.ndarray
    matrix: np.ndarray
    at: np.ndarray

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Evaluate the correction, (B,), at coefficients (q, B)."""
        d = beta - self.at[:, None]
        return self.slope @ d + 0.5 * (d * (self.matrix @ d)).sum(axis=0)

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """Compute the derivative, (q, B)."""
        return self.slope[:, None] + self.matrix @ (beta - self.at[:, None])

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the Hessian over some columns, (k, k)."""
        return self.matrix[np.ix_(columns, columns)]


class _SurrogateTerm(SmoothPenaltyTerm):
    """The lead's loss with the correction, which may be non-convex far from b̄."""

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """Return the curvature of all rows."""
        return super().curvature(lane)


def fit_surrogate(rows: SiteRows, plan: FederatedPlan, request: Message) -> Surrogate:
    """Minimise the surrogate under the plan's prior.

    Parameters
    ----------
    rows : SiteRows
        The lead's rows.
    request : Message
        ``at`` (q,) is b̄, ``gradient`` and ``hessian`` are those of L at b̄, ``center`` (p,) are the
        centres of the columns to which the intercept refers, and ``weight`` is the weight of all
        rows.

    Raises
    ------
    DataError, SeparationError
        The surrogate has no finite minimum.
    """
    p, head = len(plan.columns), len(plan.intercepts)
    q = p + head
    at = np.asarray(request.array("at", (q,)), float)
    g = np.asarray(request.array("gradient", (q,)), float)
    H = unpack_lower(np.asarray(request.array("hessian", (q * (q + 1) // 2,)), float), q)
    center = np.asarray(request.array("center", (p,)), float)
    problem = rows.problem
    ratio = float(request.value("weight")) / float(problem.weights.sum())
    own = sums_at(rows, plan, at[None, head:], at[:head] if head else None, center, np.arange(p))
    slope = g - ratio * own.gradient[0]
    matrix = H - ratio * own.hessian[0] if plan.order == 2 else np.zeros((q, q))
    design = rows.design.with_intercept() if head else rows.design
    T = np.eye(q)  # maps the lead's coefficients to the design's, in the columns' own units
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
            "No minimum of the surrogate likelihood was found: the lead's rows have too little "
            "information on some columns. Choose a larger site as the lead, or method='rounds'.",
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
