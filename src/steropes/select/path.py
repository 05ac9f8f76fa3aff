"""The folds' fits along a path of variances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ..fit import Problem, Replicates, solve_under_prior
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..priors import Prior
from ..solve import Batch
from .cyclops import CyclopsSearch, unpublished
from .fold_refusals import ShortFits, refuse_loose_folds
from .fold_screening import FoldScreening, Start
from .folds import TrainingRows, WithAllRows, cut
from .path_extrapolation import Course
from .path_policy import PathPolicy
from .path_start import beginning, smooth_curvature
from .search import Progress, Selection, VariancePath, readable, standard_error
from .silent_folds import refuse_silent_folds
from .tolerances import Tolerances
from .variance_prediction import Foreseen, look_ahead

__all__ = ["choose"]

NOTHING = 1e-13  # of the rows' weight: what is left of a score where each held-out event is alone


def choose(cv: Any, problem: Problem, progress: Progress | None) -> Selection:
    """Find the variance with the best cross-validated score."""
    path = FoldsPath(cv, problem, progress)
    selection = path.search()
    path.short.warn()
    path.full.start_at(selection.beta[:, None])
    selection.batch = path.full
    return selection


class FoldsPath(VariancePath):
    """The path of a likelihood's `Batch`: folds are replicates, up to a dozen of them together."""

    def __init__(
        self, cv: Any, problem: Problem, progress: Progress | None,
        policy: PathPolicy | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cv, problem.prior, progress, policy)
        self.problem, self.design = problem, problem.design
        if cv.rule == "one_standard_error":
            self.within = float(np.sqrt(cv.repeats))  # repeats say nothing new of other data
        self.selects = bool(problem.penalties(problem.prior)[0].any())
        size = problem.likelihood.n_eta, problem.design.p
        self.tolerances = Tolerances(cv.tol, self.selects, self.prior.adaptive, *size, self.policy)
        self.nothing = NOTHING * float(problem.weights.sum())
        self.penalised = np.ones(problem.design.p, bool)
        self.penalised[: problem.n_free] = False
        unbounded = problem.unbounded(problem.prior)
        self.penalised[unbounded] = False
        if len(unbounded) and (smooth := problem.smooth_term()) is not None:
            self.penalised |= smooth_curvature(problem, smooth) > 0
        fold, pairs = cut(cv, problem.fold_label, problem.fold_together, problem.weights)
        self.pairs, self.train = pairs, TrainingRows(problem.weights, fold, pairs)
        alone = cv.scoring == "held_out"
        refuse_silent_folds(problem, len(pairs), self.train, alone)
        refuse_loose_folds(problem, len(pairs), self.train)
        if isinstance(cv.search, CyclopsSearch):
            self.counted = None if problem.weights.all() else problem.weights > 0
            self.unpublished = unpublished(problem, self.train, len(pairs))
        self.common = problem.common()
        self.full = problem.batch(common=self.common)
        self.course = Course(self.policy) if self._room(len(pairs)) else None
        lanes = (
            _together(len(pairs), self.policy.max_lanes) if self.course is None else len(pairs) + 1
        )
        count = len(pairs) if self.course is None else lanes
        weights = self.train if self.course is None else WithAllRows(self.train)
        self.folds = Replicates(problem, self.common, count, weights, cv.memory, lanes=lanes)
        self.screening = FoldScreening(problem.design.scale, self.policy)
        # Of each variance done, coefficients of the full data and of each group of folds.
        self.ends: dict[float, list[sparse.csc_array]] = {}
        self.known: dict[float, sparse.csc_array] = {}  # of the full data alone, and farther
        self.at: float | None = None  # the variance where the full data's batch is,
        self.folds_at: float | None = None  # and where the folds' are
        self.short = ShortFits()
        self.added_columns = (
            True  # Whether folds lately needed a column that screening had not added.
        )

    # -- one variance ------------------------------------------------------------------------

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """See `VariancePath.evaluate`."""
        prior = self.prior.with_variance(variance)
        near = _nearest(self.ends, variance)
        ahead = self._ahead(variance, near)
        if ahead is None:
            after, scores = self._full_first(variance, prior, near)
        else:
            after, scores = self._all_at_once(variance, prior, ahead)
        self.folds_at = variance
        return after[:, 0], self._nonzero(after), np.concatenate(scores)

    def _full_first(
        self, variance: float, prior: Prior, near: float | None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Coefficients of the full data, (p, 1), and scores by group; folds start from there."""
        known = _nearest(self.known, variance)
        if known is not None and known != self.at:
            self.full.start_at(self.known[known].toarray())
        nonzero = self._fit_full(prior)
        g_full = self.full.gradients()[:, 0]
        after = self.full.beta
        self._screen(prior, self.screening.after(after, g_full, nonzero))
        self.known[variance] = sparse.csc_array(after)
        ends = [self.known[variance]]

        def start(k: int) -> np.ndarray:
            # A fold starts as far from this full-data optimum as it was from the nearest one;
            # what is zero in both stays zero.
            if near is None:
                return after
            before, known = self.ends[near][0].toarray(), self.ends[near][k + 1].toarray()
            return np.where((after == 0) & (known == 0), 0.0, after + (known - before))

        scores = self._fit_folds(variance, prior, nonzero, start, ends, g_full)
        self.ends[variance], self.at = ends, variance
        return after, scores

    def _ahead(self, variance: float, near: float | None) -> Start | None:
        """Find where all replicates may start at once; None if it is unknown or not worth it."""
        if near is None or self.course is None:
            return None
        if (
            self.nonzero[near] > self.policy.many_nonzero
            and abs(np.log(near / variance)) < self.policy.max_extrapolation
        ):
            beta, g = self.course.ahead(variance)
            return self.screening.heading(beta, g * variance**-0.5, self.nonzero[near])
        if (
            self.at is None
            or self.at in self.ends
            or abs(np.log(self.at / variance)) > self.policy.max_extrapolation_full
        ):
            return None
        nonzero = self._nonzero(self.full.beta)  # looked ahead to
        if nonzero <= self.policy.many_nonzero:
            return None
        return self.screening.after(self.full.beta, self.full.gradients()[:, 0], nonzero)

    def _all_at_once(
        self, variance: float, prior: Prior, ahead: Start
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The same where the full data are one more replicate, and all start from what is ahead.

        A step of one more costs next to nothing, where one by itself costs a third of all.
        """
        self._screen(prior, ahead)
        start, expected = ahead.beta, ahead.nonzero
        while True:
            ends: list[sparse.csc_array] = [None]
            begin = partial(_whoever, start)
            scores = self._fit_folds(variance, prior, expected, begin, ends, None)
            start = ends[1].toarray()
            nonzero = self._nonzero(start[:, [-1]])
            if self.tolerances.folds(nonzero) >= self.tolerances.folds(expected):
                break
            expected = nonzero  # fewer than thought: they are solved further then
        after = ends[1][:, [-1]]
        self.known[variance] = ends[0] = after
        self.ends[variance], self.at = ends, None
        return after.toarray(), scores

    def _fit_full(self, prior: Prior) -> int:
        """Fit all rows as far as their coefficients' number asks for, and return that."""
        nonzero = self._nonzero(self.full.beta)
        while True:
            tol = self.tolerances.full(nonzero)
            solve_under_prior(self.problem, self.full, prior, tol=tol)
            nonzero = self._nonzero(self.full.beta)
            if self.tolerances.full(nonzero) >= tol:
                return nonzero

    def _fit_folds(
        self, variance: float, prior: Prior, nonzero: int, start: Callable[[int], np.ndarray],
        ends: list[sparse.csc_array], g_full: np.ndarray | None,
    ) -> list[np.ndarray]:  # fmt: skip
        """Scores of the folds, by group; where they end is put to ``ends``.

        Parameters
        ----------
        nonzero : int
            Coefficients that are not zero, nearly.
        start : callable
            As of `Replicates.solve`.
        g_full : (p,) array or None
            Gradient of the full data; None if the full data are the last replicate.
        """
        tol, owed = self.tolerances.folds(nonzero), self.tolerances.owed(nonzero)
        scores, added_columns = [], False
        dear = len(self.common.active.W) > self.policy.check_columns
        look = "during" if self.added_columns or dear else "after"
        for group in self.folds.solve_under_prior(prior, tol, start, look):
            numbers = [k for k in group.numbers if k < len(self.pairs)]
            self.short.note(variance, numbers, group.fits[: len(numbers)], owed)
            added_columns |= group.batch.added_columns
            g = group.batch.gradients(tol)
            self.screening.note(g, g[:, -1] if g_full is None else g_full)
            scores.append(self._held_out(group.batch))
            beta = group.batch.beta
            ends.append(sparse.csc_array(beta))
            if self.course is not None:
                self.course.note(variance, beta, g)
            self.tell(variance, (numbers[-1] + 1) / len(self.pairs))
        self.added_columns = added_columns
        return scores

    def slope(self, variance: float) -> float | None:
        """See `VariancePath.slope`: the folds go on a little, to first order."""
        batches, prior = (
            self.folds.kept,
            self.prior.with_variance(variance * np.exp(self.policy.slope_change)),
        )
        if batches is None or variance != self.folds_at or not prior.plain:
            return None
        penalties = self.problem.separable(prior)
        self.folds_at = None  # no longer
        error, per = (
            standard_error(self.scores[variance]),
            self.policy.slope_change * len(self.pairs),
        )
        slope = apart = 0.0
        for batch in batches:
            before = self._held_out(batch)
            enough = self.policy.slope_tolerance * error * len(before) / len(self.pairs)
            response, last, now = batch.response(*penalties), 0.0, 0.0
            for k in range(self.policy.slope_steps):
                if not response.step():
                    last = now
                    break
                last, now = now, float((self._held_out(batch) - before).sum()) / per
                if k and abs(now - last) <= max(self.policy.slope_tolerance * abs(now), enough):
                    break
            if response.diverged:
                return None
            slope, apart = slope + now, apart + now - last
        if abs(apart) > self.policy.slope_accuracy * max(abs(slope), error):
            return None
        if self.course is not None:  # whose folds are one batch
            self.course.note_rates(variance, batches[0].beta, self.policy.slope_change)
        return slope

    def first(self) -> float:
        """See `VariancePath.first`."""
        first, self.matters_to = beginning(self.problem, self.prior, self.full)
        return first

    def foresee(self, first: float) -> Foreseen | None:
        """See `VariancePath.foresee`; of a lasso whose best fits have hundreds of coefficients."""
        problem, w = self.problem, self.problem.weights
        if not (self._large and self.selects and self.prior.plain and len(self.pairs) > 1):
            return None
        if self.within:  # a simpler model than the best is farther down
            return None

        def fit(variance: float) -> tuple[float, int]:
            self.tell(variance, 0.0)
            variance = readable(variance)
            solve_under_prior(
                problem,
                self.full,
                self.prior.with_variance(variance),
                tol=self.policy.ahead_tolerance,
            )
            beta, self.at = self.full.beta, variance
            self.known.setdefault(variance, sparse.csc_array(beta))
            return -float(self.full.term.loss[0]), self._nonzero(beta)

        found = look_ahead(
            first,
            fit,
            float((w * w).sum() / w.sum()),
            self.policy.min_nonzero_for_slope,
            self.policy,
        )
        if found is None:
            return None
        trained = np.mean([self.train([k]).sum() for k in range(len(self.pairs))])
        return found._replace(bend=found.bend * (1 - float(trained) / float(w.sum())))

    def _screen(self, prior: Prior, start: Start) -> None:
        """Add the columns that folds are likely to need to the working set."""
        l1, _ = self.problem.penalties(prior)
        active = self.common.active
        active.join(self.screening.new(len(active.W), active.inside, l1, start))

    def _nonzero(self, beta: np.ndarray) -> int:
        return int(np.count_nonzero(beta[self.penalised]))

    @property
    def _large(self) -> bool:
        return self.problem.likelihood.n_eta * self.problem.design.p > self.policy.large

    def _room(self, folds: int) -> bool:
        """Whether all rows may be one more replicate beside all folds, at next to no cost."""
        problem, lanes = self.problem, self.problem.likelihood.backend.lanes
        if isinstance(problem.likelihood, NuisanceLikelihood):  # parameters of each cost the same
            return False
        lasso = self.selects and self.prior.plain
        return self._large and lasso and folds <= self.policy.max_lanes and lanes(folds) > folds

    def _held_out(self, batch: Batch) -> np.ndarray:
        """Log-likelihood of all held-out rows, one score a fold."""
        difference = self.cv.scoring == "difference"
        scores = batch.term.left_out_score(self.problem.weights, difference)
        return scores[: len(self.pairs)]  # all rows leave none out


def _whoever(start: np.ndarray, number: int) -> np.ndarray:
    """Where a group of replicates starts, whatever its number."""
    return start


def _nearest(done: dict[float, Any], variance: float) -> float | None:
    """The variance done that is nearest to this one."""
    return min(done, key=lambda v: abs(np.log(v / variance))) if done else None


def _together(count: int, most: int) -> int:
    """How many folds go together: as many as may, in groups of one size."""
    return -(-count // -(-count // most))
