"""Exact tables of the diagnostics of cohorts, of which the release is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from steropes.errors import DataError
from steropes.studies.cohort_diagnostics.calendar_series import calendar_series
from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import (
    CohortDefinition,
    DefinitionSet,
    place_concept_sets,
)
from steropes.studies.cohort_diagnostics.included_and_orphan_concepts import (
    included_concepts,
    orphan_concepts,
    resolved_concepts,
)
from steropes.studies.cohort_diagnostics.index_events import index_events, visit_context
from steropes.studies.cohort_diagnostics.yearly_incidence import yearly_incidence
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.concept_selection import ConceptSelection
from steropes.studies.covariates.window_summaries import (
    WindowRules,
    WindowSummaries,
    summarise_windows,
)
from steropes.studies.database.irregular_rows import leave_out_unknown_people
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.database.sources.table_source import require_rows

__all__ = [
    "INCIDENCE",
    "RELATIONSHIPS",
    "SERIES",
    "WINDOWS",
    "AskedDiagnostics",
    "CohortDiagnostics",
    "cohort_diagnostics",
    "cohort_overlap",
]

ENTRIES = "diagnostic_entries"
# The names of parts that depend on the number of cohorts, as in verdicts.
INCIDENCE, SERIES = "incidence by year, age and sex", "series by month, quarter and year"
RELATIONSHIPS, WINDOWS = "relationships between cohorts", "characteristics by time windows"


def cohort_overlap(work: Workspace, entries: str) -> pd.DataFrame:
    """Count the people in each two cohorts that share any, by the order of their first entries.

    Parameters
    ----------
    entries : str
        The table of entries in the workspace.

    Returns
    -------
    DataFrame
        Exact counts: ``cohort_id``, ``other_cohort_id``, ``both_subjects``, those who enter the
        first cohort before (``before_subjects``), on the day of (``same_day_subjects``) and after
        the other (``after_subjects``), and those in one cohort ``only``.

    Raises
    ------
    DataError
        There are more than `MOST_ROWS` pairs of cohorts.
    """
    # Pairs are no more than all, nor than those of each person added up.
    [(most,)] = work.rows(
        "SELECT least(n * (n - 1) / 2, shared) FROM (SELECT sum(own) AS own, "
        "sum(own * (own - 1) / 2) AS shared FROM (SELECT count(DISTINCT cohort_definition_id) "
        f"AS own FROM {entries} GROUP BY subject_id)), "
        f"(SELECT count(DISTINCT cohort_definition_id) AS n FROM {entries})"
    )
    require_rows(most or 0, "pairs of cohorts")
    return work.frame(f"""
    WITH firsts AS (
        SELECT cohort_definition_id AS cohort, subject_id, min(cohort_start_date) AS first
        FROM {entries} GROUP BY ALL),
    sizes AS (SELECT cohort, count(*) AS people FROM firsts GROUP BY cohort),
    pairs AS (
        SELECT a.cohort AS cohort_id, b.cohort AS other_cohort_id, count(*) AS both_subjects,
            count(*) FILTER (a.first < b.first) AS before_subjects,
            count(*) FILTER (a.first = b.first) AS same_day_subjects,
            count(*) FILTER (a.first > b.first) AS after_subjects
        FROM firsts a JOIN firsts b ON b.subject_id = a.subject_id AND a.cohort < b.cohort
        GROUP BY ALL)
    SELECT p.*, s.people - both_subjects AS only_subjects,
        o.people - both_subjects AS other_only_subjects
    FROM pairs p JOIN sizes s ON s.cohort = cohort_id JOIN sizes o ON o.cohort = other_cohort_id
    ORDER BY cohort_id, other_cohort_id
    """)


@dataclass(frozen=True)
class AskedDiagnostics:
    """Diagnostics to compute.

    Attributes
    ----------
    source_concepts, orphans, visits, index_events, incidence, relationships : bool
        Whether to compute them.
    series : bool
        Whether to compute series by month, quarter and year.
    washout : int
        Days of observation before the time at risk of incidence.
    windows : WindowRules or None
        Covariates of several windows.
    """

    source_concepts: bool = True
    orphans: bool = True
    visits: bool = True
    index_events: bool = True
    incidence: bool = True
    relationships: bool = True
    washout: int = 0
    windows: WindowRules | None = None
    series: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class CohortDiagnostics:
    """Exact diagnostics, which are not for release.

    Attributes
    ----------
    counts : DataFrame
        ``cohort_definition_id``, ``entries`` and ``people`` of each cohort.
    tables : dict of str to DataFrame
        Tables by R's names without prefix, and ``cohort_overlap``.
    sets : list of DefinitionSet
        The concept sets of the definitions.
    windows : WindowSummaries or None
        Covariates of several windows.
    left_out : dict of str to str
        Why parts could not be computed although they were asked for.
    """

    counts: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    sets: Sequence[DefinitionSet]
    windows: WindowSummaries | None
    left_out: dict[str, str] = field(default_factory=dict)


def cohort_diagnostics(
    db: OmopDatabase,
    definitions: Sequence[CohortDefinition],
    cohorts: CohortTable,
    asked: AskedDiagnostics,
    say: Callable[[str], None],
) -> CohortDiagnostics:
    """Compute the diagnostics of cohorts.

    Parameters
    ----------
    definitions : sequence of CohortDefinition
        The cohorts to examine.
    cohorts : CohortTable
        Their entries, and maybe those of others.
    say : callable
        Called with the description of each step.

    Returns
    -------
    CohortDiagnostics
        A part that the vocabulary does not allow, or with too many rows, is left out, and the
        others are there.
    """
    chosen = cohorts.only(d.id for d in definitions)
    tables: dict[str, pd.DataFrame] = {}
    left_out: dict[str, str] = {}
    with db.workspace() as work:
        chosen.place(work, ENTRIES)
        leave_out_unknown_people(db, work, ENTRIES)
        say("concept sets of the definitions")
        sets = place_concept_sets(db, work, definitions)
        tables["resolved_concepts"] = resolved_concepts(work, sets)
        if asked.index_events:
            found = index_events(db, work, ENTRIES, definitions, sets)
            tables["index_event_breakdown"] = found
        if asked.visits:
            tables["visit_context"] = visit_context(db, work, ENTRIES)
        if asked.source_concepts:
            say("source concepts")
            tables["included_source_concept"] = included_concepts(db, work, sets)
        if asked.orphans:
            say("orphan concepts")
            tables["orphan_concept"] = orphan_concepts(db, work, sets)
        computed: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {}
        if asked.relationships:
            computed[RELATIONSHIPS] = "cohort_overlap", lambda: cohort_overlap(work, ENTRIES)
        if asked.incidence:
            computed[INCIDENCE] = (
                "incidence_rate", lambda: yearly_incidence(db, work, ENTRIES, asked.washout)
            )  # fmt: skip
        if asked.series:
            computed[SERIES] = "time_series", lambda: calendar_series(db, work, ENTRIES)
        for part, (name, compute) in computed.items():
            say(part)
            try:
                tables[name] = compute()
            except DataError as error:
                left_out[part] = str(error)
    windows = _windows(db, chosen, asked, {d.id: d.name for d in definitions}, left_out, say)
    return CohortDiagnostics(_counts(chosen, definitions), tables, sets, windows, left_out)


def _windows(
    db: OmopDatabase,
    cohorts: CohortTable,
    asked: AskedDiagnostics,
    names: Mapping[int, str],
    left_out: dict[str, str],
    say: Callable[[str], None],
) -> WindowSummaries | None:
    """Compute covariates of windows, or membership in other cohorts alone if that fails."""
    rules = asked.windows
    if rules is not None and RELATIONSHIPS in left_out:
        rules = replace(rules, cohorts=False)
    if rules is None or not (rules.analyses or rules.cohorts):
        return None
    say(WINDOWS)
    try:
        return summarise_windows(db, cohorts, rules, names)
    except DataError as error:
        left_out[WINDOWS] = str(error)
    if not rules.cohorts:  # Membership in other cohorts needs no vocabulary.
        return None
    alone = replace(rules, analyses=(), selection=ConceptSelection())
    try:
        return summarise_windows(db, cohorts, alone, names)
    except DataError as error:
        left_out[RELATIONSHIPS] = str(error)
        return None


def _counts(cohorts: CohortTable, definitions: Sequence[CohortDefinition]) -> pd.DataFrame:
    """Count entries and people of all cohorts, of which some may have none."""
    found = cohorts.counts().set_index("cohort_definition_id")
    ids = pd.Index([d.id for d in definitions], name=found.index.name)
    return found.reindex(ids, fill_value=0).astype("int64").reset_index()
