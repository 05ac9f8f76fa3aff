"""Redshift, by PostgreSQL's ADBC driver; not tested against a server."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from steropes.studies._optional_packages import need
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import AdbcServer, Server
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]

KINDS = ("user", "password")


def _connect(address: Address, writing: bool) -> Server:
    """Connect to ``redshift://user@host:5439/database`` as to PostgreSQL, without a snapshot."""
    need("adbc_driver_postgresql", "postgresql")
    from adbc_driver_postgresql import dbapi

    who = ":".join(quote(address.secrets[k], safe="") for k in KINDS if k in address.secrets)
    uri = (
        f"postgresql://{who}{'@' if who else ''}{address.host}:{address.port or 5439}"
        f"/{quote(address.path)}?{urlencode(address.options, quote_via=quote)}"
    )
    return AdbcServer(dbapi.connect(uri, autocommit=not writing))


SERVER = ServerKind(
    ("redshift",),
    # A VARCHAR without a length holds 256 bytes.
    Dialect("redshift", "public", text="VARCHAR(MAX)", backslashes=True, catalogue="SVV_COLUMNS"),
    _connect,
)
