"""Tables with all columns of the CDM that Circe's SQL may read, whatever the database has.

Circe's SQL names columns that a definition does not use, and columns that the CDM allows a site to
leave empty. Databases without them are common: files of empty tables often have no header.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.database.sources.table_source import MARK

__all__ = ["CompletedTables"]

# Columns that a site may leave empty, and which are therefore read as NULL where they are missing.
OPTIONAL = re.compile(
    r"(provider|care_site|location|visit_occurrence|visit_detail|lot|specimen_source|"
    r"unique_device)_(id|number)|stop_reason|refills|quantity|days_supply|gap_days|dose_value|"
    r"value_as_\w+|range_(low|high)|"
    r"(condition|device_exposure)_end_date|(condition_occurrence|drug_exposure)_count|"
    r"(type|source|status|cause|route|unit|operator|qualifier|modifier|site|specialty|service|payer"
    r"|plan|sponsor|reason|as|disease_status|anatomic_site)_concept_id|\w+_(type|source|status|"
    r"service|reason)_concept_id"
)
NUMBERS = {"INTEGER", "BIGINT", "DOUBLE"}


@functools.cache
def _fields() -> Mapping[str, dict[str, str]]:
    """Return the columns of the CDM 5.3 and 5.4 with DuckDB's types, by table."""
    need("duckcdm", "circe")
    from duckcdm.omop import cdm_fields

    return {table: dict(columns) for table, columns in cdm_fields().items()}


class CompletedTables:
    """Finds tables that lack columns, and writes the SQL that supplies them.

    A table with none of the CDM's columns is read as one without records. A missing column that
    the CDM allows to be empty is NULL. Numbers in text are converted.

    Parameters
    ----------
    db : OmopDatabase
    work : Workspace
        A workspace of the database.
    """

    def __init__(self, db: OmopDatabase, work: Workspace) -> None:
        self.db, self.work = db, work
        self._types: dict[str, dict[str, str]] = {}  # DuckDB's types by the SQL of a table.

    def of(self, names: Iterable[str], sql: str) -> tuple[dict[str, str], tuple[DataNote, ...]]:
        """Complete the tables that a definition reads.

        Parameters
        ----------
        names : iterable of str
            The tables.
        sql : str
            The definition's SQL, for the columns that it names.

        Returns
        -------
        dict of str to str
            SQL for use after FROM, by the table that it replaces.
        tuple of DataNote
            Tables and columns that were missing.

        Raises
        ------
        DataError
            The database lacks a table, or a column that the CDM requires.
        """
        made: dict[str, str] = {}
        notes: list[DataNote] = []
        named = {*re.findall(r"\w+", sql.lower())}
        for table in sorted(names):
            wanted = {c: t for c, t in _fields().get(table, {}).items() if c in named}
            have = {*self.db.columns(table)}
            if not have:
                raise DataError(f"the database has no table {table}, which the definition reads")
            if not wanted:
                continue
            if have.isdisjoint(_fields()[table]):
                nothing = ", ".join(f"NULL::{t} AS {c}" for c, t in wanted.items())
                made[table] = f"(SELECT {nothing} WHERE FALSE)"
                text = f"{table} has no column of the CDM and is read as a table without records"
                notes.append(DataNote("headless_table", text))
                continue
            missing = {c: t for c, t in wanted.items() if c not in have}
            required = [c for c in missing if not OPTIONAL.fullmatch(c)]
            if required:
                raise DataError(
                    f"{table} lacks the column {required[0]}, which the definition reads"
                )
            if missing:
                listed = ", ".join(missing)
                text = f"{table} lacks {listed}, which definitions of cohorts read as empty"
                notes.append(DataNote("missing_columns", text))
            supplied = self._supplied(table, wanted, missing)
            if supplied:
                made[table] = supplied
        return made, tuple(notes)

    def _supplied(self, table: str, wanted: Mapping[str, str], missing: Mapping[str, str]) -> str:
        """Write SQL that adds missing columns and converts numbers in text; "" without need."""
        source = self.db.table(table)
        if source not in self._types:
            self._types[source] = {
                str(row[0]).lower(): str(row[1]).upper()
                for row in self.work.rows(f"DESCRIBE SELECT * FROM {source}")
            }
        types = self._types[source]
        converted = []
        for column, kind in wanted.items():
            declared = types.get(column, kind)
            if kind in NUMBERS and declared == "VARCHAR":
                message = f"{MARK}{table}: {column} has text that is not a number"
                number = f"try_cast(trim({column}) AS {kind})"
                converted.append(
                    f"CASE WHEN {column} IS NOT NULL THEN "
                    f"coalesce({number}, error('{message}')) END AS {column}"
                )
            elif kind == "VARCHAR" and declared != "VARCHAR":
                converted.append(f"{column}::VARCHAR AS {column}")
        if not missing and not converted:
            return ""
        replaced = f" REPLACE ({', '.join(converted)})" if converted else ""
        added = "".join(f", NULL::{t} AS {c}" for c, t in missing.items())
        return f"(SELECT *{replaced}{added} FROM {source})"
