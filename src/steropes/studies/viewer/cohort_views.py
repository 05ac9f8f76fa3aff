"""Views of the diagnostics of cohorts: findings, rules, index events, rates, characteristics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from steropes.designs.covariates.weighted_moments import standardized_difference
from steropes.studies.cohort_diagnostics.cohort_findings import PEOPLE
from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.crude_risk_redaction import HIDDEN_RISK
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, gathered, stacked
from steropes.studies.viewer.view_columns import STATUS, everybody_first
from steropes.studies.viewer.view_definition import Column, View, column, ids, important, texts

__all__ = ["cohort_views"]

GROUP = "Cohort diagnostics"
# Cohorts of a database that are compared with each other; of more, the largest ones.
MOST_COHORTS = 8
OF_COHORT = (*ids("cohort_id"), *texts(database="Database", cohort="Cohort"))
More = Callable[[NamedTables, pd.DataFrame], pd.DataFrame]


def cohort_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of the diagnostics of cohorts that have rows."""
    views = [
        _findings(sources),
        _sizes(sources),
        _rules(sources),
        _index_events(sources),
        _incidence(sources),
        _characteristics(sources),
        _comparison(sources),
        _overlap(sources),
        _visits(sources),
        _included(sources),
        _orphans(sources),
    ]
    return [view for view in views if len(view.table)]


def _view(
    name: str,
    title: str,
    intro: str,
    columns: tuple[Column, ...],
    table: pd.DataFrame,
    chart: str = "",
) -> View:
    """Return a view of the group."""
    return View(name, title, GROUP, intro, columns, table, chart)


