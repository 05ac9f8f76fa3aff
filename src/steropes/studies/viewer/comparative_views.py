"""Views of comparative cohort studies: estimates, diagnostics, attrition, balance and curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.diagnostic_catalogue import COMPARATIVE, SHY
from steropes.studies.diagnostics.failing_diagnostics import comparative_names, with_failing
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.adjustment_views import adjustment_views, with_covariates
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered
from steropes.studies.viewer.result_names import ratio_kinds
from steropes.studies.viewer.view_columns import (
    CALIBRATED,
    COUNTS,
    EFFECT,
    ESTIMATE,
    FURTHER,
    GROUP,
    PERMISSIONS,
    PROFILE,
    QUESTION,
    RESULT_IDS,
    STATUS,
    role_of,
    shown_of,
    with_permissions,
)
from steropes.studies.viewer.view_definition import (
    VERDICT,
    Column,
    View,
    checks,
    column,
    ids,
    important,
    texts,
)

__all__ = ["comparative_views"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id", "database_id"]


def comparative_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of comparative studies that have rows."""
    views = [
        _estimates(sources),
        _diagnostics(sources),
        _further_diagnostics(sources),
        _attrition(sources),
        *adjustment_views(sources),
        _curves(sources),
        _profiles(sources),
        _follow_up(sources),
        _absolute(sources),
        _periods(sources),
        _subgroups(sources),
    ]
    return [view for view in views if len(view.table)]


def _estimates(sources: Sequence[NamedTables]) -> View:
    """Return all estimates, with controls."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Add roles, notes, and the kind of ratio."""
        truth = source.tables.get("cm_target_comparator_outcome")
        if truth is not None:
            place = ["target_comparator_id", "outcome_id"]
            known = truth[[*place, "true_effect_size"]].drop_duplicates(place)
            found = found.merge(known, on=place, how="left")
        else:
            found["true_effect_size"] = np.nan
        if "note" in source:
            columns = [*KEY, "note", "e_value", "e_value_limit", "proportional_p", "unconverged"]
            notes = source.tables["note"].reindex(columns=columns).drop_duplicates(KEY)
            found = found.merge(notes, on=KEY, how="left")
        found["kind"] = ratio_kinds(found, [source.tables])
        found = with_failing(found, source.tables, "cm", comparative_names())
        return found.assign(role=role_of(found["true_effect_size"]), status=shown_of(found))

    table = gathered(sources, "cm_result", more)
    return View(
        "estimates",
        "Estimates",
        GROUP,
        "Ratios of target to comparator with 95% limits. An estimate that fails a diagnostic is "
        "not shown, nor are the outcomes of its arms.",
        (
            *RESULT_IDS,
            *QUESTION,
            *ESTIMATE,
            *STATUS,
            *EFFECT[3:],
            *texts(role="Role"),
            *CALIBRATED,
            *COUNTS,
            *texts("long", kind="Kind of ratio", target_estimator="Estimand"),
            *texts("long", unconverged="Fits that did not converge"),
            column("target_days", "Target days", "whole"),
            column("comparator_days", "Comparator days", "whole"),
            column("log_rr", "Log ratio"),
            column("se_log_rr", "Standard error"),
            column("true_effect_size", "True ratio", "ratio"),
            column("e_value", "E-value"),
            column("proportional_p", "Proportional hazards, p", "p"),
        ),
        table,
        "forest controls",
    )


def _diagnostics(sources: Sequence[NamedTables]) -> View:
    """Return the diagnostics with their verdicts."""
    table = gathered(sources, "cm_diagnostics_summary", _with_own_diagnostics)
    declared = []
    for d in COMPARATIVE:
        name = d.column or d.key.replace(" ", "_")
        if d.verdict_column not in table or not table[d.verdict_column].notna().any():
            continue
        values = table.get(d.column, np.nan)
        table = table.assign(**{name: values, f"{name}{VERDICT}": table[d.verdict_column]})
        declared.append((name, d.heading.replace(SHY, "")))
    return View(
        "diagnostics",
        "Diagnostics",
        GROUP,
        "The value of each diagnostic and whether it passes.",
        (*RESULT_IDS, *QUESTION, *PERMISSIONS, *checks(declared)),
        with_permissions(table),
    )


