"""SQL Server, by an ODBC driver; not tested against a server."""

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


class OdbcServer(Server):
    """Queries through an ODBC driver, with a new connection for each."""

    def __init__(self, connection_string: str, user: str | None, password: str | None) -> None:
        self._string, self._user, self._password = connection_string, user, password

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT."""
        arrow_odbc = need("arrow_odbc", "sqlserver")
        reader = arrow_odbc.read_arrow_batches_from_odbc(
            query=sql,
            connection_string=self._string,
            user=self._user,
            password=self._password,
            batch_size=BATCH,
        )
        yield empty_batch(reader.schema)
        yield from reader

    def close(self) -> None:
        """Do nothing, because no connection is open between queries."""


def _connect(address: Address, writing: bool) -> Server:
    """Connect to ``mssql://user@host:1433/database?driver=…`` by an installed ODBC driver."""
    need("arrow_odbc", "sqlserver")
    given = read_options(
        address, {"driver": "Driver", "encrypt": "Encrypt", "trust": "TrustServerCertificate"}
    )
    port = f",{address.port}" if address.port else ""
    parts = {
        "Driver": given.pop("Driver", "ODBC Driver 18 for SQL Server"),
        "Server": f"{address.host}{port}",
        "Database": address.path,
        "ApplicationIntent": "ReadOnly",
        **given,
    }
    if "user" not in address.secrets:
        parts["Trusted_Connection"] = "yes"
    string = ";".join(f"{k}={{{v.replace('}', '}}')}}}" for k, v in parts.items())
    server = OdbcServer(string, address.secrets.get("user"), address.secrets.get("password"))
    for _ in server.batches("SELECT 1 AS one"):
        pass
    return server


SERVER = ServerKind(
    ("mssql", "sqlserver"),
    Dialect(
        "sqlserver",
        "dbo",
        real="FLOAT",
        time="DATETIME2",
        text="NVARCHAR(MAX)",
        instants=r"(?!)",  # A DATETIMEOFFSET keeps its offset and its own local time.
        quotes=("[", "]"),
    ),
    _connect,
)