def _with_cohort(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Name the cohort of each row."""
    return found.assign(cohort=source.names.cohorts(found["cohort_id"]))


def _with_concepts(**places: str) -> More:
    """Return a function that names cohorts, concepts and concept sets.

    Parameters
    ----------
    places : str
        Columns of concepts, by the columns of their names.
    """

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        found = _with_cohort(source, found)
        names = _names(source, "cd_concept", "concept_id", "concept_name")
        for name, place in places.items():
            ids_ = found[place]
            found[name] = [
                "" if pd.isna(i) else names.get(int(i), f"concept {int(i)}") for i in ids_
            ]
        if "concept_set_id" in found and "cd_concept_sets" in source:
            key = ["cohort_id", "concept_set_id"]
            sets = source.tables["cd_concept_sets"][[*key, "concept_set_name"]]
            found = found.merge(sets.drop_duplicates(key), on=key, how="left")
        return found

    return more


def _names(source: NamedTables, table: str, number: str, name: str) -> dict[int, str]:
    """Return names by id in a table of a source."""
    if table not in source:
        return {}
    known = source.tables[table][[number, name]].dropna()
    return {int(i): str(text) for i, text in known.itertuples(index=False)}


# -- views -----------------------------------------------------------------------------------------


def _findings(sources: Sequence[NamedTables]) -> View:
    """Return the findings in words."""
    return _view(
        "cohort-findings",
        "Findings",
        "Problems of definitions in words: definitions that do not run or find nobody, criteria "
        "that lose nearly everybody, index events of one concept, rates that jump, and concepts "
        "that may be missing. The tables below have the numbers.",
        (
            *ids("cohort_id"),
            *texts(database="Database"),
            *important(texts(cohort="Cohort")),
            *texts(topic="About"),
            *important(texts("text", finding="Finding")),
        ),
        gathered(sources, "cohort_finding", _with_cohort),
    )


def _sizes(sources: Sequence[NamedTables]) -> View:
    """Return the sizes of the cohorts; a row opens the other tables of its cohort."""
    return _view(
        "cohort-sizes",
        "Cohorts",
        "People and entries of each cohort in each database. The details of a row link to all "
        "other tables of its cohort.",
        (
            *OF_COHORT[:-1],
            *important(OF_COHORT[-1:]),
            *important((column("cohort_subjects", "People", "count"),)),
            column("cohort_entries", "Entries", "count"),
        ),
        gathered(sources, "cd_cohort_count", _with_cohort),
    )


def _rules(sources: Sequence[NamedTables]) -> View:
    """Return the inclusion rules with the people who meet them."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        found = _with_cohort(source, found[found["mode_id"] == PEOPLE])
        key = ["cohort_id", "rule_sequence"]
        if "cd_cohort_inclusion" in source:
            rules = source.tables["cd_cohort_inclusion"][[*key, "name"]].drop_duplicates(key)
            found = found.merge(rules, on=key, how="left")
        shown = found[["person_count", "person_total"]].astype(float)
        known = shown.gt(0).all(axis=1) | (
            shown["person_count"].eq(0) & shown["person_total"].gt(0)
        )
        share = (shown["person_count"] / shown["person_total"]).where(known)
        number = found["rule_sequence"].map(lambda i: f"rule {int(i) + 1}")
        name = found["name"] if "name" in found else pd.Series(None, found.index, dtype=object)
        return found.assign(rule=name.fillna(number), share=share)

    return _view(
        "cohort-rules",
        "Inclusion rules",
        "People who meet each inclusion rule of a definition, of all with an entry event, and how "
        "many more would be in the cohort without it.",
        (
            *OF_COHORT,
            *important(texts("text", rule="Rule")),
            column("person_count", "Meet it", "count"),
            column("person_total", "Of", "count"),
            *important((column("share", "Share", "share"),)),
            column("gain_count", "More without it", "count"),
        ),
        gathered(sources, "cd_cohort_inc_stats", more),
    )


def _index_events(sources: Sequence[NamedTables]) -> View:
    """Return the concepts recorded on index dates."""
    named = _with_concepts(concept="concept_id")

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        found = named(source, found)
        as_source = found["domain_field"].str.endswith("source_concept_id")
        return found.assign(
            table=found["domain_table"].str.replace("_", " "),
            kind=np.where(as_source, "source concept", "concept"),
        )

    return _view(
        "cohort-index-events",
        "Index events",
        "Concepts by which people enter the cohort, with their records on index dates.",
        (
            *OF_COHORT,
            *texts(table="Table", kind="Kind"),
            *texts("text", concept="Concept"),
            column("concept_id", "Concept id", "whole"),
            column("concept_count", "Records", "count"),
            column("subject_count", "People", "count"),
        ),
        gathered(sources, "cd_index_event_breakdown", more),
    )


def _incidence(sources: Sequence[NamedTables]) -> View:
    """Return the incidence by year, age and sex."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        found = _with_cohort(source, found)
        known = found["cohort_count"].notna() & found["person_years"].notna()
        rate = found["incidence_rate"].where(known & (found["cohort_count"] >= 0))
        return found.assign(
            year=found["calendar_year"].fillna("all"),
            age=found["age_group"].fillna("all"),
            sex=found["gender"].fillna("all").str.lower(),
            incidence_rate=rate,
        )

    return _view(
        "cohort-incidence",
        "Incidence by year",
        "First entries and person-years at risk until them, for all and by calendar year, age and "
        "sex. The chart shows the rates by year of the rows; choose an age and a sex above. Rates "
        "that depend on few people are missing.",
        (
            *OF_COHORT,
            *important(texts(year="Year")),
            *texts(age="Age", sex="Sex"),
            *important((column("incidence_rate", "Per 1,000 person-years"),)),
            column("cohort_count", "First entries", "count"),
            column("person_years", "Person-years"),
        ),
        everybody_first(gathered(sources, "cd_incidence_rate", more), ("year", "age", "sex")),
        "yearly",
    )


def _windowed(source: NamedTables, table: str) -> pd.DataFrame:
    """Return a table of covariates by windows with the names of cohorts, covariates and windows."""
    found = _with_cohort(source, source.named(table))
    references = source.tables.get("cd_temporal_covariate_ref")
    if references is not None:
        key = ["covariate_id", "covariate_name", "analysis_id"]
        found = found.merge(
            references[key].drop_duplicates("covariate_id"), on="covariate_id", how="left"
        )
    times = source.tables.get("cd_temporal_time_ref")
    windows = {
        int(i): f"days {int(first)} to {int(last)}"
        for i, first, last in (
            [] if times is None
            else times[["time_id", "start_day", "end_day"]].itertuples(index=False)
        )
    }  # fmt: skip
    hidden = found.get(HIDDEN, pd.Series(False, index=found.index)).astype(bool)
    name = found.get("covariate_name", pd.Series(None, found.index, dtype=object))
    return found.assign(
        covariate=name.fillna(found["covariate_id"].astype(str)).map(title_case),
        window=found["time_id"].map(windows).fillna("index date"),
        status=np.where(hidden, HIDDEN_RISK, "shown"),
    )


def _characteristics(sources: Sequence[NamedTables]) -> View:
    """Return the characteristics of cohorts by windows."""
    parts = []
    for source in sources:
        for table in ("cd_temporal_covariate_value", "cd_temporal_covariate_value_dist"):
            if table in source:
                found = _windowed(source, table)
                if table.endswith("_value"):  # R repeats the means of other covariates here.
                    found = found[found["sum_value"] != -1]
                parts.append(found)
    return _view(
        "cohort-characteristics",
        "Characteristics",
        "Covariates on the index date and in windows of days before and after it: the share of "
        "entries with a record, or the mean and median of a number. Windows after the index are "
        "not shown of cohorts with a comparison or a case series that fails a diagnostic.",
        (
            *OF_COHORT,
            *ids("covariate_id", "time_id"),
            *texts(window="Window"),
            *important(texts("text", covariate="Covariate")),
            *important((column("mean", "Share or mean"),)),
            *STATUS,
            column("sum_value", "Entries", "count"),
            column("count_value", "With a value", "count"),
            column("sd", "Standard deviation"),
            column("p_25_value", "25 %"),
            column("median_value", "Median"),
            column("p_75_value", "75 %"),
        ),
        stacked(parts),
    )


def _comparison(sources: Sequence[NamedTables]) -> View:
    """Return shares of two cohorts side by side, with their standardised differences."""
    parts = []
    for source in sources:
        if "cd_temporal_covariate_value" not in source:
            continue
        found = _windowed(source, "cd_temporal_covariate_value")
        shares = found[(found["sum_value"] != -1) & found["mean"].between(0, 1)]
        for _, of in shares.groupby("database_id", sort=False):
            parts += _pairs(of, source)
    table = stacked(parts)
    more = (
        f" Of more than {MOST_COHORTS} cohorts the largest ones are compared."
        if len(table) and table["cohort"].nunique() >= MOST_COHORTS - 1
        else ""
    )
    return _view(
        "cohort-comparison",
        "Two cohorts side by side",
        "Shares of entries with a covariate in two cohorts of one database, and their standardised "
        f"mean difference (SMD); a share that is not reported counts as missing.{more}",
        (
            *ids("cohort_id", "other_cohort_id", "covariate_id", "time_id"),
            *texts(database="Database", cohort="Cohort", other="Other cohort", window="Window"),
            *important(
                (
                    *texts("text", covariate="Covariate"),
                    column("std_diff", "SMD", "difference"),
                    column("mean", "Share"),
                    column("other_mean", "Share in the other"),
                )
            ),
        ),
        table,
        "pairs",
    )


def _pairs(shares: pd.DataFrame, source: NamedTables) -> list[pd.DataFrame]:
    """Return the covariates of each two of the largest cohorts of a database."""
    counts = source.tables.get("cd_cohort_count")
    known = list(dict.fromkeys(shares["cohort_id"]))
    if counts is not None:
        sizes = counts.drop_duplicates("cohort_id").set_index("cohort_id")["cohort_subjects"]
        known.sort(key=lambda i: -float(sizes.get(i, 0)))
    parts = []
    key = ["covariate_id", "time_id"]
    for first, second in itertools.combinations(sorted(known[:MOST_COHORTS]), 2):
        one = shares[shares["cohort_id"] == first]
        two = shares.loc[shares["cohort_id"] == second, [*key, "cohort", "cohort_id", "mean"]]
        both = one.merge(
            two.rename(columns={"cohort": "other", "cohort_id": "other_cohort_id",
                                "mean": "other_mean"}),
            on=key,
        )  # fmt: skip
        p, q = both["mean"].to_numpy(float), both["other_mean"].to_numpy(float)
        spread = np.sqrt((p * (1 - p) + q * (1 - q)) / 2)
        differences = standardized_difference(p, q, spread)
        parts.append(both.assign(std_diff=np.where(spread > 0, differences, np.nan)))
    return parts


def _overlap(sources: Sequence[NamedTables]) -> View:
    """Return the people that cohorts share."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        found = _with_cohort(source, found)
        hidden = found.get(HIDDEN, pd.Series(False, index=found.index)).astype(bool)
        return found.assign(
            other=source.names.cohorts(found["other_cohort_id"]),
            status=np.where(hidden, HIDDEN_RISK, "shown"),
        )

    return _view(
        "cohort-overlap",
        "Overlap",
        "People in both of two cohorts, and which of them they enter first.",
        (
            *OF_COHORT,
            *ids("other_cohort_id"),
            *texts(other="Other cohort"),
            *important((column("both_subjects", "In both", "count"),)),
            *STATUS,
            column("before_subjects", "The first one before", "count"),
            column("same_day_subjects", "On the same day", "count"),
            column("after_subjects", "The first one after", "count"),
        ),
        gathered(sources, "cohort_overlap", more),
    )


def _visits(sources: Sequence[NamedTables]) -> View:
    """Return the visits around index dates."""
    return _view(
        "cohort-visits",
        "Visits",
        "People with a visit that ends in the 30 days before the index date, continues on it, "
        "starts on it, or starts in the 30 days after it.",
        (
            *OF_COHORT,
            *texts(visit="Visit", visit_context="When"),
            column("subjects", "People", "count"),
        ),
        gathered(sources, "cd_visit_context", _with_concepts(visit="visit_concept_id")),
    )


def _included(sources: Sequence[NamedTables]) -> View:
    """Return the recorded concepts of concept sets, by source concept."""
    return _view(
        "cohort-concepts",
        "Concepts in the data",
        "Recorded concepts of each concept set in the whole database, by the source concept that "
        "they were mapped from.",
        (
            *OF_COHORT,
            *texts(concept_set_name="Concept set"),
            *texts("text", concept="Concept", source_concept="Source concept"),
            column("concept_count", "Records", "count"),
            column("concept_subjects", "People", "count"),
        ),
        gathered(
            sources,
            "cd_included_source_concept",
            _with_concepts(concept="concept_id", source_concept="source_concept_id"),
        ),
    )


def _orphans(sources: Sequence[NamedTables]) -> View:
    """Return recorded concepts with similar names outside of concept sets."""
    return _view(
        "cohort-orphans",
        "Orphan concepts",
        "Recorded concepts that are in no set, with the name of one of its concepts in theirs.",
        (
            *OF_COHORT,
            *texts(concept_set_name="Concept set"),
            *texts("text", concept="Concept"),
            column("concept_id", "Concept id", "whole"),
            column("concept_count", "Records", "count"),
            column("concept_subjects", "People", "count"),
        ),
        gathered(sources, "cd_orphan_concept", _with_concepts(concept="concept_id")),
    )
