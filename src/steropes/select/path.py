"""The folds' fits along a path of variances, and the search for the best one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..design import Design
from ..errors import DataError
from ..likelihoods import Likelihood
from ..priors import Prior
from ..solve import Batch, WorkingSet
from .folds import make_folds, read_splits

__all__ = ["Problem", "Selection", "choose"]

STEP = 10 ** (1 / 3)  # ratio of variances on the walk, as a power of ten
FLAT = 0.01  # standard errors of the score within which the search is content
PAST = 2  # steps beyond the best before the walk stops, unless the first drop is clear
CLEAR = 0.05  # standard errors that make a drop clear
MOST = 60  # variances
NEAR = 0.85  # of the penalty: the full data's gradient from which a fold may need a column
FAR = 30.0  # an offset beyond which zero is no place to start from
LANES = 8  # replicates that go together


@dataclass
class Problem:
    """A model with its data, ready for any weights and penalties.

    Attributes
    ----------
    design : Design
        Columns, the intercept first where there is one.
    likelihood : Likelihood
    weights : (n,) array
    offset : (n,) array or None
    prior : Prior or None
    names : list of str
        Columns that the prior applies to.
    n_free : int
        Leading columns (the intercept) that no prior applies to.
    fold_label, fold_together : (n,) int arrays or None
        Outcome classes to spread over folds; strata to keep whole.
    """

    design: Design
    likelihood: Likelihood
    weights: np.ndarray
    offset: np.ndarray | None
    prior: Prior | None
    names: list[str]
    n_free: int = 0
    fold_label: np.ndarray | None = None
    fold_together: np.ndarray | None = None

    def penalties(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """λ and κ of all columns, in X's units."""
        if prior is None:
            return np.zeros(self.design.p), np.zeros(self.design.p)
        penalty = prior.penalty(self.names)
        free = np.zeros(self.n_free)
        return np.concatenate([free, penalty.l1]), np.concatenate([free, penalty.l2])

    def batch(self, weights: np.ndarray | None = None, B: int = 1, shared=None) -> Batch:
        """Start a batch: the row weights are those of the problem, or the ones given (n, B)."""
        w = self.weights[:, None] if weights is None else weights
        offset = None if self.offset is None else self.offset[:, None]
        batch = Batch(self.design, self.likelihood, w, offset, B, shared)
        if self.start:
            beta = np.zeros((self.design.p, 1))
            beta[0] = self.start
            batch.set_beta(beta)
        return batch

    @property
    def start(self) -> float:
        """Where the intercept starts: at zero, or where it takes a far offset back."""
        if self.offset is None or not self.n_free or np.abs(self.offset).max() < FAR:
            return 0.0
        counted = self.offset[self.weights > 0]
        middle, largest = float(np.median(counted)), float(counted.max())
        return -(middle if largest - middle < 600 else largest)  # exp of the rest is finite


@dataclass
class Selection:
    """Outcome of a cross-validation.

    Attributes
    ----------
    variance : float
    prior : Prior
        With that variance.
    results : DataFrame
        The table of variances and scores.
    beta : (p,) array
        The full data's solution, nearly.
    batch : Batch or None
        The full data's batch, there: a fit to the end goes on with its Hessian.
    """

    variance: float
    prior: Prior
    results: pd.DataFrame
    beta: np.ndarray
    batch: Batch | None = None


def choose(cv: Any, problem: Problem, progress: Callable[[str, float], None] | None) -> Selection:
    """Find the variance with the best cross-validated score."""
    if problem.prior is None:
        raise DataError("cv needs a prior whose variance it chooses, such as Laplace().")
    path = _Path(cv, problem, progress)
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
    beta = path.solutions[variance]
    path.full.set_beta(beta[:, None])
    return Selection(variance, prior, table, beta, path.full)


