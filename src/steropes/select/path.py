"""The folds' fits along a path of variances."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..backends.tall import row_any, row_max, row_min
from ..fit import Problem, Replicates, solve_under
from ..solve.data_term import DataTerm
from .beginning import beginning
from .cyclops import CyclopsSearch
from .fold_refusals import ShortFits, refuse_loose_folds
from .folds import TrainingRows, cut
from .foresight import Foreseen, look_ahead
from .search import DEAR, SLOPED, Progress, Selection, VariancePath, readable, standard_error
from .silent_folds import refuse_silent_folds

__all__ = ["choose"]

NEAR = 0.9  # of λ: the slope expected of a fold from which a column is let in, or λ itself
MANY = 4000  # where there are many: columns in vain cost more then than another look,
LOOKED = 1000  # columns from which on two steps for one that was missing cost more than a look,
IDLE = 0.8  # and the slope below which one that is zero everywhere leaves
WORTH = 0.3  # share of the working set that must be idle for the rows to be made again
LARGE = 20_000_000  # rows times columns from which on it is worth looking ahead
SMALL = 2_000_000  # rows times columns up to which exactness costs nothing,
TOGETHER = 12  # folds at most: products with a Hessian cost nearly the same for two as for ten
FINER = 1e-4  # and the folds' tolerance is that much finer: no rounding decides between variances
LITTLE = 0.02  # change of log variance by which the slope of the scores is found,
RESPONSES = 6  # in so many steps at most, mostly two,
SETTLED = 0.2  # the last of which must not change it by more, of it or of the scores' error
LOOSE = 0.1  # violation, in units of λ, to which fits are told from that only look ahead
NOTHING = 1e-13  # of the rows' weight: what is left of a score where each held-out event is alone
COARSER = 10  # the folds' tolerance where variances are dear: λ is small beside the score's error,
COARSEST = 30  # and smaller yet with
THOUSANDS = 4000  # nonzero coefficients,
ROWS = 20  # where there are so many rows for each


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

    def __init__(self, cv: Any, problem: Problem, progress: Progress | None) -> None:
        super().__init__(cv, problem.prior, progress)
        self.problem, self.design = problem, problem.design
        if cv.rule == "one_standard_error":
            self.within = float(np.sqrt(cv.repeats))  # repeats say nothing new of other data
        self.selects = bool(problem.penalties(problem.prior)[0].any())
        self.nothing = NOTHING * float(problem.weights.sum())
        self.penalised = np.ones(problem.design.p, bool)
        self.penalised[: problem.n_free] = False
        self.penalised[problem.unbounded(problem.prior)] = False
        fold, pairs = cut(cv, problem.fold_label, problem.fold_together, problem.weights)
        self.pairs, self.train = pairs, TrainingRows(problem.weights, fold, pairs)
        alone = cv.scoring == "held_out"
        refuse_silent_folds(problem, len(pairs), self.train, alone)
        refuse_loose_folds(problem, len(pairs), self.train)
        if isinstance(cv.search, CyclopsSearch):
            self.counted = None if problem.weights.all() else problem.weights > 0
            self.unpublished = np.array([self._unpublished(k) for k in range(len(pairs))])
        self.common = problem.common()
        self.full = problem.batch(common=self.common)
        self.folds = Replicates(
            problem, self.common, len(pairs), self.train, cv.memory, lanes=_together(len(pairs))
        )
        # How far the folds' slopes went beyond the full data's the last time, up and down.
        self.above, self.below = np.zeros(problem.design.p), np.zeros(problem.design.p)
        # Of each variance done, coefficients of the full data and of each group of folds.
        self.ends: dict[float, list[sparse.csc_array]] = {}
        self.known: dict[float, sparse.csc_array] = {}  # of the full data alone, and farther
        self.at: float | None = None  # the variance where the full data's batch is,
        self.folds_at: float | None = None  # and where the folds' are
        self.short = ShortFits()
        self.surprised = True  # whether a fold lately needed a column that nobody expected

    # -- one variance ------------------------------------------------------------------------

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """See `VariancePath.evaluate`."""
        problem = self.problem
        prior = self.prior.with_variance(variance)
        l1, _ = problem.penalties(prior)
        # Without λ the unit is the score's standard error, far coarser than λ near the best one.
        # An adaptive prior's goes by the coefficients: there that is fine enough.
        finer = 1e-2 if prior.adaptive else 1e-5
        owed = tol = self.cv.tol if l1.any() else finer * self.cv.tol
        if l1.any() and problem.likelihood.n_eta * problem.design.p <= SMALL:
            tol *= FINER
        near = _nearest(self.ends, variance)
        known = _nearest(self.known, variance)
        if known is not None and known != self.at:
            self.full.start_at(self.known[known].toarray())
        solve_under(problem, self.full, prior, tol=0.1 * tol)
        self._expect(l1, near)
        after = self.full.beta
        nonzero = int(np.count_nonzero(after[self.penalised]))
        if nonzero > DEAR and tol == self.cv.tol:
            smallest = nonzero > THOUSANDS and problem.design.n > ROWS * nonzero
            owed = tol = (COARSEST if smallest else COARSER) * tol
        self.known[variance] = sparse.csc_array(after)
        ends = [self.known[variance]]

        def start(k: int) -> np.ndarray:
            # A fold starts as far from this full-data optimum as it was from the nearest one;
            # what is zero in both stays zero.
            if near is None:
                return after
            before, known = self.ends[near][0].toarray(), self.ends[near][k + 1].toarray()
            return np.where((after == 0) & (known == 0), 0.0, after + (known - before))

        scores, surprised = [], False
        scale = problem.design.scale
        g_full = self.full.gradients()[:, 0] * scale
        dear = len(self.common.active.W) > LOOKED
        look = "during" if self.surprised or dear else "after"
        for group in self.folds.solve_under(prior, tol, start, look):
            self.short.note(variance, group.numbers, group.fits, owed)
            surprised |= group.batch.surprised
            g = group.batch.gradients(tol)
            np.maximum(self.above, row_max(g) * scale - g_full, out=self.above)
            np.minimum(self.below, row_min(g) * scale - g_full, out=self.below)
            scores.append(self._held_out(group.batch.term))
            ends.append(sparse.csc_array(group.batch.beta))
            self.tell(variance, (group.numbers[-1] + 1) / len(self.pairs))
        self.surprised = surprised
        self.ends[variance], self.at, self.folds_at = ends, variance, variance
        return after[:, 0], nonzero, np.concatenate(scores)

    def slope(self, variance: float) -> float | None:
        """See `VariancePath.slope`: the folds go on a little, to first order."""
        batches, prior = self.folds.kept, self.prior.with_variance(variance * np.exp(LITTLE))
        if batches is None or variance != self.folds_at or not prior.plain:
            return None
        penalties = self.problem.separable(prior)
        self.folds_at = None  # no longer
        changes = np.zeros((RESPONSES, len(batches)))  # of all scores, after each step
        for b, batch in enumerate(batches):
            before = after = self._held_out(batch.term).sum()
            response = batch.response(*penalties)
            for k in range(RESPONSES):
                if response.step():
                    after = self._held_out(batch.term).sum()
                changes[k, b] = after - before
        slopes = changes.sum(axis=1) / (LITTLE * len(self.pairs))
        apart = abs(slopes[-1] - slopes[-2])
        size = max(abs(slopes[-1]), standard_error(self.scores[variance]))
        return float(slopes[-1]) if apart <= SETTLED * size else None

    def first(self) -> float:
        """See `VariancePath.first`."""
        first, self.matters_to = beginning(self.problem, self.prior, self.full)
        return first

    def foresee(self, first: float) -> Foreseen | None:
        """See `VariancePath.foresee`; of a lasso whose best fits have hundreds of coefficients."""
        problem, w = self.problem, self.problem.weights
        large = problem.likelihood.n_eta * problem.design.p > LARGE
        if not (large and self.selects and self.prior.plain and len(self.pairs) > 1):
            return None
        if self.within:  # a simpler model than the best is farther down
            return None

        def fit(variance: float) -> tuple[float, int]:
            self.tell(variance, 0.0)
            variance = readable(variance)
            solve_under(problem, self.full, self.prior.with_variance(variance), tol=LOOSE)
            beta, self.at = self.full.beta, variance
            self.known.setdefault(variance, sparse.csc_array(beta))
            return -float(self.full.term.loss[0]), int(np.count_nonzero(beta[self.penalised]))

        found = look_ahead(first, fit, float((w * w).sum() / w.sum()), SLOPED)
        if found is None:
            return None
        trained = np.mean([self.train([k]).sum() for k in range(len(self.pairs))])
        return found._replace(bend=found.bend * (1 - float(trained) / float(w.sum())))

    def _expect(self, l1: np.ndarray, near: float | None) -> None:
        """Let columns in that some fold is likely to need, and those go that none needs.

        Each would otherwise join when a fold asks for it, and rebuild the rows every time. A
        fold's slopes differ from the full data's by what its rows say, much the same at every
        variance.
        """
        g = self.full.gradients()[:, 0] * self.problem.design.scale
        slope = np.maximum(np.abs(g + self.above), np.abs(g + self.below))
        self.above[:] = self.below[:] = 0.0
        active = self.common.active
        used = row_any(self.full.beta) | (slope >= IDLE * l1)
        for end in self.ends[near] if near is not None else ():
            used[end.indices] = True
        kept = np.flatnonzero(used[active.W])
        if len(kept) < (1 - WORTH) * len(active.W):
            self.full.keep(kept)
        active.join(np.flatnonzero(slope > (NEAR if len(active.W) < MANY else 1.0) * l1))

    def _unpublished(self, k: int) -> float:
        """What of a fold's score the published search does not have."""
        problem, likelihood = self.problem, self.problem.likelihood
        held, offset = problem.weights - self.train([k])[:, 0], problem.offset
        offset = np.zeros(len(held)) if offset is None else offset[: len(held)]
        if likelihood.order is not None:
            held, offset = held[likelihood.order], offset[likelihood.order]
        asarray, host = likelihood.backend.asarray, likelihood.backend.to_host
        columns = (asarray(np.ascontiguousarray(x[:, None])) for x in (held, offset))
        return float(np.ravel(host(likelihood.unpublished_constant(*columns)))[0])

    def _held_out(self, term: DataTerm) -> np.ndarray:
        """Log-likelihood of all held-out rows, one score a fold."""
        return term.left_out_score(self.problem.weights, self.cv.scoring == "difference")


def _nearest(done: dict[float, Any], variance: float) -> float | None:
    """The variance done that is nearest to this one."""
    return min(done, key=lambda v: abs(np.log(v / variance))) if done else None


def _together(count: int) -> int:
    """How many folds go together: as many as may, in groups of one size."""
    return -(-count // -(-count // TOGETHER))
