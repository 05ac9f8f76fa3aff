"""Substitutes for tables that violate OMOP's conventions, for Circe definitions to read."""

from __future__ import annotations

from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.irregular_rows import repeated_people
from steropes.studies.database.observation_periods import joined_periods, joined_periods_note
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["regular_tables"]


def regular_tables(
    db: OmopDatabase, work: Workspace, names: set[str]
) -> tuple[dict[str, str], tuple[DataNote, ...]]:
    """Create tables without duplicate people and overlapping periods, where these exist.

    Parameters
    ----------
    work : Workspace
        Workspace of the new tables.
    names : set of str
        Tables that the definition reads.

    Returns
    -------
    dict of str to str
        Name of the temporary table by the table that it replaces.
    tuple of DataNote
    """
    made: dict[str, str] = {}
    notes: tuple[DataNote, ...] = ()
    if "observation_period" in names:
        work.run(f"CREATE TEMP TABLE joined_periods AS {joined_periods(db)}")
        notes += joined_periods_note(work, "FROM joined_periods")
        if notes:
            work.run(
                "CREATE TEMP TABLE regular_periods AS "
                "SELECT row_number() OVER (ORDER BY person_id, first) AS observation_period_id, "
                "person_id, first AS observation_period_start_date, "
                "last AS observation_period_end_date, 0 AS period_type_concept_id "
                "FROM joined_periods"
            )
            made["observation_period"] = "regular_periods"
    if "person" in names:
        twice = repeated_people(db, work, f"SELECT person_id FROM {db.table('person')}")
        notes += twice
        if twice:
            others = ", ".join(
                f'min("{c}") AS "{c}"' for c in db.columns("person") if c != "person_id"
            )
            work.run(
                f"CREATE TEMP TABLE regular_people AS SELECT person_id, {others} "
                f"FROM {db.table('person')} GROUP BY person_id"
            )
            made["person"] = "regular_people"
    return made, notes
