"""Recorded concepts of concept sets: included source concepts, and orphans outside of the sets."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import MEMBERS, DefinitionSet
from steropes.studies.cohort_diagnostics.event_table_columns import recorded_events
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase, RecordsOf, Workspace

__all__ = ["included_concepts", "orphan_concepts", "resolved_concepts"]

# Names of concepts are searched for if they have more characters than the first number and fewer
# than the second, and the shortest of them if there are more than the third, as in R's package.
SHORTEST, LONGEST, MOST = 5, 50, 1000
SET = ["cohort_id", "concept_set_id"]


def resolved_concepts(work: Workspace, sets: Sequence[DefinitionSet]) -> pd.DataFrame:
    """Return the concepts of each set."""
    return _of_sets(sets, work.frame(f"SELECT * FROM {MEMBERS} ORDER BY ALL"))


def included_concepts(
    db: OmopDatabase, work: Workspace, sets: Sequence[DefinitionSet]
) -> pd.DataFrame:
    """Count the records and people of each concept in a set, by source concept.

    Records count on days of observation. A record without a source concept has its concept there.
    """
    parts = []
    for event, source in recorded_events(db, eras=False):
        concept = f"e.{event.concept}::BIGINT"
        parts.append(
            f"SELECT {concept} AS concept_id, coalesce({source}, {concept}) AS source_concept_id, "
            "count(DISTINCT e.person_id) AS concept_subjects, count(*) AS concept_count "
            f"FROM {db.table(event.table)} e JOIN {observation_periods(db)} o "
            f"ON o.person_id = e.person_id AND e.{event.start}::DATE BETWEEN "
            "o.observation_period_start_date AND o.observation_period_end_date "
            f"WHERE {concept} IN (SELECT concept_id FROM {MEMBERS}) GROUP BY 1, 2"
        )
    found = work.frame(
        "SELECT unique_set, concept_id, source_concept_id, max(concept_subjects) AS "
        "concept_subjects, max(concept_count) AS concept_count FROM "
        f"({' UNION ALL '.join(parts)}) JOIN {MEMBERS} USING (concept_id) "
        "GROUP BY ALL ORDER BY ALL"
    )
    return _of_sets(sets, found)


def orphan_concepts(
    db: OmopDatabase, work: Workspace, sets: Sequence[DefinitionSet]
) -> pd.DataFrame:
    """Count recorded concepts with the name of a set's concept in theirs that are outside of it.

    Concepts that are mapped to one in the set belong to it, and their names and the synonyms of all
    are searched for too.
    """
    _place_recorded(db, work)
    start = f"SELECT unique_set, concept_id FROM {MEMBERS}"
    if {"concept_id_1", "concept_id_2", "relationship_id"} <= {*db.columns("concept_relationship")}:
        members = _ids(work, f"SELECT DISTINCT concept_id FROM {MEMBERS}")
        maps = db.records(RecordsOf("concept_relationship", "concept_id_2", members))
        start += (
            f" UNION SELECT unique_set, concept_id_1 FROM {MEMBERS} JOIN {maps} "
            "ON concept_id_2 = concept_id WHERE relationship_id = 'Maps to'"
        )
    work.run(f"CREATE TEMP TABLE set_start AS {start}")
    starting = _ids(work, "SELECT DISTINCT concept_id FROM set_start")
    names = (
        "SELECT unique_set, lower(concept_name) AS name FROM set_start JOIN "
        f"{db.concepts(lambda: starting)} USING (concept_id)"
    )
    if {"concept_id", "concept_synonym_name"} <= {*db.columns("concept_synonym")}:
        synonyms = db.records(RecordsOf("concept_synonym", "concept_id", starting))
        names += (
            " UNION SELECT unique_set, lower(concept_synonym_name) FROM set_start "
            f"JOIN {synonyms} USING (concept_id)"
        )
    work.run(
        "CREATE TEMP TABLE set_names AS SELECT unique_set, name FROM ("
        "SELECT unique_set, name, row_number() OVER (PARTITION BY unique_set ORDER BY "
        "length(name) - length(replace(name, ' ', '')), length(name), name) AS place "
        f"FROM (SELECT DISTINCT * FROM ({names}) WHERE length(name) > {SHORTEST} "
        f"AND length(name) < {LONGEST})) WHERE place < {MOST}"
    )
    recorded = _ids(work, "SELECT concept_id FROM recorded_concepts")
    found = work.frame(
        "SELECT DISTINCT n.unique_set, r.concept_id, r.concept_count, r.concept_subjects "
        f"FROM recorded_concepts r JOIN {db.concepts(lambda: recorded)} c USING (concept_id) "
        "JOIN set_names n ON contains(lower(c.concept_name), n.name) "
        "ANTI JOIN set_start s ON s.unique_set = n.unique_set AND s.concept_id = r.concept_id "
        "ORDER BY ALL"
    )
    return _of_sets(sets, found)


def _place_recorded(db: OmopDatabase, work: Workspace) -> None:
    """Create the table of all recorded concepts and source concepts with their counts."""
    parts = [
        f"SELECT {column} AS concept_id, count(*) AS concept_count, "
        f"count(DISTINCT e.person_id) AS concept_subjects FROM {db.table(event.table)} e GROUP BY 1"
        for event, source in recorded_events(db, eras=False)
        if event.kind != "VisitOccurrence"
        for column in dict.fromkeys((f"e.{event.concept}::BIGINT", source))
    ]
    work.run(
        "CREATE TEMP TABLE recorded_concepts AS SELECT concept_id, max(concept_count) AS "
        "concept_count, max(concept_subjects) AS concept_subjects FROM "
        f"({' UNION ALL '.join(parts)}) WHERE concept_id <> 0 GROUP BY concept_id"
    )


def _of_sets(sets: Sequence[DefinitionSet], found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each cohort's sets instead of those of unique sets."""
    keys = pd.DataFrame(
        [(s.cohort, s.number, s.unique) for s in sets], columns=[*SET, "unique_set"]
    ).drop_duplicates()
    made = keys.merge(found, on="unique_set").drop(columns="unique_set")
    return made.sort_values([*SET, "concept_id"], kind="stable", ignore_index=True)


def _ids(work: Workspace, sql: str) -> tuple[int, ...]:
    """Return the ids that a query finds; one that does not exist if there are none."""
    return tuple(sorted(int(c) for (c,) in work.rows(sql) if c is not None)) or (-1,)
