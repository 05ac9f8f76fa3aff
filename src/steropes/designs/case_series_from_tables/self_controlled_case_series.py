"""A self-controlled case series from any tables in one call."""

from __future__ import annotations

from typing import Any

from steropes.data.vector_checks import check_level
from steropes.designs.case_series_from_tables.case_series_columns_and_fit import (
    Dependence,
    TimeTerms,
    check_dependence,
    fit_series,
)
from steropes.designs.case_series_from_tables.case_series_result import CaseSeriesResult, result_of
from steropes.designs.case_series_from_tables.cases_from_tables import read_series
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
)
from steropes.designs.case_series_from_tables.risk_periods import risk_periods_of
from steropes.designs.settings.validated_types import Whole
from steropes.errors import DataError

__all__ = ["self_controlled_case_series"]


def self_controlled_case_series(
    events: Any,
    exposures: Any,
    observation: Any,
    *,
    risk_periods: Any = None,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
    exposure: str | None = None,
    dose: str | None = None,
    birth: str | None = None,
    ended_early: str | None = None,
    age: Any = None,
    season: Any = None,
    calendar: Any = None,
    first_event_only: bool = False,
    gap: int | None = 0,
    event_dependent: Dependence | None = None,
    end_of_observation_days: int = 0,
    level: float = 0.95,
) -> CaseSeriesResult:
    """Compare the rates of events in risk periods with those of the other days of each person.

    Only people with an event count, and each is compared with himself or herself, so that nothing
    that is constant in a person confounds the ratios.

    Parameters
    ----------
    events : data frame, relation or path
        One row per event, with the columns ``id`` and ``event_day``. Events of a person on one day
        count once, and those outside of observation do not count. Every table may be one of pandas,
        polars, pyarrow or anything that narwhals reads, such as a DuckDB relation, or the path of a
        Parquet or CSV file. Days are dates in all tables, or whole numbers on one scale, such as
        ages in days; of times the date counts.
    exposures : data frame, relation or path
        One row per exposure (dose, prescription, era) with ``id``, its first day ``start`` and, if
        risk periods depend on it, its last day ``end``. Rows without a first day are people
        without exposure.
    observation : data frame, relation or path
        One row per person (or separate period) with ``id`` and the first and last day observed,
        ``start`` and ``end``.
    risk_periods : pair, RiskPeriod, list or dict of them, optional
        Pairs such as (0, 42) are days after the start of an exposure, both inclusive;
        `RiskPeriod` also counts days from the end (washout), and has ratios by dose. A dict names
        the periods. Default: the days of exposure, from ``start`` to ``end``.
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".
    exposure : str, optional
        Column of ``exposures`` with the name of the exposure, each of which has ratios of its own.
    dose : str, optional
        Column of ``exposures`` with the number of the dose, from 1, for ratios by dose. Default:
        the order in time. Exposures are then not joined.
    birth : str, optional
        Column of ``observation`` with dates of birth: for ages if days are dates, for season and
        calendar time if days are ages.
    ended_early : str, optional
        Column of ``observation`` that is 1 if observation ended early, such as by death, and 0 if
        it ended with the study; for ``event_dependent="observation"``.
    age : list, int, Spline or "semiparametric", optional
        Effect of age: the first days of the second and later groups, as ages in days; a number of
        groups with equal numbers of first events; a `Spline`; or a free effect on each age at an
        event (Farrington and Whitaker 2006). If days are numbers without ``birth``, they are taken
        as ages, or as time on any other scale.
    season : list or Spline, optional
        The first days of groups of the season: months such as [1, 4, 7, 10], or "month-day" such
        as ["04-15", "10-15"]. Or a cyclic `Spline`.
    calendar : list or Spline, optional
        Dates on which the second and later groups of calendar time begin, or a `Spline`.
    first_event_only : bool, default False
        Only a person's first event counts, for events that are no independent repetitions. It
        should be rare.
    gap : int, optional
        Exposures of one kind with at most this many days between them are one. Default 0: if they
        overlap or touch. None: never, unless they start on the same day.
    event_dependent : {"exposure", "observation"}, optional
        "exposure": events may change later exposure, and only exposures up to the first event are
        used (Farrington, Whitaker and Hocine 2009). "observation": events may end observation, and
        time is weighted (Farrington and others 2011).
    end_of_observation_days : int, default 0
        Length of a period at the end of observation, whose ratio is a diagnostic.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CaseSeriesResult
        Rate ratios with their limits, diagnostics, plots, and the intervals and the model as in the
        case series of a database.

    Raises
    ------
    DataError
        A column is missing or has values that cannot be used, no one has an event while observed,
        or no exposure changes within a person; the message names the table, the column and the
        first such row.
    SeparationError
        With event-dependent exposure, a ratio has no finite estimate.

    See Also
    --------
    RiskPeriod : Risk periods with all settings.
    SelfControlledCaseSeries : The estimator, on intervals of your own.
    steropes.studies.case_series : The same on an OMOP database.

    Notes
    -----
    A risk period ends before the next exposure of the same kind starts. Where periods of one
    exposure overlap, a day belongs to that of the later exposure, and of one exposure to the period
    listed last; periods of different exposures may overlap. Ratios of groups of time are relative
    to the first group with an event. Limits are those of the profile likelihood; with
    event-dependent exposure they are Wald limits from the sandwich.

    References
    ----------
    Farrington (1995), Biometrics 51:228–235. Whitaker, Farrington, Spiessens and Musonda (2006),
    Statistics in Medicine 25:1768–1797. Farrington and Whitaker (2006), Applied Statistics
    55:553–594. Farrington, Whitaker and Hocine (2009), Biostatistics 10:3–16. Farrington,
    Anaya-Izquierdo, Whitaker, Hocine, Douglas and Smeeth (2011), JASA 106:417–426.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"id": range(200), "start": 1, "end": 365})
    >>> doses = pd.DataFrame({"id": range(200), "start": rng.integers(50, 300, 200)})
    >>> day = np.where(rng.random(200) < 0.3, doses["start"] + 10, rng.integers(1, 366, 200))
    >>> events = pd.DataFrame({"id": range(200), "day": day})
    >>> series = steropes.self_controlled_case_series(
    ...     events, doses, people, risk_periods={"two weeks": (0, 13), "to week 6": (14, 41)},
    ...     age=[183],
    ... )
    >>> series.summary()[["rr", "lower", "upper"]].round(2)
                 rr  lower  upper
    two weeks  8.81   6.36  12.01
    to week 6  0.74   0.35   1.37
    """
    check_level(level)
    probe = Whole(0).require("end_of_observation_days", end_of_observation_days)
    if gap is not None:
        Whole(0).require("gap", gap)
    if not isinstance(first_event_only, bool):
        raise DataError(f"first_event_only must be True or False, not {first_event_only!r}.")
    check_dependence(event_dependent, ended_early)
    periods = risk_periods_of(risk_periods)
    names = ColumnNames(id, event_day, exposure, dose, start, end, birth, ended_early)
    call = {
        "risk_periods": risk_periods, "id": id, "event_day": event_day, "start": start,
        "end": end, "exposure": exposure, "dose": dose, "birth": birth, "ended_early": ended_early,
        "age": age, "season": season, "calendar": calendar, "first_event_only": first_event_only,
        "gap": gap, "event_dependent": event_dependent,
        "end_of_observation_days": end_of_observation_days, "level": level,
    }  # fmt: skip
    defaults = self_controlled_case_series.__kwdefaults__ or {}
    call = {name: value for name, value in call.items() if value is not defaults.get(name, call)}
    data = read_series(events, exposures, observation, names, first_event_only)
    fitted = fit_series(data, periods, TimeTerms(age, season, calendar), gap, event_dependent,
                        probe, level)  # fmt: skip
    return result_of(data, fitted, level, call)
