"""Views of characterizations: covariates, times to events, challenges, pathways of events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.crude_risk_redaction import HIDDEN_RISK
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered, stacked
from steropes.studies.viewer.view_columns import STATUS
from steropes.studies.viewer.view_definition import View, column, ids, important, texts

__all__ = ["characterization_views"]

GROUP = "Characterization"
# Names of the groups of people, by R's names.
GROUPS = {
    "Target": "target",
    "Tall": "all entries of the target",
    "Cases": "cases, at the target",
    "Exclude": "with an outcome before the target",
    "CasesBefore": "cases, before the target",
    "CasesBetween": "cases, between target and outcome",
    "CasesAfter": "cases, after the outcome",
}


def characterization_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of characterizations that have rows."""
    views = [_covariates(sources), _groups(sources), _times(sources), _challenges(sources)]
    views += [_pathways(sources), _events(sources)]
    return [view for view in views if len(view.table)]


def _named(source: NamedTables, found: pd.DataFrame, target: str, outcome: str) -> pd.DataFrame:
    """Name targets and outcomes, and mark the rows that are not shown."""
    hidden = found.get(HIDDEN, pd.Series(False, index=found.index)).astype(bool)
    of = found[outcome].where(found[outcome].fillna(0) > 0)
    return found.assign(
        target=source.names.cohorts(found[target]),
        outcome=source.names.cohorts(of),
        status=np.where(hidden, HIDDEN_RISK, "shown"),
    )


