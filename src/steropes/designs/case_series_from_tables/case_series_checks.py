"""Checks of a case series: fits, events before exposure and at the end, time, and power."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from steropes.designs.case_series.detectable_ratio import minimal_detectable_ratio
from steropes.designs.case_series.event_timing import Exposures, monthly_rates, time_to_event
from steropes.designs.case_series.interval_rows import PROBE
from steropes.designs.case_series.rate_stability import fitted_effects, time_stability
from steropes.designs.case_series_from_tables.case_series_columns_and_fit import FittedSeries
from steropes.designs.case_series_from_tables.cases_from_tables import SeriesData
from steropes.designs.case_series_from_tables.risk_period_days import PeriodSpans

__all__ = ["series_diagnostics", "weeks_around_exposure"]

# Bounds that the intervals of probes have to meet, and limits, as in studies of databases.
BEFORE_BOUNDS, END_BOUNDS = (0.8, 1.25), (0.5, 2.0)
LARGEST_DETECTABLE = 10.0
LARGEST_RATIO, LEAST_P = 1.1, 0.05

Row = tuple[str, float, float, float, str, bool | None, str]


def series_diagnostics(
    data: SeriesData, fitted: FittedSeries, estimates: pd.DataFrame
) -> pd.DataFrame:
    """Check the assumptions of the method.

    Parameters
    ----------
    estimates : DataFrame
        As in `CaseSeriesResult`.
    """
    rows = [
        _convergence(fitted),
        *_before(estimates),
        _end(fitted, estimates),
        _stability(data, fitted),
        *_detectable(fitted),
    ]
    names = ["diagnostic", "value", "lower", "upper", "limit", "passed", "note"]
    return pd.DataFrame(rows, columns=names).astype({"passed": object})


def weeks_around_exposure(data: SeriesData, spans: PeriodSpans) -> pd.DataFrame:
    """Count events by week around the first exposure of each case."""
    eras = spans.eras
    return time_to_event(
        data.cases, Exposures(eras.group // len(data.exposures), eras.first, eras.last)
    )


def _convergence(fitted: FittedSeries) -> Row:
    """Check whether the fits converged."""
    done = fitted.exposure is None or fitted.exposure.converged
    note = ""
    if fitted.model is not None:
        done = fitted.model.converged and fitted.model.status == "OK"
        note = "" if fitted.model.status == "OK" else fitted.model.status
    if fitted.censoring is not None and not fitted.censoring.converged:
        done, note = False, "The model of the end of observation did not converge."
    return "convergence", math.nan, math.nan, math.nan, "", done, note


def _before(estimates: pd.DataFrame) -> Iterator[Row]:
    """Judge the periods before exposure."""
    rows = estimates[estimates["kind"].eq("pre-exposure")]
    for name, row in rows.iterrows():
        yield _bounded(f"events before exposure ({name})", row, BEFORE_BOUNDS)
    if not len(rows):
        yield _not_evaluated(
            "events before exposure",
            "Add a risk period before exposure, such as (-30, -1): events that change later "
            "exposure show as a ratio other than one.",
        )


def _end(fitted: FittedSeries, estimates: pd.DataFrame) -> Row:
    """Judge the days at the end of observation."""
    key = "events before observation ends"
    if PROBE not in estimates.index:
        note = "Set end_of_observation_days=30: events that end observation show as a high ratio."
        if fitted.censoring is not None:
            note = "Observation may depend on events: event_dependent='observation'."
        return _not_evaluated(key, note)
    return _bounded(key, estimates.loc[PROBE], END_BOUNDS)


def _stability(data: SeriesData, fitted: FittedSeries) -> Row:
    """Judge the stability of the rate over calendar time."""
    key = "stability over calendar time"
    if not data.dated or fitted.model is None or fitted.groups:
        note = "It needs dates, and a model with splines or without effects of time."
        return _not_evaluated(key, note)
    effects = fitted_effects(fitted.intervals, fitted.model, fitted.effects)
    ratio, p = time_stability(monthly_rates(data.cases, effects), LARGEST_RATIO)
    if math.isnan(ratio):
        return _not_evaluated(key, "All time lies within one month.")
    passed = p > LEAST_P
    note = "" if passed else "Add groups or a Spline of season and calendar time."
    return (
        key,
        ratio,
        math.nan,
        math.nan,
        f"p > {LEAST_P} of more than {LARGEST_RATIO}",
        passed,
        note,
    )


def _detectable(fitted: FittedSeries) -> Iterator[Row]:
    """Compute the rate ratio that each period can detect."""
    for name, column in zip(fitted.intervals.names, fitted.intervals.columns, strict=True):
        if not column.of_interest:
            continue
        line = fitted.intervals.statistics.loc[name]
        total = float(line["compared_total"])
        share = float(line["compared_days"]) / total if total else 0.0
        ratio = minimal_detectable_ratio(share, int(line["compared_events"]))
        passed = ratio < LARGEST_DETECTABLE
        note = "" if passed else "There are too few events or days in the period."
        key = f"detectable ratio ({name})"
        yield key, ratio, math.nan, math.nan, f"below {LARGEST_DETECTABLE:g}", passed, note


def _bounded(key: str, row: pd.Series, bounds: tuple[float, float]) -> Row:
    """Judge whether an interval meets bounds."""
    rr, lower, upper = (float(row[name]) for name in ("rr", "lower", "upper"))
    if not (math.isfinite(lower) or math.isfinite(upper)):
        return _not_evaluated(key, str(row["note"]) or "There is no interval.")
    passed = lower <= bounds[1] and upper >= bounds[0]
    note = "" if passed else "Events change exposure or observation; see event_dependent=."
    return key, rr, lower, upper, f"{bounds[0]:g} to {bounds[1]:g}", passed, note


def _not_evaluated(key: str, note: str) -> Row:
    """Describe a diagnostic that was not evaluated."""
    return key, math.nan, math.nan, math.nan, "", None, note
