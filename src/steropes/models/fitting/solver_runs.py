"""A single fit by Newton's method or coordinate descent, with checks and the trace of its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...errors import DataError
from ...fit import Problem, certified_fit_under_prior
from ...infer import refuse_undetermined
from ...priors import LimitedPrior
from ...solve import Batch, Fit
from ...solve.fit_trace import FitTrace
from .fixed_and_initial_coefficients import start_batch_at

__all__ = ["Start", "fit_by_coordinate_descent", "fit_by_newton"]
# Initial coefficients, (p,), or a batch whose last fit is close to the final one.
Start = np.ndarray | Batch


def fit_by_coordinate_descent(problem: Problem, tol: float, max_iter: int) -> tuple[Fit, FitTrace]:
    """Fit by cyclic coordinate descent; see `steropes.solve.cyclic_descent`.

    Raises
    ------
    DataError
        If the prior is not separable between coefficients.
    SeparationError
        If unpenalised columns are collinear or uninformative.
    """
    from ...solve.cyclic_descent import solve_ccd

    prior, trace = problem.prior, FitTrace()
    if isinstance(prior, LimitedPrior) and prior.limited:
        raise DataError("solver='ccd' has no limits of coefficients; use solver='newton'.")
    if prior is not None and not prior.plain:
        raise DataError(
            f"solver='ccd' is for priors of each coefficient by itself; "
            f"{type(prior).__name__} needs solver='newton'."
        )
    l1, l2 = problem.penalties(prior)
    refuse_undetermined(problem, problem.batch(), l1, l2)
    fit = solve_ccd(problem, l1, l2, tol, max_iter, trace)
    _end(trace, problem, fit)
    return fit, trace


def fit_by_newton(
    problem: Problem,
    start: Start | None,
    tol: float,
    max_iter: int,
    step: Callable[[int, float], None],
) -> tuple[Fit, Problem, FitTrace]:
    """Fit by Newton steps over a working set, with the certificate.

    Parameters
    ----------
    problem : steropes.fit.Problem
        The problem under its prior.
    start : None, (p,) array or Batch
        Initial coefficients, or a batch whose last fit is close to the final one.
    step : callable
        Called with the number of the step and the KKT violation.

    Returns
    -------
    fit : Fit
    problem : steropes.fit.Problem
        The problem with the final weights of an adaptive prior.
    trace : FitTrace

    Raises
    ------
    DataError
        If the objective is not finite at the start.
    SeparationError
        If unpenalised columns are collinear or uninformative.
    """
    prior = problem.prior
    batch = start if isinstance(start, Batch) else problem.batch()
    if not np.isfinite(batch.term.loss[0]):
        _refuse_start(problem)
    known = batch is start
    batch.watch(trace := FitTrace())  # excludes the path that led to this fit
    if not known:
        refuse_undetermined(problem, batch, *problem.penalties(prior))
        if start is not None and not isinstance(start, Batch):
            start_batch_at(batch, start)
    look = "after" if known else "during"
    fit, problem = certified_fit_under_prior(problem, batch, prior, tol, max_iter, step, look)
    _end(trace, problem, fit)
    return fit, problem, trace


def _end(trace: FitTrace, problem: Problem, fit: Fit) -> None:
    """Record the end of the fit, with the certificate over all columns."""
    nonzero = int(np.count_nonzero(fit.beta))
    trace.record(fit.objective, fit.optimality, problem.design.p, nonzero, fit.n_hessian)


def _refuse_start(problem: Problem) -> None:
    """Raise an error that explains why the objective is not finite at the start."""
    plain = replace(problem, prior=None)  # Jeffreys' prior is infinite here too
    batch, nothing = plain.batch(), np.zeros(plain.design.p)
    if np.isfinite(batch.term.loss[0]):
        refuse_undetermined(plain, batch, nothing, nothing)
        raise DataError("The information is singular at the start: columns of X are collinear.")
    raise DataError(
        "The log-likelihood is not finite at the start: the offsets are further apart than exp can "
        "hold. Check their unit, or centre them."
    )
