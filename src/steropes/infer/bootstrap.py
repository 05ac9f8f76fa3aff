"""Bootstrap fits: the draws are replicates of one batch, each at its own certified optimum.

Drawing units (rows, strata or clusters) with replacement is a fit with multinomial weights over the
same X. The draws share the Hessian and the working set of the full data and start from its optimum.
Under a Laplace prior their supports differ, so that the Hessian over all columns that any draw
needs would contain nearly all columns and be recomputed again and again. It is therefore computed
once over all columns, and the quadratic model of each draw is minimised separately.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import DataError, SeparationError
from ..fit import Problem, Replicates, certified_fit_under_prior
from ..fit.replicate_fits import lanes_of_draws
from ..solve import Fit
from .bootstrap_draws import Draws
from .inference_constants import BLOCKS, BOOTSTRAP
from .information_matrix import Information
from .score_contributions import UnitScores
from .unidentified_coefficients import UnidentifiedCoefficients

__all__ = ["Choose", "DrawnFits", "acceleration", "fit_draws", "fit_draws_reselecting"]

# Between these numbers of columns, draws under a Laplace prior share one Hessian over all columns.
MIN_COLUMNS, MAX_COLUMNS = 200, 10_000

Progress = Callable[[str, float], None]
# Chooses the prior's variance, given the problem of a draw and a random generator for its folds.
Choose = Callable[[Any, np.random.Generator], Any]


@dataclass
class DrawnFits:
    """The results of the fits to all draws.

    Attributes
    ----------
    coef : (n, p) array
        Coefficients in X's units, the intercept at X = 0; ±inf where the draw's likelihood has no
        finite maximum, NaN where its data do not identify the coefficient.
    converged : (n,) bool array
    variance : (n,) array or None
        The prior's variance, if it was reselected in each draw.
    """

    coef: np.ndarray
    converged: np.ndarray
    variance: np.ndarray | None = None


def fit_draws(
    problem: Problem,
    beta: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    draws: Draws,
    progress: Progress | None = None,
    tol: float = BOOTSTRAP.tol,
) -> DrawnFits:
    """Fit the model to each draw under the same prior; an adaptive prior adapts to each draw.

    Parameters
    ----------
    beta : (p,) array
        The full data's coefficients in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units at the end of the full data's fit.
    progress : callable, optional
        Called with the name of the task and the share of it that is done.
    tol : float
        Largest KKT violation of the fits.
    """
    n, scale = len(draws.seeds), problem.design.scale
    common = problem.common()
    in_range = MIN_COLUMNS <= len(beta) <= MAX_COLUMNS
    prior = problem.prior
    separate = bool(l1.any()) and in_range and n > 1 and prior is not None and prior.plain
    if separate:
        common.active.join(np.arange(len(beta)))
    full = problem.batch(common=common)
    full.start_at((beta * scale)[:, None])
    full.solve(l1, l2, tol=BOOTSTRAP.tol, look="after")  # only computes the Hessian
    start, like = full.beta, full.term.nuisance(0)
    del full
    loose = UnidentifiedCoefficients(problem, beta, problem.unbounded(problem.prior))
    replicates = Replicates(
        problem,
        common,
        n,
        draws,
        memory=0.0,
        like=like,
        per_replicate_subproblems=separate,
        lanes=lanes_of_draws(problem),
    )
    out = DrawnFits(np.empty((n, len(beta))), np.zeros(n, bool))
    look = "during" if l1.any() and not separate else "after"
    steps = BOOTSTRAP.max_shared_steps if separate else 200
    for group in replicates.solve_under_prior(problem.prior, tol, lambda _: start, look, steps):
        for k, fit in zip(group.numbers, group.fits, strict=True):
            if separate and not fit.converged:
                fit = _fit_alone(problem, draws.one(k), fit, l1, l2, tol)
            marks = loose.mark(partial(draws.one, k), fit)
            out.coef[k] = _in_original_units(problem, fit.beta, marks)
            out.converged[k] = fit.converged or marks is not None
        if progress is not None:
            progress("bootstrap", (group.numbers[-1] + 1) / n)
    return out


def _fit_alone(
    problem: Problem, weights: np.ndarray, fit: Fit, l1: np.ndarray, l2: np.ndarray, tol: float
) -> Fit:
    """Continue the fit of one draw with Hessians of its own."""
    batch = problem.batch(weights[:, None])
    batch.start_at((fit.beta * problem.design.scale)[:, None], fit.nuisance)
    return batch.solve(l1, l2, tol=tol)[0]


def fit_draws_reselecting(
    problem: Problem,
    choose: Choose,
    draws: Draws,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> DrawnFits:
    """Fit the model to each draw, reselecting the prior's variance.

    All copies of a unit are in one fold. A draw with a fold without an optimum, or with too few
    units or events for its folds, has coefficients of NaN.

    Parameters
    ----------
    choose : callable
        Called with the problem of a draw and a random generator for its folds; returns a
        `steropes.select.variance_search.Selection`.
    tol, max_iter
        Tolerance and iteration limit of the final fits.
    progress : callable, optional
        Called with the name of the task and the share of it that is done.
    """
    n = len(draws.seeds)
    report = progress or (lambda what, share: None)
    out = DrawnFits(np.full((n, problem.design.p), np.nan), np.zeros(n, bool), np.full(n, np.nan))
    for k in range(n):
        part = replace(problem, weights=draws.one(k))
        seed = np.random.default_rng([int(draws.seeds[k]), 1])
        try:
            chosen = choose(part, seed)
        except (DataError, SeparationError):  # caused by the draw, as the full data's choice worked
            out.converged[k] = True
            report("bootstrap", (k + 1) / n)
            continue
        fit, part = certified_fit_under_prior(
            part, chosen.batch, chosen.prior, max(tol, BOOTSTRAP.tol), max_iter, None, "after"
        )
        free = part.unbounded(chosen.prior)
        loose = UnidentifiedCoefficients(problem, fit.beta, free)
        marks = loose.mark(partial(draws.one, k), fit)
        out.coef[k] = _in_original_units(problem, fit.beta, marks)
        out.converged[k] = fit.converged or marks is not None
        assert out.variance is not None
        out.variance[k] = chosen.variance
        report("bootstrap", (k + 1) / n)
    return out


def _in_original_units(problem: Problem, beta: np.ndarray, marks: np.ndarray | None) -> np.ndarray:
    """Return coefficients with the intercept at X = 0, and the marks of unidentified ones."""
    coef = problem.design.uncentered_coefficients(beta)
    return coef if marks is None else np.where(marks == 0, coef, marks)


def acceleration(
    problem: Problem, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, unit: np.ndarray | None
) -> np.ndarray:
    """Compute Efron's acceleration of each coefficient by the infinitesimal jackknife.

    a = Σ l_i³ / (6 (Σ l_i²)^{3/2}) with the empirical influence l_i of each unit (Efron 1987, §7),
    which is one Newton step for the unit's score. For a penalised likelihood the step includes the
    curvature of the penalty, and under a Laplace prior the support stays fixed, so that
    coefficients at zero have an acceleration of zero.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    unit : (n,) int array or None
        Codes of sampling units; see `bootstrap_draws.sampling_units`.

    Returns
    -------
    (p,) array
    """
    directions = Information(problem, beta, l1, l2).influence()
    scores = UnitScores(problem, beta, unit)
    out = np.zeros(len(beta))
    some = np.flatnonzero(directions.any(axis=0))
    for a in range(0, len(some), BLOCKS.columns):
        at = some[a : a + BLOCKS.columns]
        influence = scores.along(directions[:, at])
        size = np.sqrt((influence**2).sum(axis=0))
        size = np.where(size > 0, size, 1.0)
        out[at] = ((influence / size) ** 3).sum(axis=0) / 6.0
    return out
