"""Reproduce documented differences of case series on people made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from steropes.designs.case_series.detectable_ratio import minimal_detectable_ratio
from steropes.designs.case_series.event_timing import monthly_rates
from steropes.designs.case_series.model_settings import Spline
from steropes.designs.case_series.sccs_model import CaseSeriesModel, fit_model
from steropes.errors import DataError
from steropes.studies import CaseSeriesSettings, OmopDatabase
from steropes.studies.cohorts import CohortTable, circe_cohorts
from steropes.studies.sccs import CaseRules, ExposureWindow, control_window
from steropes.studies.sccs.cases.series_preparation import PreparedSeries, prepare_series

from .drawn_study import OUTCOMES, cohort_definitions

__all__ = ["numbers_of_series", "rows_of_series"]

# Everybody is observed from 2010 to 2018, but the person of two observation periods.
TWO_PERIODS, OLDER, RESTRICTED, LATER, OUTSIDE = 23, 24, 25, 26, 27
MANY = range(11, 23)  # twelve people for the models


def rows_of_series() -> Iterator[tuple[str, int, int, str, str]]:
    """Yield kind ("drug" or "condition"), person, concept, first and last day."""
    for k, person in enumerate(MANY):
        start = _day("2012-01-01", 40 * k)
        yield "drug", person, 103, start, _day(start, 60 + 10 * k)
        yield "drug", person, 104, "2016-06-01", "2016-07-01"
        first = _day(start, 20) if k % 3 == 0 else _day("2014-06-01", 30 * k)
        yield "condition", person, 211, first, first
        if k % 4 == 1:
            yield "condition", person, 211, _day(start, 5), _day(start, 5)
        if k < 4:
            yield "condition", person, 212, _day(start, 10), _day(start, 10)
    yield "condition", 11, 217, "2014-01-01", "2014-01-01"
    for day in ("2010-06-01", "2016-06-01"):
        yield "condition", TWO_PERIODS, 213, day, day
    for person, day in ((TWO_PERIODS, "2011-01-01"), (TWO_PERIODS, "2017-01-01"),
                        (OLDER, "2016-01-01")):  # fmt: skip
        yield "drug", person, 103, day, _day(day, 30)
    for day in ("2012-02-29", "2015-05-05"):
        yield "condition", OLDER, 214, day, day
    for first, last in (("2012-06-01", "2012-06-30"), ("2014-01-10", "2014-02-10")):
        yield "drug", LATER, 105, first, last
    for day in ("2010-03-01", "2012-09-27"):
        yield "condition", LATER, 215, day, day
    for first, last in (("2012-01-01", "2012-03-31"), ("2013-10-01", "2013-12-31")):
        yield "drug", RESTRICTED, 106, first, last
    yield "condition", RESTRICTED, 216, "2012-06-01", "2012-06-01"
    yield "condition", OUTSIDE, 218, "2012-06-01", "2012-06-01"


def _day(first: str, days: int) -> str:
    """Add days to a date."""
    return str(np.datetime64(first) + days)


def numbers_of_series(folder: Path) -> dict[str, str]:
    """Return our numbers by the statements of R's script."""
    with OmopDatabase(folder / "omop.duckdb") as db:
        cohorts = circe_cohorts(db, cohort_definitions())
        found = {**_cases(db, cohorts), **_windows(db, cohorts), **_models(db), **_power(db)}
    return {what: " ".join(map(_text, values)) for what, values in found.items()}


def _text(value: Any) -> str:
    """Write a number as R's script does."""
    if isinstance(value, bool | np.bool_):
        return str(value).upper()
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if np.isinf(value) or value == round(value) else f"{value:.4f}"


def _prepared(
    db: OmopDatabase, outcome: int, windows: tuple[ExposureWindow, ...],
    cohorts: CohortTable | None = None, rules: dict[str, Any] | None = None, **settings: Any,
) -> PreparedSeries:  # fmt: skip
    """Prepare a series without a probe at the end of observation."""
    settings = {"end_of_observation_days": 0, "prior": "none", **settings}
    given = CaseSeriesSettings(CaseRules(outcome, **(rules or {})), windows, **settings)
    return prepare_series(db, given, cohorts)


def _window(
    eras: int, start: int = 0, end: int = 0, end_at: Literal["start", "end"] = "end", **more: Any
) -> ExposureWindow:
    """Define a window of interest."""
    more = {"of_interest": True, "pre_exposure": False, **more}
    return ExposureWindow(
        f"{eras} from {start}", (eras,), start=start, end=end, end_at=end_at, **more
    )


def _cases(db: OmopDatabase, cohorts: CohortTable) -> dict[str, tuple[Any, ...]]:
    """Find cases by rules of first outcomes, age and time."""
    everything = (_window(103),)

    def outcomes(outcome: int, **rules: Any) -> int:
        return len(_prepared(db, outcome, everything, rules=rules).population.outcome_case)

    limited = _prepared(db, 216, (_window(106),), rules={"restrict_to_exposure": 106}).population
    ancestor = _prepared(db, 211, (_window(600000),)).intervals.statistics["subjects"].iloc[0]
    every = ExposureWindow("all", None, of_interest=True)
    series = _prepared(
        db, OUTCOMES[0], (every,), cohorts,
        {"outcomes_from": "cohort", "exposures_from": "cohort"},
    )  # fmt: skip
    return {
        "first outcome only: outcomes in two observation periods": (
            outcomes(213, first_outcome_only=True),
        ),
        "min_age 41: outcomes on the 41st birthday less a day and later": (
            outcomes(214, min_age=41),
        ),
        "restricted to an exposure: days, and whether the end is independent": (
            limited.end[0] - limited.start[0] + 1, int(limited.end_known[0]),
        ),
        "eras of an ancestor: exposed cases": (ancestor,),
        "all eras of a cohort table: exposed days": (
            series.intervals.statistics["days"].iloc[0],
        ),
    }  # fmt: skip


