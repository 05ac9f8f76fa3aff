"""Snowflake, by its ADBC driver; tested against fakesnow, not against Snowflake itself."""

from __future__ import annotations

from steropes.studies._optional_packages import need
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import AdbcServer, Server, read_options
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]


def _connect(address: Address, writing: bool) -> Server:
    """Connect to ``snowflake://user@account/database?warehouse=…&role=…`` by password or token.

    The options ``host``, ``port`` and ``protocol`` replace the address that the account implies.
    """
    need("adbc_driver_snowflake", "snowflake")
    from adbc_driver_snowflake import dbapi

    known = {"warehouse": "warehouse", "role": "role", "region": "region"}
    endpoint = {part: f"uri.{part}" for part in ("host", "port", "protocol")}
    kwargs = {
        "adbc.snowflake.sql.account": address.host,
        "adbc.snowflake.sql.db": address.path,
        "adbc.snowflake.sql.client_option.use_high_precision": "false",
        # Nanoseconds, which are the default, turn a date such as 9999-12-31 into another one.
        "adbc.snowflake.sql.client_option.max_timestamp_precision": "microseconds",
        **read_options(
            address, {k: f"adbc.snowflake.sql.{v}" for k, v in {**known, **endpoint}.items()}
        ),
    }
    if "user" in address.secrets:
        kwargs["username"] = address.secrets["user"]
    if "token" in address.secrets:
        kwargs["adbc.snowflake.sql.auth_type"] = "auth_oauth"
        kwargs["adbc.snowflake.sql.client_option.auth_token"] = address.secrets["token"]
    elif "password" in address.secrets:
        kwargs["password"] = address.secrets["password"]
    return AdbcServer(dbapi.connect(db_kwargs=kwargs, autocommit=not writing))


SERVER = ServerKind(
    ("snowflake",),
    Dialect(
        "snowflake",
        "PUBLIC",
        real="DOUBLE",
        time="TIMESTAMP_NTZ",
        instants="timestamp_ltz.*",
        shown="CONVERT_TIMEZONE({zone}, {name})",
        backslashes=True,
    ),
    _connect,
    "Snowflake",
)
