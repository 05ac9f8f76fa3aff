"""Tables of results into a schema of a server, where somebody asks for that.

This is the one connection of a study that may write, and it lives no longer than the writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pandas as pd

from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.database.drivers import AdbcServer, connect
from steropes.studies.database.server_address import Address, is_address, read_address

__all__ = ["require_results_place", "write_results"]


def require_results_place(database: object, schema: str) -> Address:
    """Refuse a database that results cannot be written to, before any work.

    Raises
    ------
    DataError
        No URL of a server with an ADBC driver, or no name of a schema.
    """
    if not isinstance(schema, str) or not schema:
        raise DataError(f"the schema for results must be a name, not {schema!r}")
    address = read_address(str(database)) if is_address(database) else None
    if address is None or address.scheme not in ("postgresql", "snowflake", "bigquery"):
        raise DataError(
            "results go into a schema only of PostgreSQL, Snowflake or BigQuery, named by URL; "
            "elsewhere take results.duckdb or results.zip"
        )
    return address


def write_results(database: str, schema: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Write tables into an existing schema of a server, all of them or none.

    Parameters
    ----------
    database : str
        The URL of the server. What opens it needs the right to create tables in the schema.
    schema : str
        Holds none of the tables yet: what is there is never changed.
    tables : mapping of str to DataFrame

    Returns
    -------
    dict
        Rows written, by table.

    Raises
    ------
    DataError
        Not such a server, or it refuses; then nothing is written.
    """
    pa = need("pyarrow")
    address = require_results_place(database, schema)
    server = connect(address, writing=True)
    assert isinstance(server, AdbcServer)
    written: dict[str, int] = {}
    with closing(server):
        for name, frame in tables.items():
            table = _without_nulls_alone(pa, pa.Table.from_pandas(frame, preserve_index=False))
            try:
                with server.connection.cursor() as cursor:
                    cursor.adbc_ingest(name, table, mode="create", db_schema_name=schema)
            except Exception as error:  # whatever the driver raises
                raise DataError(
                    f"{address.name}: cannot write the table {schema}.{name}, and wrote none: "
                    f"{address.cleaned(error)}"
                ) from None
            written[name] = table.num_rows
        server.connection.commit()
    return written


def _without_nulls_alone(pa: Any, table: Any) -> Any:
    """Columns in which nothing is, and whose type is therefore not known, as text."""
    for i, column in enumerate(table.schema):
        if pa.types.is_null(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.string()))
    return table
