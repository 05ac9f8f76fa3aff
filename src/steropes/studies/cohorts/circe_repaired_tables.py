"""Substitutes for tables that violate OMOP's conventions, for Circe definitions to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.irregular_rows import irregular_eras, last_day, repeated_people
from steropes.studies.database.observation_periods import joined_periods, joined_periods_note
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["RegularTables"]

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
SPANS = {**ERAS, **OCCURRENCES}


class RegularTables:
    """Replaces tables with duplicate people, overlapping periods or reversed or open eras.

    Each table is examined when the first definition reads it.

    Parameters
    ----------
    db : OmopDatabase
    work : Workspace
        Workspace of the new tables.
    """

    def __init__(self, db: OmopDatabase, work: Workspace) -> None:
        self.db, self.work = db, work
        # SQL of the substitute, if there is one, and notes, by the SQL of a table.
        self._found: dict[str, tuple[str | None, tuple[DataNote, ...]]] = {}

    def of(
        self, names: set[str], complete: Mapping[str, str]
    ) -> tuple[dict[str, str], tuple[DataNote, ...]]:
        """Return substitutes for the tables that a definition reads.

        Parameters
        ----------
        names : set of str
            The tables.
        complete : mapping of str to str
            SQL of tables that lack columns, by their names; see `CompletedTables`.

        Returns
        -------
        dict of str to str
            SQL for use after FROM, by the table that it replaces.
        tuple of DataNote
        """
        made: dict[str, str] = {}
        notes: tuple[DataNote, ...] = ()
        examined: dict[str, Callable[[str], tuple[str | None, tuple[DataNote, ...]]]] = {
            "observation_period": self._periods,
            "person": self._people,
        }
        for table in (*examined, *SPANS):
            if table not in names:
                continue
            source = complete.get(table) or self.db.table(table)
            if table in examined:
                source = self.db.table(table)
            if source not in self._found:
                of = examined.get(table) or partial(self._records, table)
                self._found[source] = of(source)
            substitute, found = self._found[source]
            made |= {table: substitute} if substitute else {}
            notes += found
        return made, notes

    def _periods(self, _: str) -> tuple[str | None, tuple[DataNote, ...]]:
        """Join observation periods that overlap or touch."""
        self.work.run(f"CREATE OR REPLACE TEMP TABLE joined_periods AS {joined_periods(self.db)}")
        notes = joined_periods_note(self.work, "FROM joined_periods")
        if not notes and self.db.observed_until is None:
            self.work.run("DROP TABLE joined_periods")
            return None, notes
        self.work.run(
            "CREATE OR REPLACE TEMP TABLE regular_periods AS "
            "SELECT row_number() OVER (ORDER BY person_id, first) AS observation_period_id, "
            "person_id, first AS observation_period_start_date, "
            "last AS observation_period_end_date, 0 AS period_type_concept_id "
            "FROM joined_periods"
        )
        return "regular_periods", notes

    def _people(self, source: str) -> tuple[str | None, tuple[DataNote, ...]]:
        """Give each person one row."""
        twice = repeated_people(self.db, self.work, f"SELECT person_id FROM {source}")
        if not twice:
            return None, twice
        others = ", ".join(
            f'min("{c}") AS "{c}"' for c in self.db.columns("person") if c != "person_id"
        )
        self.work.run(
            f"CREATE OR REPLACE TEMP TABLE regular_people AS SELECT person_id, {others} "
            f"FROM {source} GROUP BY person_id"
        )
        return "regular_people", twice

    def _records(self, table: str, source: str) -> tuple[str | None, tuple[DataNote, ...]]:
        """Give records a last day that is not before the first one."""
        first, last = SPANS[table]
        have = self.db.columns(table)
        if not {first, last} <= {*have}:
            return None, ()
        end = last
        if SUPPLY in have:  # Circe adds it to the first day if the last is missing.
            end = f"coalesce({last}::DATE, CASE WHEN {SUPPLY} < 0 THEN {first}::DATE - 1 END)"
        where = "TRUE" if table in ERAS else f"{first} IS NOT NULL AND {end} IS NOT NULL"
        irregular = irregular_eras(self.work, source, table, (first, end), where)
        if not irregular:
            return None, irregular
        kept = "FALSE" if table in ERAS else f"{end} IS NULL"
        day = f"CASE WHEN {kept} THEN NULL ELSE {last_day(first, end)} END"
        return f"(SELECT * REPLACE ({day} AS {last}) FROM {source})", irregular
