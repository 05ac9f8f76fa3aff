"""Records on the index date of cohorts: concepts of entry events, and visits around it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import (
    MEMBERS,
    CohortDefinition,
    DefinitionSet,
)
from steropes.studies.cohort_diagnostics.event_table_columns import recorded_events
from steropes.studies.database.irregular_rows import last_day
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["index_events", "visit_context"]

AROUND = 30  # Days before and after the index whose visits count.
BREAKDOWN = ["cohort_id", "domain_table", "domain_field", "concept_id", "concept_count",
             "subject_count"]  # fmt: skip
CONTEXT = ["cohort_id", "visit_concept_id", "visit_context", "subjects"]


def index_events(
    db: OmopDatabase,
    work: Workspace,
    entries: str,
    definitions: Sequence[CohortDefinition],
    sets: Sequence[DefinitionSet],
) -> pd.DataFrame:
    """Count the records on the index date by concept and source concept.

    Records count if their concept, or for source concepts either concept, is in a set by which the
    definition selects entry events of that kind.

    Parameters
    ----------
    entries : str
        The table of entries in the workspace.
    """
    unique = {(s.cohort, s.number): s.unique for s in sets}
    rows = [
        (d.id, kind, unique[d.id, number])
        for d in definitions
        for kind, number in d.entry_events
        if number is not None and (d.id, number) in unique
    ]
    given = pd.DataFrame(rows, columns=["cohort", "kind", "unique_set"]).drop_duplicates()
    work.connection.register("entry_given", given.astype({"cohort": "int64", "kind": str}))
    work.run(
        "CREATE TEMP TABLE entry_concepts AS SELECT DISTINCT cohort, kind, concept_id "
        f"FROM entry_given JOIN {MEMBERS} USING (unique_set)"
    )
    work.connection.unregister("entry_given")
    parts = []
    for event, source in recorded_events(db):
        joined = (
            f"FROM {entries} c JOIN {db.table(event.table)} e ON e.person_id = c.subject_id "
            f"AND e.{event.start}::DATE = c.cohort_start_date "
            f"WHERE c.cohort_definition_id IN (SELECT cohort FROM entry_concepts "
            f"WHERE kind = '{event.kind}')"
        )
        counted = "count(*) AS concept_count, count(DISTINCT c.subject_id) AS subject_count"

        def among(column: str, kind: str = event.kind) -> str:
            """Return the condition that a concept is in a set of entry events."""
            return (
                f"(c.cohort_definition_id, {column}) IN (SELECT (cohort, concept_id) "
                f"FROM entry_concepts WHERE kind = '{kind}')"
            )

        own = f"e.{event.concept}::BIGINT"
        parts.append(
            f"SELECT c.cohort_definition_id AS cohort_id, '{event.table}' AS domain_table, "
            f"'{event.concept}' AS domain_field, {own} AS concept_id, {counted} {joined} "
            f"AND {among(own)} GROUP BY 1, 4"
        )
        if source != "NULL::BIGINT":
            parts.append(
                f"SELECT c.cohort_definition_id, '{event.table}', '{event.source}', {source}, "
                f"{counted} {joined} AND {source} <> 0 AND ({among(own)} OR {among(source)}) "
                "GROUP BY 1, 4"
            )
    if not parts:
        return pd.DataFrame(columns=BREAKDOWN)
    return work.frame(f"{' UNION ALL '.join(parts)} ORDER BY ALL")


def visit_context(db: OmopDatabase, work: Workspace, entries: str) -> pd.DataFrame:
    """Count the people with visits before, during, from or after the index date, by kind."""
    needed = {"person_id", "visit_concept_id", "visit_start_date", "visit_end_date"}
    if not needed <= {*db.columns("visit_occurrence")}:
        return pd.DataFrame(columns=CONTEXT)
    first = "v.visit_start_date::DATE"
    last = last_day("v.visit_start_date", "v.visit_end_date")
    return work.frame(
        "SELECT cohort_definition_id AS cohort_id, visit_concept_id, visit_context, "
        "count(DISTINCT subject_id) AS subjects FROM ("
        "SELECT c.cohort_definition_id, c.subject_id, v.visit_concept_id::BIGINT AS "
        f"visit_concept_id, CASE WHEN {last} < c.cohort_start_date THEN 'Before' "
        f"WHEN {first} < c.cohort_start_date THEN 'During visit' "
        f"WHEN {first} = c.cohort_start_date THEN 'On visit start' ELSE 'After' END "
        f"AS visit_context FROM {entries} c JOIN {db.table('visit_occurrence')} v "
        f"ON v.person_id = c.subject_id AND {last} >= c.cohort_start_date - {AROUND} "
        f"AND {first} <= c.cohort_start_date + {AROUND} WHERE v.visit_concept_id IS NOT NULL) "
        "GROUP BY ALL ORDER BY ALL"
    )
