"""Estimates of a sequence of trials: the outcome model, risks, their errors and diagnostics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.data import Surv
from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.interval_weights import IntervalWeights
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.target_trials.columns_on_demand import row_blocks
from steropes.designs.target_trials.m_estimation_errors import (
    WeightedIntervals,
    stacked_influences,
    weights_of_intervals,
)
from steropes.designs.target_trials.marginal_risks import (
    HazardModel,
)
from steropes.designs.target_trials.outcome_model_columns import OutcomeColumns
from steropes.designs.target_trials.person_time import PersonTime
from steropes.designs.target_trials.sequential_trial_rows import (
    TrialSequence,
    person_trial_rows,
)
from steropes.designs.target_trials.trial_description_text import (
    Analysis,
)
from steropes.designs.target_trials.weights_over_time import (
    FittedProbability,
    ProbabilityModel,
    ProbabilityPart,
    Ratio,
)
from steropes.errors import SeparationError
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression

__all__ = ["Estimates", "coefficients", "effect_table"]

NAMES = ("treatment", "no treatment")


class Settings(Analysis, Protocol):
    """The settings that estimates need; see `sequential_trials`."""

    @property
    def time_degree(self) -> int: ...
    @property
    def trial_degree(self) -> int: ...
    @property
    def effect_degree(self) -> int: ...
    @property
    def standardize_to(self) -> str: ...
    @property
    def level(self) -> float: ...
    @property
    def random_state(self) -> int: ...
    @property
    def errors(self) -> str: ...
    @property
    def weight_model(self) -> Any: ...
    def probabilities(
        self, rows: PersonTime, trials: TrialSequence
    ) -> Iterator[tuple[ProbabilityModel, Ratio]]: ...
    def interval_weights(
        self, ratio: NDArray, rows: PersonTime, trials: TrialSequence, drawn: NDArray | None = None
    ) -> IntervalWeights: ...


@dataclass(frozen=True, repr=False)
class Spells:
    """Rows of the outcome model: intervals of person-trials with one treatment each.

    Attributes
    ----------
    which : ndarray of int, shape (r,)
        Number of the person-trial.
    entry, stop : ndarray of int, shape (r,)
        Periods of follow-up from ``entry`` to ``stop`` − 1.
    event : ndarray of int8, shape (r,)
    treatment : ndarray of int8, shape (r,)
    """

    which: NDArray[np.int64]
    entry: NDArray[np.int64]
    stop: NDArray[np.int64]
    event: NDArray[np.int8]
    treatment: NDArray[np.int8]


def spells_of(trials: TrialSequence, as_treated: bool) -> Spells:
    """Return one row a person-trial, or as treated one for each spell of a treatment."""
    m = len(trials.start)
    if not as_treated:
        return Spells(
            np.arange(m), np.zeros(m, np.int64), trials.length, trials.event, trials.assigned
        )
    A = trials.rows.treatment
    change = np.flatnonzero(A[1:] != A[:-1]) + 1
    begin = np.searchsorted(change, trials.start, side="right")
    count = np.searchsorted(change, trials.end, side="left") - begin + 1
    which = np.repeat(np.arange(m), count)
    number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    padded = np.append(change, trials.rows.n)
    at = begin[which] + number
    first, last = number == 0, number == count[which] - 1
    entry = np.where(first, trials.start[which], padded[at - 1])
    stop = np.where(last, trials.end[which], padded[np.minimum(at, len(change))])
    start = trials.start[which]
    event = np.where(last, trials.event[which], 0).astype(np.int8)
    return Spells(which, entry - start, stop - start, event, A[entry])


@dataclass(frozen=True, repr=False)
class Estimates:
    """The outcome model of a sequence of trials.

    Attributes
    ----------
    settings : Settings
    trials : TrialSequence
    weights : IntervalWeights, or None
    parts : tuple
        The fitted models of the weights, for bootstrap draws.
    """

    settings: Settings
    trials: TrialSequence
    weights: IntervalWeights | None
    parts: tuple[tuple[ProbabilityModel, ProbabilityPart], ...] = ()

    @cached_property
    def columns(self) -> OutcomeColumns:
        """The columns of the outcome model."""
        return OutcomeColumns(self.trials, self.settings.covariates, self.settings.trial_degree)

    @property
    def hazard_model(self) -> HazardModel:
        """The columns of the pooled logistic model."""
        K = int(self.trials.length.max())
        degree = min(self.settings.time_degree, K - 1)
        changing = {"treatment": self.settings.effect_degree} if self.settings.effect_degree else {}
        return HazardModel(degree, changing, K)

    def fit(self, row_weights: NDArray | None = None, like: Any = None) -> Any:
        """Fit the outcome model.

        Parameters
        ----------
        row_weights : ndarray, shape (rows of the person-time,), optional
            How often the person of each row is in a bootstrap draw.
        like : fitted model, optional
            Where to start.
        """
        found = spells_of(self.trials, self.settings.effect == "as-treated")
        start = self.trials.start[found.which]
        w = None if row_weights is None else row_weights[start]
        if self.settings.model == "cox":
            return self._fit_cox(found, w)
        h = self.hazard_model
        model = PooledLogisticRegression(
            interval=1, baseline=h.baseline, time_varying=h.changing or None
        )
        own = None if self.weights is None else self.weights.rows(found.which)
        late = found.entry if found.entry.any() else None
        y = Surv(found.stop, found.event, late)
        X = self.columns.matrix(found.which, found.treatment.astype(np.int8))
        del found, start, late
        begin = None if like is None else like.coef_[: X.shape[1]]
        with _named("outcome"):
            return model.fit(X, y, sample_weight=w, interval_weights=own, start_at=begin)

    def _fit_cox(self, found: Spells, w: NDArray | None) -> CoxRegression:
        """Fit a Cox model, with a row for each interval if weights change."""
        if self.weights is None:
            y = Surv(found.stop, found.event, found.entry if found.entry.any() else None)
            which, treatment = found.which, found.treatment
        else:
            parts = list(person_trial_rows(self.trials))
            which, k = (np.concatenate(x) for x in zip(*parts, strict=True))
            own = self.weights
            share = np.clip(
                own.scale[which] * own.values[own.start[which] + k], own.lower, own.upper
            )
            row = self.trials.start[which] + k
            as_treated = self.settings.effect == "as-treated"
            treatment = self.trials.rows.treatment[row if as_treated else row - k]
            event = (k == self.trials.length[which] - 1) & (self.trials.event[which] == 1)
            y = Surv(k + 1, event, k)
            w = share if w is None else share * w[which]
        with _named("outcome"):
            return CoxRegression().fit(self.columns.table(which, treatment), y, sample_weight=w)

    @property
    def clusters(self) -> NDArray:
        """Person of each row of the outcome model."""
        if self.settings.model == "cox" and self.weights is not None:
            return np.repeat(self.trials.person, self.trials.length)
        return self.trials.person[self.which]

    @property
    def which(self) -> NDArray:
        """Number of the person-trial of each row of the outcome model."""
        return spells_of(self.trials, self.settings.effect == "as-treated").which

    @property
    def standardized(self) -> NDArray:
        """Numbers of the person-trials over which risks are averaged."""
        if self.settings.standardize_to == "first":
            return np.flatnonzero(self.trials.trial == self.trials.trial.min())
        return np.arange(len(self.trials.start))

    def influences(self, model: Any) -> pd.DataFrame:
        """Compute people's influence on the coefficients, with errors="stacked" also by weights.

        Returns
        -------
        DataFrame, shape (people, q)
        """
        trials, rows = self.trials, self.trials.rows
        found = spells_of(trials, self.settings.effect == "as-treated")

        def blocks() -> Iterator[WeightedIntervals]:
            for some in row_blocks(len(found.which)):
                which = found.which[some]
                start = trials.start[which]
                own = None if self.weights is None else self.weights.rows(which)
                yield WeightedIntervals(
                    self.columns.table(which, found.treatment[some]), found.entry[some],
                    found.stop[some], found.event[some], rows.person[start], start, start,
                    weights_of_intervals(own),
                )  # fmt: skip

        parts: Iterator[FittedProbability] = iter(())
        if self.settings.errors == "stacked":
            parts = (
                part
                for of, columns in self.settings.probabilities(rows, trials)
                for part in of.fitted(rows.data, columns)
            )
        bread = model.vcov("model")
        influences = stacked_influences(
            blocks, self.hazard_model, coefficients(model), bread.to_numpy(), parts, rows.person
        )
        return pd.DataFrame(influences, columns=bread.columns)

    def risks(self, coef: NDArray, slopes: bool = True) -> tuple[NDArray, NDArray]:
        """Compute risks of both strategies (2, K) and their derivatives (2, K, q)."""
        every = self.standardized
        h = self.hazard_model
        found = [
            h.risks(self.columns.table(every, np.full(len(every), a)), coef, slopes=slopes)
            for a in (1.0, 0.0)
        ]
        risk, slope = zip(*found, strict=True)
        return np.array(risk), np.array(slope)


class _named:
    """Name the model in errors of separation."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SeparationError):
            raise SeparationError(
                f"The model of the {self.what} has no finite maximum: {error} Follow people for "
                "longer, leave out covariates, or merge their levels.",
                error.columns,
            ) from None


