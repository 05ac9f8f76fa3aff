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

from ...errors import SeparationError
from ...infer.cumulative_checks import refuse_separated, refuse_undetermined_columns
from ...likelihoods.cumulative import (
    CumulativeLikelihood,
    Interval,
    Levels,
    Thresholds,
    find_levels,
    place,
)
from ...select.fold_refusals import REMEDY, ShortFits
from ...select.folds import cut
from ...select.search import Selection, VariancePath, first_variance, own_information
from ...solve.cumulative_support import CumulativeProblem, fit_cumulative
from .problem import Problem

__all__ = ["choose_variance", "held_out_score"]

WHERE = f"In the training rows of fold {{}}: {{}} {REMEDY}"
GROUPS = 20  # parts of the outcome's distribution that are spread evenly over the folds


def choose_variance(cv: Any, problem: Any, progress: Any) -> Selection:
    """Find the variance with the best cross-validated log-likelihood."""
    cv.check()
    path = _CumulativePath(cv, problem, progress)
    selection = path.search()
    path.short.warn(cv.tol)
    return selection


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


class _CumulativePath(VariancePath):
    """The house's search over variances with this model's fits and scores."""

    def __init__(self, cv: Any, problem: Any, progress: Any) -> None:
        super().__init__(cv, problem.prior, progress)
        self.problem = problem
        levels, label = problem.levels, np.zeros(problem.design.n, np.int64)
        label[levels.order] = np.arange(len(levels.order)) * GROUPS // len(levels.order)
        self.fold, self.pairs = cut(cv, label, None, problem.weights)
        self.parts = [
            self._part(find_levels(problem.y, (self.fold[:, r] != f) & (problem.weights > 0)))
            for r, f in self.pairs
        ]
        self.whole = self._part(levels)
        self.short = ShortFits()
        l1, l2 = problem.scaled(problem.prior)
        self.free = np.flatnonzero((l1 == 0) & (l2 == 0))
        self.unseen = [self._refuse_undetermined(k) for k in range(len(self.parts))]

    def _part(self, levels: Levels) -> CumulativeProblem:
        return replace(self.problem.numerical, levels=levels, newton=None)

    def _refuse_undetermined(self, k: int) -> Any:
        """The information of a fold's columns without penalty, where they have some."""
        if len(self.free) == 0:
            return None
        try:
            return refuse_undetermined_columns(self.parts[k], self.problem.names, self.free)
        except SeparationError as error:
            raise SeparationError(WHERE.format(k, error), error.columns) from None

    def _refuse_separated(self, k: int, fit: Any) -> None:
        """Refuse a fold that is separated in a column without penalty, at its first variance."""
        part, h0, self.unseen[k] = self.parts[k], self.unseen[k], None
        if h0 is None or part.newton is None:
            return
        try:
            refuse_separated(part, part.newton, fit, self.problem.names, self.free, h0)
        except SeparationError as error:
            raise SeparationError(WHERE.format(k, error), error.columns) from None

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """See `VariancePath.evaluate`."""
        problem = self.problem
        l1, l2 = problem.scaled(self.prior.with_variance(variance))
        _, whole = fit_cumulative(self.whole, l1, l2, tol=0.1 * self.cv.tol)
        scores = []
        for k, (r, f) in enumerate(self.pairs):
            likelihood, fit = fit_cumulative(self.parts[k], l1, l2, tol=self.cv.tol)
            self.short.note(variance, [k], [fit])
            self._refuse_separated(k, fit)
            alpha = fit.at.alpha + fit.center @ fit.beta
            held = np.where(self.fold[:, r] == f, problem.weights, 0.0)
            fitted = (likelihood.levels.values, alpha, fit.beta)
            scores.append(held_out_score(problem, held, fitted))
            self.tell(variance, (k + 1) / len(self.pairs))
        return whole.beta.copy(), int((whole.beta != 0).sum()), np.array(scores)

    def first(self) -> float:
        """See `VariancePath.first`."""
        problem = self.problem
        l1, l2 = problem.scaled(self.prior.with_variance(1.0))
        part = self._part(problem.levels)

        def gradient(free: np.ndarray) -> np.ndarray:
            likelihood, _ = fit_cumulative(part, free, np.zeros_like(l2), tol=1e-6)
            newton = part.newton
            assert newton is not None
            ev = likelihood.evaluate(newton.at, newton.eta)
            block, _ = newton.curvature(ev)
            t = block.solve(-likelihood.to_thresholds(ev.la, ev.lb))
            return newton._rmatmul(ev.s + block.project(t))

        def information(columns: np.ndarray) -> np.ndarray:
            newton = part.newton
            assert newton is not None
            free = np.flatnonzero((l1 == 0) & (l2 == 0))
            S, _ = newton.information(np.concatenate([free, columns]))
            place = np.empty(problem.design.p, np.int64)
            place[newton.W] = np.arange(len(newton.W))
            return own_information(S, place[free], place[columns])

        # All in the scaled columns: penalties, gradient and information alike.
        return first_variance(l1, l2, gradient, information)
