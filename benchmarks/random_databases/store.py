"""Write a drawn database as a DuckDB file, as Parquet files, or to PostgreSQL."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

from .draw import Database

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
    "measurement": ("person_id", "measurement_concept_id", "measurement_date"),
    "procedure_occurrence": ("person_id", "procedure_concept_id", "procedure_date"),
    "observation": ("person_id", "observation_concept_id", "observation_date"),
}  # fmt: skip
TYPES = {
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
}


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
        else:
            kind = pa.int64()
        columns[name.upper() if db.upper_case else name] = pa.array(values, kind)
    if db.extra_columns:
        columns["source_value"] = pa.array(["x"] * len(rows), pa.string())
    return pa.table(columns)


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
        if db.schema != "main":
            connection.execute(f"CREATE SCHEMA {db.schema}")
        for table in db.tables:
            name = table.upper() if db.upper_case else table
            connection.register("rows", arrow_table(db, table))
            stored = f"{name}_rows" if db.views else name
            connection.execute(f"CREATE TABLE {db.schema}.{stored} AS FROM rows")
            connection.unregister("rows")
            if db.views:
                connection.execute(f"CREATE VIEW {db.schema}.{name} AS FROM {db.schema}.{stored}")
    return path


def to_parquet(db: Database, folder: Path) -> Path:
    """Write a folder with a Parquet file for each table."""
    import pyarrow.parquet as pq

    folder.mkdir()
    for table in db.tables:
        name = table.upper() if db.upper_case else table
        pq.write_table(arrow_table(db, table), folder / f"{name}.parquet")
    return folder


def to_postgresql(db: Database, url: str, schema: str) -> None:
    """Write the tables into a new schema of a PostgreSQL database."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        cursor.execute(f"CREATE SCHEMA {schema}")
        for table in db.tables:
            # PostgreSQL folds names that are not quoted to lower case, and OMOP's DDL quotes none.
            rows = arrow_table(db, table).rename_columns(
                [c.lower() for c in arrow_table(db, table).column_names]
            )
            cursor.adbc_ingest(table, rows, mode="create", db_schema_name=schema)
        connection.commit()
