"""Substitutes for tables that violate OMOP's conventions, for Circe definitions to read."""

from __future__ import annotations

from collections.abc import Mapping

from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.irregular_rows import irregular_eras, last_day, repeated_people
from steropes.studies.database.observation_periods import joined_periods, joined_periods_note
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["regular_tables"]

SUPPLY = "days_supply"
# Tables of records with a first and a last day. Circe's SQL supplies a missing last day of those
# in the second list only, and would leave out any record that ends before it starts.
ERAS = {
    "condition_era": ("condition_era_start_date", "condition_era_end_date"),
    "drug_era": ("drug_era_start_date", "drug_era_end_date"),
    "visit_occurrence": ("visit_start_date", "visit_end_date"),
}
OCCURRENCES = {
    "condition_occurrence": ("condition_start_date", "condition_end_date"),
    "device_exposure": ("device_exposure_start_date", "device_exposure_end_date"),
    "drug_exposure": ("drug_exposure_start_date", "drug_exposure_end_date"),
}


def regular_tables(
    db: OmopDatabase, work: Workspace, names: set[str], complete: Mapping[str, str]
) -> tuple[dict[str, str], tuple[DataNote, ...]]:
    """Replace tables with duplicate people, overlapping periods or reversed or open eras.

    Parameters
    ----------
    work : Workspace
        Workspace of the new tables.
    names : set of str
        Tables that the definition reads.
    complete : mapping of str to str
        SQL of tables that lack columns, by their names; see `completed_tables`.

    Returns
    -------
    dict of str to str
        SQL for use after FROM, by the table that it replaces.
    tuple of DataNote
    """
    made: dict[str, str] = {}
    notes: tuple[DataNote, ...] = ()
    if "observation_period" in names:
        work.run(f"CREATE TEMP TABLE joined_periods AS {joined_periods(db)}")
        notes += joined_periods_note(work, "FROM joined_periods")
        if notes or db.observed_until is not None:
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
    for table, (first, last) in {**ERAS, **OCCURRENCES}.items():
        if table not in names or not {first, last} <= {*db.columns(table)}:
            continue
        source = complete.get(table) or db.table(table)
        end = last
        if SUPPLY in db.columns(table):  # Circe adds it to the first day if the last is missing.
            end = f"coalesce({last}::DATE, CASE WHEN {SUPPLY} < 0 THEN {first}::DATE - 1 END)"
        where = "TRUE" if table in ERAS else f"{end}::DATE < {first}::DATE"
        irregular = irregular_eras(work, source, table, (first, end), where)
        if irregular:
            notes += irregular
            kept = "FALSE" if table in ERAS else f"{end} IS NULL"
            day = f"CASE WHEN {kept} THEN NULL ELSE {last_day(first, end)} END"
            made[table] = f"(SELECT * REPLACE ({day} AS {last}) FROM {source})"
    return made, notes
