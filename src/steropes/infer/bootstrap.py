"""The bootstrap: draws are replicates of one batch, each at its own certified optimum.

Units (rows, strata or clusters) are drawn with replacement, which is a fit with multinomial
weights over the same X. The draws share the full data's Hessian and working set, and start from
its optimum. Under a Laplace prior their supports differ, so that a Hessian of what any of them
needs would be one of nearly all columns, again and again: it is made once, of all columns, and each
draw's model is minimised by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import DataError, SeparationError
from ..fit import Replicates, certified_fit_under_prior
from ..fit.replicates import lanes_of_draws
from ..solve import Fit
from .bootstrap_draws import Draws
from .information_matrix import Information
from .score_contributions import UnitScores
from .unidentified_coefficients import UnidentifiedCoefficients

__all__ = ["Choose", "DrawnFits", "acceleration", "fit_draws", "fit_draws_reselecting"]

TOL = 1e-4  # largest KKT violation of a draw, in units of λ or of standard errors
MANY, MOST = 200, 10_000  # columns from which on, and up to which, there is one Hessian of all
STEPS = 60  # with it, after which a draw is better off with one of its own
BLOCK = 64  # coefficients whose influences are computed together

Progress = Callable[[str, float], None]
# Takes the problem of a draw and a seed of its own, and chooses the prior's variance.
Choose = Callable[[Any, np.random.Generator], Any]


@dataclass
class DrawnFits:
    """What the draws' fits ended with.

    Attributes
    ----------
    coef : (n, p) array
        In X's units, the intercept at X = 0; ±inf where the draw's likelihood rises for ever,
        NaN where its data say nothing.
    converged : (n,) bool array
    variance : (n,) array or None
        Of the prior, where it was chosen anew.
    """

    coef: np.ndarray
    converged: np.ndarray
    variance: np.ndarray | None = None


def fit_draws(
    problem: Any,
    beta: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    draws: Draws,
    progress: Progress | None = None,
) -> DrawnFits:
    """Fit the model to each draw under the same prior; what adapts to data adapts to the draw's.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        The full data's coefficients in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units, those that the full data's fit ended with.
    draws : Draws
    progress : callable, optional
        Called with what is done and the share of it that is done.
    """
    n, scale = len(draws.seeds), problem.design.scale
    common = problem.common()
    apart = bool(l1.any()) and problem.prior.plain and MANY <= len(beta) <= MOST and n > 1
    if apart:
        common.active.join(np.arange(len(beta)))
    full = problem.batch(common=common)
    full.start_at((beta * scale)[:, None])
    full.solve(l1, l2, tol=TOL, look="after")  # nothing but its Hessian is new
    start, like = full.beta, full.term.nuisance(0)
    del full
    loose = UnidentifiedCoefficients(problem, beta, problem.unbounded(problem.prior))
    replicates = Replicates(
        problem, common, n, draws, memory=0.0, like=like, apart=apart, lanes=lanes_of_draws(problem)
    )
    out = DrawnFits(np.empty((n, len(beta))), np.zeros(n, bool))
    look = "during" if l1.any() and not apart else "after"
    steps = STEPS if apart else 200
    for group in replicates.solve_under_prior(problem.prior, TOL, lambda _: start, look, steps):
        for k, fit in zip(group.numbers, group.fits, strict=True):
            if apart and not fit.converged:
                fit = _alone(problem, draws.one(k), fit, l1, l2)
            marks = loose.mark(draws.one(k), fit)
            out.coef[k] = _in_units(problem, fit.beta, marks)
            out.converged[k] = fit.converged or marks is not None
        if progress is not None:
            progress("bootstrap", (group.numbers[-1] + 1) / n)
    return out


def _alone(problem: Any, weights: np.ndarray, fit: Fit, l1: np.ndarray, l2: np.ndarray) -> Fit:
    """A draw's fit with Hessians of its own, from where it came to."""
    batch = problem.batch(weights[:, None])
    batch.start_at((fit.beta * problem.design.scale)[:, None], fit.nuisance)
    return batch.solve(l1, l2, tol=TOL)[0]


def fit_draws_reselecting(
    problem: Any,
    choose: Choose,
    draws: Draws,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> DrawnFits:
    """Fit the model to each draw, with the prior's variance chosen anew.

    All copies of a unit are in one fold. A draw that has a fold without an optimum, or too few
    units or events for its folds, has coefficients of NaN.

    Parameters
    ----------
    problem : steropes.fit.Problem
    choose : callable
        Takes the problem of a draw and a seed of its own, from which folds are cut, and returns
        a `steropes.select.search.Selection`.
    draws : Draws
    tol, max_iter
        Of the final fits.
    """
    n = len(draws.seeds)
    out = DrawnFits(np.full((n, problem.design.p), np.nan), np.zeros(n, bool), np.full(n, np.nan))
    for k in range(n):
        part = replace(problem, weights=draws.one(k))
        seed = np.random.default_rng([int(draws.seeds[k]), 1])
        try:
            chosen = choose(part, seed)
        except (DataError, SeparationError):  # of the draw: the fit was chosen so as well
            out.converged[k] = True
            continue
        fit, part = certified_fit_under_prior(
            part, chosen.batch, chosen.prior, max(tol, TOL), max_iter, None, "after"
        )
        free = part.unbounded(chosen.prior)
        loose = UnidentifiedCoefficients(problem, fit.beta, free)
        marks = loose.mark(part.weights, fit)
        out.coef[k] = _in_units(problem, fit.beta, marks)
        out.converged[k] = fit.converged or marks is not None
        assert out.variance is not None
        out.variance[k] = chosen.variance
        if progress is not None:
            progress("bootstrap", (k + 1) / n)
    return out


def _in_units(problem: Any, beta: np.ndarray, marks: np.ndarray | None) -> np.ndarray:
    coef = problem.design.uncentered_coefficients(beta)
    return coef if marks is None else np.where(marks == 0, coef, marks)


def acceleration(
    problem: Any, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, unit: np.ndarray | None
) -> np.ndarray:
    """Efron's acceleration of each coefficient, (p,), by the infinitesimal jackknife.

    a = Σ l_i³ / (6 (Σ l_i²)^{3/2}) with the empirical influence l_i of each unit (Efron 1987,
    §7), one Newton step for its score; of penalised likelihoods with the penalty's curvature,
    and under a Laplace prior with the support as it is. Coefficients at zero have none.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        In X's units.
    l1, l2 : (p,) arrays
    unit : (n,) int array or None
        As in `draws.sampling_units`.
    """
    directions = Information(problem, beta, l1, l2).influence()
    scores = UnitScores(problem, beta, unit)
    out = np.zeros(len(beta))
    some = np.flatnonzero(directions.any(axis=0))
    for a in range(0, len(some), BLOCK):
        at = some[a : a + BLOCK]
        influence = scores.along(directions[:, at])
        size = np.sqrt((influence**2).sum(axis=0))
        size = np.where(size > 0, size, 1.0)
        out[at] = ((influence / size) ** 3).sum(axis=0) / 6.0
    return out
