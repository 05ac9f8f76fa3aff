"""PostgreSQL, by its ADBC driver; tested against a server."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from steropes.studies._optional_packages import need
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import AdbcServer, Server
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]


# Options of PostgreSQL's sessions; \\ keeps the two words of a value together.
SNAPSHOT = (
    "-c default_transaction_read_only=on "
    "-c default_transaction_isolation=repeatable\\ read "
    "-c idle_in_transaction_session_timeout=0"
)


def _connect(address: Address, writing: bool) -> Server:
    """Connect by libpq, which completes the address from its own settings.

    A reading connection is one read-only transaction with one snapshot of the database, however
    long a study takes between queries.
    """
    need("adbc_driver_postgresql", "postgresql")
    from adbc_driver_postgresql import dbapi

    user, password = address.secrets.get("user"), address.secrets.get("password")
    who = quote(user, safe="") if user else ""
    if password:
        who += f":{quote(password, safe='')}"
    port = f":{address.port}" if address.port else ""
    host = f"[{address.host}]" if ":" in address.host else address.host
    asked = address.options.get("options", "")
    rule = "-c default_transaction_read_only=off" if writing else SNAPSHOT
    options = {**address.options, "options": f"{asked} {rule}".strip()}
    uri = (
        f"postgresql://{who}{'@' if who else ''}{host}{port}/{quote(address.path)}"
        f"?{urlencode(options, quote_via=quote)}"
    )
    return AdbcServer(dbapi.connect(uri, autocommit=False), snapshot=not writing)


SERVER = ServerKind(
    ("postgresql", "postgres"), Dialect("postgresql", "public"), _connect, "PostgreSQL"
)
