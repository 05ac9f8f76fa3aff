"""Views of databases, notes on their data, cohorts, incidence and settings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.crude_risk_redaction import HIDDEN_RISK
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered, stacked
from steropes.studies.viewer.view_columns import STATUS, everybody_first
from steropes.studies.viewer.view_definition import View, column, ids, important, texts

__all__ = ["PARTS", "database_views", "incidence_views"]

GROUP = "Databases"
PARTS = "parts"  # The view of all parts of a specification.
RAN = ("ran", "runs")  # Beginnings of verdicts on parts that ran, also of earlier versions.


def database_views(sources: Sequence[NamedTables], rules: Sequence[str]) -> list[View]:
    """Return the views of databases that have rows.

    Parameters
    ----------
    rules : sequence of str
        The disclosure rules of each source.
    """
    views = [
        _databases(sources, rules),
        _notes(sources),
        _parts(sources),
        _cohorts(sources),
        _settings(sources),
    ]
    return [view for view in views if len(view.table)]


def incidence_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the view of incidence rates, if there are any."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name targets, outcomes, times at risk and strata."""
        found["target"] = source.names.cohorts(found["target_cohort_definition_id"])
        found["outcome"] = _looked_up(source, found, "ci_outcome_def", "outcome_id", "outcome_name")
        found["age"] = _looked_up(
            source, found, "ci_age_group_def", "age_group_id", "age_group_name"
        )
        found["subgroup"] = _looked_up(
            source, found, "ci_subgroup_def", "subgroup_id", "subgroup_name"
        )
        periods = source.tables.get("ci_tar_def")
        if periods is not None and len(periods):
            texts_ = {line["tar_id"]: _period(line) for line in periods.to_dict("records")}
            found["period"] = found["tar_id"].map(texts_)
        year = found["start_year"]
        hidden = found.get(HIDDEN, pd.Series(False, index=found.index)).astype(bool)
        return found.assign(
            status=np.where(hidden, HIDDEN_RISK, "shown"),
            sex=found["gender_name"].fillna("all").str.lower(),
            age=found["age"].replace("", "all"),
            year=year.map(lambda y: "all" if pd.isna(y) else str(int(y))),
        )

    table = gathered(sources, "ci_incidence_summary", more)
    table = everybody_first(table, ("age", "sex", "year"))
    view = View(
        "incidence",
        "Incidence",
        "Incidence",
        "Persons at risk, persons with the outcome and rates, for all and by strata. Where the "
        "comparison of a cohort fails a diagnostic, its outcomes and rates are not shown.",
        (
            *ids("target_cohort_definition_id", "outcome_id", "tar_id", "subgroup_id"),
            *ids("age_group_id", "gender_id", "start_year"),
            *texts(database="Database", target="Target", outcome="Outcome"),
            *texts(period="Time at risk", subgroup="Subgroup"),
            *texts(age="Age", sex="Sex", year="Year"),
            *important((column("incidence_rate_p100py", "Per 100 person-years"),)),
            *STATUS,
            column("persons_at_risk", "Persons at risk", "count"),
            column("person_days", "Person-days", "whole"),
            column("person_outcomes", "With outcome", "count"),
            column("outcomes", "Outcomes", "count"),
            column("incidence_proportion_p100p", "Per 100 persons"),
        ),
        table,
        "incidence",
    )
    return [view] if len(table) else []


def _looked_up(
    source: NamedTables, found: pd.DataFrame, table: str, number: str, name: str
) -> pd.Series:
    """Name ids by a table that defines them."""
    defined = source.tables.get(table)
    if defined is None:
        return found[number].map(lambda i: "" if pd.isna(i) else f"{int(i)}")
    key = ["ref_id", number]
    named = found[key].merge(defined[[*key, name]].drop_duplicates(key), on=key, how="left")[name]
    named.index = found.index
    return named.fillna("").map(title_case)


def _period(line: dict[str, object]) -> str:
    """Describe a time at risk."""
    ends = [(line[f"tar_{end}_offset"], line[f"tar_{end}_with"]) for end in ("start", "end")]
    first, last = (
        str(of) if pd.isna(days) else f"{of} + {int(float(str(days)))} days" for days, of in ends
    )
    return f"{first} to {last}"


