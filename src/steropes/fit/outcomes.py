"""Fits of many outcomes over one X: replicates that differ in y, and in weights and offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..likelihoods import Likelihood
from ..likelihoods.beside import OutcomesBeside
from ..likelihoods.curvature import GroupedCurvature
from ..solve import Batch, Common, Fit
from ..solve.data_term import ActiveColumns
from ..solve.data_term.local import LocalCurvature
from ..solve.shared_hessian import SharedHessian
from ..solve.worth import in_single_precision
from .problem import Problem
from .replicates import LANES

__all__ = ["fit_outcomes", "is_dense", "worth_a_batch"]

MOST = 10_000  # columns of which there is one Hessian for all outcomes
SPARSE, DENSE = 10.0, 100.0  # passes over X for each outcome, that the Hessian may cost
MOSTLY = 0.5  # share of entries from which on X counts as dense
STEPS = 40  # after which an outcome is better off with a Hessian of its own


def worth_a_batch(p: int, entries: int, n: int, count: int) -> bool:
    """Whether outcomes are worth a Hessian of all columns, which they can share.

    Parameters
    ----------
    p, entries, n : int
        Columns and entries of X, and rows.
    count : int
        Outcomes.
    """
    passes = DENSE if is_dense(p, entries, n) else SPARSE
    return p <= MOST and entries <= passes * count * n


def is_dense(p: int, entries: int, n: int) -> bool:
    """Whether products with X are those of a dense matrix, of which lanes make the most."""
    return entries >= MOSTLY * n * p


def fit_outcomes(
    problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, max_iter: int
) -> Iterator[tuple[int, Fit]]:
    """Fit problems that share a design and a kind of likelihood whose outcomes go side by side.

    All columns are in the working set, and all outcomes share one Hessian of them, that of the
    mean of their curvatures where they start; each has its own diagonal. Supports differ, so that
    what is minimised at each step are small models one by one; what is done together are products
    with X.

    Parameters
    ----------
    problems : sequence of Problem
        With one design; see `Likelihood.beside`.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    tol : float
        Largest KKT violation.
    max_iter : int

    Yields
    ------
    (number, Fit)
        Of an outcome whose steps contract badly it is as far as it came.
    """
    starts, curvature = _starts(problems)
    design, backend = problems[0].design, problems[0].likelihood.backend
    active = ActiveColumns(design, None, backend)
    active.join(np.arange(len(l1)))
    common = Common(active, SharedHessian(backend.pool))
    for a in range(0, len(problems), LANES):
        group = problems[a : a + LANES]
        joint = _side_by_side(group)
        batch = _batch(joint, group, common)
        begin = np.zeros((len(l1), len(group)))
        if group[0].n_free:
            begin[0] = starts[a : a + LANES]
        batch.start_at(begin)
        if not common.hessian.known:
            at = _curvature(joint, curvature, active)
            rough = in_single_precision(batch.term, bool((l1 > 0).any()))
            common.hessian.compute(batch.term, at, 0, rough)
        fits = batch.solve(l1, l2, tol=tol, max_iter=min(max_iter, STEPS), look="after")
        yield from enumerate(fits, a)


def _side_by_side(group: Sequence[Problem]) -> Problem:
    """One problem whose replicates have the outcomes of several."""
    first = group[0].likelihood
    each = [p.likelihood for p in group]
    together: Likelihood
    if first.order is None:
        together = first.beside(each, first.backend.lanes(len(group)))
    else:
        together = OutcomesBeside(each, group[0].design.n)
    return replace(group[0], likelihood=together)


def _batch(joint: Problem, group: Sequence[Problem], common: Common) -> Batch:
    """Its replicates, with the weights and offsets of each."""
    weights = np.stack([p.weights for p in group], axis=1)
    offset = None
    if any(p.offset is not None for p in group):
        zero = np.zeros(len(weights))
        offset = np.stack([zero if p.offset is None else p.offset for p in group], axis=1)
    return joint.batch(weights, len(group), common, offset, apart=True)


def _starts(problems: Sequence[Problem]) -> tuple[list[float], Any]:
    """Where the intercepts start, and the mean of the curvatures there, each of mean one, (n,)."""
    starts: list[float] = []
    total = np.zeros(problems[0].design.n)
    for p in problems:
        likelihood = p.likelihood
        backend, rows = likelihood.backend, likelihood.row_of_x
        eta, w = np.full((len(rows), 1), p.start), p.weights[rows][:, None]
        if p.offset is not None:
            eta += p.offset[rows][:, None]
        eta, w = backend.asarray(eta), backend.asarray(w)
        level = likelihood.level(eta, w) if p.n_free else 0.0
        starts.append(p.start + level)
        at: Any = likelihood.curvature(eta + level, likelihood.weigh(w))
        v = backend.to_host(at.v)
        if np.isfinite(v).all() and v.sum() > 0:
            total[rows] += v / v.sum()
    return starts, total * (len(total) / len(problems))


def _curvature(joint: Problem, v: np.ndarray, active: ActiveColumns) -> LocalCurvature:
    """A diagonal in η, less its level where η may be shifted."""
    likelihood = joint.likelihood
    backend, n = likelihood.backend, len(v)
    curvature = GroupedCurvature(backend.asarray(v))
    if likelihood.shift_invariant:
        c = np.zeros(n)
        c[-1] = 1.0 / v.sum()
        curvature = GroupedCurvature(curvature.v, curvature.v, np.array([0, n]), backend.asarray(c))
    return LocalCurvature(active, curvature, curvature.v)
