"""Fits of batches under priors of any kind, in several descents if the prior is adaptive.

The penalty of most priors is a pair of vectors, and a fit is a single descent. A prior that couples
coefficients has a smooth term, which becomes part of the batch's data term. An adaptive prior needs
several descents, each under the weights at the previous optimum, until a replicate's optimum is a
fixed point, that is, implies the weights under which it was found. Each replicate has its own
weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..priors import INFINITE_PENALTY, Penalty, Prior
from ..solve import Batch, Fit
from ..solve.certified_fit import certified_fit
from ..solve.optimality.optimality_certificate import certificate
from .multi_fit_constants import REPLICATES
from .solver_problem import Problem

__all__ = ["PriorSolution", "certified_fit_under_prior", "solve_under_prior"]


Callback = Callable[[int, float], None]


@dataclass(frozen=True)
class PriorSolution:
    """The fits of a batch under a prior.

    Attributes
    ----------
    l1, l2 : (p,) or (p, B) arrays
        The penalties of the last descent, in X's units.
    is_fixed_point : bool
        Whether the coefficients imply these penalties.
    """

    fits: list[Fit]
    l1: np.ndarray
    l2: np.ndarray
    is_fixed_point: bool = True


def solve_under_prior(
    problem: Problem,
    batch: Batch,
    prior: Prior | None,
    tol: float,
    max_iter: int = 200,
    callback: Callback | None = None,
    look: str = "during",
) -> PriorSolution:
    """Fit a batch under a prior of any kind.

    Parameters
    ----------
    problem : Problem
        The problem that created ``batch``.
    prior : Prior or None
        The problem's prior, possibly with another variance.
    tol, max_iter, callback, look
        Arguments of `Batch.solve` for each descent.
    """
    batch.set_prior(prior, problem.group_penalty(prior))
    l1, l2 = problem.separable(prior)
    solved = PriorSolution(batch.solve(l1, l2, tol, max_iter, callback, look), l1, l2)
    if prior is None or not prior.adaptive:
        return solved
    taken = np.array([fit.n_iter for fit in solved.fits])
    before: np.ndarray | None = None
    for _ in range(REPLICATES.max_descents):
        beta = np.stack([fit.beta for fit in solved.fits], axis=1)
        solved = _solve_reweighted(problem, batch, prior, beta, before, (tol, max_iter, callback))
        steps = np.array([fit.n_iter for fit in solved.fits])
        taken += steps
        if before is not None and not steps.any():
            break
        before = beta
    else:
        beta = np.stack([fit.beta for fit in solved.fits], axis=1)
        l1, l2 = _next_penalties(problem, prior, beta, before)
        solved = PriorSolution(solved.fits, l1, l2, is_fixed_point=False)
    fits = [replace(fit, n_iter=int(n)) for fit, n in zip(solved.fits, taken, strict=True)]
    return replace(solved, fits=fits)


def certified_fit_under_prior(
    problem: Problem,
    batch: Batch,
    prior: Prior | None,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    look: str = "during",
) -> tuple[Fit, Problem]:
    """Fit a batch of one replicate under a prior, with a certificate computed from X itself.

    Returns
    -------
    fit : Fit
        The fit. Its certificate uses the weights that its coefficients imply.
    problem : Problem
        The problem with this prior, and with ``final_penalty`` if the prior is adaptive.
    """
    problem = replace(problem, prior=prior, final_penalty=None)
    if prior is None or not prior.adaptive:
        batch.set_prior(prior, problem.group_penalty(prior))
        l1, l2 = problem.penalties(prior)
        return certified_fit(problem, batch, l1, l2, tol, max_iter, callback, look), problem
    solved = solve_under_prior(problem, batch, prior, tol, max_iter, callback, look)
    l1, l2 = (x if x.ndim == 1 else x[:, 0] for x in (solved.l1, solved.l2))
    problem = replace(problem, final_penalty=Penalty(l1[problem.n_free :], l2[problem.n_free :]))
    fit = solved.fits[0]
    if not solved.is_fixed_point:
        return replace(fit, optimality=certificate(problem, fit.beta, l1, l2, tol)), problem
    end = certified_fit(problem, batch, l1, l2, tol, max_iter, callback, "after")
    return replace(end, n_iter=fit.n_iter + end.n_iter), problem


def _solve_reweighted(
    problem: Problem,
    batch: Batch,
    prior: Prior,
    beta: np.ndarray,
    before: np.ndarray | None,
    settings: tuple[float, int, Callback | None],
) -> PriorSolution:
    """Solve under the weights that coefficients (p, B) imply."""
    l1, l2 = _next_penalties(problem, prior, beta, before)
    held = (l1 >= INFINITE_PENALTY) & (beta != 0)
    if held.any():
        batch.start_at(np.where(held, 0.0, batch.beta))
    tol, max_iter, callback = settings
    return PriorSolution(batch.solve(l1, l2, tol, max_iter, callback, "after"), l1, l2)


def _next_penalties(
    problem: Problem, prior: Prior, beta: np.ndarray, before: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute an adaptive prior's penalties at coefficients, (p, B) each."""
    first = problem.n_free
    l1, l2 = np.zeros(beta.shape), np.zeros(beta.shape)
    for b in range(beta.shape[1]):
        old = None if before is None else before[first:, b]
        penalty = problem.next_penalty(prior, beta[first:, b], old)
        l1[first:, b], l2[first:, b] = penalty.l1, penalty.l2
    with np.errstate(over="ignore"):  # the penalty may overflow in the unit of the scaled column
        held = np.isinf(l2 / problem.design.scale[:, None] ** 2)
    l1[held], l2[held] = INFINITE_PENALTY, 0.0
    return l1, l2
