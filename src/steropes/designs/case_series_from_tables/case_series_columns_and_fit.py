"""The model of a case series from tables: covariates of exposure and of time, and the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from steropes.backends.blas_threads import single_threaded_blas
from steropes.designs.case_series.calendar_time_splines import TimeEffects, time_effects
from steropes.designs.case_series.covariate_days import Spans
from steropes.designs.case_series.event_dependent_exposure import (
    EventDependentExposure,
    ExposureHistory,
    fit_event_dependent_exposure,
)
from steropes.designs.case_series.event_dependent_observation import CensorModel, fit_censoring
from steropes.designs.case_series.interval_rows import Intervals, make_intervals
from steropes.designs.case_series.model_settings import Prior, Spline
from steropes.designs.case_series.risk_window_days import join_eras
from steropes.designs.case_series.sccs_model import CaseSeriesModel, fit_model
from steropes.designs.case_series.semiparametric_age import on_event_ages
from steropes.designs.case_series.series_column_descriptions import (
    CONTROL,
    Column,
    distinct_names,
    require_windows,
)
from steropes.designs.case_series_from_tables.age_and_calendar_groups import (
    TimeGroups,
    age_groups,
    calendar_groups,
    season_groups,
)
from steropes.designs.case_series_from_tables.cases_from_tables import SeriesData
from steropes.designs.case_series_from_tables.risk_period_days import PeriodSpans, period_spans
from steropes.designs.case_series_from_tables.risk_periods import RiskPeriod
from steropes.errors import DataError

__all__ = [
    "Dependence", "FittedSeries", "SeriesRules", "TimeTerms", "check_dependence", "fit_series",
]  # fmt: skip

Dependence = Literal["observation", "exposure"]
SEMIPARAMETRIC = "semiparametric"


@dataclass(frozen=True)
class SeriesRules:
    """Settings of the model, without a prior; see `SeriesModelSettings`."""

    age: Spline | None
    season: Spline | None
    calendar: Spline | None
    spline_cases: int
    end_of_observation_days: int
    level: float
    prior: Prior = "none"
    variance: float | None = None
    group_variance: float = 1.0
    folds: int = 10
    seed: int = 0
    bootstrap: int = 0


@dataclass(frozen=True)
class TimeTerms:
    """Effects of age, season and calendar time, as in `self_controlled_case_series`."""

    age: Any
    season: Any
    calendar: Any

    def check(self, data: SeriesData) -> None:
        """Refuse effects of dates or ages that the tables do not have."""
        if self.age is not None and np.isnan(data.cases.age).any():
            raise DataError(
                "age needs dates of birth; name their column of observation by birth=, or give all "
                "days as ages in days."
            )
        for name in ("season", "calendar"):
            if getattr(self, name) is not None and not data.dated:
                raise DataError(
                    f"{name} needs dates, but days are numbers; give dates, or name the column of "
                    "dates of birth by birth= if the numbers are ages in days."
                )
        if isinstance(self.age, str) and self.age != SEMIPARAMETRIC:
            raise DataError(
                "age must be a list of ages in days, a number of groups, a Spline or "
                f"'semiparametric', not {self.age!r}."
            )

    @property
    def semiparametric(self) -> bool:
        """Whether age is free on each age at an event."""
        return isinstance(self.age, str)

    def spline(self, name: str) -> Spline | None:
        """Return an effect that is a spline."""
        value = getattr(self, name)
        return value if isinstance(value, Spline) else None

    @property
    def splines(self) -> bool:
        """Whether any effect is a spline."""
        return any(self.spline(name) is not None for name in ("age", "season", "calendar"))

    def groups(self, data: SeriesData) -> list[TimeGroups]:
        """Return the effects that are groups."""
        found = []
        makers = {"age": age_groups, "season": season_groups, "calendar": calendar_groups}
        for name, make in makers.items():
            value = getattr(self, name)
            if value is not None and self.spline(name) is None and not isinstance(value, str):
                found.append(make(value, data.cases))
        return found


@dataclass(frozen=True, repr=False)
class FittedSeries:
    """A fitted case series.

    Attributes
    ----------
    intervals : Intervals
    model : CaseSeriesModel or None
        None with event-dependent exposure.
    exposure : EventDependentExposure or None
    censoring : CensorModel or None
    effects : TimeEffects or None
        The splines.
    spans : PeriodSpans
    groups : list of TimeGroups
    """

    intervals: Intervals
    model: CaseSeriesModel | None
    exposure: EventDependentExposure | None
    censoring: CensorModel | None
    effects: TimeEffects | None
    spans: PeriodSpans
    groups: list[TimeGroups]


@single_threaded_blas()
def fit_series(
    data: SeriesData,
    periods: list[RiskPeriod],
    terms: TimeTerms,
    gap: int | None,
    dependence: Dependence | None,
    probe: int,
    level: float,
    controls: Sequence[RiskPeriod] = (),
) -> FittedSeries:
    """Make the intervals and fit the model.

    Parameters
    ----------
    controls : sequence of RiskPeriod
        Control periods. If there are any, only days in them and in risk periods count.
    """
    terms.check(data)
    _check_dependence(data, periods, terms, dependence, probe)
    if dependence == "exposure":
        data = _before_events(data)
    cases = data.cases
    rules = SeriesRules(
        terms.spline("age"), terms.spline("season"), terms.spline("calendar"),
        max(len(cases), 1), probe, level,
    )  # fmt: skip
    # Where both contain a day, it belongs to the period that is listed later.
    risk = period_spans(data, [*controls, *periods], gap)
    require_windows(risk.case + 1, risk.columns)
    groups = terms.groups(data)
    spans, columns = _all_spans(data, risk, groups)
    if controls:
        spans, columns = _controls_last(spans, columns, len(controls))
    effects = time_effects(rules, cases)
    censoring = fit_censoring(cases) if dependence == "observation" else None
    intervals = make_intervals([spans], cases, rules, columns, effects, censoring)
    if dependence == "exposure":
        solved = fit_event_dependent_exposure(_history(data, risk, spans, columns))
        return FittedSeries(intervals, None, solved, None, None, risk, groups)
    if terms.semiparametric:
        made, own, columns = on_event_ages(cases, spans, columns)
        fitted = make_intervals([own], made, rules, columns)
        days = intervals.statistics  # In days, and not in ages at events.
        statistics = pd.concat([days, fitted.statistics.drop(index=days.index)])
        intervals = replace(fitted, statistics=statistics, attrition=intervals.attrition)
    model = fit_model(intervals, rules)
    return FittedSeries(intervals, model, None, censoring, effects, risk, groups)


def check_dependence(dependence: Dependence | None, ended_early: str | None) -> None:
    """Refuse an unknown dependence, and a column that it does not use."""
    if dependence not in (None, "observation", "exposure"):
        raise DataError(
            f"event_dependent must be 'exposure', 'observation' or None, not {dependence!r}."
        )
    if ended_early is not None and dependence != "observation":
        raise DataError("ended_early is for event_dependent='observation'; leave it out.")


def _check_dependence(
    data: SeriesData,
    periods: list[RiskPeriod],
    terms: TimeTerms,
    dependence: Dependence | None,
    probe: int,
) -> None:
    """Refuse settings that cannot be combined."""
    if terms.semiparametric and (dependence is not None or terms.splines or probe):
        raise DataError(
            "age='semiparametric' goes with groups of season and calendar time only; leave out "
            "event_dependent, splines and end_of_observation_days, or use groups of age."
        )
    if dependence == "observation" and data.cases.end_known.all():
        raise DataError(
            "event_dependent='observation' needs ended_early=, a column of observation that is 1 "
            "for people whose observation ended early, such as by death, and 1 for somebody."
        )
    if dependence == "observation" and np.isnan(data.cases.age).any():
        raise DataError("event_dependent='observation' needs dates of birth; see birth=.")
    if dependence != "exposure":
        return
    if len(data.cases.outcome_case) > len(data.cases):
        raise DataError(
            "event_dependent='exposure' is for one event of each person; set "
            "first_event_only=True to use the first."
        )
    if len(data.exposures) > 1:
        raise DataError(
            "event_dependent='exposure' is for one exposure; select the rows of one in exposures."
        )
    if terms.splines or probe:
        raise DataError(
            "event_dependent='exposure' goes with groups of age, season and calendar time; leave "
            "out splines and end_of_observation_days."
        )
    early = [p.text for p in periods if p.start_at == "start" and p.start < 0]
    if early:
        raise DataError(
            f"The risk period {early[0]!r} begins before exposure, which event_dependent="
            "'exposure' does not know after an event; leave it out."
        )


def _before_events(data: SeriesData) -> SeriesData:
    """Keep the exposures that start on the day of the event or before."""
    kept = data.era_first <= data.cases.outcome_day[data.era_case]  # A case has one event.
    return replace(
        data,
        era_case=data.era_case[kept],
        era_exposure=data.era_exposure[kept],
        era_first=data.era_first[kept],
        era_last=data.era_last[kept],
        era_dose=None if data.era_dose is None else data.era_dose[kept],
    )


def _controls_last(
    spans: Spans, columns: list[Column], controls: int
) -> tuple[Spans, list[Column]]:
    """Make the days of the first periods those of one column at the end, the reference."""
    is_control = np.array([0 <= c.window < controls for c in columns])
    place = np.cumsum(~is_control) - 1
    last = int((~is_control).sum())
    place[is_control] = last
    kept = [
        replace(c, window=c.window - controls) if c.window >= 0 else c
        for c, control in zip(columns, is_control, strict=True)
        if not control
    ]
    # The control days of several exposures may overlap each other.
    joined = join_eras(spans.case * (last + 1) + place[spans.column], spans.first, spans.last)
    case, column = joined.group // (last + 1), joined.group % (last + 1)
    return (
        Spans(spans.a, spans.b, case, column, joined.first, joined.last),
        [*kept, Column("control", CONTROL)],
    )


def _all_spans(
    data: SeriesData, risk: PeriodSpans, groups: list[TimeGroups]
) -> tuple[Spans, list[Column]]:
    """Join the days of risk periods and of groups of time."""
    columns = list(risk.columns)
    key = risk.case * max(len(columns), 1) + risk.column
    order = np.lexsort((risk.first, key))
    parts = [tuple(x[order] for x in (risk.case, risk.column, risk.first, risk.last))]
    for group in groups:
        case, column, first, last = group.spans(data.cases)
        parts.append((case, column + len(columns), first, last))
        columns += group.columns(data.cases)
    case, column, first, last = (np.concatenate(x) for x in zip(*parts, strict=True))
    order = np.lexsort((first, column, case))
    spans = Spans(0, len(data.cases), *(x[order] for x in (case, column, first, last)))
    return spans, columns


def _history(
    data: SeriesData, risk: PeriodSpans, spans: Spans, columns: list[Column]
) -> ExposureHistory:
    """Return the exposures before events; the data have one kind of exposure."""
    cases, eras = data.cases, risk.eras
    event = np.empty(len(cases), np.int64)
    event[cases.outcome_case] = cases.outcome_day
    head = np.searchsorted(eras.group, risk.case)  # Groups of eras are cases.
    of_time = np.flatnonzero(spans.column >= len(risk.columns))
    parts = (x[of_time] for x in (spans.case, spans.column, spans.first, spans.last))
    return ExposureHistory(
        cases.end, event, eras.group, eras.first, head + risk.era, risk.column, risk.first,
        risk.last, Spans(spans.a, spans.b, *parts), distinct_names(columns),
    )  # fmt: skip
