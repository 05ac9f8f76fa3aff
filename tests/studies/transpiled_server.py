"""Servers whose SQL is translated by sqlglot and run by DuckDB.

They check the meaning of a dialect's queries as far as sqlglot knows it: quotation, casts, time
zones, lists, patterns and catalogues. They are no evidence about a real server, its driver or the
types that it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from steropes.studies.database.sources.server_connection import Server, empty_batch

SQLGLOT = {"postgresql": "postgres", "sqlserver": "tsql"}
# Names of DuckDB's types in the catalogues of servers, where they differ.
TYPE_NAMES = {
    "bigquery": {
        "BIGINT": "INT64",
        "VARCHAR": "STRING",
        "TIMESTAMP": "DATETIME",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    },
    "databricks": {
        "VARCHAR": "STRING",
        "TIMESTAMP": "TIMESTAMP_NTZ",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    },
    "postgresql": {"VARCHAR": "character varying"},
    "redshift": {"VARCHAR": "character varying"},
    "snowflake": {"BIGINT": "NUMBER", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ"},
    "sqlserver": {"VARCHAR": "nvarchar", "TIMESTAMP": "datetime2"},
    "trino": {"TIMESTAMP WITH TIME ZONE": "timestamp(6) with time zone"},
}


class TranspiledServer(Server):
    """A DuckDB connection that accepts SELECTs in the dialect of another server."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, dialect: str) -> None:
        self.connection, self.dialect = connection, dialect
        self.lock = threading.Lock()

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT."""
        with self.lock:
            found = self.connection.sql(translated(sql, self.dialect)).to_arrow_table()
        yield empty_batch(found.schema)
        yield from found.to_batches()

    def close(self) -> None:
        """Leave the connection to the test."""


def translated(sql: str, dialect: str) -> str:
    """Translate a SELECT to DuckDB's dialect."""
    tree = sqlglot.parse_one(sql, read=SQLGLOT.get(dialect, dialect))
    return tree.transform(_replaced, dialect).sql("duckdb")


def _replaced(node: exp.Expression, dialect: str) -> exp.Expression:
    """Write an expression as DuckDB understands it, where sqlglot's translation does not."""
    if isinstance(node, exp.DataType) and node.this in exp.DataType.TEXT_TYPES:
        return exp.DataType.build("text")  # Without a length, or MAX.
    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.FLOAT:
        return exp.DataType.build("double")  # SQL Server's FLOAT has 53 bits.
    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.TIMESTAMP:
        return exp.DataType.build("timestamp", dialect="duckdb")  # Without a precision.
    if isinstance(node, exp.Datetime):  # BigQuery
        return exp.AtTimeZone(this=node.this, zone=node.expression)
    if isinstance(node, exp.CurrentTimezone):
        return exp.func("current_setting", exp.Literal.string("TimeZone"))
    if isinstance(node, exp.Table) and node.name.upper().endswith("COLUMNS"):
        return exp.to_table("information_schema.columns", dialect="duckdb")
    if isinstance(node, exp.Column) and node.name == "DATA_TYPE":
        names = TYPE_NAMES[dialect]
        return exp.maybe_parse(
            "CASE data_type "
            + " ".join(f"WHEN '{ours}' THEN '{theirs}'" for ours, theirs in names.items())
            + " ELSE data_type END",
            dialect="duckdb",
        )
    return node
