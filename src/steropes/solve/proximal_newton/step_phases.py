"""The phases of a step of the replicates: propose directions, search along them, commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...backends.array_namespace import array_namespace, to_host
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import map_rows
from ...backends.reductions_of_tall_arrays import column_all, column_max, column_sum, columns
from ..current_iterates import Iterate
from ..data_term import DataTerm, Trial
from ..elastic_net_penalty import ElasticNetPenalty
from ..quasi_newton.bfgs_hessian_updates import BfgsPairs
from ..quasi_newton.shared_hessian import SharedHessian
from ..subproblem import LowRank, QuadraticModel
from .hessian_damping import Damping
from .line_search import backtrack, rounding_slack

__all__ = ["Curvatures", "Proposal", "commit", "minima", "propose", "search"]


@dataclass
class Curvatures:
    """The Hessians that the replicates' quadratic models use.

    Attributes
    ----------
    sigma : (k, lanes) array
        A replicate's Hessian is diag(σ) G diag(σ) plus BFGS terms.
    own : dict of int to callable
        Functions that return the models of replicates with their own Hessian.
    per_replicate_subproblems : bool
        Whether models are minimised one by one, because their supports have little in common and
        are small compared with all of them together.
    """

    shared: SharedHessian
    sigma: Array
    bfgs: BfgsPairs
    own: dict[int, Callable[[], QuadraticModel]]
    per_replicate_subproblems: bool = False


@dataclass
class Proposal:
    """Directions of the replicates.

    Attributes
    ----------
    D : (k, lanes) array
    slope : (lanes,) array
        Derivative of the objective along them, or an upper bound.
    shared : list of int
        Replicates that used the shared Hessian.
    held : (lanes,) bool array
        Replicates with a step that was shortened, as unpenalised columns would go too far.
    """

    D: Array
    slope: np.ndarray
    shared: list[int]
    held: np.ndarray


def propose(
    term: DataTerm, point: Iterate, penalty: ElasticNetPenalty, curvatures: Curvatures,
    damping: Damping, todo: np.ndarray, unit: Array, tolerance: np.ndarray,
) -> Proposal:  # fmt: skip
    """Minimise the replicates' quadratic models to a tolerance (lanes,) in units (k, lanes)."""
    W = term.W
    models = gW, beta, *penalties = term.gradient(), point.beta[W], *penalty.within(W)
    live = [b for b in range(term.B) if todo[b]]
    D, shared = minima(term, models, penalty.free[W], curvatures, damping, live, unit, tolerance)
    furthest = column_max(abs(D[penalty.free[W]]))
    limit = damping.policy.free_reach * term.trust_radius * damping.room
    held = furthest > limit
    if held.any():  # An intercept may start far from its optimum.
        D *= array_namespace(D).asarray(np.minimum(1.0, limit / np.maximum(furthest, limit)))

    def decrease(gW: Array, D: Array, beta: Array, l1: Array, l2: Array) -> tuple[Array]:
        # Almost no curvature makes steps whose squares overflow; the line search rejects them.
        with np.errstate(over="ignore", invalid="ignore"):
            change = l1 * (abs(beta + D) - abs(beta)) + l2 * (beta + 0.5 * D) * D
            return (gW * D + change,)

    (parts,) = map_rows(term.pool, decrease, gW, D, beta, *penalties)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = column_sum(parts) - term.nuisance_decrement
    return Proposal(D, slope, shared, held)


