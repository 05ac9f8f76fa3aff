"""Refusals of models with nuisance parameters: columns without information, and separation.

`steropes.solve.separation` knows losses of the coefficients alone; here α goes along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from ..errors import SeparationError, listed
from ..priors import HELD
from .batch import Batch
from .far_offsets import refuse_for_offsets
from .fit import Fit
from .hessian import hessian
from .predictor import bound_weights, linear_predictor

__all__ = [
    "information_at_start",
    "refuse_separated",
    "refuse_undetermined_columns",
    "rising_direction",
]

LEAST = 1e-12  # the same, of a maximum of a likelihood that is not concave
COLLINEAR = 1e-10  # share of a column's information that the other columns leave it
FLAT = 1e-4  # information along a direction, relative to that at the start
LEFT = (1e-10, 1e-7)  # the same, where next to none is left
FAR, FARTHER = 10.0, 300.0  # how far to walk in η along a direction that looks flat
NOT_SO_FAR = 30.0  # the same, where that is too far to tell
ROUNDING = 1e-9  # of a loss
OUTSIDE = 100.0  # times the rows: a range of η that no maximum has, however heavy the tails
SMALL = 1e-3  # share of the farthest coefficient's way below which another has not gone far
CERTAIN = 1e-3  # of the lightest row's weight: a loss with which no row is in doubt


def refuse_undetermined_columns(problem: Any, batch: Batch, free: np.ndarray) -> np.ndarray:
    """Raise `SeparationError` for columns without penalty that are constant or collinear.

    Parameters
    ----------
    problem : steropes.fit.Problem
        Of a likelihood with nuisance parameters.
    batch : Batch
        Of one replicate, at its start; the Hessian there is computed, which the fit needs anyway.
    free : (k,) int array
        Columns without penalty.

    Returns
    -------
    (k,) array
        The information of each of them at the start, for `refuse_separated`.
    """
    return refuse_for_offsets(_refuse_at_start, problem, batch, free)


def _refuse_at_start(problem: Any, batch: Batch, free: np.ndarray) -> np.ndarray:
    """`refuse_undetermined_columns` by the Hessian where the batch starts."""
    names = problem.design.names
    S, raw = _information(problem, batch, free)
    h = np.diag(S)
    empty = ~(h > COLLINEAR * np.where(raw > 0, raw, 1.0)) | ~(raw > 0)
    if empty.any():
        bad = [names[j] for j in free[empty]]
        raise SeparationError(
            f"The data say nothing about the coefficients of {listed(bad)}: constant among the "
            "rows that count. α takes the place of an intercept. Drop these columns or give "
            "them a prior.",
            bad,
        )
    size = np.sqrt(h)
    C = S / size / size[:, None]
    _, pivot, rank, _ = linalg.lapack.dpstrf(C, tol=COLLINEAR, lower=1)
    if rank < len(free):
        pivot = pivot - 1
        loose, kept = pivot[rank:], pivot[:rank]
        bad = [names[free[j]] for j in sorted(loose)]
        weight = linalg.lstsq(C[np.ix_(kept, kept)], C[np.ix_(kept, loose)])[0]
        partner = kept[np.flatnonzero(np.abs(weight).max(axis=1) > 1e-6)]
        raise SeparationError(
            f"Collinear columns: {listed(bad)} can be written as a combination of "
            f"{listed([names[free[j]] for j in sorted(partner)]) or 'other columns'}. Drop one "
            "or give them a prior.",
            bad,
        )
    return h


def _information(problem: Any, batch: Batch, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian over the free columns where the batch starts, and its diagonal for fixed α."""
    if problem.likelihood.convex:
        H, raw = batch.prepare(free, whole=True), batch.uncentred()
        at = _places(batch, free)
        return H[np.ix_(at, at)], raw[at]
    # Columns are judged by a curvature that none can be without.
    likelihood = problem.likelihood
    rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
    eta = linear_predictor(problem, np.zeros(problem.design.p))[:, 0]
    start = likelihood.begin(eta, bound_weights(problem)[:, 0])
    curvature = start.at(eta).curvature(magnitude=True)
    return hessian(rows, curvature), rows.diagonal(curvature.v)


