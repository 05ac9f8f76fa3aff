"""Fits of all folds along a path of prior variances."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from ..errors import DataError
from ..fit import Problem, Replicates, solve_under_prior
from ..fit.replicate_fits import lanes_together
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..priors import Prior
from ..solve import Batch
from .cyclops_search import CyclopsSearch, unpublished
from .first_variance_of_problem import beginning, smooth_curvature
from .fold_columns_from_expected_gradients import FoldScreening, Start
from .fold_errors import ShortFits, refuse_loose_folds
from .fold_score_comparison import readable, standard_error
from .folds import TrainingRows, WithAllRows, cut
from .path_extrapolation import Course
from .uninformative_folds import refuse_silent_folds
from .variance_chooser_interface import FoldSettings
from .variance_path_constants import PathPolicy
from .variance_prediction import Foreseen, look_ahead
from .variance_search import FoldScore, Progress, Selection, VariancePath

__all__ = ["SCORE_ROUNDING", "choose"]

# A score below this share of the rows' weight is rounding error.
SCORE_ROUNDING = 1e-13


@dataclass(frozen=True)
class Tolerances:
    """KKT violations to which fits of a path are solved.

    Parameters
    ----------
    tol : float
        That of the cross-validation.
    selects, adaptive : bool
        Whether the prior has a λ, and whether its penalties depend on the coefficients.
    rows, columns : int
        Numbers of rows of η and of columns.
    """

    tol: float
    selects: bool
    adaptive: bool
    rows: int
    columns: int
    policy: PathPolicy

    def owed(self, nonzero: int) -> float:
        """Return the tolerance that a fold's fit must reach with this many nonzero coefficients."""
        policy = self.policy
        if not self.selects:
            return self.tol * (policy.adaptive_factor if self.adaptive else policy.ridge_factor)
        if nonzero <= policy.many_nonzero or self._small:
            return self.tol
        dearest = nonzero > policy.dearest_nonzero and self.rows > policy.dearest_rows * nonzero
        factor = policy.dearest_factor if dearest else policy.dear_factor
        return max(self.tol, min(self.tol * factor, policy.loosest))

    def folds(self, nonzero: int) -> float:
        """Return the tolerance to which it is solved, smaller than `owed` for small data."""
        exact = self.selects and self._small
        return self.owed(nonzero) * (self.policy.small_factor if exact else 1.0)

    def full(self, nonzero: int) -> float:
        """Return the tolerance of the fit of all rows."""
        return self.policy.full_factor * self.folds(nonzero)

    @property
    def _small(self) -> bool:
        """Whether the data are so small that exact fits cost nothing."""
        return self.rows * self.columns <= self.policy.small


def choose(
    cv: FoldSettings, problem: Problem, progress: Progress | None, measure: FoldScore | None = None
) -> Selection:
    """Find the variance with the best cross-validated score."""
    path = FoldsPath(cv, problem, progress, measure=measure)
    selection = path.search()
    path.short.warn()
    path.full.start_at(selection.beta[:, None])
    selection.batch = path.full
    return selection


