"""Fit a cumulative probability model, levels that interval censoring leaves empty included.

A level that some row covers alone always has mass. Others (the innermost intervals between a
right- and a left-censored outcome) may end with none: their two thresholds meet and α runs
into its boundary. Such levels are dropped on the way, and at the end the derivative of the
likelihood in the mass of each dropped level says whether one must come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..design import Design
from ..likelihoods.cumulative import CumulativeLikelihood, Levels, Thresholds
from .cumulative import CumulativeFit, CumulativeNewton

__all__ = ["CumulativeProblem", "fit_cumulative"]

ROUNDS = 100


@dataclass
class CumulativeProblem:
    """A model with its data: any weights, levels and penalties.

    Attributes
    ----------
    design : Design
    levels : Levels
    link : str
    weights : (n,) array
        In the rows of X.
    offset : (n,) array or None
        In the rows of X.
    """

    design: Design
    levels: Levels
    link: str
    weights: np.ndarray
    offset: np.ndarray | None
    backend: Any
    newton: CumulativeNewton | None = field(default=None, repr=False)

    def start(self, levels: Levels) -> CumulativeNewton:
        """An optimisation over these levels."""
        likelihood = CumulativeLikelihood(
            levels, self.link, self.weights[levels.order], self.backend
        )
        return CumulativeNewton(self.design, likelihood, self.offset_of(levels))

    def offset_of(self, levels: Levels) -> np.ndarray | None:
        """The offset in the order of the levels."""
        return None if self.offset is None else self.offset[levels.order]


def fit_cumulative(
    problem: CumulativeProblem,
    l1: np.ndarray,
    l2: np.ndarray,
    tol: float = 1e-8,
    max_iter: int = 200,
    callback: Callable[[int, float], None] | None = None,
) -> tuple[CumulativeLikelihood, CumulativeFit]:
    """Fit with penalties of the scaled columns; a second call starts from the first one's end.

    Returns
    -------
    likelihood : CumulativeLikelihood
        Over the levels that have mass.
    fit : CumulativeFit
    """
    if problem.newton is None:
        problem.newton = problem.start(problem.levels)
    newton, whole = problem.newton, problem.levels
    loose = ~_forced(whole)
    if not loose.any():
        return newton.likelihood, newton.solve(l1, l2, tol, max_iter, callback)
    keep = np.isin(whole.values, newton.likelihood.levels.values)
    for _ in range(ROUNDS):
        newton.droppable = loose[keep]
        fit = newton.solve(l1, l2, tol, max_iter, callback)
        if newton.dropped is not None:
            drop = np.flatnonzero(keep)[newton.dropped]
            change = keep.copy()
            change[drop] = False
            change = _covering(whole, change)
            if (change == keep).all():
                loose[drop] = False  # a row would be left without any level
                continue
        else:
            change = keep | _wanted(problem, newton, whole, keep, tol)
            if (change == keep).all():
                break
        newton = _transfer(problem, newton, whole, keep, change)
        keep = change
    problem.newton = newton
    return newton.likelihood, fit


def _forced(levels: Levels) -> np.ndarray:
    """Levels that some row covers alone, (M,) bool."""
    forced = np.zeros(levels.M, bool)
    forced[levels.up[levels.up == levels.low + 1]] = True
    return forced


def _covering(levels: Levels, keep: np.ndarray) -> np.ndarray:
    """``keep`` with the levels of rows that would be left with none added back."""
    count = np.concatenate([[0], np.cumsum(keep)])
    for i in np.flatnonzero(count[levels.up + 1] == count[levels.low + 1]):
        keep = keep.copy()
        keep[levels.low[i] + 1 : levels.up[i] + 1] = True
    return keep


def _reduced(levels: Levels, keep: np.ndarray) -> Levels:
    """The same rows over fewer levels."""
    new = np.concatenate([np.cumsum(keep) - 1, [-1]])  # index −1 stays −1
    low, up = new[levels.low], new[levels.up]
    M = int(keep.sum())
    level = np.where(up < M - 1, up, low + 1)
    order = np.argsort(level, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(level, minlength=M))])
    low, up = low[order].astype(np.int32), up[order].astype(np.int32)
    wide = (low >= 0) & (up < M - 1) & (up - low > 1)
    return Levels(levels.values[keep], levels.order[order], low, up, pointers, not wide.any())


def _expanded(newton: CumulativeNewton, keep: np.ndarray) -> np.ndarray:
    """α at the thresholds of all levels, (M − 1,)."""
    padded = np.concatenate([newton.at.alpha, [np.inf]])
    return padded[np.maximum(np.cumsum(keep)[:-1] - 1, 0)]


def _wanted(
    problem: CumulativeProblem,
    newton: CumulativeNewton,
    whole: Levels,
    keep: np.ndarray,
    tol: float,
) -> np.ndarray:
    """Dropped levels whose mass would raise the likelihood, the worst of each run, (M,) bool."""
    likelihood = CumulativeLikelihood(
        whole, problem.link, problem.weights[whole.order], problem.backend
    )
    back = np.empty(problem.design.n)
    back[newton.likelihood.levels.order] = newton.eta
    alpha = _expanded(newton, keep)
    delta = np.diff(alpha, prepend=0.0)
    ev = likelihood.evaluate(Thresholds(alpha, delta), back[whole.order])
    g = -likelihood.to_thresholds(ev.la, ev.lb)
    wanted = np.zeros(whole.M, bool)
    run = np.cumsum(keep)[:-1]
    limit = max(tol, 1e-7) * np.sqrt(likelihood.weight_sum)
    for block in np.unique(run[~keep[:-1]]):
        at = np.flatnonzero(run == block)
        # Lowering the first thresholds of the run opens the level after them.
        part = np.cumsum(g[at])[:-1]
        worst = int(part.argmax()) if len(part) else 0
        if len(part) and part[worst] > limit:
            wanted[at[worst] + 1] = True
    return wanted


def _transfer(
    problem: CumulativeProblem,
    newton: CumulativeNewton,
    whole: Levels,
    keep: np.ndarray,
    change: np.ndarray,
) -> CumulativeNewton:
    """The optimisation over other levels, from the same point."""
    alpha = _expanded(newton, keep)[np.flatnonzero(change)[:-1]]
    delta = np.diff(alpha, prepend=0.0)
    delta[0] = 1.0
    # A level that comes back opens by a hundredth of the narrower gap beside it.
    for k in np.flatnonzero(delta <= 0):
        beside = [d for d in (delta[k - 1] if k > 1 else 1.0, *delta[k + 1 : k + 2]) if d > 0]
        delta[k] = 0.01 * min([*beside, 1.0])
    at = Thresholds.build(float(alpha[len(alpha) // 2]), len(alpha) // 2, delta)
    new = problem.start(_reduced(whole, change))
    new.set(newton.beta, at)
    new.n_iter = newton.n_iter
    return new