def _places(batch: Batch, free: np.ndarray) -> np.ndarray:
    """Where columns are in the working set."""
    by = np.argsort(batch.term.W, kind="stable")
    return by[np.searchsorted(batch.term.W[by], free)]


def refuse_separated(
    problem: Any, batch: Batch, fit: Fit, free: np.ndarray, h0: np.ndarray
) -> None:
    """Raise `SeparationError` where the likelihood rises for ever along some direction of β.

    Parameters
    ----------
    problem, batch, fit, free, h0
        See `rising_direction`.
    """
    vector = rising_direction(problem, batch, fit, free, h0)
    if vector is None:
        return
    names, share = problem.design.names, np.abs(vector)
    bad = [names[free[j]] for j in np.argsort(-share) if share[j] > 0.1 * share.max()]
    raise SeparationError(
        "The likelihood has no finite maximum: it keeps rising as the coefficients of "
        f"{listed(bad)} go to infinity (the outcome is separated by them). Drop or "
        "merge these columns, or give them a prior.",
        bad,
    )


def rising_direction(
    problem: Any, batch: Batch, fit: Fit, free: np.ndarray, h0: np.ndarray
) -> np.ndarray | None:
    """The direction of β along which the likelihood rises for ever, or None.

    Directions with hardly any information, relative to the start, are walked in both senses
    with α fitted anew: at a finite maximum the likelihood has fallen by the time η has changed by
    ten (or by hundreds, where some rows are moved by far less than others); along a direction of
    separation it has not. A likelihood that is not concave may be flat at a maximum, and higher
    elsewhere than at a point that is none: of it a fit that converged where the curvature is
    positive is a maximum, unless η has gone farther than the tails of the link can tell apart;
    otherwise the likelihood has to be higher still as far out again as the fit has gone.

    Parameters
    ----------
    problem, batch, free
        As above, ``batch`` where the fit has ended.
    fit : Fit
    h0 : (k,) array
        What `refuse_undetermined_columns` returned.

    Returns
    -------
    (k,) array or None
        Of the free columns, times the roots of ``h0``.
    """
    if not np.isfinite(fit.loss):
        return None
    design, backend = problem.design, problem.likelihood.backend
    eta = design.matmul((fit.beta * design.scale)[:, None], backend)[:, 0]
    counted = problem.weights > 0
    spread = np.ptp(eta[counted])
    concave = problem.likelihood.convex  # the likelihood, whose loss is convex
    outside = not concave and fit.converged and bool(spread > OUTSIDE * counted.sum())
    if not concave and not outside and _maximum(problem, fit, free, h0):
        return None
    root = np.sqrt(h0)
    way = (fit.beta * design.scale)[free] * root
    alone = problem.offset is None and np.count_nonzero(fit.beta) == np.count_nonzero(way)
    if concave and alone and way.any() and fit.loss < CERTAIN * problem.weights[counted].min():
        # All rows have their outcomes next to surely, and so in their order: what has been walked
        # separates them. The thresholds have no curvature left by which to walk on.
        return np.asarray(way / np.linalg.norm(way))
    H, at = batch.prepare(free, whole=True), _places(batch, free)
    S = H[np.ix_(at, at)]
    if outside:
        way[np.abs(way) < SMALL * np.abs(way).max()] = 0.0
        directions = [way / np.linalg.norm(way)]
    else:
        directions = _flat(S / root / root[:, None], way)
    if problem.offset is not None:
        eta = eta + problem.offset
    own = np.zeros((design.p, 1))
    own[free, 0] = (fit.beta * design.scale)[free]
    beside = bool(np.ptp((eta - design.matmul(own, backend)[:, 0])[counted]) > FAR)
    for vector in directions:
        d = np.zeros((design.p, 1))
        d[free, 0] = vector / root
        step = design.matmul(d, backend)[:, 0]
        sense = _rises(problem, fit, eta, step, spread)
        if sense and (not concave or not beside or _rises_alone(problem, sense * step)):
            return sense * vector
    return None


def information_at_start(problem: Any, free: np.ndarray) -> np.ndarray:
    """The information (k,) of columns without penalty at the start, for `rising_direction`."""
    return np.diag(_information(problem, problem.batch(), free)[0])