class FoldsPath(VariancePath):
    """A path on this machine, in which folds are replicates, up to a dozen in each batch.

    Parameters
    ----------
    cv : CrossValidation
    progress, policy
        As in `VariancePath`.
    measure : callable, optional
        The score by which the variance is chosen; see `CrossValidation.run`.
    """

    def __init__(
        self, cv: FoldSettings, problem: Problem, progress: Progress | None,
        policy: PathPolicy | None = None, measure: FoldScore | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cv, problem.prior, progress, policy)
        self.cv, self.problem, self.design = cv, problem, problem.design
        self.measure = measure
        if cv.rule == "one_standard_error":
            self.within = float(np.sqrt(cv.repeats))  # Repeats add no information on other data.
        self.selects = bool(problem.penalties(problem.prior)[0].any())
        size = problem.likelihood.n_eta, problem.design.p
        self.tolerances = Tolerances(cv.tol, self.selects, self.prior.adaptive, *size, self.policy)
        self.nothing = SCORE_ROUNDING * float(problem.weights.sum())
        self.penalised = np.ones(problem.design.p, bool)
        self.penalised[: problem.n_free] = False
        unbounded = problem.unbounded(problem.prior)
        self.penalised[unbounded] = False
        if len(unbounded) and (smooth := problem.smooth_term()) is not None:
            self.penalised |= smooth_curvature(problem, smooth) > 0
        fold, pairs = cut(cv, problem.fold_label, problem.fold_together, problem.weights)
        self.pairs, self.train = pairs, TrainingRows(problem.weights, fold, pairs)
        alone = cv.scoring != "difference"
        refuse_silent_folds(problem, pairs, self.train, alone)
        refuse_loose_folds(problem, len(pairs), self.train)
        if isinstance(cv.search, CyclopsSearch):
            self.counted = None if problem.weights.all() else problem.weights > 0
            self.unpublished = unpublished(problem, self.train, len(pairs))
        self.common = problem.common()
        self.full = problem.batch(common=self.common)
        most = lanes_together(problem, self.policy.max_lanes)
        self.course = Course(self.policy) if self._room(len(pairs), most) else None
        lanes = _together(len(pairs), most) if self.course is None else len(pairs) + 1
        count = len(pairs) if self.course is None else lanes
        weights = self.train if self.course is None else WithAllRows(self.train)
        self.folds = Replicates(problem, self.common, count, weights, cv.memory, lanes=lanes)
        self.screening = FoldScreening(problem.design.scale, self.policy)
        # Coefficients of the full data and of each group of folds at each variance.
        self.ends: dict[float, list[sparse.csc_array]] = {}
        # Coefficients of the full data alone, also at variances without folds.
        self.known: dict[float, sparse.csc_array] = {}
        self.at: float | None = None  # The variance of the full data's batch.
        self.folds_at: float | None = None  # The variance of the folds' batches.
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
        """Fit the full data first, and the folds from there.

        Returns the coefficients (p, 1) of the full data and the scores of each group.
        """
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
            """Return where a replicate starts."""
            # A fold starts as far from this full-data optimum as it was from the nearest one.
            # Coefficients that are zero in both stay zero.
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
        nonzero = self._nonzero(self.full.beta)  # From the prediction's fits.
        if nonzero <= self.policy.many_nonzero:
            return None
        return self.screening.after(self.full.beta, self.full.gradients()[:, 0], nonzero)

    def _all_at_once(
        self, variance: float, prior: Prior, ahead: Start
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Fit the full data as one more replicate of the folds, all from extrapolated starts.

        One more replicate costs next to nothing; a separate fit costs a third of the total.
        """
        self._screen(prior, ahead)
        start, expected = ahead.beta, ahead.nonzero
        while True:
            ends: list[sparse.csc_array] = [None]
            begin = partial(_same_start, start)
            scores = self._fit_folds(variance, prior, expected, begin, ends, None)
            start = ends[1].toarray()
            nonzero = self._nonzero(start[:, [-1]])
            if self.tolerances.folds(nonzero) >= self.tolerances.folds(expected):
                break
            expected = nonzero  # Fewer than expected require a smaller tolerance.
        after = ends[1][:, [-1]]
        self.known[variance] = ends[0] = after
        self.ends[variance], self.at = ends, None
        return after.toarray(), scores

    def _fit_full(self, prior: Prior) -> int:
        """Fit all rows to a tolerance that depends on the number of coefficients; return that."""
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
        """Return the scores of the folds by group, and append their coefficients to ``ends``.

        Parameters
        ----------
        nonzero : int
            Approximate number of nonzero coefficients.
        start : callable
            As in `Replicates.solve`.
        g_full : (p,) array or None
            Gradient of the full data; None if the full data are the last replicate.
        """
        tol, owed = self.tolerances.folds(nonzero), self.tolerances.owed(nonzero)
        scores, added_columns = [], False
        measured: list[float] = []
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
            measured.extend(self._measure(beta, numbers, scores[-1]))
            ends.append(sparse.csc_array(beta))
            if self.course is not None:
                self.course.note(variance, beta, g)
            self.tell(variance, (numbers[-1] + 1) / len(self.pairs))
        self.added_columns = added_columns
        if self.measure is not None:
            self.other_scores[variance] = np.array(measured)
        return scores

    def _measure(
        self, beta: np.ndarray, numbers: list[int], log_likelihoods: np.ndarray
    ) -> list[float]:
        """Score the held-out rows of some folds by the user's measure, if there is one."""
        out: list[float] = []
        for k, fold in enumerate(numbers if self.measure is not None else []):
            assert self.measure is not None
            train = self.train([fold])[:, 0]
            rows = train, self.problem.weights - train
            out.append(self.measure(self.problem, beta[:, k], *rows, float(log_likelihoods[k])))
            if np.isnan(out[-1]):
                raise DataError(
                    f"scoring={self.cv.scoring!r} is not defined for the rows that fold {fold} "
                    "holds out, for example because all have the same outcome. Use fewer folds."
                )
        return out

    def slope(self, variance: float) -> float | None:
        """Compute the slope by a first-order step of the folds; see `VariancePath.slope`."""
        policy, batches = self.policy, self.folds.kept
        prior = self.prior.with_variance(variance * np.exp(policy.slope_change))
        if batches is None or variance != self.folds_at or not prior.plain:
            return None
        penalties = self.problem.separable(prior)
        self.folds_at = None  # The folds leave their optima.
        error, per = standard_error(self.scores[variance]), policy.slope_change * len(self.pairs)
        slope = apart = 0.0
        for batch in batches:
            before = self._held_out(batch)
            enough = policy.slope_tolerance * error * len(before) / len(self.pairs)
            response, last, now = batch.response(*penalties), 0.0, 0.0
            for k in range(policy.slope_steps):
                if not response.step():
                    last = now
                    break
                last, now = now, float((self._held_out(batch) - before).sum()) / per
                if k and abs(now - last) <= max(policy.slope_tolerance * abs(now), enough):
                    break
            if response.diverged:
                return None
            slope, apart = slope + now, apart + now - last
        if abs(apart) > policy.slope_accuracy * max(abs(slope), error):
            return None
        if self.course is not None:  # All folds are in one batch.
            self.course.note_rates(variance, batches[0].beta, policy.slope_change)
        return slope

    def first(self) -> float:
        """See `VariancePath.first`."""
        first, self.matters_to = beginning(self.problem, self.prior, self.full)
        return first

    def foresee(self, first: float) -> Foreseen | None:
        """Predict the best variance of a lasso on large data; see `VariancePath.foresee`."""
        problem, w = self.problem, self.problem.weights
        if not (self._large and self.selects and self.prior.plain and len(self.pairs) > 1):
            return None
        if self.within or self.measure is not None:  # The choice may be far from the prediction.
            return None

        def fit(variance: float) -> tuple[float, int]:
            """Fit the full data at a variance; return its log-likelihood and number of nonzeros."""
            self.tell(variance, 0.0)
            variance = readable(variance)
            prior = self.prior.with_variance(variance)
            solve_under_prior(problem, self.full, prior, tol=self.policy.ahead_tolerance)
            beta, self.at = self.full.beta, variance
            self.known.setdefault(variance, sparse.csc_array(beta))
            return -float(self.full.term.loss[0]), self._nonzero(beta)

        cost = float((w * w).sum() / w.sum())  # Of a degree of freedom.
        found = look_ahead(first, fit, cost, self.policy.min_nonzero_for_slope, self.policy)
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
        """Count the nonzero penalised coefficients."""
        return int(np.count_nonzero(beta[self.penalised]))

    @property
    def _large(self) -> bool:
        """Whether the data are large enough for predictions and joint fits."""
        return self.problem.likelihood.n_eta * self.problem.design.p > self.policy.large

    def _room(self, folds: int, most: int) -> bool:
        """Return whether all rows can be one more replicate of all folds at next to no cost."""
        likelihood, backend = self.problem.likelihood, self.problem.likelihood.backend
        if isinstance(likelihood, NuisanceLikelihood):  # Each replicate costs the same.
            return False
        # A device reads X once for any number of replicates.
        spare = not backend.on_host or backend.lanes(folds) > folds
        lasso = self.selects and self.prior.plain
        return self._large and lasso and folds <= most and spare

    def _held_out(self, batch: Batch) -> np.ndarray:
        """Compute the log-likelihoods of the held-out rows, one score for each fold."""
        difference = self.cv.scoring == "difference"
        scores = batch.term.left_out_score(self.problem.weights, difference)
        return scores[: len(self.pairs)]  # The replicate with all rows has no score.


def _same_start(start: np.ndarray, number: int) -> np.ndarray:
    """Return the same start for every group of replicates."""
    return start


def _nearest(done: Iterable[float], variance: float) -> float | None:
    """Return the evaluated variance that is nearest to this one."""
    return min(done, key=lambda v: abs(np.log(v / variance)), default=None)


def _together(count: int, most: int) -> int:
    """Return how many folds form a group: as many as possible in groups of equal size."""
    return -(-count // -(-count // most))