def _of_groups(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Name targets, outcomes and groups of people."""
    found = _named(source, found, "target_cohort_id", "outcome_cohort_id")
    return found.assign(group=found["cohort_type"].map(GROUPS).fillna(found["cohort_type"]))


def _covariates(sources: Sequence[NamedTables]) -> View:
    """Return the covariates of targets and cases."""
    parts = []
    for source in sources:
        for table in ("c_covariates", "c_covariates_continuous"):
            if table not in source:
                continue
            found = _of_groups(source, source.named(table))
            names = source.tables.get("c_covariate_ref")
            if names is not None:
                key = ["setting_id", "covariate_id"]
                named = names[[*key, "covariate_name"]].drop_duplicates(key)
                found = found.merge(named, on=key, how="left")
            name = found.get("covariate_name", pd.Series(None, found.index, dtype=object))
            text = name.fillna(found["covariate_id"].astype(str)).map(title_case)
            parts.append(found.assign(covariate=text))
    return View(
        "characteristics",
        "Targets and cases",
        GROUP,
        "Covariates of target cohorts, and of people with the outcome in their time at risk. Of a "
        "comparison or case series that fails a diagnostic no cases are shown.",
        (
            *ids("target_cohort_id", "outcome_cohort_id", "setting_id", "covariate_id"),
            *texts(database="Database", target="Target", outcome="Outcome", group="People"),
            *important(texts("text", covariate="Covariate")),
            *important((column("average_value", "Share or mean"),)),
            *STATUS,
            column("sum_value", "Entries", "count"),
            column("count_value", "With a value", "count"),
            column("standard_deviation", "Standard deviation"),
            column("p_25_value", "25 %"),
            column("median_value", "Median"),
            column("p_75_value", "75 %"),
        ),
        stacked(parts),
    )


def _groups(sources: Sequence[NamedTables]) -> View:
    """Return the sizes of targets and of groups of cases."""
    return View(
        "characteristics-sizes",
        "Sizes",
        GROUP,
        "Entries and people of the groups that are described.",
        (
            *ids("target_cohort_id", "outcome_cohort_id"),
            *texts(database="Database", target="Target", outcome="Outcome", group="People"),
            column("row_count", "Entries", "count"),
            column("person_count", "Persons", "count"),
            column("mean_exposure_time", "Mean days in the target"),
            *texts("text", status="Status"),
        ),
        gathered(sources, "c_cohort_counts", _of_groups),
    )


def _times(sources: Sequence[NamedTables]) -> View:
    """Return the numbers of outcomes by time since the target."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name targets and outcomes."""
        return _named(source, found, "target_cohort_definition_id", "outcome_cohort_definition_id")

    return View(
        "times-to-events",
        "Times to events",
        GROUP,
        "Outcomes by the days between the start of the target and the outcome.",
        (
            *ids("target_cohort_definition_id", "outcome_cohort_definition_id"),
            *texts(database="Database", target="Target", outcome="Outcome"),
            *texts(time_scale="Scale", outcome_type="Event", target_outcome_type="Place"),
            column("time_to_event", "Days", "whole"),
            column("num_events", "Outcomes", "count"),
            *texts("text", status="Status"),
        ),
        gathered(sources, "c_time_to_event", more),
    )


def _challenges(sources: Sequence[NamedTables]) -> View:
    """Return dechallenges and rechallenges."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name targets and outcomes."""
        return _named(source, found, "target_cohort_definition_id", "outcome_cohort_definition_id")

    return View(
        "challenges",
        "Dechallenge and rechallenge",
        GROUP,
        "People who stopped after an outcome and had it again or not (dechallenge), and of those "
        "without it, who started again and had it again or not (rechallenge).",
        (
            *ids("target_cohort_definition_id", "outcome_cohort_definition_id"),
            *texts(database="Database"),
            *important(texts(target="Target")),
            *texts(outcome="Outcome"),
            *important(
                (
                    column("pct_dechallenge_success", "Stopped: share without outcome", "share"),
                    column("pct_rechallenge_fail", "Restarted: share with outcome", "share"),
                )
            ),
            *STATUS,
            column("num_persons_exposed", "Persons exposed", "count"),
            column("num_cases", "Outcomes during it", "count"),
            column("dechallenge_attempt", "Stopped", "count"),
            column("dechallenge_success", "Stopped, without outcome", "count"),
            column("rechallenge_attempt", "Restarted", "count"),
            column("rechallenge_fail", "Restarted, with outcome", "count"),
        ),
        gathered(sources, "c_dechallenge_rechallenge", more),
    )


def _pathways(sources: Sequence[NamedTables]) -> View:
    """Return the pathways of events."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the target, and add the share of the pathways that are listed."""
        of = ["target_cohort_id", "age", "sex", "index_year"]
        shown = found["freq"].clip(lower=0)
        whole = shown.groupby([found[name] for name in of]).transform("sum")
        return found.assign(
            target=found["target_cohort_name"],
            share=(shown / whole).where((whole > 0) & (found["freq"] >= 0)),
        ).sort_values("freq", ascending=False, kind="stable")

    return View(
        "pathways",
        "Pathways",
        GROUP,
        'Events of people in the target in the order of their days; "+" joins events of a '
        "combination. Shares are of the pathways that are listed; those of few people are not.",
        (
            *ids("target_cohort_id"),
            *texts(database="Database", target="Target"),
            *texts("text", pathway="Pathway"),
            column("freq", "Persons", "count"),
            column("share", "Share", "share"),
            *texts(age="Age", sex="Sex", index_year="Year"),
        ),
        gathered(sources, "tp_treatment_pathways", more),
    )


def _events(sources: Sequence[NamedTables]) -> View:
    """Return the days of events in pathways."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the target."""
        return found.assign(target=found["target_cohort_name"])

    return View(
        "pathway-events",
        "Events of pathways",
        GROUP,
        "Days of events and combinations, overall and by their place in the pathway (line).",
        (
            *ids("target_cohort_id"),
            *texts(database="Database", target="Target", line="Line"),
            *texts("text", event_name="Event"),
            column("event_count", "Events", "count"),
            column("duration_median", "Median days"),
            column("duration_q_1", "25 %"),
            column("duration_q_2", "75 %"),
            column("duration_average", "Mean days"),
        ),
        gathered(sources, "tp_summary_event_duration", more),
    )
