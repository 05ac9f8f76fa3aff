"""The folds' fits along a path of variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..solve import Batch, WorkingSet
from .fold_refusals import ShortFits, refuse_loose_folds
from .folds import cut
from .problem import Problem
from .search import Selection, VariancePath, first_variance, own_information

__all__ = ["choose"]

NEAR = 0.85  # of the penalty: the full data's gradient from which a fold may need a column
LANES = 8  # replicates that go together


def choose(cv: Any, problem: Problem, progress: Callable[[str, float], None] | None) -> Selection:
    """Find the variance with the best cross-validated score."""
    path = FoldsPath(cv, problem, progress)
    selection = path.search()
    path.short.warn(cv.tol)
    path.full.set_beta(selection.beta[:, None])
    selection.batch = path.full
    return selection


class FoldsPath(VariancePath):
    """The path of a likelihood's `Batch`: folds are replicates, eight of them together."""

    def __init__(self, cv: Any, problem: Problem, progress) -> None:
        super().__init__(cv, problem.prior, progress)
        self.problem = problem
        self.fold, pairs = cut(cv, problem.fold_label, problem.fold_together, problem.weights)
        refuse_loose_folds(problem, len(pairs), lambda at: self._train([pairs[k] for k in at]))
        self.groups = [pairs[a : a + LANES] for a in range(0, len(pairs), LANES)]
        self.work = WorkingSet(problem.design, problem.likelihood.order, problem.likelihood.backend)
        self.full = problem.batch(shared=self.work)
        self.batches: dict[int, Batch] = {}
        self.betas: dict[int, np.ndarray] = {}
        one = 4 * 8 * problem.likelihood.n * LANES
        self.keep = max(0, int(cv.memory // one))
        self.reach = np.zeros(problem.design.p)  # the folds' largest gradients the last time
        self.short = ShortFits()
        self.surprised = True  # whether a fold lately needed a column that nobody expected

    # -- one variance ------------------------------------------------------------------------

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """See `VariancePath.evaluate`."""
        problem = self.problem
        prior = self.prior.with_variance(variance)
        l1, l2 = problem.penalties(prior)
        # Without λ the unit is the score's standard error, far coarser than λ near the best one.
        tol = self.cv.tol if l1.any() else 1e-5 * self.cv.tol
        before = self.full.beta[:, :1].copy()
        self.full.solve(l1, l2, tol=0.1 * tol)
        self._expect_joiners(l1)
        after = self.full.beta[:, :1].copy()
        scores, surprised = [], False
        for k, group in enumerate(self.groups):
            known = k in self.batches or k in self.betas
            batch = self._batch(k)
            shift = batch.beta[:, : batch.B] - before if known else 0.0
            # A fold starts as far from today's full-data optimum as it was from the last one;
            # what is zero in both stays zero.
            idle = (after == 0) & (batch.beta[:, : batch.B] == 0)
            batch.set_beta(np.where(idle, 0.0, after + shift))
            fits = batch.solve(l1, l2, tol=tol, look="during" if self.surprised else "after")
            self.short.note(variance, range(k * LANES, k * LANES + len(group)), fits)
            surprised |= batch.surprised
            g = np.abs(batch.g[:, : batch.B]).max(axis=1) * problem.design.scale
            np.maximum(self.reach, g, out=self.reach)
            scores.append(self._held_out(batch, group))
            self._put_back(k, batch)
            self.tell(variance, (k + 1) / len(self.groups))
        self.surprised = surprised
        nonzero = int((after[problem.n_free :] != 0).sum())
        return after[:, 0], nonzero, np.concatenate(scores)

    def first(self) -> float:
        """See `VariancePath.first`."""
        problem = self.problem
        l1, l2 = problem.penalties(self.prior.with_variance(1.0))

        def gradient(free: np.ndarray) -> np.ndarray:
            self.full.solve(free, np.zeros_like(l2), tol=1e-6)
            self.full.l1[:] = np.inf
            # Columns are stored divided by their scale, so theirs is the smaller gradient.
            return self.full.g[:, 0] * problem.design.scale

        return first_variance(l1, l2, gradient, self._information)

    def _information(self, columns: np.ndarray) -> np.ndarray:
        """See `first_variance`; at the coefficients that the full data's batch has."""
        problem = self.problem
        l1, l2 = problem.penalties(self.prior)
        free = np.flatnonzero((l1 == 0) & (l2 == 0))
        probe = problem.batch()
        probe.set_beta(self.full.beta[:, :1])
        probe.prepare(np.concatenate([free, columns]))
        work, scale = probe.work, problem.design.scale[columns]
        place = np.empty(problem.design.p, np.int64)
        place[work.W] = np.arange(work.k)
        if not work.has_hessian:  # too many columns without penalty for a matrix
            return work.h[place[columns]] * scale**2
        return own_information(work.G, place[free], place[columns]) * scale**2

    def _expect_joiners(self, l1: np.ndarray) -> None:
        """Let columns near the full data's boundary into the working set before the folds.

        Each would otherwise join when some fold needs it, and rebuild the rows every time.
        """
        g = np.abs(self.full.g[:, 0]) * self.problem.design.scale
        self.work.join(np.flatnonzero(np.maximum(g, self.reach) > NEAR * l1))
        self.reach[:] = 0.0

    def _train(self, group: list[tuple[int, int]]) -> np.ndarray:
        w = self.problem.weights[:, None]
        return np.concatenate([w * (self.fold[:, [r]] != f) for r, f in group], axis=1)

    def _batch(self, k: int) -> Batch:
        if k in self.batches:
            return self.batches[k]
        batch = self.problem.batch(self._train(self.groups[k]), len(self.groups[k]), self.work)
        if k in self.betas:
            batch.beta[:] = self.betas[k]
        return batch

    def _put_back(self, k: int, batch: Batch) -> None:
        if k < self.keep:
            self.batches[k] = batch
        else:
            self.betas[k] = batch.beta

    def _held_out(self, batch: Batch, group: list[tuple[int, int]]) -> np.ndarray:
        """Log-likelihood of all held-out rows, one score a fold."""
        likelihood = self.problem.likelihood
        B = batch.B
        whole = np.zeros((likelihood.n, batch.lanes))
        w = self.problem.weights
        whole[:, :B] = (w if likelihood.order is None else w[likelihood.order])[:, None]
        whole = likelihood.backend.asarray(whole)
        if self.cv.scoring == "held_out":
            score = likelihood.score(batch.eta, whole - batch.w, batch.w)
        else:
            score = likelihood.score(batch.eta, whole, batch.w) - likelihood.score(
                batch.eta, batch.w, batch.w
            )
        return likelihood.backend.to_host(score)[:B]
