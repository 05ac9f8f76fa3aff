"""One step of the replicates: propose, search, commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backends.tall_reductions import column_all, column_max, column_sum, columns
from ..data_term import DataTerm, Trial
from ..quasi_newton.bfgs import BfgsPairs
from ..quasi_newton.shared_hessian import SharedHessian
from ..subproblem import LowRank, QuadraticModel
from .damping import Damping
from .elastic_net_penalty import ElasticNetPenalty
from .iterate import Iterate

__all__ = ["Proposal", "commit", "minima", "propose", "search"]

ARMIJO = 1e-4
FREE_REACH = 5.0  # times `DataTerm.trust_radius`: the furthest that a column without penalty goes
ROUNDING = 2e-14  # relative noise of a sum over rows
HALVINGS = 40


@dataclass
class Curvatures:
    """What is known of the replicates' Hessians.

    Attributes
    ----------
    shared : SharedHessian
    sigma : (k, lanes) array
        A replicate's Hessian is diag(σ) G diag(σ) and BFGS terms.
    bfgs : BfgsPairs
    own : dict of int to callable
        What gives the models of replicates that have a Hessian of their own.
    per_replicate_subproblems : bool
        Whether the models are minimised one by one: supports that have little in common are
        small next to all of them together.
    """

    shared: SharedHessian
    sigma: np.ndarray
    bfgs: BfgsPairs
    own: dict[int, Callable[[], QuadraticModel]]
    per_replicate_subproblems: bool = False


@dataclass
class Proposal:
    """Directions and what the models say of them.

    Attributes
    ----------
    D : (k, lanes) array
    slope : (lanes,) array
        Derivative of the objective along them, or more.
    shared : list of int
        Replicates whose direction is by the shared Hessian.
    held : (lanes,) bool array
        Replicates that the model would have go further than columns without penalty may.
    """

    D: np.ndarray
    slope: np.ndarray
    shared: list[int]
    held: np.ndarray


def propose(
    term: DataTerm, point: Iterate, penalty: ElasticNetPenalty, curvatures: Curvatures,
    damping: Damping, todo: np.ndarray, unit: np.ndarray, tolerance: np.ndarray,
) -> Proposal:  # fmt: skip
    """Minimise the replicates' quadratic models to a tolerance (lanes,) in units (k, lanes)."""
    W = term.W
    gW, beta, l1, l2 = models = term.gradient(), point.beta[W], penalty.l1[W], penalty.l2[W]
    live = [b for b in range(term.B) if todo[b]]
    D, shared = minima(term, models, penalty.free[W], curvatures, damping, live, unit, tolerance)
    furthest = column_max(np.abs(D[penalty.free[W]]))
    limit = FREE_REACH * term.trust_radius * damping.room
    held = furthest > limit
    if held.any():  # an intercept that starts far off
        D *= np.minimum(1.0, limit / np.maximum(furthest, limit))
    slope = (
        column_sum(gW * D)
        + column_sum(l1 * (np.abs(beta + D) - np.abs(beta)) + l2 * (beta + 0.5 * D) * D)
        - term.nuisance_decrement
    )
    return Proposal(D, slope, shared, held)


def minima(
    term: DataTerm, models: tuple[np.ndarray, ...], free: np.ndarray, curvatures: Curvatures,
    damping: Damping, live: list[int], unit: np.ndarray, tolerance: np.ndarray,
    linear: bool = False,
) -> tuple[np.ndarray, list[int]]:  # fmt: skip
    """Minima of the models of some replicates, (k, lanes), and who went by the shared Hessian.

    ``models`` are gradients, coefficients and penalties, (k, lanes) each. ``linear`` is whether
    those at zero that have a λ stay there, and nobody else has one.
    """
    k, lanes = len(free), term.lanes
    gW, beta, l1, l2 = models
    D = np.zeros((k, lanes))
    shared: list[int] = []

    def minimum(
        model: QuadraticModel, sigma: Any, at: list[int], low: LowRank | None, alone: bool = True
    ) -> Any:
        factors = columns(sigma, at)
        h = model.diagonal(factors, low)
        g, b, first, second = (columns(x, at) for x in (gW, beta, l1, l2))
        mu = damping.added(at, h, g, b, first, second, term.trust_radius)
        if mu is not None:  # ½ μ d² as a ridge: ½ μ (β + d)² − μ β d
            mu[model.f] = 0.0  # their coordinates are others
            g, second = g - mu * b, second + mu
        with np.errstate(over="ignore", invalid="ignore"):  # where next to no curvature is left
            some = factors, g, b, first, second, columns(unit, at), tolerance[at]
            D = (model.on_support if linear else model.minimize)(*some, low, alone)
        return np.where(column_all(np.isfinite(D)), D, 0.0)  # a step of zero has failed

    if k == 0:
        pass  # only nuisance parameters move
    else:
        own = [b for b in live if b in curvatures.own]
        shared = [b for b in live if b not in curvatures.own]
        ones = np.ones((k, lanes))

        def by_its_own(b: int) -> np.ndarray:
            return minimum(curvatures.own[b](), ones, [b], None)

        for b, step in zip(own, term.pool.map(by_its_own, [(b,) for b in own]), strict=True):
            D[:, [b]] = step
        if shared:
            model, sigma = curvatures.shared.model(free), curvatures.sigma
            low = curvatures.bfgs.terms(curvatures.shared.version, model, sigma)
            if curvatures.per_replicate_subproblems:

                def alone(b: int) -> np.ndarray:
                    return minimum(model.of_lane(b), sigma, [b], low.lanes([b]))

                D[:, shared] = np.concatenate(term.pool.map(alone, [(b,) for b in shared]), axis=1)
            else:
                D[:, shared] = minimum(model, sigma, shared, low.lanes(shared), term.B == 1)
    return D, shared


def search(
    term: DataTerm, point: Iterate, penalty: ElasticNetPenalty, proposal: Proposal, todo: np.ndarray
) -> tuple[Trial, np.ndarray]:
    """Shorten the steps until each lowers its objective; the lengths are (lanes,), 0 for none."""
    W = term.W
    D, beta = proposal.D, point.beta[W]
    slack = ROUNDING * (np.abs(point.objective) + term.total * term.dispersion)
    trial = term.along(D, todo)
    t = np.ones(term.lanes)  # replicates that are done have no direction
    waiting = todo.copy()
    for _ in range(HALVINGS):
        value = trial.loss(t) + penalty.value(beta + t * D, W)
        good = value <= point.objective + ARMIJO * t * np.minimum(proposal.slope, 0.0) + slack
        waiting &= ~(good & np.isfinite(value))
        if not waiting.any():
            break
        t[waiting] *= 0.5
    if waiting.any():  # no descent along the model's step: those stay where they are
        t[waiting] = 0.0
        trial.loss(t)
    return trial, np.where(todo, t, 0.0)


def commit(
    term: DataTerm, point: Iterate, penalty: ElasticNetPenalty, proposal: Proposal, trial: Trial,
    t: np.ndarray, curvatures: Curvatures,
) -> None:  # fmt: skip
    """Move the points: the only part of a step that changes them."""
    W = term.W
    beta, D, old = point.beta[W], proposal.D, term.gradient()
    now = beta + t * D
    now[(t == 1.0) & (beta + D == 0.0)] = 0.0  # zero exactly where the model put it there
    trial.commit()
    point.move(W, now, term.loss + penalty.value(now, W))
    lanes = [b for b in proposal.shared if t[b] > 0]
    if lanes and penalty.l1[W].any():
        curvatures.bfgs.add(curvatures.shared.version, t * D, term.gradient() - old, lanes)