def _with_own_diagnostics(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Add the diagnostics that R's results model lacks."""
    if "note" not in source:
        return found
    notes = source.tables["note"]
    own = [
        c
        for d in COMPARATIVE
        for c in (d.column, d.verdict_column)
        if c and c in notes and c not in found
    ]
    return found.merge(notes[[*KEY, *own]].drop_duplicates(KEY), on=KEY, how="left")


def _further_diagnostics(sources: Sequence[NamedTables]) -> View:
    """Return the diagnostics that the study adds to those of the results model."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Mark the verdict of each value."""
        return found.assign(**{f"value{VERDICT}": found["verdict"]})

    return View(
        "further-diagnostics",
        "Further diagnostics",
        GROUP,
        FURTHER,
        (*RESULT_IDS, *QUESTION, *texts(diagnostic="Diagnostic"), *checks([("value", "Value")])),
        gathered(sources, "further_diagnostic", more),
    )


def _attrition(sources: Sequence[NamedTables]) -> View:
    """Return the people whom each rule leaves."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the arms and the rules."""
        if "target_id" in found:
            arm = np.where(found["exposure_id"].eq(found["target_id"]), "target", "comparator")
        else:  # The results do not define their comparisons.
            arm = np.array(source.names.cohorts(found["exposure_id"]), dtype=object)
        return found.assign(arm=arm, rule=found["description"].fillna("").map(title_case))

    return View(
        "attrition",
        "Attrition",
        GROUP,
        "The people of each arm who remain after each rule.",
        (
            *ids("target_comparator_id", "outcome_id", "analysis_id"),
            *QUESTION,
            *texts(arm="Arm"),
            column("sequence_number", "Step", "whole"),
            *important(texts("text", rule="Rule")),
            *important((column("subjects", "People", "count"),)),
        ),
        gathered(sources, "cm_attrition", more),
        "attrition",
    )


def _curves(sources: Sequence[NamedTables]) -> View:
    """Return the survival curves."""
    survival = tuple(
        column(f"{arm}_survival{end}", f"{title_case(arm)}{title}")
        for arm in ("target", "comparator")
        for end, title in (("", ""), ("_lb", ", lower"), ("_ub", ", upper"))
    )
    return View(
        "curves",
        "Survival curves",
        GROUP,
        "The share of people without the outcome, with 95% limits.",
        (
            *RESULT_IDS,
            *QUESTION,
            column("time_day", "Day", "whole"),
            *survival,
            column("target_at_risk", "Target at risk", "count"),
            column("comparator_at_risk", "Comparator at risk", "count"),
        ),
        gathered(sources, "cm_kaplan_meier_dist"),
        "curves",
    )


def _profiles(sources: Sequence[NamedTables]) -> View:
    """Return the likelihood profiles."""
    return View(
        "likelihood",
        "Likelihood",
        GROUP,
        "Log-likelihood profiles of the log ratio.",
        (*RESULT_IDS, *QUESTION, *PROFILE),
        gathered(sources, "cm_likelihood_profile"),
        "likelihood",
    )


def _follow_up(sources: Sequence[NamedTables]) -> View:
    """Return the distribution of the days of follow-up."""
    quantiles = {"p_10": "10%", "p_25": "25%", "median": "median", "p_75": "75%", "p_90": "90%"}
    return View(
        "follow-up",
        "Follow-up",
        GROUP,
        "Quantiles of the days that people are followed.",
        (
            *RESULT_IDS,
            *QUESTION,
            *(
                Column(f"{arm}_{q}_days", f"{title_case(arm)}, {title}", "whole")
                for arm in ("target", "comparator")
                for q, title in quantiles.items()
            ),
        ),
        gathered(sources, "cm_follow_up_dist"),
    )


def _absolute(sources: Sequence[NamedTables]) -> View:
    """Return risks and restricted means."""
    return View(
        "absolute-effects",
        "Absolute effects",
        GROUP,
        "Risks of the outcome by a day, and mean days without it, with 95% limits of differences.",
        (
            *RESULT_IDS,
            *QUESTION,
            column("horizon_day", "By day", "whole"),
            column("target_risk", "Target risk", "share"),
            column("comparator_risk", "Comparator risk", "share"),
            column("risk_difference", "Risk difference", "share"),
            column("risk_difference_lb", "Lower", "share"),
            column("risk_difference_ub", "Upper", "share"),
            column("days_free_difference", "Difference of days"),
            column("days_free_difference_lb", "Days, lower"),
            column("days_free_difference_ub", "Days, upper"),
        ),
        gathered(sources, "absolute_effect"),
    )


def _periods(sources: Sequence[NamedTables]) -> View:
    """Return the effects in periods of the time at risk."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Describe the periods."""
        days = zip(found["first_day"], found["last_day"], strict=True)
        return found.assign(period=[_days(first, last) for first, last in days])

    return View(
        "effects-by-period",
        "Effects by period",
        GROUP,
        "Ratios of target to comparator in periods of the time at risk, with 95% limits.",
        (
            *RESULT_IDS,
            *ids("first_day"),
            *QUESTION,
            *texts(period="Period"),
            *EFFECT,
            column("target_outcomes", "Target outcomes", "count"),
            column("comparator_outcomes", "Comparator outcomes", "count"),
        ),
        gathered(sources, "effect_by_period", more),
        "forest",
    )


def _days(first: float, last: float) -> str:
    """Describe a period by its first and last day; the last period has none."""
    return f"day {first:,.0f} " + ("on" if pd.isna(last) else f"to {last:,.0f}")


def _subgroups(sources: Sequence[NamedTables]) -> View:
    """Return the effects within subgroups."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the characteristics."""
        found = with_covariates(
            source, found.rename(columns={"interaction_covariate_id": "covariate_id"})
        )
        return found.assign(level=np.where(found["level"].eq(1), "with", "without"))

    return View(
        "subgroups",
        "Subgroups",
        GROUP,
        "Effects in people without and with a characteristic, at the average of the others.",
        (
            *RESULT_IDS,
            *ids("covariate_id"),
            *QUESTION,
            *texts("text", covariate="Characteristic"),
            *texts(level="Level"),
            *EFFECT,
            *COUNTS,
        ),
        gathered(sources, "subgroup", more),
        "forest",
    )