def _flat(C: np.ndarray, way: np.ndarray) -> list[np.ndarray]:
    """Directions with hardly any information, which the likelihood may rise along for ever.

    That with the least; and what the fit has walked, ``way``, of those with next to none: of
    several, one may rise only together with others.
    """
    value, vector = linalg.eigh(C, subset_by_value=(-np.inf, FLAT))
    out = list(vector[:, :1].T)
    counts = {int(np.count_nonzero(value <= left)) for left in (*LEFT, FLAT)}
    for k in sorted(counts - {0, 1}):
        gone = vector[:, :k] @ (vector[:, :k].T @ way)
        if gone.any():
            out.append(gone / np.linalg.norm(gone))
    return out


def _rises(problem: Any, fit: Fit, eta: np.ndarray, step: np.ndarray, spread: float) -> float:
    """The sense, ±1, in which the likelihood rises from η along ``step`` (n,) for ever; or 0."""
    counted, concave = problem.weights > 0, problem.likelihood.convex
    reach = float(np.ptp(step[counted]))
    if reach == 0:
        return 0.0
    slack = ROUNDING * abs(fit.loss)
    if concave:
        # At a maximum a row that moves costs its weight, and more, on the way.
        moved = counted & (np.abs(step - np.median(step[counted])) > 1e-3 * reach)
        slack += 1e-3 * float(problem.weights[moved].min(initial=np.inf))

    def loss(way: float) -> tuple[float, bool]:
        return _loss_there(problem, fit, eta + way / reach * step)

    for sense in (1.0, -1.0):
        there, _ = loss(sense * FAR)
        if not there <= fit.loss + slack:
            continue
        if not concave:
            if loss(sense * (FAR + spread))[0] <= there + slack:
                return sense
            continue
        farther, told = loss(sense * FARTHER)  # some rows are moved by far less than others
        if not told or farther <= fit.loss + slack:
            return sense
    return 0.0


def _rises_alone(problem: Any, step: np.ndarray) -> bool:
    """Whether the likelihood rises along ``step`` (n,) for ever, with nothing else in η.

    Where a convex loss never rises along a direction, it does so from every point. Of offsets
    and penalised columns that have η spread over thousands, a walk is too short to overcome them.
    """
    step = step / np.ptp(step[problem.weights > 0])
    near, _ = _loss_there(problem, None, FAR * step)
    slack = ROUNDING * near + 1e-3 * float(problem.weights[problem.weights > 0].min())
    for far in (FARTHER, NOT_SO_FAR):
        there, told = _loss_there(problem, None, far * step)
        if told:
            return there <= near + slack
    return True


def _maximum(problem: Any, fit: Fit, free: np.ndarray, h0: np.ndarray) -> bool:
    """Whether a fit has converged where the curvature over the free columns is positive."""
    if not fit.converged or fit.nuisance is None:
        return False
    likelihood = problem.likelihood
    eta = linear_predictor(problem, fit.beta * problem.design.scale)[:, 0]
    curvature = replace(fit.nuisance.at(np.ascontiguousarray(eta)).curvature(), safer=None)
    S = hessian(problem.design.by_rows(free, likelihood.order, likelihood.backend), curvature)
    root = np.sqrt(h0)
    least = linalg.eigvalsh(S / root / root[:, None], subset_by_index=[0, 0])[0]
    return bool(least > LEAST)


def _loss_there(problem: Any, fit: Fit | None, eta: np.ndarray) -> tuple[float, bool]:
    """The loss at linear predictors (n,) with α fitted to them, at most, and whether it is that.

    α starts from a fit's, where there is one.

    With weights of one on average: how far α goes to its optimum is counted in standard errors.
    """
    p = problem.design.p
    try:
        size = float(problem.weights.sum()) / max(int((problem.weights > 0).sum()), 1)
        problem = replace(problem, weights=problem.weights / size)
        walk = problem.batch(offset=eta[:, None])
        if fit is not None:
            walk.start_at(np.zeros((p, 1)), fit.nuisance)
        found = walk.solve(np.full(p, HELD), np.zeros(p), tol=1e-4, max_iter=60)[0]
        return found.loss * size, found.converged
    except FloatingPointError:  # of the thresholds: so far out nothing can be told
        return np.inf, False
