"""Write a drawn database as a DuckDB file, as Parquet files, or to PostgreSQL."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .draw import Database

if TYPE_CHECKING:
    import duckdb

__all__ = ["to_duckdb", "to_parquet", "to_postgresql"]

COLUMNS = {
    "person": ("person_id", "year_of_birth", "month_of_birth", "day_of_birth", "gender_concept_id"),
    "observation_period": (
        "person_id", "observation_period_start_date", "observation_period_end_date",
    ),
    "drug_era": ("person_id", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"),
    "condition_occurrence": (
        "person_id", "condition_concept_id", "condition_start_date", "condition_end_date",
    ),
    "concept": ("concept_id", "concept_name", "domain_id", "vocabulary_id"),
    "concept_ancestor": ("ancestor_concept_id", "descendant_concept_id"),
    "measurement": (
        "person_id", "measurement_concept_id", "measurement_date", "value_as_number",
        "unit_concept_id",
    ),
    "death": ("person_id", "death_date"),
    "procedure_occurrence": ("person_id", "procedure_concept_id", "procedure_date"),
    "observation": ("person_id", "observation_concept_id", "observation_date"),
}  # fmt: skip
TYPES = {
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
}
INTEGERS = {"BIGINT": pa.int64(), "INTEGER": pa.int32(), "DECIMAL": pa.decimal128(38, 0)}


def arrow_table(db: Database, table: str) -> pa.Table:
    """Make a table with the types that it is to be stored with."""
    rows = db.tables[table]
    columns: dict[str, pa.Array] = {}
    for name in COLUMNS[table]:
        values = [row[name] for row in rows]
        if name.endswith("_date"):
            kind = TYPES[db.date_types[table]]
            values = [_stored(v, db.date_types[table]) for v in values]
        elif name in ("concept_name", "domain_id", "vocabulary_id"):
            kind = pa.string()
        elif name == "value_as_number":
            text = any(isinstance(value, str) for value in values)
            kind = pa.string() if text else pa.float64()
        else:
            kind = INTEGERS[db.integers]
        columns[_written(db, name)] = pa.array(values, kind)
    if db.extra_columns:
        columns["source_value"] = pa.array(["x"] * len(rows), pa.string())
    return pa.table(columns)


def _written(db: Database, name: str) -> str:
    """Write a name in the case that the database has."""
    return {"lower": name, "capitals": name.upper(), "mixed": name.title()}[db.names]


def _decoy(db: Database) -> Database:
    """Make the same database with half of the rows."""
    return replace(db, tables={table: rows[::2] for table, rows in db.tables.items()})


def _stored(value: object, kind: str) -> object:
    if value is None or kind == "DATE":
        return value
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    return moment.replace(tzinfo=dt.UTC) if kind == "TIMESTAMPTZ" else moment


def to_duckdb(db: Database, path: Path) -> Path:
    """Write a DuckDB file."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        _fill(connection, db, db.schema)
        if db.decoy:
            _fill(connection, _decoy(db), "cdm_y" if db.schema == "main" else "main")
    return path


def _fill(connection: duckdb.DuckDBPyConnection, db: Database, schema: str) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for table in db.tables:
        name = _written(db, table)
        connection.register("rows", arrow_table(db, table))
        stored = f"{name}_rows" if db.views else name
        connection.execute(f"CREATE TABLE {schema}.{stored} AS FROM rows")
        connection.unregister("rows")
        if db.views:
            connection.execute(f"CREATE VIEW {schema}.{name} AS FROM {schema}.{stored}")


def to_parquet(db: Database, folder: Path) -> Path:
    """Write a folder with a Parquet file for each table."""
    import pyarrow.parquet as pq

    folder.mkdir()
    for table in db.tables:
        pq.write_table(arrow_table(db, table), folder / f"{_written(db, table)}.parquet")
    return folder


def to_postgresql(db: Database, url: str, schema: str) -> None:
    """Write the tables into a new schema of a PostgreSQL database."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        places = [(db, schema), *([(_decoy(db), "public")] if db.decoy else [])]
        for stored, place in places:
            cursor.execute(f"DROP SCHEMA IF EXISTS {place} CASCADE")
            cursor.execute(f"CREATE SCHEMA {place}")
            for table in stored.tables:
                # PostgreSQL folds names that are not quoted to lower case, and OMOP's DDL quotes
                # none.
                rows = arrow_table(stored, table)
                rows = rows.rename_columns([c.lower() for c in rows.column_names])
                cursor.adbc_ingest(table, rows, mode="create", db_schema_name=place)
        connection.commit()