class _Path:
    """Scores of variances, each solved from the nearest one done before."""

    def __init__(self, cv: Any, problem: Problem, progress) -> None:
        self.cv, self.problem, self.progress = cv, problem, progress
        self.prior: Any = problem.prior
        n = problem.design.n
        if isinstance(cv.folds, int | float):
            folds = int(cv.folds)
            self.fold = make_folds(
                folds, cv.repeats, problem.fold_label, problem.fold_together, n, cv.random_state
            )
            pairs = [(r, f) for r in range(cv.repeats) for f in range(folds)]
        else:
            self.fold = read_splits(cv.folds, problem.fold_together, n)
            pairs = [(r, 0) for r in range(self.fold.shape[1])]
        self.groups = [pairs[a : a + LANES] for a in range(0, len(pairs), LANES)]
        for r, f in pairs:
            if not problem.weights[self.fold[:, r] != f].any():
                raise DataError(f"All weight is in fold {f}; use fewer folds.")
        self.work = WorkingSet(problem.design, problem.likelihood.order, problem.likelihood.backend)
        self.full = problem.batch(shared=self.work)
        self.batches: dict[int, Batch] = {}
        self.betas: dict[int, np.ndarray] = {}
        one = 4 * 8 * problem.likelihood.n * LANES
        self.keep = max(0, int(cv.memory // one))
        self.solutions: dict[float, np.ndarray] = {}
        self.scores: dict[float, np.ndarray] = {}
        self.nonzero: dict[float, int] = {}
        self.reach = np.zeros(problem.design.p)  # the folds' largest gradients the last time
        self.surprised = True  # whether a fold lately needed a column that nobody expected

    # -- one variance ------------------------------------------------------------------------

    def score(self, variance: float) -> None:
        """Fit the full data and every fold with this variance and score the held-out rows."""
        if variance in self.scores:
            return
        problem = self.problem
        prior = self.prior.with_variance(variance)
        l1, l2 = problem.penalties(prior)
        # Without λ the unit is the score's standard error, far coarser than λ near the best one.
        tol = self.cv.tol if l1.any() else 1e-5 * self.cv.tol
        before = self.full.beta[:, :1].copy()
        self.full.solve(l1, l2, tol=0.1 * tol)
        self._expect_joiners(l1)
        after = self.full.beta[:, :1].copy()
        self.solutions[variance] = after[:, 0].copy()
        self.nonzero[variance] = int((after[problem.n_free :] != 0).sum())
        scores, surprised = [], False
        for k, group in enumerate(self.groups):
            batch = self._batch(k)
            shift = batch.beta[:, : batch.B] - before
            # A fold starts as far from today's full-data optimum as it was from the last one;
            # what is zero in both stays zero.
            idle = (after == 0) & (batch.beta[:, : batch.B] == 0)
            batch.set_beta(np.where(idle, 0.0, after + shift))
            batch.solve(l1, l2, tol=tol, look="during" if self.surprised else "after")
            surprised |= batch.surprised
            g = np.abs(batch.g[:, : batch.B]).max(axis=1) / problem.design.scale
            np.maximum(self.reach, g, out=self.reach)
            scores.append(self._held_out(batch, group))
            self._put_back(k, batch)
            if self.progress is not None:
                done = (k + 1) / len(self.groups)
                self.progress(f"variance {variance:.3g}", done)
        self.scores[variance] = np.concatenate(scores)
        self.surprised = surprised

    def _expect_joiners(self, l1: np.ndarray) -> None:
        """Let columns near the full data's boundary into the working set before the folds.

        Each would otherwise join when some fold needs it, and rebuild the rows every time.
        """
        g = np.abs(self.full.g[:, 0]) / self.problem.design.scale
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

    # -- the search --------------------------------------------------------------------------

    def walk(self) -> None:
        """From the first nonzero coefficient to some steps beyond the best variance."""
        v = self._first_variance()
        for _ in range(MOST // 2):
            self.score(_readable(v))
            table = self.table()
            mean = table["mean"].to_numpy()
            best = int(mean.argmax())
            drop, se = mean[best] - mean[-1], float(table["se"].iloc[best])
            beyond = len(mean) - 1 - best
            if len(mean) > PAST + 1 and (
                (beyond >= 1 and drop > CLEAR * se) or (beyond >= PAST and drop > FLAT * se)
            ):
                break
            last = mean[-PAST - 1 :]
            if len(mean) > 2 * PAST and np.ptp(last) <= FLAT * float(table["se"].iloc[-1]):
                break  # the prior no longer matters
            v *= STEP

    def _first_variance(self) -> float:
        """The variance at which the first penalised coefficient leaves zero."""
        problem = self.problem
        l1, l2 = problem.penalties(self.prior.with_variance(1.0))
        penalised = np.flatnonzero((l1 > 0) | (l2 > 0))
        if len(penalised) == 0:
            raise DataError("Every column is excluded from the prior; there is nothing to choose.")
        free = np.where((l1 > 0) | (l2 > 0), np.inf, 0.0)
        # Only the columns without penalty are fitted: the others get an infinite one.
        self.full.solve(np.where(np.isinf(free), 1e300, 0.0), np.zeros_like(l2), tol=1e-6)
        self.full.l1[:] = np.inf
        g = np.abs(self.full.g[:, 0]) / self.problem.design.scale
        if (l1 > 0).any():
            at = l1 > 0
            largest = float((g[at] / l1[at]).max())
            # λ ∝ variance^(-1/2): start one step below the threshold.
            return STEP / largest**2 if largest > 0 else 1.0
        # Ridge: start where the prior's curvature is some thousand times the data's.
        w = problem.weights.sum()
        return 1e-3 / max(w, 1.0) * float(np.median(problem.design.scale)) ** -2

    def refine(self) -> None:
        """Go to the top of a parabola through the best three scores until it promises no more.

        The score is nearly parabolic in log variance there, so what the parabola gains over the
        best bounds what a finer search could. With the best at the upper end the walk ended
        because the prior no longer mattered; at the lower end one more step makes a bracket.
        """
        for _ in range(MOST // 2):
            table = self.table()
            x, y = np.log(table["variance"].to_numpy()), table["mean"].to_numpy()
            best = int(y.argmax())
            if best == len(x) - 1:
                return
            if best == 0:
                if len(x) > 1 and y[0] - y[1] <= FLAT * float(table["se"].iloc[0]):
                    return
                if self.nonzero[float(table["variance"].iloc[0])] == 0:
                    return  # smaller variances give the same model, without any covariate
                self.score(_readable(float(np.exp(x[0])) / STEP))
                continue
            gain, target = _promise(x, y, best)
            if gain <= FLAT * float(table["se"].iloc[best]) or target is None:
                return
            if np.min(np.abs(x - target)) < 0.02:  # next to one done: halve the wider side
                left, right = x[best] - x[best - 1], x[best + 1] - x[best]
                if max(left, right) < 0.05:
                    return
                target = x[best] - left / 2 if left > right else x[best] + right / 2
            self.score(_readable(float(np.exp(target))))

    def table(self) -> pd.DataFrame:
        """One row a variance, in increasing order."""
        rows = []
        for v in sorted(self.scores):
            s = self.scores[v]
            rows.append(
                {
                    "variance": v,
                    "mean": float(s.mean()),
                    "se": float(s.std(ddof=1) / np.sqrt(len(s))) if len(s) > 1 else np.nan,
                    "nonzero": self.nonzero[v],
                    **{f"fold{i}": float(x) for i, x in enumerate(s)},
                }
            )
        return pd.DataFrame(rows)


def _readable(variance: float) -> float:
    """Three digits: variances are for people, and rounding noise in scores must not move them."""
    return float(f"{variance:.3g}")


def _promise(x: np.ndarray, y: np.ndarray, best: int) -> tuple[float, float | None]:
    """What a parabola through the best three points gains over the best, and where."""
    if best in (0, len(x) - 1) or len(x) < 3:
        return np.inf, None
    a, b, c = best - 1, best, best + 1
    left, right = (y[b] - y[a]) / (x[b] - x[a]), (y[c] - y[b]) / (x[c] - x[b])
    curve = (right - left) / (x[c] - x[a])
    if not curve < 0:
        return 0.0, None
    top = 0.5 * (x[a] + x[b]) - left / (2 * curve)
    top = float(np.clip(top, x[a], x[c]))
    value = y[b] + (top - x[b]) * (left + curve * (top - x[a]))
    return float(max(value - y[b], 0.0)), top
