"""Cross-validation of a cumulative model's prior.

A fold's training rows have their own levels and thresholds. A held-out outcome that does not
occur among them falls between two of their levels, y_j−1 < y < y_j, and is scored by the
probability of that bin, F(α_j − η) − F(α_j−1 − η); one beyond the last level by the last bin's.
Every score is finite, and since the bins of a fold are the same for all variances, so is the
share that each outcome would have of its bin, which therefore changes no comparison. Rows are
independent, so both of `CrossValidation`'s scorings are this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import DataError
from ...likelihoods.cumulative import (
    CumulativeLikelihood,
    Interval,
    Levels,
    Thresholds,
    find_levels,
    place,
)
from ...select.folds import make_folds, read_splits
from ...select.path import STEP, Selection, _Path
from ...solve.cumulative_support import CumulativeProblem, fit_cumulative
from .problem import Problem

__all__ = ["choose_variance", "held_out_score"]

GROUPS = 20  # parts of the outcome's distribution that are spread evenly over the folds


def choose_variance(cv: Any, problem: Any, progress: Any) -> Selection:
    """Find the variance with the best cross-validated log-likelihood."""
    if problem.prior is None:
        raise DataError("cv needs a prior whose variance it chooses, such as Laplace().")
    cv.check()
    path = _CumulativePath(cv, problem, progress)
    if isinstance(cv.search, str):
        path.walk()
        path.refine()
    else:
        for v in sorted({float(v) for v in cv.search}):
            path.score(v)
    table = path.table()
    best = int(table["mean"].to_numpy().argmax())
    variance = float(table["variance"].iloc[best])
    prior = problem.prior.with_variance(variance)
    return Selection(variance, prior, table, path.solutions[variance])


def held_out_score(
    problem: Problem, weights: np.ndarray, fitted: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> float:
    """Log-likelihood of the rows with weight under (level values, α, scaled β)."""
    values, alpha, beta = fitted
    y, rows = problem.y, np.flatnonzero(weights > 0)
    part = Interval(y.lower[rows], None if y.upper is None else y.upper[rows])
    low, up = place(values, part)
    levels = Levels(values, rows, low, up, np.empty(0, np.int64), True)
    eta = problem.design.matmul(beta[:, None], problem.backend)[rows, 0]
    if problem.offset is not None:
        eta = eta + problem.offset[rows]
    delta = np.diff(alpha, prepend=0.0)
    likelihood = CumulativeLikelihood(levels, problem.link, weights[rows], problem.backend)
    return -likelihood.loss(Thresholds(alpha, delta), eta)


class _CumulativePath(_Path):
    """The house's search over variances with this model's fits and scores."""

    problem: Any

    def __init__(self, cv: Any, problem: Any, progress: Any) -> None:
        self.cv, self.problem, self.progress = cv, problem, progress
        n, weights = problem.design.n, problem.weights
        levels = problem.levels
        if isinstance(cv.folds, int | float):
            folds, label = int(cv.folds), np.zeros(n, np.int64)
            label[levels.order] = np.arange(len(levels.order)) * GROUPS // len(levels.order)
            self.fold = make_folds(folds, cv.repeats, label, None, n, cv.random_state)
            self.pairs = [(r, f) for r in range(cv.repeats) for f in range(folds)]
        else:
            self.fold = read_splits(cv.folds, None, n)
            self.pairs = [(r, 0) for r in range(self.fold.shape[1])]
        self.parts: list[CumulativeProblem] = []
        for r, f in self.pairs:
            train = (self.fold[:, r] != f) & (weights > 0)
            if not train.any():
                raise DataError(f"All weight is in fold {f}; use fewer folds.")
            self.parts.append(self._part(find_levels(problem.y, train)))
        self.whole = self._part(levels)
        self.solutions: dict[float, np.ndarray] = {}
        self.scores: dict[float, np.ndarray] = {}
        self.nonzero: dict[float, int] = {}

    def _part(self, levels: Levels) -> CumulativeProblem:
        return replace(self.problem.numerical, levels=levels, newton=None)

    def score(self, variance: float) -> None:
        """Fit the full data and every fold with this variance and score the held-out rows."""
        if variance in self.scores:
            return
        problem = self.problem
        l1, l2 = problem.scaled(problem.prior.with_variance(variance))
        _, fit = fit_cumulative(self.whole, l1, l2, tol=0.1 * self.cv.tol)
        self.solutions[variance] = fit.beta.copy()
        self.nonzero[variance] = int((fit.beta != 0).sum())
        scores = []
        for k, (r, f) in enumerate(self.pairs):
            likelihood, fit = fit_cumulative(self.parts[k], l1, l2, tol=self.cv.tol)
            alpha = fit.at.alpha + fit.center @ fit.beta
            held = np.where(self.fold[:, r] == f, problem.weights, 0.0)
            fitted = (likelihood.levels.values, alpha, fit.beta)
            scores.append(held_out_score(problem, held, fitted))
            if self.progress is not None:
                self.progress(f"variance {variance:.3g}", (k + 1) / len(self.pairs))
        self.scores[variance] = np.array(scores)

    def _first_variance(self) -> float:
        problem = self.problem
        l1, l2 = problem.scaled(problem.prior.with_variance(1.0))
        penalised = (l1 > 0) | (l2 > 0)
        if not penalised.any():
            raise DataError("Every column is excluded from the prior; there is nothing to choose.")
        free = np.where(penalised, 1e300, 0.0)
        part = self._part(problem.levels)
        likelihood, _ = fit_cumulative(part, free, np.zeros_like(l2), tol=1e-6)
        newton = part.newton
        assert newton is not None
        if (l1 > 0).any():
            ev = likelihood.evaluate(newton.at, newton.eta)
            block, _ = newton.curvature(ev)
            t = block.solve(-likelihood.to_thresholds(ev.la, ev.lb))
            g = np.abs(newton._rmatmul(ev.s + block.project(t)))
            largest = float((g[l1 > 0] / l1[l1 > 0]).max())
            return STEP / largest**2 if largest > 0 else 1.0
        w = problem.weights.sum()
        return 1e-3 / max(w, 1.0) * float(np.median(problem.design.scale)) ** -2
