"""Residuals and influences of survival models, in the rows of X.

All except dfbeta refer to one copy of a row, as in R's `residuals.coxph`: the weight of a row
enters the risk sets with which it is compared, but not its own residual.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from ..fit import Problem
from .baseline_hazard import fitted_state
from .inference_constants import BLOCKS
from .information_matrix import Information
from .likelihood_types import cox_likelihood, event_likelihood
from .score_contributions import UnitScores

__all__ = [
    "deviance_of_martingale",
    "deviances_of_people",
    "events_of_rows",
    "influences",
    "martingale",
    "row_scores",
    "schoenfeld",
]


def martingale(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Compute events minus expected events of each row of X, (n,); NaN if the weight is zero."""
    likelihood = event_likelihood(problem)
    eta, weights = fitted_state(problem, beta)
    by_eta = likelihood.backend.to_host(likelihood.martingale_residuals(eta, weights))[:, 0]
    total = np.bincount(likelihood.row_of_x, weights=by_eta, minlength=problem.design.n)
    return _per_copy(total[:, None], problem.weights)[:, 0]


def deviance_of_martingale(residual: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Transform martingale residuals into deviance residuals, (n,), nearly symmetric about zero.

    They are sign(M) √(2 [y log(y / μ) − M]) with μ = y − M expected events: Therneau, Grambsch and
    Fleming (1990), Biometrika 77:147; for counts as in McCullagh and Nelder (1989, §2.4).
    """
    expected = np.where(events > 0, events - residual, 1.0)
    with np.errstate(divide="ignore"):
        inside = xlogy(events, events / expected) - residual
    return np.sign(residual) * np.sqrt(np.maximum(2.0 * inside, 0.0))


def events_of_rows(problem: Problem) -> np.ndarray:
    """Return the events of each row of X, (n,), zero for rows that a conditional model omits."""
    out = np.zeros(problem.design.n)
    likelihood = event_likelihood(problem)
    out[likelihood.row_of_x] = likelihood.events()
    return out


def deviances_of_people(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Compute −2 log-likelihood of each row of X, (n,), if the likelihood is a sum over rows."""
    eta, _ = fitted_state(problem, beta)
    return event_likelihood(problem).deviances(eta)


def influences(problem: Problem, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute the first-order change of coefficients on omission of each row, (n, L).

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    columns : (L,) int array
    """
    l1, l2 = problem.penalties(problem.prior)
    directions = Information(problem, beta, l1, l2).influence()[:, columns]
    scores = UnitScores(problem, beta)
    out = np.empty((problem.design.n, len(columns)))
    for a in range(0, len(columns), BLOCKS.columns):
        out[:, a : a + BLOCKS.columns] = scores.along(directions[:, a : a + BLOCKS.columns])
    return out


def row_scores(
    problem: Problem, beta: np.ndarray, columns: np.ndarray, weighted: bool
) -> np.ndarray:
    """Compute each row's contribution to the score of some columns, (n, L) in X's units.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    columns : (L,) int array
    weighted : bool
        Whether contributions are multiplied by the weight; otherwise they are those of one copy
        of each row, NaN if its weight is zero.
    """
    design, scores = problem.design, UnitScores(problem, beta)
    out = np.empty((design.n, len(columns)))
    for a in range(0, len(columns), BLOCKS.columns):
        some = columns[a : a + BLOCKS.columns]
        unit = np.zeros((design.p, len(some)))
        unit[some, np.arange(len(some))] = 1.0
        # The inverse of moving a baseline from the columns' centres to X = 0: I − N has the
        # inverse I + N, because N maps effects to the baseline only and N² = 0.
        along = 2.0 * unit - design.uncentered_coefficients(unit)
        out[:, a : a + BLOCKS.columns] = scores.along(design.scale[:, None] * along)
    return out if weighted else _per_copy(out, problem.weights)


def _per_copy(total: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Divide totals by the rows' weights; NaN where the weight is zero."""
    some = weights > 0
    return np.where(some[:, None], total / np.where(some, weights, 1.0)[:, None], np.nan)


def schoenfeld(
    problem: Problem, beta: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute x − x̄ of each event with a positive weight, by stratum, time and row.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    columns : (L,) int array

    Returns
    -------
    residual : (events, L) array
    time : (events,) array
    stratum, row : (events,) int arrays
        Code of the stratum and row of X of each event.
    """
    likelihood, design = cox_likelihood(problem), problem.design
    backend, risk = likelihood.backend, likelihood.risk
    eta, weights = fitted_state(problem, beta)
    row = likelihood.row_of_x[risk.event_rows]
    time = risk.group_time[risk.group_of_event]
    stratum = likelihood.stratum_of[risk.group_stratum[risk.group_of_event]]
    by = np.lexsort((row, time, stratum))
    by = by[problem.weights[row[by]] > 0]
    out = np.empty((len(by), len(columns)))
    for a in range(0, len(columns), BLOCKS.columns):
        some = columns[a : a + BLOCKS.columns]
        D = np.zeros((design.p, backend.lanes(len(some))))
        D[some, np.arange(len(some))] = design.scale[some]
        Z = design.matmul(D, backend)
        Z = Z if likelihood.order is None else Z[likelihood.order]
        all_of_them = backend.to_host(likelihood.schoenfeld_residuals(eta, weights, Z))
        out[:, a : a + BLOCKS.columns] = all_of_them[by, : len(some)]
    return out, time[by], stratum[by], row[by]
