"""The search for the variance with the best cross-validated score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..priors import Prior
from . import path_policy as policies
from .curve import near, next_step, passed, promise, toward
from .cyclops import CyclopsSearch, cyclops_variance
from .path_policy import PathPolicy
from .variance_prediction import Foreseen

__all__ = [
    "Progress",
    "Selection",
    "VariancePath",
    "best_of",
    "readable",
    "standard_error",
]

Progress = Callable[[str, float], None]  # told what is done now, and the share of it that is

TIE = 1e-6  # of a score: no difference, but what rounding and the folds' tolerance leave
SQUARES = 1e100  # a score whose square may be beyond all numbers


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
    score : float
        The best mean score, which priors on the same folds are compared by.
    batch : Batch or None
        The full data's batch, there: a fit to the end goes on with its Hessian.
    """

    variance: float
    prior: Prior
    results: pd.DataFrame
    beta: np.ndarray
    score: float
    batch: Any = None


class VariancePath(ABC):
    """Scores of variances, each solved from the nearest one done before.

    A family of models says in `evaluate` how it is fitted and scored, and in `first` where the
    path begins.

    Parameters
    ----------
    cv : CrossValidation
    prior : Prior or None
        Whose variance is chosen.
    progress : callable or None
        Called with what is done now and the share of it that is done.
    policy : PathPolicy, optional
        By default `steropes.select.path_policy.DEFAULT`.
    """

    def __init__(
        self, cv: Any, prior: Prior | None, progress: Progress | None,
        policy: PathPolicy | None = None,
    ) -> None:  # fmt: skip
        if prior is None:
            raise DataError("cv needs a prior whose variance it chooses, such as Laplace().")
        self.cv, self.prior, self.progress = cv, prior, progress
        self.policy = policies.DEFAULT if policy is None else policy
        self.solutions: dict[float, np.ndarray] = {}  # coefficients on the full data
        self.scores: dict[float, np.ndarray] = {}  # of the folds
        self.nonzero: dict[float, int] = {}
        self.slopes: dict[float, float] = {}  # of the mean score in log variance, where known
        self.matters_to = 0.0  # a variance below which flat scores are no end of the walk
        self.within = 0.0  # standard errors below the best within which the simplest is taken
        self.selects = True  # whether small variances make coefficients zero
        self.nothing = 0.0  # a fold's score so near to zero is rounding
        # Of the published search: whose density it begins with, the rows that count,
        self.design: Any = None
        self.counted: np.ndarray | None = None
        self.unpublished: Any = 0.0  # and what of each fold's score it does not have

    @abstractmethod
    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """Fit the full data and every fold, and score the held-out rows.

        Returns
        -------
        beta : (p,) array
            Of the full data.
        nonzero : int
            Penalised coefficients among them that are not zero.
        scores : (folds,) array
        """

    def slope(self, variance: float) -> float | None:
        """Slope of the mean score in log variance, at the one evaluated last; None if not known."""
        return None

    @abstractmethod
    def first(self) -> float:
        """Variance at which the path begins; see `steropes.select.first_variance`."""

    def foresee(self, first: float) -> Foreseen | None:
        """Where to go on after the first variance, with the bend of mean scores, if it is known."""
        return None

    def score(self, variance: float) -> None:
        """Evaluate a variance, if that was not done before."""
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
        """Find the best variance, by the walk, by Cyclops' search, or among those given."""
        plan, last = self.cv.search, None
        if isinstance(plan, CyclopsSearch):
            last = cyclops_variance(self, plan)
        elif isinstance(plan, str):
            self.walk()
            self.refine()
            self.narrow()
        else:
            for v in sorted({float(v) for v in plan}):
                self.score(v)
        table = self.table()
        mean = table["mean"].to_numpy()
        self._refuse_impossible(mean)
        variance = float(table["variance"].iloc[self._simplest(table)]) if last is None else last
        prior = self.prior.with_variance(variance)
        return Selection(variance, prior, table, self.solutions[variance], float(mean.max()))

    def _refuse_impossible(self, mean: np.ndarray) -> None:
        """Raise where no variance has a score to be chosen by."""
        if np.isfinite(mean).any():
            return
        folds = np.array([np.isfinite(s) for s in self.scores.values()]).any(axis=0)
        raise DataError(
            f"No variance can be chosen: at each of them rows that fold {int(folds.argmin())} "
            "holds out are impossible (a score of -inf) by what the others say. Look for columns "
            "or offsets of extreme size, or choose other folds."
        )

    def _simplest(self, table: pd.DataFrame) -> int:
        """Where the smallest variance is whose score is as good as the rule asks for."""
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
        """Evaluate more variances where the scores leave one standard error of the best."""
        for _ in range(self.policy.max_variances // 2 if self.within else 0):
            table = self.table()
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

    def _simplest_of_all(self, table: pd.DataFrame) -> bool:
        """Whether variances below the smallest give the same model, without any covariate."""
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
        """From the first nonzero coefficient to the best variance, or some steps beyond it.

        Where the full data alone tell where that is, the walk begins a step before it.
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
            mean = _comparable(table["mean"].to_numpy())
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
            alone = np.isnan(se)  # one fold has no standard error
            if (
                alone
                and beyond >= self.policy.falling_steps
                and (np.diff(mean[-self.policy.falling_steps - 1 :]) <= 0).all()
            ):
                break
            flat = len(mean) > 2 * self.policy.steps_past_best and v >= self.matters_to
            if flat and np.ptp(last) <= _small(table, -1, self.policy):
                break  # the prior no longer matters
            x, own = np.log(table["variance"].to_numpy()), readable(v)
            if passed(x, mean, self._slopes(), se, self.policy):
                break
            if not alone and (foreseen or near(x, mean, self.policy)):
                self._ask(own)
            on = next_step(x, mean, self._slopes(), se, self.policy)
            if on == 0:
                break
            # Not of its three digits, of which a path of whole steps would drift away.
            v *= float(np.exp(on))

    def _ask(self, variance: float) -> float | None:
        """The slope of the scores where the last evaluated is, if it costs less than another."""
        if self.nonzero[variance] <= self.policy.min_nonzero_for_slope:
            return None
        slope = self.slope(variance)
        if slope is None or not np.isfinite(slope):
            return None
        self.slopes[variance] = slope
        return slope

    def _go_to(self, ahead: float) -> bool:
        """Go to what is foreseen after the first; whether scores there say that it is right.

        Elsewhere the score is left, and the walk goes all of its way.
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
        """Go back to smaller variances, above ``first``, until scores rise with the variance."""
        v = ahead.variance
        while slope is not None and slope <= 0:
            v *= float(np.exp(toward(slope, ahead.bend, self.policy)))
            if not v > first:
                return
            self.score(readable(v))
            slope = self._ask(readable(v))

    def refine(self) -> None:
        """Go to the top of a curve through the best scores until it promises no more.

        The score is nearly parabolic in log variance there, so what such curves gain over the
        best bounds what a finer search could. With the best at the upper end, and no slope known
        there or next to it, the walk ended because the prior no longer mattered; at the lower end
        one more step makes a bracket.
        """
        for _ in range(self.policy.max_variances // 2):
            table = self.table()
            x = np.log(table["variance"].to_numpy())
            y = _comparable(table["mean"].to_numpy())
            best = best_of(y)
            slope = self._slopes()
            if best == len(x) - 1 and not np.isfinite(slope[best - 1 :]).any():
                return
            if best == 0:
                if len(x) > 1 and y[0] - y[1] <= _small(table, 0, self.policy):
                    return
                if self.nonzero[float(table["variance"].iloc[0])] == 0:
                    return  # smaller variances give the same model, without any covariate
                self.score(readable(float(np.exp(x[0])) / self.policy.step_ratio))
                continue
            gain, target = promise(x, y, slope, best, self.policy)
            if gain <= _small(table, best, self.policy) or target is None:
                return
            if np.min(np.abs(x - target)) < 0.02:  # next to one done: halve the wider side
                left = x[best] - x[best - 1]
                right = x[best + 1] - x[best] if best + 1 < len(x) else 0.0
                if max(left, right) < 0.05:
                    return
                target = x[best] - left / 2 if left > right else x[best] + right / 2
            self.score(readable(float(np.exp(target))))

    def _slopes(self) -> np.ndarray:
        """Of all variances, in increasing order, NaN where they are not known."""
        return np.array([self.slopes.get(v, np.nan) for v in sorted(self.scores)])

    def table(self) -> pd.DataFrame:
        """One row a variance, in increasing order."""
        rows = []
        for v in sorted(self.scores):
            s = self.scores[v]
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


def standard_error(s: np.ndarray) -> float:
    """Of a mean of folds' scores; missing for one, or where a held-out row is impossible (−∞)."""
    if len(s) < 2 or not np.isfinite(s).all():
        return float("nan")
    largest = float(np.abs(s).max())
    size = largest if largest > SQUARES else 1.0
    return size * float((s / size).std(ddof=1) / np.sqrt(len(s)))


def _small(table: pd.DataFrame, at: int, policy: PathPolicy) -> float:
    """Difference of scores with which a search is content, at a place of its table."""
    se, mean = float(table["se"].iloc[at]), table["mean"].to_numpy()
    return (
        policy.flat * se
        if np.isfinite(se)
        else policy.flat_share * float(np.ptp(mean[np.isfinite(mean)]))
    )


def _comparable(mean: np.ndarray) -> np.ndarray:
    """Scores with −∞ (a held-out row that is impossible) as one that is worse than all others."""
    known = np.isfinite(mean)
    if known.all() or not known.any():
        return mean if known.all() else np.zeros(len(mean))
    worst = float(mean[known].min()) - 10 * max(1.0, float(np.ptp(mean[known])))
    return np.where(known, mean, worst)


def best_of(mean: np.ndarray) -> int:
    """Where the best score is, variances ascending: of scores equal up to rounding the first.

    Among models that predict alike the one with the smallest variance is the simplest; and
    rounding, which differs between storages of X, decides nothing.
    """
    known = mean[np.isfinite(mean)]  # others are −∞, worse than all
    if len(known) == 0:
        return 0
    return int(np.argmax(mean >= known.max() - TIE * float(np.abs(known).max())))


def readable(variance: float) -> float:
    """Three digits: variances are for people, and rounding noise in scores must not move them."""
    return float(f"{variance:.3g}")
