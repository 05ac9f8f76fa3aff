"""The search for the prior variance with the best cross-validated score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..design_matrix.design_interfaces import DesignLike
from ..errors import DataError
from ..fit import Problem
from ..priors import Prior
from ..solve import Batch
from . import variance_path_constants as policies
from .cyclops_search import CyclopsSearch, cyclops_variance
from .fold_score_comparison import (
    best_of,
    comparable_means,
    negligible_difference,
    readable,
    standard_error,
)
from .next_variance_by_score_curve import near, next_step, passed, promise, toward
from .variance_chooser_interface import VarianceChooser
from .variance_path_constants import PathPolicy
from .variance_prediction import Foreseen

__all__ = ["FoldScore", "Progress", "Selection", "VariancePath"]

Progress = Callable[[str, float], None]  # Takes a description and the share that is done.
# Scores held-out rows; see `CrossValidation.run`.
FoldScore = Callable[[Problem, np.ndarray, np.ndarray, np.ndarray, float], float]


@dataclass
class Selection:
    """Outcome of a cross-validation.

    Attributes
    ----------
    variance : float
        The selected variance.
    prior : Prior
        The prior with that variance.
    results : DataFrame
        The table of variances and scores.
    beta : (p,) array
        The approximate solution on the full data.
    score : float
        The best mean score, by which priors are compared on the same folds.
    batch : Batch or None
        The full data's batch at that solution, with which the final fit continues.
    """

    variance: float
    prior: Prior
    results: pd.DataFrame
    beta: np.ndarray
    score: float
    batch: Batch | None = None


class VariancePath(ABC):
    """Scores of variances, each fitted from the nearest variance evaluated before.

    Subclasses implement `evaluate`, the fits and scores at a variance, and `first`, the start of
    the path.

    Parameters
    ----------
    cv : CrossValidation or InformationCriterion
    prior : Prior or None
        The prior with the variance to choose.
    progress : callable or None
        Called with a description of the current work and the share of it that is done.
    policy : PathPolicy, optional
        By default `steropes.select.variance_path_constants.DEFAULT`.
    """

    def __init__(
        self, cv: VarianceChooser, prior: Prior | None, progress: Progress | None,
        policy: PathPolicy | None = None,
    ) -> None:  # fmt: skip
        if prior is None:
            raise DataError("cv needs a prior whose variance it chooses, such as Laplace().")
        self.plan, self.prior, self.progress = cv.search, prior, progress
        self.policy = policies.DEFAULT if policy is None else policy
        self.solutions: dict[float, np.ndarray] = {}  # Coefficients on the full data.
        self.scores: dict[float, np.ndarray] = {}  # Scores of the folds.
        # Scores by which the variance is chosen, unless these are the log-likelihoods above.
        self.other_scores: dict[float, np.ndarray] = {}
        self.nonzero: dict[float, int] = {}
        self.slopes: dict[float, float] = {}  # Known slopes of the mean score in log variance.
        self.matters_to = 0.0  # A variance below which flat scores do not end the walk.
        self.within = 0.0  # Standard errors below the best that the simplest model may lose.
        self.selects = True  # Whether small variances make coefficients zero.
        self.nothing = 0.0  # A fold's score up to this size is rounding error.
        # Inputs of Cyclops' search; see `ScoredPath`.
        self.design: DesignLike | None = None
        self.counted: np.ndarray | None = None
        self.unpublished: np.ndarray | float = 0.0

    @abstractmethod
    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """Fit the full data and every fold, and score the held-out rows.

        Returns
        -------
        beta : (p,) array
            Coefficients on the full data.
        nonzero : int
            Number of nonzero penalised coefficients among them.
        scores : (folds,) array
            Held-out scores.
        """

    def slope(self, variance: float) -> float | None:
        """Return the slope of the mean score at the last variance, or None if it is unknown."""
        return None

    @abstractmethod
    def first(self) -> float:
        """Return the first variance of the path."""

    def foresee(self, first: float) -> Foreseen | None:
        """Predict the best variance after the first one, if possible."""
        return None

    def score(self, variance: float) -> None:
        """Evaluate a variance that has not been evaluated before."""
        if variance not in self.scores:
            beta, self.nonzero[variance], scores = self.evaluate(variance)
            if np.isnan(scores).any():
                raise DataError(
                    f"The score of fold {int(np.isnan(scores).argmax())} is not a number at "
                    f"variance {variance:.3g}: its predictions overflow. Look for columns or "
                    "offsets of extreme size."
                )
            scores = np.where(np.abs(scores) <= self.nothing, 0.0, scores)
            self.solutions[variance], self.scores[variance] = beta, scores

    def search(self) -> Selection:
        """Find the best variance by a walk, by Cyclops' search, or among those given."""
        plan, last = self.plan, None
        if isinstance(plan, CyclopsSearch):
            last = cyclops_variance(self, plan)
        elif isinstance(plan, str):
            self.walk()
            self.refine()
            self.refine_other_scores()
            self.narrow()
        else:
            for v in sorted({float(v) for v in plan}):
                self.score(v)
        table = self.choices()
        mean = table["mean"].to_numpy()
        self._refuse_impossible(mean)
        variance = float(table["variance"].iloc[self._simplest(table)]) if last is None else last
        prior = self.prior.with_variance(variance)
        return Selection(variance, prior, table, self.solutions[variance], float(mean.max()))

    def _refuse_impossible(self, mean: np.ndarray) -> None:
        """Raise an error if no variance has a finite mean score."""
        if np.isfinite(mean).any():
            return
        folds = np.array([np.isfinite(s) for s in self.scores.values()]).any(axis=0)
        raise DataError(
            f"No variance can be chosen: at each of them rows that fold {int(folds.argmin())} "
            "holds out are impossible (a score of -inf) by what the others say. Look for columns "
            "or offsets of extreme size, or choose other folds."
        )

    def _simplest(self, table: pd.DataFrame) -> int:
        """Return the place of the smallest variance with a score that satisfies the rule."""
        mean = table["mean"].to_numpy()
        best = best_of(mean)
        if not self.within:
            return best
        se = float(table["se"].iloc[best])
        if not np.isfinite(se):
            raise DataError(
                "rule='one_standard_error' needs the scores of two folds at least; there is one."
            )
        return int(np.argmax(mean >= mean[best] - self.within * se))

    def narrow(self) -> None:
        """Refine where the scores fall below the best by more than one standard error."""
        for _ in range(self.policy.max_variances // 2 if self.within else 0):
            table = self.choices()
            at = self._simplest(table)
            x = np.log(table["variance"].to_numpy())
            if at == 0:
                if self._simplest_of_all(table) or x[-1] - x[0] > self.policy.max_log_range:
                    return
                target = x[0] - np.log(self.policy.step_ratio)
            elif x[at] - x[at - 1] < self.policy.one_se_resolution:
                return
            else:
                target = 0.5 * (x[at] + x[at - 1])
            target = readable(float(np.exp(target)))
            if target in self.scores:
                return
            self.score(target)

    def refine_other_scores(self) -> None:
        """Halve the steps next to the best measured score, which need not be smooth.

        The walk followed the log-likelihood; it is continued if the best score is at an end.
        """
        for _ in range(self.policy.max_variances // 2 if self.other_scores else 0):
            table = self.choices()
            x, mean = np.log(table["variance"].to_numpy()), table["mean"].to_numpy()
            at, step = best_of(mean), float(np.log(self.policy.step_ratio))
            if len(x) > 1 and x[-1] - x[0] > self.policy.max_log_range:
                return
            left = x[at] - x[at - 1] if at else 0.0
            right = x[at + 1] - x[at] if at + 1 < len(x) else 0.0
            clear = negligible_difference(table, at, self.policy)
            if at + 1 == len(x) and len(x) > 1 and mean[at] > mean[at - 1] + clear:
                target = x[at] + step
            elif at == 0 and not self._simplest_of_all(table):
                target = x[at] - step
            elif max(left, right) > self.policy.measured_resolution:
                target = x[at] + 0.5 * right if right >= left else x[at] - 0.5 * left
            else:
                return
            target = readable(float(np.exp(target)))
            if target in self.scores:
                return
            self.score(target)

    def _simplest_of_all(self, table: pd.DataFrame) -> bool:
        """Return whether smaller variances give the same model, without any covariate."""
        if self.selects:
            return self.nonzero[float(table["variance"].iloc[0])] == 0
        mean, se = table["mean"].to_numpy(), table["se"].to_numpy()
        return len(mean) > 1 and bool(
            abs(mean[1] - mean[0]) <= self.policy.flat * se[best_of(mean)]
        )

    def tell(self, variance: float, done: float) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(f"variance {variance:.3g}", done)

    def walk(self) -> None:
        """Evaluate variances from the first to the best one, or some steps beyond it.

        If the full data predict the best variance, the walk starts near the prediction.
        """
        v = self.first()
        self.score(readable(v))
        ahead = self.foresee(v)
        foreseen = ahead is not None and self._go_to(readable(ahead.variance))
        if foreseen and ahead is not None:
            slope = self.slopes[readable(ahead.variance)]
            if slope <= 0:
                self._go_back(ahead, slope, v)
                return
            v = ahead.variance * float(np.exp(toward(slope, ahead.bend, self.policy)))
        for _ in range(self.policy.max_variances // 2):
            self.score(readable(v))
            table = self.table()
            mean = comparable_means(table["mean"].to_numpy())
            best = best_of(mean)
            drop, se = mean[best] - mean[-1], float(table["se"].iloc[best])
            beyond = len(mean) - 1 - best
            if len(mean) > self.policy.steps_past_best + 1 and (
                (beyond >= 1 and drop > self.policy.clear * se)
                or (beyond >= self.policy.steps_past_best and drop > self.policy.flat * se)
            ):
                break
            last = mean[-self.policy.steps_past_best - 1 :]
            if len(mean) > 2 * self.policy.steps_past_best:
                self._refuse_impossible(table["mean"].to_numpy())
            alone = np.isnan(se)  # One fold has no standard error.
            if (
                alone
                and beyond >= self.policy.falling_steps
                and (np.diff(mean[-self.policy.falling_steps - 1 :]) <= 0).all()
            ):
                break
            flat = len(mean) > 2 * self.policy.steps_past_best and v >= self.matters_to
            if flat and np.ptp(last) <= negligible_difference(table, -1, self.policy):
                break  # The prior no longer matters.
            x, own = np.log(table["variance"].to_numpy()), readable(v)
            if passed(x, mean, self._slopes(), se, self.policy):
                break
            if not alone and (foreseen or near(x, mean, self.policy)):
                self._ask(own)
            on = next_step(x, mean, self._slopes(), se, self.policy)
            if on == 0:
                break
            # The unrounded variance is used, as rounding to three digits would accumulate.
            v *= float(np.exp(on))

    def _ask(self, variance: float) -> float | None:
        """Compute the slope of the scores at a variance if it costs less than another variance."""
        if self.nonzero[variance] <= self.policy.min_nonzero_for_slope:
            return None
        slope = self.slope(variance)
        if slope is None or not np.isfinite(slope):
            return None
        self.slopes[variance] = slope
        return slope

    def _go_to(self, ahead: float) -> bool:
        """Evaluate the predicted variance and return whether score and slope confirm it.

        Otherwise its score is dropped and the whole path is evaluated.
        """
        if ahead in self.scores:
            return False
        before = next(iter(self.scores.values()))
        self.score(ahead)
        se, rise = standard_error(self.scores[ahead]), (self.scores[ahead] - before).mean()
        if rise > self.policy.clear * se and self._ask(ahead) is not None:
            return True
        del self.scores[ahead]
        return False

    def _go_back(self, ahead: Foreseen, slope: float | None, first: float) -> None:
        """Evaluate smaller variances, above ``first``, until scores rise with the variance."""
        v = ahead.variance
        while slope is not None and slope <= 0:
            v *= float(np.exp(toward(slope, ahead.bend, self.policy)))
            if not v > first:
                return
            self.score(readable(v))
            slope = self._ask(readable(v))

    def refine(self) -> None:
        """Evaluate the maximum of a curve through the best scores until it promises no gain.

        The score is nearly parabolic in log variance there, so the gain of such curves bounds that
        of a finer search. If the best score is the last one and no slope is known there or next to
        it, the walk ended because the prior no longer mattered. If it is the first one, one more
        step brackets it.
        """
        for _ in range(self.policy.max_variances // 2):
            table = self.table()
            x = np.log(table["variance"].to_numpy())
            y = comparable_means(table["mean"].to_numpy())
            best = best_of(y)
            slope = self._slopes()
            if best == len(x) - 1 and not np.isfinite(slope[best - 1 :]).any():
                return
            if best == 0:
                if len(x) > 1 and y[0] - y[1] <= negligible_difference(table, 0, self.policy):
                    return
                if self.nonzero[float(table["variance"].iloc[0])] == 0:
                    return  # Smaller variances give the same model, without any covariate.
                self.score(readable(float(np.exp(x[0])) / self.policy.step_ratio))
                continue
            gain, target = promise(x, y, slope, best, self.policy)
            if gain <= negligible_difference(table, best, self.policy) or target is None:
                return
            if np.min(np.abs(x - target)) < 0.02:  # Too close to a known one: halve the wider side.
                left = x[best] - x[best - 1]
                right = x[best + 1] - x[best] if best + 1 < len(x) else 0.0
                if max(left, right) < 0.05:
                    return
                target = x[best] - left / 2 if left > right else x[best] + right / 2
            self.score(readable(float(np.exp(target))))

    def _slopes(self) -> np.ndarray:
        """Return the slopes at all variances, in increasing order, NaN if unknown."""
        return np.array([self.slopes.get(v, np.nan) for v in sorted(self.scores)])

    def choices(self) -> pd.DataFrame:
        """Return the table of the scores by which the variance is chosen."""
        if not self.other_scores:
            return self.table()
        table = self._table_of(self.other_scores).drop(columns="slope", errors="ignore")
        table.insert(3, "log_likelihood", self.table()["mean"])
        return table

    def table(self) -> pd.DataFrame:
        """Return one row for each variance, in increasing order."""
        return self._table_of(self.scores)

    def _table_of(self, scores: Mapping[float, np.ndarray]) -> pd.DataFrame:
        """Return the table of some scores of the folds, given for each variance."""
        rows = []
        for v in sorted(self.scores):
            s = scores[v]
            rows.append(
                {
                    "variance": v,
                    "mean": float(s.mean()),
                    "se": standard_error(s),
                    "nonzero": self.nonzero[v],
                    **({"slope": self.slopes.get(v, np.nan)} if self.slopes else {}),
                    **{f"fold{i}": float(x) for i, x in enumerate(s)},
                }
            )
        return pd.DataFrame(rows)
