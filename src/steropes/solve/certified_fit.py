"""Fits with a certificate of convergence computed from X itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .checked_problem_interface import SolverProblem
from .fit_result import Fit
from .optimality.optimality_certificate import certificate_at
from .proximal_newton.newton_batch import Batch

__all__ = ["certified_fit"]


def certified_fit(
    problem: SolverProblem,
    batch: Batch,
    l1: np.ndarray,
    l2: np.ndarray,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
    look: str = "during",
) -> Fit:
    """Fit a batch of one replicate and certify the result with `certificate`.

    Steps measure violations in units of the last Hessian. If that was computed far from the end,
    their result may not be an optimum. Steps then continue from a Hessian at that point.

    Parameters
    ----------
    problem : steropes.fit.Problem
        The problem from which ``batch`` was made.
    l1, l2, tol, max_iter, callback, look
        As in `Batch.solve`.
    """
    fit = batch.solve(l1, l2, tol, max_iter, callback, look)[0]
    taken = fit.n_iter
    for _ in range(3):  # Each time from a Hessian at the end of the last fit.
        content = fit.converged
        fit = _certified(problem, fit, l1, l2, tol, taken)
        if fit.converged or not content or taken >= max_iter:
            break
        if not np.isfinite(fit.optimality):  # No Hessian is finite there either.
            break
        batch.refresh()
        fit = batch.solve(l1, l2, tol, max_iter - taken, callback, "after")[0]
        taken += fit.n_iter
    else:
        fit = _certified(problem, fit, l1, l2, tol, taken)
    return fit


def _certified(
    problem: SolverProblem, fit: Fit, l1: np.ndarray, l2: np.ndarray, tol: float, taken: int
) -> Fit:
    """Return the fit with the certificate computed from X."""
    optimality, eta = certificate_at(problem, fit.beta, l1, l2, tol, fit.nuisance)
    return replace(fit, optimality=optimality, n_iter=taken, eta=eta)
