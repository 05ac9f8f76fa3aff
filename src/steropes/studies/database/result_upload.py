"""Upload of result tables to a schema of a server.

This is the only connection of a study that may write, and it is closed after writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pandas as pd

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.server_registry import VENDORS, connect
from steropes.studies.database.server_url import is_address, read_address
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import AdbcServer

__all__ = ["require_results_server", "write_results"]


def require_results_server(database: object, schema: str) -> Address:
    """Raise early if results cannot be written to a database.

    Raises
    ------
    DataError
        The database is not the URL of a server with an ADBC driver, or the schema is not a name.
    """
    if not isinstance(schema, str) or not schema:
        raise DataError(f"the schema for results must be a name, not {schema!r}")
    address = read_address(str(database)) if is_address(database) else None
    if address is None or address.scheme not in VENDORS.values():
        *others, last = VENDORS
        raise DataError(
            f"results can be written to a schema only of {', '.join(others)} or {last}, given "
            "by URL; otherwise use results.duckdb or results.zip"
        )
    return address


def write_results(database: str, schema: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Write tables into an existing schema of a server, all of them or none.

    Parameters
    ----------
    database : str
        URL of the server; the user needs the right to create tables in the schema.
    schema : str
        Must not contain any of the tables: existing tables are never changed.

    Returns
    -------
    dict
        Number of rows written, by table.

    Raises
    ------
    DataError
        The server is not supported or rejects a table; then nothing is written.
    """
    pa = need("pyarrow")
    address = require_results_server(database, schema)
    server = connect(address, writing=True)
    assert isinstance(server, AdbcServer)
    written: dict[str, int] = {}
    what = "the tables"
    with closing(server):
        try:
            for name, frame in tables.items():
                what = f"the table {schema}.{name}"
                table = _typed(pa, pa.Table.from_pandas(frame, preserve_index=False))
                with server.connection.cursor() as cursor:
                    cursor.adbc_ingest(name, table, mode="create", db_schema_name=schema)
                written[name] = table.num_rows
            what = f"the tables of {schema}"
            server.connection.commit()
        except Exception as error:  # Drivers raise exceptions of any type.
            there = "; such a table already exists" if "ALREADY_EXISTS" in str(error) else ""
            raise DataError(
                f"{address.name}: cannot write {what}, and wrote none: "
                f"{address.without_values(error)}{there}"
            ) from None
    return written


def _typed(pa: Any, table: Any) -> Any:
    """Cast columns with only nulls, which have no type, to text."""
    for i, column in enumerate(table.schema):
        if pa.types.is_null(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.string()))
    return table