def coefficients(model: Any) -> NDArray:
    """Return all coefficients of a pooled logistic model, those of the baseline first."""
    return np.concatenate([model.baseline_coef_.to_numpy(), model.coef_])


def effect_table(
    measure: str, coef: pd.Series, V: pd.DataFrame, drawn: pd.DataFrame | None, level: float,
    weighted: bool, stacked: bool = False,
) -> ResultTable:  # fmt: skip
    """Make the table of exponentiated coefficients."""
    known = ", with the models of the weights" if stacked else ", weights as known"
    q = float(norm.ppf(0.5 + level / 2))
    rows = []
    for name, value in coef.items():
        if drawn is None:
            se = float(np.sqrt(V.loc[name, name]))
            how = "clustered by person" + (known if weighted else "")
        else:
            se = float(drawn[name].std(ddof=1))
            how = f"bootstrap of people, {len(drawn)} draws"
        limits = np.exp([value, value - q * se, value + q * se])
        p = 2 * float(norm.sf(abs(value) / se)) if se > 0 else float("nan")
        rows.append((measure, name, *limits, se, p, how))
    names = ["measure", "term", "estimate", "lower", "upper", "se", "p", "errors"]
    table = pd.DataFrame(rows, columns=names)
    return present(
        table, "forest", intervals=(Interval("Effect", "estimate", "lower", "upper", level),),
        labels=("measure", "term"), hidden=("se",),
    )  # fmt: skip
