"""Views of self-controlled case series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.diagnostic_catalogue import SERIES
from steropes.studies.diagnostics.failing_diagnostics import series_names, with_failing
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered
from steropes.studies.viewer.view_columns import (
    CALIBRATED,
    EFFECT,
    ESTIMATE,
    FURTHER,
    PERMISSIONS,
    PROFILE,
    STATUS,
    role_of,
    shown_of,
    with_permissions,
)
from steropes.studies.viewer.view_definition import (
    VERDICT,
    View,
    checks,
    column,
    ids,
    important,
    texts,
)

__all__ = ["series_views"]

GROUP = "Case series"
KEY = ["exposures_outcome_set_id", "analysis_id", "database_id"]
RESULT = [*KEY, "covariate_id"]
SERIES_IDS = ids("exposures_outcome_set_id", "analysis_id")
RESULT_IDS = (*SERIES_IDS, *ids("covariate_id"))
QUESTION = texts(database="Database", exposure="Exposure", outcome="Outcome", analysis="Analysis")


def series_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of case series that have rows."""
    views = [
        _estimates(sources),
        _diagnostics(sources),
        _further_diagnostics(sources),
        _attrition(sources),
        _windows(sources),
        _profiles(sources),
        _weeks(sources),
        _trend(sources),
        _splines(sources),
    ]
    return [view for view in views if len(view.table)]