def minima(
    term: DataTerm, models: tuple[Array, ...], free: np.ndarray, curvatures: Curvatures,
    damping: Damping, live: list[int], unit: Array, tolerance: np.ndarray, linear: bool = False,
) -> tuple[Array, list[int]]:  # fmt: skip
    """Return the minima (k, lanes) of some replicates' models, and who used the shared Hessian.

    Parameters
    ----------
    models : tuple of (k, lanes) arrays
        Gradients, coefficients, λ and κ.
    linear : bool
        Whether zero coefficients with a λ stay zero and no others have a λ, so that the minimum is
        the solution of a linear system.
    """
    k, lanes, xp = len(free), term.lanes, array_namespace(models[0])
    D = xp.zeros((k, lanes))
    if k == 0:  # Only nuisance parameters move.
        return D, []
    given = (*models, unit)

    def minimum(
        model: QuadraticModel, sigma: Array, arrays: tuple[Array, ...], at: list[int],
        low: LowRank | None, alone: bool = True,
    ) -> Array:  # fmt: skip
        factors = columns(sigma, at) if sigma.shape[1] > 1 else sigma
        h = model.diagonal(factors, low)
        g, b, first, second, size = (columns(x, at) for x in arrays)
        mu = damping.added(at, h, g, b, first, second, term.trust_radius, term.pool)
        if mu is not None:  # ½ μ d² as a ridge: ½ μ (β + d)² − μ β d
            mu[model.f] = 0.0  # Coordinates of eliminated columns differ.
            g, second = g - mu * b, second + mu
        with np.errstate(over="ignore", invalid="ignore"):  # There may be hardly any curvature.
            some = factors, g, b, first, second, size, tolerance[at]
            D = (model.on_support if linear else model.minimize)(*some, low, alone)
        here = array_namespace(D)
        finite = here.asarray(column_all(here.isfinite(D)))
        return here.where(finite, D, 0.0)  # A step of zero counts as failed.

    own = [b for b in live if b in curvatures.own]
    shared = [b for b in live if b not in curvatures.own]
    model = curvatures.shared.model(free) if shared else None

    def with_own_hessian(b: int) -> Array:
        model, mine = curvatures.own[b](), tuple(x[:, b : b + 1].copy() for x in given)
        if not model.on_device:
            mine = tuple(map(to_host, mine))
        return minimum(model, array_namespace(mine[0]).ones((k, 1)), mine, [b], None)

    for b, step in zip(own, term.pool.map(with_own_hessian, [(b,) for b in own]), strict=True):
        D[:, b : b + 1] = xp.asarray(step)
    if model is None:
        return D, shared
    sigma = curvatures.sigma
    if not model.on_device:
        given, sigma = tuple(map(to_host, given)), to_host(sigma)
    low = curvatures.bfgs.terms(curvatures.shared.version, model, sigma)
    # A device reads the matrix once for all replicates.
    if curvatures.per_replicate_subproblems and model.shared.minimiser is None:

        def separately(b: int) -> Array:
            return minimum(model.of_lane(b), sigma, given, [b], low.lanes([b]))

        steps = term.pool.map(separately, [(b,) for b in shared])
        together = np.concatenate(steps, axis=1)
    else:
        together = minimum(model, sigma, given, shared, low.lanes(shared), term.B == 1)
    if len(shared) == lanes:
        return xp.asarray(together), shared
    D[:, np.array(shared)] = xp.asarray(together)
    return D, shared


def search(
    term: DataTerm, point: Iterate, penalty: ElasticNetPenalty, proposal: Proposal, todo: np.ndarray
) -> tuple[Trial, np.ndarray]:
    """Shorten the steps until each lowers its objective.

    Returns the trial and the step lengths (lanes,), zero where there was no descent.
    """
    W = term.W
    D, beta = proposal.D, point.beta[W]
    slack = rounding_slack(term, point.objective)
    trial = term.along(D, todo)

    def value_at(t: np.ndarray) -> np.ndarray:
        length = term.asarray(t)
        (there,) = map_rows(term.pool, lambda beta, D: (beta + length * D,), beta, D)
        return trial.loss(t) + penalty.value(there, W, term.pool)

    t = backtrack(value_at, point.objective, proposal.slope, slack, todo)
    return trial, np.where(todo, t, 0.0)


def commit(
    term: DataTerm, point: Iterate, penalty: ElasticNetPenalty, proposal: Proposal, trial: Trial,
    t: np.ndarray, curvatures: Curvatures,
) -> None:  # fmt: skip
    """Move the points by the steps; no other phase changes them."""
    W = term.W
    D, old = proposal.D, term.gradient()
    xp, length = array_namespace(D), term.asarray(t)

    def end(beta: Array, D: Array) -> tuple[Array]:
        # Exactly zero where the model's minimum is.
        return (xp.where((length == 1.0) & (beta + D == 0.0), 0.0, beta + length * D),)

    (now,) = map_rows(term.pool, end, point.beta[W], D)
    trial.commit()
    point.move(W, now, term.loss + penalty.value(now, W, term.pool))
    lanes = [b for b in proposal.shared if t[b] > 0]
    if lanes and penalty.some_l1[W].any():
        curvatures.bfgs.add(curvatures.shared.version, D, t, old, term.gradient(), lanes, term.pool)
