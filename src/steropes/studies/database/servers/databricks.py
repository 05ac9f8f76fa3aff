"""Databricks, by its own client; tested against an imitation of its protocol only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steropes.studies._optional_packages import need
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import (
    BATCH,
    Server,
    empty_batch,
    read_options,
)
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]


class DatabricksServer(Server):
    """A connection of Databricks' own driver."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            table = cursor.fetchmany_arrow(BATCH)
            yield empty_batch(table.schema)
            while table.num_rows:
                yield from table.to_batches()
                table = cursor.fetchmany_arrow(BATCH)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _connect(address: Address, writing: bool) -> Server:
    """Connect to ``databricks://host/sql/1.0/warehouses/…?catalog=…`` by token."""
    need("databricks", "databricks")
    from databricks import sql

    known = read_options(address, {"catalog": "catalog"})
    return DatabricksServer(
        sql.connect(
            server_hostname=address.host,
            http_path=f"/{address.path}",
            access_token=address.secrets.get("token"),
            **known,
        )
    )


SERVER = ServerKind(
    ("databricks",),
    Dialect(
        "databricks",
        "default",
        real="DOUBLE",
        time="TIMESTAMP_NTZ",
        text="STRING",
        instants="timestamp|timestamp_ltz",
        shown="CONVERT_TIMEZONE(CURRENT_TIMEZONE(), {zone}, CAST({name} AS TIMESTAMP_NTZ))",
        quotes=("`", "`"),
        quote_in_text="\\'",
        backslashes=True,
    ),
    _connect,
)