def _with_covariate(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Add the names of covariates."""
    names = source.tables.get("sccs_covariate")
    if names is None:
        return found
    own = names[[*RESULT, "covariate_name"]].drop_duplicates(RESULT)
    return found.merge(own, on=RESULT, how="left")


def _estimates(sources: Sequence[NamedTables]) -> View:
    """Return all estimates, with controls."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Add roles, notes and names of windows."""
        if "note" in source:
            columns = [*KEY, "note", "unconverged", "sampling"]
            notes = source.tables["note"].reindex(columns=columns).drop_duplicates(KEY)
            found = found.merge(notes, on=KEY, how="left")
        found = with_failing(_with_covariate(source, found), source.tables, "sccs", series_names())
        if "true_effect_size" not in found:
            found["true_effect_size"] = np.nan
        return found.assign(
            role=role_of(found["true_effect_size"]), status=shown_of(found), kind="rate ratio"
        )

    return View(
        "series-estimates",
        "Estimates",
        GROUP,
        "Rate ratios of exposed to unexposed time with 95% limits. An estimate that fails a "
        "diagnostic is not shown, nor are the outcomes during exposure.",
        (
            *RESULT_IDS,
            *QUESTION,
            *texts("text", covariate_name="Window"),
            *ESTIMATE,
            *STATUS,
            *EFFECT[3:],
            *texts(role="Role"),
            *CALIBRATED,
            column("outcome_subjects", "Cases", "count"),
            column("outcome_events", "Outcomes", "count"),
            column("covariate_subjects", "Exposed cases", "count"),
            column("covariate_outcomes", "Outcomes exposed", "count"),
            *texts("long", kind="Kind of ratio", unconverged="Fits that did not converge"),
            *texts("long", sampling="Sample"),
            column("observed_days", "Days observed", "whole"),
            column("covariate_days", "Days exposed", "whole"),
            column("log_rr", "Log ratio"),
            column("se_log_rr", "Standard error"),
            column("true_effect_size", "True ratio", "ratio"),
        ),
        gathered(sources, "sccs_result", more),
        "forest controls",
    )


def _diagnostics(sources: Sequence[NamedTables]) -> View:
    """Return the diagnostics with their verdicts."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Add the convergence, which R's results model lacks, and names of windows."""
        if "note" in source:
            notes = source.tables["note"].reindex(columns=[*KEY, "convergence_diagnostic"])
            found = found.merge(notes.drop_duplicates(KEY), on=KEY, how="left")
        return _with_covariate(source, found)

    table = gathered(sources, "sccs_diagnostics_summary", more)
    declared = []
    for d in SERIES:
        if d.verdict_column not in table or not table[d.verdict_column].notna().any():
            continue
        names = d.ends or (d.column or d.key,)
        for n, name in enumerate(names):
            values = table.get(name, np.nan)
            table = table.assign(**{name: values, f"{name}{VERDICT}": table[d.verdict_column]})
            end = (", lower", ", upper")[n] if len(names) == 2 else ""
            declared.append((name, d.heading + end))
    return View(
        "series-diagnostics",
        "Diagnostics",
        GROUP,
        "The value of each diagnostic, or both limits of its interval, and whether it passes.",
        (
            *RESULT_IDS,
            *QUESTION,
            *texts("text", covariate_name="Window"),
            *PERMISSIONS,
            *checks(declared),
        ),
        with_permissions(table),
    )


def _further_diagnostics(sources: Sequence[NamedTables]) -> View:
    """Return the diagnostics that the study adds to those of the results model."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Add the names of windows, and mark the verdict of each value."""
        return _with_covariate(source, found.assign(**{f"value{VERDICT}": found["verdict"]}))

    return View(
        "series-further-diagnostics",
        "Further diagnostics",
        GROUP,
        FURTHER,
        (
            *RESULT_IDS,
            *QUESTION,
            *texts("text", covariate_name="Window"),
            *texts(diagnostic="Diagnostic"),
            *checks([("value", "Value")]),
        ),
        gathered(sources, "sccs_further_diagnostic", more),
    )


def _attrition(sources: Sequence[NamedTables]) -> View:
    """Return the cases and outcomes that remain after each rule."""
    table = gathered(sources, "sccs_attrition")
    if len(table):
        table["rule"] = table["description"].fillna("").map(title_case)
    return View(
        "series-attrition",
        "Attrition",
        GROUP,
        "The cases and outcomes that remain after each rule.",
        (
            *RESULT_IDS,
            *QUESTION,
            column("sequence_number", "Step", "whole"),
            *important(
                (
                    *texts("text", rule="Rule"),
                    column("outcome_subjects", "Cases", "count"),
                    column("outcome_events", "Outcomes", "count"),
                )
            ),
            column("outcome_observation_periods", "Periods", "count"),
            column("observed_days", "Days", "whole"),
        ),
        table,
    )


def _windows(sources: Sequence[NamedTables]) -> View:
    """Return the rate ratios of all windows."""
    return View(
        "series-windows",
        "All windows",
        GROUP,
        "Rate ratios of all windows of a model. Where an exposure fails a diagnostic, only windows "
        "that are diagnostics are shown.",
        (*RESULT_IDS, *QUESTION, *texts("text", covariate_name="Window"), *EFFECT[:3]),
        gathered(sources, "sccs_covariate_result", _with_covariate),
    )


def _profiles(sources: Sequence[NamedTables]) -> View:
    """Return the likelihood profiles."""
    return View(
        "series-likelihood",
        "Likelihood",
        GROUP,
        "Log-likelihood profiles of the log rate ratio.",
        (*RESULT_IDS, *QUESTION, *PROFILE),
        gathered(sources, "sccs_likelihood_profile"),
        "likelihood",
    )


def _weeks(sources: Sequence[NamedTables]) -> View:
    """Return the outcomes by week around the start of exposure."""
    return View(
        "series-weeks",
        "Outcomes by week",
        GROUP,
        "Outcomes by week before and after the start of exposure. Where an exposure fails a "
        "diagnostic, only the weeks before it are shown.",
        (
            *SERIES_IDS,
            *ids("era_id"),
            *QUESTION,
            column("week", "Week", "whole"),
            column("observed_subjects", "Cases observed", "count"),
            column("outcomes", "Outcomes", "count"),
        ),
        gathered(sources, "sccs_time_to_event"),
        "weeks",
    )


def _trend(sources: Sequence[NamedTables]) -> View:
    """Return the ratio of observed to expected outcomes by month."""
    table = gathered(sources, "sccs_time_trend")
    if len(table):
        table = table.dropna(subset=["calendar_year", "calendar_month"])
        year, month = table["calendar_year"].astype(int), table["calendar_month"].astype(int)
        table["month"] = year.astype(str) + "-" + month.astype(str).str.zfill(2)
    return View(
        "series-trend",
        "Calendar time",
        GROUP,
        "Observed over expected outcomes by calendar month. Months of a period share its ratio.",
        (
            *SERIES_IDS,
            *QUESTION,
            *texts("text", month="Month"),
            column("observed_subjects", "Cases observed", "count"),
            column("ratio", "Observed over expected"),
            column("adjusted_ratio", "Adjusted for the model"),
        ),
        table,
        "trend",
    )


def _splines(sources: Sequence[NamedTables]) -> View:
    """Return the splines of age, season and calendar time."""
    return View(
        "series-splines",
        "Age and season",
        GROUP,
        "Rate ratios at the knots of splines, relative to the first.",
        (
            *SERIES_IDS,
            *QUESTION,
            *texts(spline_type="Spline"),
            column("knot_month", "Knot, months"),
            column("rr", "Rate ratio", "ratio"),
        ),
        gathered(sources, "sccs_spline"),
        "splines",
    )
