"""Estimates of a sequence of trials: the outcome model, risks, their errors and diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.data import Surv
from steropes.data.interval_weights import IntervalWeights
from steropes.data.paper_tables import Interval
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.target_trials.emulation_diagnostics import (
    Row,
    censoring_table,
    diagnostics_table,
    of_draws,
    of_optimum,
    of_positivity,
    of_weights,
    positivity_table,
)
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.marginal_risks import (
    HazardModel,
    StrategyRisks,
    contrast_table,
    risk_table,
)
from steropes.designs.target_trials.person_time import PersonTime
from steropes.designs.target_trials.sequential_trial_rows import (
    TrialSequence,
    person_trial_rows,
    weights_by_interval,
)
from steropes.designs.target_trials.stacked_errors import (
    WeightedIntervals,
    stacked_influences,
    weights_of_intervals,
)
from steropes.designs.target_trials.trial_description_text import (
    Analysis,
    emulated_protocol,
    estimand_words,
)
from steropes.designs.target_trials.trial_protocol import TargetTrial, protocol_table
from steropes.designs.target_trials.weights_over_time import ProbabilityModel, Ratio
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression

__all__ = ["Estimates", "effect_table", "result_of"]

NAMES = ("treatment", "no treatment")
Refit = Callable[..., IntervalWeights | None]


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
    def probabilities(
        self, rows: PersonTime, trials: TrialSequence
    ) -> Iterator[tuple[ProbabilityModel, Ratio]]: ...


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
    """

    settings: Settings
    trials: TrialSequence
    weights: IntervalWeights | None

    def columns(self, which: NDArray, treatment: NDArray) -> pd.DataFrame:
        """Return the columns of the outcome model for some person-trials."""
        trials, rows = self.trials, self.trials.rows
        distinct = len(np.unique(trials.trial))
        own: dict[str, NDArray] = {"treatment": treatment.astype(np.int8)}
        when = trials.trial[which] - float(trials.trial.min())
        for d in range(1, min(self.settings.trial_degree, distinct - 1) + 1):
            own["trial" if d == 1 else f"trial^{d}"] = when**d
        at = trials.start[which]
        every = len(at) == rows.n and bool((at == np.arange(rows.n)).all())
        for name in rows.coded(self.settings.covariates):
            if name in own:
                raise DataError(f"Rename the covariate {name!r}, a name of the outcome model.")
            values = rows.data[name].to_numpy()
            own[name] = values if every else values[at]
        return pd.DataFrame(own, copy=False)

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
        X = self.columns(found.which, found.treatment)
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
            return CoxRegression().fit(self.columns(which, treatment), y, sample_weight=w)

    @property
    def clusters(self) -> NDArray:
        """Person of each row of the outcome model."""
        if self.settings.model == "cox" and self.weights is not None:
            return np.repeat(self.trials.person, self.trials.length)
        which = spells_of(self.trials, self.settings.effect == "as-treated").which
        return self.trials.person[which]

    def influences(self, model: Any) -> pd.DataFrame:
        """Compute people's influence on the coefficients, also through weights, (people, q)."""
        trials, rows = self.trials, self.trials.rows
        found = spells_of(trials, self.settings.effect == "as-treated")
        start = trials.start[found.which]
        assert self.weights is not None  # as checked with the settings
        intervals = WeightedIntervals(
            self.columns(found.which, found.treatment), found.entry, found.stop, found.event,
            rows.person[start], start, start, weights_of_intervals(self.weights.rows(found.which)),
        )  # fmt: skip
        parts = (
            part
            for of, columns in self.settings.probabilities(rows, trials)
            for part in of.fitted(rows.data, columns)
        )
        bread = model.vcov("model")
        influences = stacked_influences(
            intervals, self.hazard_model, coefficients(model), bread.to_numpy(), parts, rows.person
        )
        return pd.DataFrame(influences, columns=bread.columns)

    def risks(self, coef: NDArray, slopes: bool = True) -> tuple[NDArray, NDArray]:
        """Compute risks of both strategies (2, K) and their derivatives (2, K, q)."""
        every = np.arange(len(self.trials.start))
        if self.settings.standardize_to == "first":
            every = np.flatnonzero(self.trials.trial == self.trials.trial.min())
        h = self.hazard_model
        found = [
            h.risks(self.columns(every, np.full(len(every), a)), coef, slopes=slopes)
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


def result_of(estimates: Estimates, refit: Refit, trial: TargetTrial | None) -> EmulatedTrial:
    """Fit the outcome model, and put the parts of the result together.

    Parameters
    ----------
    refit : callable
        Computes weights of rows, trials and numbers of draws; see `SequenceSettings.weights`.
    """
    settings, trials = estimates.settings, estimates.trials
    model = estimates.fit()
    pooled = settings.model == "logistic"
    stacked = settings.errors == "stacked"
    if stacked:
        influences = estimates.influences(model)
        V = influences.T @ influences
    else:
        V = model.vcov("robust", estimates.clusters)
    draws, failed = _draws(estimates, model, refit)
    weights = weights_by_interval(trials, estimates.weights)
    risks = contrasts = pd.DataFrame()
    if pooled:
        found = _strategy_risks(estimates, coefficients(model), V.to_numpy(), draws)
        risks, contrasts = risk_table(found, settings.level), contrast_table(found, settings.level)
    names = list(V.index)
    chosen = [name for name in names if name == "treatment" or name.startswith("treatment:")]
    values = pd.Series(coefficients(model) if pooled else model.coef_, names)
    drawn = None if draws is None else pd.DataFrame(draws, columns=names)[chosen]
    measure = "odds ratio" if pooled else "hazard ratio"
    checks: list[Row] = [*of_positivity(trials), *of_weights(weights, settings.stabilized)]
    checks += [*_of_numerators(estimates), *of_draws(failed, settings.bootstrap)]
    return EmulatedTrial(
        effects=effect_table(
            measure, values[chosen], V, drawn, settings.level, bool(settings.pairs), stacked
        ),
        risks=risks, contrasts=contrasts, weights=weights,
        censoring=_censoring(trials), diagnostics=diagnostics_table([*checks, *of_optimum(model)]),
        protocol=protocol_table(trial, emulated_protocol(settings, trials)),
        estimand=estimand_words(settings.effect, settings.standardize_to),
        models={"outcome": model}, positivity=positivity_table(trials),
    )  # fmt: skip


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


def _strategy_risks(
    estimates: Estimates, coef: NDArray, V: NDArray, draws: NDArray | None
) -> StrategyRisks:
    """Compute risks by time, with their covariance or draws."""
    risk, slope = estimates.risks(coef)
    times = np.arange(1, risk.shape[1] + 1)
    if draws is not None:
        drawn = np.array([estimates.risks(row, slopes=False)[0] for row in draws])
        return StrategyRisks(NAMES, times, risk, None, drawn)
    covariance = np.einsum("stq,qr,utr->tsu", slope, V, slope)
    return StrategyRisks(NAMES, times, risk, covariance)


def _draws(estimates: Estimates, model: Any, refit: Refit) -> tuple[NDArray | None, int]:
    """Fit everything to draws of people: coefficients (B, q), and how many have none."""
    settings, rows = estimates.settings, estimates.trials.rows
    if not settings.bootstrap:
        return None, 0
    pooled = settings.model == "logistic"
    if not settings.pairs:
        found = model.inference.bootstrap(
            settings.bootstrap, cluster=estimates.clusters, random_state=settings.random_state
        )
        coef = np.asarray(found.coef)[np.isfinite(found.coef).all(axis=1)]
        return coef, settings.bootstrap - len(coef)
    out = []
    for stream in np.random.SeedSequence(settings.random_state).spawn(settings.bootstrap):
        drawn = np.random.default_rng(stream).integers(0, rows.people, rows.people)
        times = np.bincount(drawn, minlength=rows.people)[rows.person].astype(np.float64)
        try:
            own = Estimates(settings, estimates.trials, refit(rows, estimates.trials, times))
            fit = own.fit(times, model if pooled else None)
        except (DataError, SeparationError):
            continue
        out.append(coefficients(fit) if pooled else fit.coef_)
    if len(out) < 2:
        raise DataError(
            f"{settings.bootstrap - len(out)} of {settings.bootstrap} bootstrap draws have no "
            "estimate, because too few people deviate or have the outcome; leave bootstrap out."
        )
    return np.array(out), settings.bootstrap - len(out)


def _of_numerators(estimates: Estimates) -> Iterator[Row]:
    """Yield how many columns of numerators change with time."""
    names = [name for numerator, _ in estimates.settings.pairs for name in numerator or ()]
    changing = estimates.trials.rows.changing(list(dict.fromkeys(names)))
    if names:
        note = (
            f"{changing[0]!r} changes with time, but the outcome model conditions on its value at "
            "the start of the trial alone: take baseline columns in numerators."
            if changing
            else ""
        )
        yield "numerators that change with time", float(len(changing)), 0.0, not changing, note


def _censoring(trials: TrialSequence) -> pd.DataFrame:
    """Count how person-trials end."""
    lost = trials.rows.censored[trials.end - 1] == 1
    event = trials.event == 1
    reasons = {
        "outcome": event,
        "change of treatment": trials.deviated & ~event,
        "lost": lost & ~event & ~trials.deviated,
        "end of follow-up": ~event & ~trials.deviated & ~lost,
    }
    return censoring_table(NAMES, 1 - trials.assigned, trials.length, reasons)
