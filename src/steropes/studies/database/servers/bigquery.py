"""BigQuery, by its ADBC driver; not tested against a server."""

from __future__ import annotations

from steropes.studies._optional_packages import need
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import AdbcServer, Server, read_options
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]


def _connect(address: Address, writing: bool) -> Server:
    """Connect to ``bigquery://project?schema=dataset`` with Google's default credentials."""
    need("adbc_driver_bigquery", "bigquery")
    from adbc_driver_bigquery import dbapi

    kwargs = {
        "adbc.bigquery.sql.project_id": address.host,
        **read_options(address, {"location": "adbc.bigquery.sql.location"}),
    }
    if address.schema:
        kwargs["adbc.bigquery.sql.dataset_id"] = address.schema
    return AdbcServer(dbapi.connect(db_kwargs=kwargs, autocommit=not writing))


SERVER = ServerKind(
    ("bigquery",),
    Dialect(
        "bigquery",
        whole="INT64",
        real="FLOAT64",
        time="DATETIME",
        text="STRING",
        instants="timestamp",
        shown="DATETIME({name}, {zone})",
        quotes=("`", "`"),
        quote_in_name="\\`",
        quote_in_text="\\'",
        backslashes=True,
        catalogue="{schema}.INFORMATION_SCHEMA.COLUMNS",
        scale="NULL",
    ),
    _connect,
    "BigQuery",
)