def _databases(sources: Sequence[NamedTables], rules: Sequence[str]) -> View:
    """Return the databases with their versions and the rules of their release."""
    rows = []
    for source, of in zip(sources, rules, strict=True):
        about: dict[str, dict[str, object]] = {}
        for name in ("database", "database_meta_data"):
            table = source.tables.get(name)
            for line in [] if table is None else table.to_dict("records"):
                about[str(line["database_id"])] = {str(k): v for k, v in line.items()}
        for i, label in source.labels.items():
            line = about.get(i, {})
            rows.append(
                {
                    "database": label,
                    "database_id": i,
                    "source": source.name,
                    "disclosure": of,
                    "name": line.get("name") or line.get("cdm_source_name"),
                    "cdm": line.get("cdm") or line.get("cdm_version"),
                    "vocabulary": line.get("vocabulary") or line.get("vocabulary_version"),
                    "release": line.get("release") or line.get("cdm_release_date"),
                    "data_until": line.get("max_obs_period_end_date"),
                }
            )
    return View(
        "databases",
        "Databases",
        GROUP,
        "The databases of this page. Rules of disclosure control that are not known are those of "
        "results without a manifest; then counts that are too small here are suppressed, but "
        "estimates are as they were released.",
        (
            *ids("database_id", "source"),
            *texts(database="Database"),
            *texts("text", name="Name", disclosure="Disclosure control", cdm="CDM version"),
            *texts("text", vocabulary="Vocabulary", release="Release", data_until="Data until"),
        ),
        pd.DataFrame(rows),
    )


def _notes(sources: Sequence[NamedTables]) -> View:
    """Return the notes on the data."""
    table = gathered(sources, "data_note")
    if len(table):
        kind = table["warning"].eq(1).map({True: "warning", False: "note"})
        table = table.assign(
            level=kind,
            topic=table["topic"].str.replace("_", " ") if "topic" in table else None,
            note=table["note"].fillna("").map(title_case),
        )
        shown = ["database", "level", "topic", "note", "counted", "count"]
        table = table.reindex(columns=shown).drop_duplicates()
    return View(
        "data-notes",
        "Notes on the data",
        GROUP,
        "Irregularities that were met in the data.",
        (
            *texts(database="Database", level="Kind", topic="Topic"),
            *texts("text", note="Note", counted="Counted"),
            column("count", "Count", "count"),
        ),
        table,
    )


def _parts(sources: Sequence[NamedTables]) -> View:
    """Return all parts of specifications, those that did not run first, with the reasons."""
    tables = [s.tables["verdicts"].assign(source=s.name) for s in sources if "verdicts" in s]
    table = stacked(tables)
    if len(table):
        there = table["verdict"].fillna("").str.startswith(RAN)
        table = table.assign(text=table["text"].fillna("").map(title_case))
        table = table.iloc[np.argsort(there.to_numpy(), kind="stable")]
    return View(
        PARTS,
        "Parts of the study",
        GROUP,
        "Every part of the specification: whether it ran, what differs from R, and why a part did "
        "not run, with cohorts that have no entries and estimates that could not be computed.",
        (
            *texts(source="Results", module="Module"),
            *important(texts(verdict="Verdict")),
            *important(texts("text", part="Part", text="Reason or remark")),
        ),
        table,
    )


def _cohorts(sources: Sequence[NamedTables]) -> View:
    """Return the sizes of the cohorts."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the cohorts."""
        return found.assign(cohort=source.names.cohorts(found["cohort_id"]))

    parts = [
        gathered(sources, "cg_cohort_count", more).assign(kind="cohort"),
        gathered(sources, "cg_cohort_count_neg_ctrl", more).assign(kind="negative control"),
    ]
    parts = [part for part in parts if len(part)]
    return View(
        "cohorts",
        "Cohorts",
        GROUP,
        "The people and entries of each cohort.",
        (
            *ids("cohort_id"),
            *texts(database="Database", kind="Kind"),
            *texts("text", cohort="Cohort"),
            column("cohort_subjects", "People", "count"),
            column("cohort_entries", "Entries", "count"),
        ),
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(),
    )


def _settings(sources: Sequence[NamedTables]) -> View:
    """Return the analyses with their settings."""
    parts = []
    for table, design in (("cm_analysis", "cohort study"), ("sccs_analysis", "case series")):
        for source in sources:
            if table in source and "definition" in source.tables[table]:
                found = source.tables[table].assign(design=design, source=source.name)
                parts.append(found)
    return View(
        "settings",
        "Analyses",
        GROUP,
        "The analyses; the details of a row show all settings.",
        (
            *ids("analysis_id"),
            *texts(source="Results", design="Design"),
            *texts("text", description="Analysis"),
            *texts("long", definition="Settings"),
        ),
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(),
    )
