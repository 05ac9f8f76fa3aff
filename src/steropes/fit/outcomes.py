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
from ..solve.data_term.local import LocalCurvature, LocalTerm
from ..solve.shared_hessian import SharedHessian
from ..solve.worth import in_single_precision
from .problem import Problem
from .replicates import LANES

__all__ = ["fit_outcomes"]

MOST = 10_000  # columns near to mattering of which there is one Hessian for a group of outcomes
NEAR = 0.9  # of λ: the slope from which on a column may matter
FIRST = 2  # steps after which the columns that don't leave, and the Hessian is made again
STEPS = 40  # after which an outcome is better off with a Hessian of its own


def fit_outcomes(
    problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, max_iter: int
) -> Iterator[tuple[int, Fit]]:
    """Fit problems that share a design and a kind of likelihood whose outcomes go side by side.

    Outcomes of like frequency go together: what matters to one is mostly what matters to the
    others. The working set of a group begins with all columns that look as if they could matter to
    one of them, and after the first steps keeps those that do. The outcomes share one Hessian of
    it, that of the mean of their curvatures; each has its own diagonal. Supports differ, so that
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
        Of an outcome whose steps contract badly it is as far as it came. Outcomes of a group to
        which more columns could matter than a Hessian can be of are left out.
    """
    starts = np.array([_start(p) for p in problems])
    order = np.argsort(starts, kind="stable")
    for a in range(0, len(problems), LANES):
        numbers = order[a : a + LANES]
        group = [problems[k] for k in numbers]
        fits = _fit_group(group, starts[numbers], l1, l2, tol, max_iter)
        yield from zip(numbers.tolist(), fits, strict=False)


def _fit_group(
    group: Sequence[Problem], starts: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float,
    max_iter: int,
) -> list[Fit]:  # fmt: skip
    """Fits of outcomes in lanes of one batch, whose intercepts begin at ``starts``; or none."""
    joint, first = _side_by_side(group), group[0]
    design, backend = first.design, first.likelihood.backend
    active = ActiveColumns(design, None, backend)
    common = Common(active, SharedHessian(backend.pool))
    batch = _batch(joint, group, common)
    begin = np.zeros((design.p, len(group)))
    if first.n_free:
        begin[0] = starts
    batch.start_at(begin)
    urgency = np.abs(batch.gradients()).max(axis=1) * design.scale  # in X's units
    near = np.flatnonzero((urgency > NEAR * l1) | (l1 == 0))
    if len(near) > MOST:
        return []
    active.join(near)
    _share_hessian(batch, joint, common, l1)
    batch.solve(l1, l2, tol=tol, max_iter=min(max_iter, FIRST), look="after")
    if not joint.likelihood.quadratic:  # whose Hessian is the same everywhere
        common.hessian.forget()
        batch.prune()
        _share_hessian(batch, joint, common, l1)
    left = min(max_iter, STEPS) - FIRST
    return batch.solve(l1, l2, tol=tol, max_iter=max(left, 0), look="after")


def _share_hessian(batch: Batch, joint: Problem, common: Common, l1: np.ndarray) -> None:
    """Let the outcomes share the Hessian of the mean of their curvatures where they are."""
    term = batch.term
    assert isinstance(term, LocalTerm)
    assert isinstance(common.active, ActiveColumns)
    likelihood, backend = joint.likelihood, joint.likelihood.backend
    mean = np.zeros(joint.design.n)
    for b in range(term.B):
        own, one = likelihood.of_lane(b), slice(b, b + 1)
        at: Any = own.curvature(term.eta[:, one], own.weigh(term.w[:, one]))
        v = backend.to_host(at.v)
        if np.isfinite(v).all() and v.sum() > 0:
            mean += v / v.sum()
    curvature = _curvature(joint, mean * (len(mean) / term.B), common.active)
    rough = in_single_precision(term, bool((l1 > 0).any()))
    common.hessian.compute(term, curvature, 0, rough)


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


def _start(problem: Problem) -> float:
    """Where an outcome's intercept starts: at the outcome's level."""
    likelihood = problem.likelihood
    backend, rows = likelihood.backend, likelihood.row_of_x
    eta, w = np.full((len(rows), 1), problem.start), problem.weights[rows][:, None]
    if problem.offset is not None:
        eta += problem.offset[rows][:, None]
    if not problem.n_free:
        return problem.start
    return problem.start + likelihood.level(backend.asarray(eta), backend.asarray(w))


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
