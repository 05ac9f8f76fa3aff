"""Errors for unidentifiable columns and separation in models with nuisance parameters.

`separating_direction` handles losses of the coefficients alone; here the nuisance parameters α move
as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from ...design_matrix.design_interfaces import ColumnsByRows
from ...errors import SeparationError, listed
from ...likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..fit_result import Fit
from ..hessian import hessian
from ..linear_predictor import bound_weights, linear_predictor
from ..proximal_newton.newton_batch import Batch
from .collinearity import COLLINEAR, collinear_columns
from .cumulative_model_separation import ordering_direction
from .extreme_offsets import refuse_for_offsets
from .refittable_problems import RefittableProblem
from .separation_error import separation_error

__all__ = [
    "information_at_start",
    "refuse_separated",
    "refuse_unidentifiable_columns",
    "rising_direction",
]

# Information along a direction below this share of that at the start is rounding error.
MIN_INFORMATION = 1e-10
# A step that changes linear predictors by less than this indicates convergence.
CONVERGED_CHANGE = 1e-3


def refuse_unidentifiable_columns(
    problem: RefittableProblem, batch: Batch, free: np.ndarray
) -> np.ndarray:
    """Raise `SeparationError` for unpenalised columns that are constant or collinear.

    Parameters
    ----------
    problem : steropes.fit.Problem
        Of a likelihood with nuisance parameters.
    batch : Batch
        Of one replicate, at its start. The Hessian computed there is needed by the fit in any case.
    free : (k,) int array
        Columns without penalty.

    Returns
    -------
    (k,) array
        The information of each of them at the start, for `refuse_separated`.
    """
    return refuse_for_offsets(_refuse_at_start, problem, batch, free)


def _refuse_at_start(problem: RefittableProblem, batch: Batch, free: np.ndarray) -> np.ndarray:
    """Check columns by the Hessian where the batch starts; see `refuse_unidentifiable_columns`."""
    names = problem.design.names
    S, raw = _information(problem, batch, free)
    h = np.diag(S)
    empty = ~(h > COLLINEAR * np.where(raw > 0, raw, 1.0)) | ~(raw > 0)
    if empty.any():
        bad = [names[j] for j in free[empty]]
        raise SeparationError(
            f"The data do not identify the coefficients of {listed(bad)}: constant among the "
            "rows that count. α takes the place of an intercept. Drop these columns or give "
            "them a prior.",
            bad,
        )
    size = np.sqrt(h)
    redundant, partner = collinear_columns(S / size / size[:, None])
    if len(redundant):
        bad = [names[free[j]] for j in sorted(redundant)]
        raise SeparationError(
            f"Collinear columns: {listed(bad)} can be written as a combination of "
            f"{listed([names[free[j]] for j in sorted(partner)]) or 'other columns'}. Drop one "
            "or give them a prior.",
            bad,
        )
    return h


def _information(
    problem: RefittableProblem, batch: Batch, free: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the Hessian over the free columns at the start, and its diagonal for fixed α."""
    if problem.likelihood.convex:
        H, raw = batch.prepare(free, whole=True), batch.uncentred()
        at = _places_in_working_set(batch, free)
        return H[np.ix_(at, at)], raw[at]
    # A curvature that is positive for every column is used for the check.
    likelihood = problem.likelihood
    rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
    eta = linear_predictor(problem, np.zeros(problem.design.p))[:, 0]
    assert isinstance(likelihood, NuisanceLikelihood)
    start = likelihood.begin(eta, bound_weights(problem)[:, 0])
    curvature = start.at(eta).curvature(magnitude=True)
    return hessian(rows, curvature), rows.diagonal(curvature.v)


def _places_in_working_set(batch: Batch, free: np.ndarray) -> np.ndarray:
    """Return the places of columns in the working set."""
    by = np.argsort(batch.term.W, kind="stable")
    return by[np.searchsorted(batch.term.W[by], free)]


def refuse_separated(
    problem: RefittableProblem, fit: Fit, free: np.ndarray, h0: np.ndarray
) -> None:
    """Raise `SeparationError` where the likelihood never stops rising along a direction of β.

    Parameters
    ----------
    problem, fit, free, h0
        See `rising_direction`.
    """
    vector = rising_direction(problem, fit, free, h0)
    if vector is None:
        return
    names, share = problem.design.names, np.abs(vector)
    bad = [names[free[j]] for j in np.argsort(-share) if share[j] > 0.1 * share.max()]
    raise separation_error(problem, bad)


def rising_direction(
    problem: RefittableProblem, fit: Fit, free: np.ndarray, h0: np.ndarray
) -> np.ndarray | None:
    """Find a direction of β along which the likelihood never stops rising, or None.

    If the end of the fit does not prove that there is a maximum, the order of the rows decides
    (`cumulative_model_separation`), which does not depend on how far the fit has gone.

    Parameters
    ----------
    problem, free
        As in `refuse_unidentifiable_columns`.
    h0 : (k,) array
        The result of `refuse_unidentifiable_columns`.

    Returns
    -------
    (k,) array or None
        For the free columns, times the roots of ``h0``.
    """
    likelihood = problem.likelihood
    assert isinstance(likelihood, NuisanceLikelihood)
    order = likelihood.thresholds_around()
    if order is None:
        return None
    rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
    root = np.sqrt(h0)
    if _maximum_is_proven(problem, fit, rows, root):
        return None
    low, up = (end.copy() for end in order)
    absent = ~(bound_weights(problem)[:, 0] > 0)
    low[absent], up[absent] = -1, max(int(up.max()), int(low.max()) + 1)
    assert rows.layout == "rows"  # There are several thresholds, but one predictor, for each row.
    return ordering_direction(rows, low, up, root)


def information_at_start(problem: RefittableProblem, free: np.ndarray) -> np.ndarray:
    """Compute the information (k,) of unpenalised columns at the start, for `rising_direction`."""
    return np.diag(_information(problem, problem.batch(), free)[0])


def _maximum_is_proven(
    problem: RefittableProblem, fit: Fit, rows: ColumnsByRows, root: np.ndarray
) -> bool:
    """Return whether the end of the fit proves a maximum, free of rounding.

    It does if a Newton step of the unpenalised columns, ``rows``, moves no linear predictor. If the
    likelihood never stops rising, such a step is half of the distance walked with a Cauchy link,
    the inverse of that distance with a probit link, and still 0.03 where the tail of a cloglog link
    is at the level of rounding.
    """
    if not fit.converged or fit.nuisance is None:
        return False
    likelihood = problem.likelihood
    eta = linear_predictor(problem, fit.beta * problem.design.scale)[:, 0]
    point = fit.nuisance.at(np.ascontiguousarray(eta))
    with np.errstate(all="ignore"):  # Values that are not finite prove nothing.
        S = hessian(rows, replace(point.curvature(), safer=None)) / root / root[:, None]
        g = rows.rmatmul(point.gradient()[:, None])[:, 0] / root
    if not (np.isfinite(S).all() and np.isfinite(g).all()):
        return False
    value, vector = linalg.eigh(S)
    if not value[0] > MIN_INFORMATION:
        return False
    step = vector @ (vector.T @ g / value) / root
    moved = rows.matmul(likelihood.backend.asarray(step[:, None]))
    return bool(likelihood.extent(moved, problem.weights) < CONVERGED_CHANGE)