def _windows(db: OmopDatabase, cohorts: CohortTable) -> dict[str, tuple[Any, ...]]:
    """Count days of windows and times of risk interval designs."""
    before = (_window(105, -30, -1, "start"),)
    period = {"study_periods": (("2012-01-01", "2013-12-31"),)}
    series = _prepared(db, 215, before, rules=period)
    older = _prepared(db, 215, before, rules={"max_age": 41})
    control = control_window(eras=(103,), start=-90, end=-31)
    near = _prepared(db, 211, (_window(103, 0, 30, "start"),), control=control)
    of = near.intervals.statistics.iloc[0]
    naive = _prepared(db, 211, (_window(103),), rules={"naive_days": 365}).intervals.statistics
    try:
        _prepared(db, 218, (_window(103),))
        said = "series"
    except DataError as error:
        said = str(error).split(" (")[0]
    return {
        "exposure after the study period: days of the window before exposure": (
            series.intervals.statistics["days"].iloc[0],
        ),
        "exposure after max_age: days of the window before exposure": (
            older.intervals.statistics["days"].iloc[0],
        ),
        "detectable ratio with a naive period: days": (naive["observed_days"].iloc[0],),
        "detectable ratio of a risk interval design: days and events": (
            of["compared_total"], of["compared_events"],
        ),
        "a case whose exposure is outside: status": (said,),
    }  # fmt: skip


def _models(db: OmopDatabase) -> dict[str, tuple[Any, ...]]:
    """Fit the models of twelve people."""

    def fitted(outcome: int, *windows: ExposureWindow, **settings: Any) -> CaseSeriesModel:
        series = _prepared(db, outcome, windows, **settings)
        return fit_model(series.intervals, series.settings)

    model = fitted(211, _window(103, profile=True))
    found = model.estimates.iloc[0]
    profile = next(iter(model.profiles.values()))
    points, values = profile["log_rr"].to_numpy(), profile["log_likelihood"].to_numpy()
    grid = np.linspace(np.log(0.1), np.log(10), 10)
    at = [values[np.abs(points - x).argmin()] for x in grid]
    without = fitted(211, _window(103), _window(104)).estimates.iloc[1]
    ends = fitted(212, _window(103)).estimates.iloc[0]
    penalized = _window(104, penalized=True, of_interest=False)
    shrunk = fitted(211, _window(103), penalized, prior="normal", variance=0.5).estimates.iloc[0]
    spline = CaseSeriesSettings(CaseRules(211), (_window(103),), season=Spline(5), prior="none")
    season = prepare_series(db, spline, None).intervals
    rates = monthly_rates(_prepared(db, 211, (_window(103),)).population)
    weighted: dict[str, Any] = {"event_dependent_observation": True, "age": Spline(5)}
    dependent = _prepared(db, 211, (_window(103),), **weighted).intervals.names
    return {
        "rate ratio": (found["log_rr"],),
        "standard error from the width of the interval": (found["se"],),
        "p-value": (f"{found['p']:.2e}",),
        "profile: the ten points": (all(np.abs(points - x).min() < 1e-6 for x in grid),),
        "profile: the value at a ratio of 0.1": (at[0],),
        "profile: fall from a ratio of 10 to 0.1": (at[-1] - at[0],),
        "no events in a window: below 0.001, lower limit, upper limit": (
            without["rr"] < 0.001, without["lower"], without["upper"],
        ),
        "all events in a window: log rate ratio and limits": (
            ends["log_rr"], np.log(ends["lower"]), np.log(ends["upper"]),
        ),
        "a prior on another window: log rate ratio": (shrunk["log_rr"],),
        "a prior on another window: likelihood ratio": (shrunk["llr"],),
        "columns of the season: their sum, and their number": ("not 1", season.time.shape[1]),
        "age with event-dependent observation": (
            f"{sum(name.startswith('age') for name in dependent)} columns of age stay",
        ),
        "monthly rates: outcomes, and those expected": (
            rates["observed"].sum(), rates["expected"].sum(),
        ),
    }  # fmt: skip


def _power(db: OmopDatabase) -> dict[str, tuple[Any, ...]]:
    """Compute detectable ratios."""

    def ratio(outcome: int, window: ExposureWindow) -> float:
        line = _prepared(db, outcome, (window,)).intervals.statistics.iloc[0]
        share = line["compared_days"] / line["compared_total"]
        return minimal_detectable_ratio(share, int(line["compared_events"]))

    return {
        "detectable ratio": (ratio(211, _window(103)),),
        "detectable ratio with one event and little unexposed time": (
            ratio(217, _window(103, -700, 2500)),
        ),
    }
