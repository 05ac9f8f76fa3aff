"""Fits of a cumulative probability model to all rows, or to subsets that are then combined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...errors import DataError, SeparationError
from ...fit import Problem, certified_fit_under_prior
from ...infer.cumulative_probability_variances import SubsetFit
from ...infer.divide_and_combine_information import combine_thresholds, subset_positions
from ...likelihoods.cumulative import CumulativeLikelihood
from ...priors import Prior
from ...solve import Batch
from ...solve.fit_trace import FitTrace
from ...solve.separation.separation_with_nuisance import (
    refuse_separated,
    refuse_unidentifiable_columns,
)
from ..fitting.fixed_and_initial_coefficients import start_batch_at

__all__ = ["fit_part", "fit_subsets"]


def fit_part(
    problem: Problem,
    prior: Prior | None,
    start: Batch | np.ndarray | None,
    trace: FitTrace,
    tol: float,
    max_iter: int,
    step: Callable[[int, float], None] | None,
) -> tuple[SubsetFit, Problem]:
    """Fit a problem with checks of identifiability.

    Parameters
    ----------
    start : Batch, (p,) array or None
        A batch whose last fit is close to the final one, or initial coefficients.
    trace
        Records the steps.
    step : callable or None
        Called with the number of the step and the KKT violation.

    Returns
    -------
    part : FittedPart
    problem : Problem
        With the final weights of an adaptive prior.
    """
    problem = replace(problem, prior=prior)
    free = problem.unbounded(prior)
    batch = start if isinstance(start, Batch) else problem.batch()
    known = batch is start
    h0 = None
    if len(free):
        first = problem.batch() if known else batch
        h0 = refuse_unidentifiable_columns(problem, first, free)
    batch.watch(trace)
    if isinstance(start, np.ndarray):
        start_batch_at(batch, start)
    look = "after" if known else "during"
    fit, problem = certified_fit_under_prior(problem, batch, prior, tol, max_iter, step, look)
    nonzero = int(np.count_nonzero(fit.beta))
    trace.record(fit.objective, fit.optimality, problem.design.p, nonzero, fit.n_hessian)
    if h0 is not None:
        refuse_separated(problem, fit, free, h0)
    return SubsetFit.of(problem.design, fit), problem


def fit_subsets(
    problem: Problem,
    subset: np.ndarray,
    prior: Prior | None,
    tol: float,
    max_iter: int,
    step: Callable[[int, float], None] | None,
    start: np.ndarray | None = None,
) -> tuple[list[SubsetFit], np.ndarray, np.ndarray, np.ndarray, float]:
    """Fit every subset of the rows and combine the fits: (parts, values, α, β, loss)."""
    whole = problem.likelihood
    assert isinstance(whole, CumulativeLikelihood)
    parts = []
    for k in range(int(subset.max()) + 1):
        where = f"Subset {k} of DivideAndCombine: {{}} Use fewer subsets."
        try:
            rows = subset == k
            part = replace(
                problem,
                likelihood=CumulativeLikelihood(whole.y, whole.link, rows, whole.backend),
                weights=np.where(rows, problem.weights, 0.0),
            )
            parts.append(fit_part(part, prior, start, FitTrace(), tol, max_iter, step)[0])
        except SeparationError as error:
            raise SeparationError(where.format(error), error.columns) from None
        except DataError as error:
            raise DataError(where.format(error)) from None
    values = whole.levels.values
    positions = [subset_positions(values, p.values) for p in parts]
    alpha = combine_thresholds(positions, [p.alpha for p in parts])
    beta = np.mean([p.beta for p in parts], axis=0)
    return parts, values, alpha, beta, float(sum(p.fit.loss for p in parts))
