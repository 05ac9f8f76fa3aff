"""Connections to servers: each gives the rows of a SELECT as Arrow record batches, and no more.

What a driver needs is imported when it is first used. Only PostgreSQL is tested against a real
server; the others are written by their drivers' documentation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.database.server_address import Address

__all__ = ["AdbcServer", "Server", "connect"]

BATCH = 100_000
# Of PostgreSQL's sessions: \\ keeps the two words of a value together.
SNAPSHOT = (
    "-c default_transaction_read_only=on "
    "-c default_transaction_isolation=repeatable\\ read "
    "-c idle_in_transaction_session_timeout=0"
)


class Server(ABC):
    """An open connection that reads."""

    @abstractmethod
    def batches(self, sql: str) -> Iterator[Any]:
        """The rows of a SELECT as Arrow record batches (one at least, which may be empty)."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class AdbcServer(Server):
    """A connection of an ADBC driver's DBAPI module.

    Parameters
    ----------
    connection : adbc_driver_manager.dbapi.Connection
    ours : bool
        Whether it is closed in the end.
    snapshot : bool
        Whether all queries are one transaction, which ends with the first that fails.
    """

    def __init__(self, connection: Any, ours: bool = True, snapshot: bool = False) -> None:
        self.connection, self._ours, self._snapshot = connection, ours, snapshot
        self._lost = False

    def batches(self, sql: str) -> Iterator[Any]:
        """The rows of a SELECT."""
        if self._lost:
            raise DataError(
                "an earlier query failed, and with it the snapshot that all tables are read from; "
                "open the database again"
            )
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
                yield _nothing(reader.schema)
                yield from reader
        except GeneratorExit:
            raise
        except BaseException:
            self._lost = self._snapshot
            raise

    def close(self) -> None:
        """Close the connection, unless somebody else opened it."""
        if self._ours:
            self.connection.close()


class DatabricksServer(Server):
    """A connection of Databricks' own driver."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def batches(self, sql: str) -> Iterator[Any]:
        """The rows of a SELECT."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            table = cursor.fetchmany_arrow(BATCH)
            yield _nothing(table.schema)
            while table.num_rows:
                yield from table.to_batches()
                table = cursor.fetchmany_arrow(BATCH)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class OdbcServer(Server):
    """Queries through an ODBC driver, each on a connection of its own."""

    def __init__(self, connection_string: str, user: str | None, password: str | None) -> None:
        self._string, self._user, self._password = connection_string, user, password

    def batches(self, sql: str) -> Iterator[Any]:
        """The rows of a SELECT."""
        arrow_odbc = need("arrow_odbc", "sqlserver")
        reader = arrow_odbc.read_arrow_batches_from_odbc(
            query=sql,
            connection_string=self._string,
            user=self._user,
            password=self._password,
            batch_size=BATCH,
        )
        yield _nothing(reader.schema)
        yield from reader

    def close(self) -> None:
        """Nothing is open between queries."""


def connect(address: Address, writing: bool = False) -> Server:
    """Connect to a server.

    Parameters
    ----------
    address : Address
    writing : bool, default False
        Whether the connection may write, in a transaction that is to be committed. Of ADBC only.

    Raises
    ------
    DataError
        It does not let us in; the message holds no credentials.
    MissingExtraError
        The driver is not installed.
    """
    by_adbc = {"postgresql": _postgresql, "snowflake": _snowflake, "bigquery": _bigquery}
    if address.scheme in by_adbc:
        return _said_cleanly(address, lambda: by_adbc[address.scheme](address, writing))
    opened = {"databricks": _databricks, "sqlserver": _sqlserver}[address.scheme]
    return _said_cleanly(address, lambda: opened(address))


def _said_cleanly(address: Address, work: Callable[[], Server]) -> Server:
    try:
        return work()
    except (DataError, ImportError):
        raise
    except Exception as error:  # whatever the driver raises
        raise DataError(f"cannot connect to {address.public}: {address.cleaned(error)}") from None


def _postgresql(address: Address, writing: bool) -> Server:
    """By libpq, which has its own ways to find what is missing.

    What reads is one read-only transaction that sees one state of the database, however long a
    study takes between its queries.
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


def _snowflake(address: Address, writing: bool) -> Server:
    """``snowflake://user@account/database?warehouse=…&role=…``; a password or a token."""
    need("adbc_driver_snowflake", "snowflake")
    from adbc_driver_snowflake import dbapi

    known = {"warehouse": "warehouse", "role": "role", "region": "region"}
    kwargs = {
        "adbc.snowflake.sql.account": address.host,
        "adbc.snowflake.sql.db": address.path,
        "adbc.snowflake.sql.client_option.use_high_precision": "false",
        **_options(address, {k: f"adbc.snowflake.sql.{v}" for k, v in known.items()}),
    }
    if "user" in address.secrets:
        kwargs["username"] = address.secrets["user"]
    if "token" in address.secrets:
        kwargs["adbc.snowflake.sql.auth_type"] = "auth_oauth"
        kwargs["adbc.snowflake.sql.client_option.auth_token"] = address.secrets["token"]
    elif "password" in address.secrets:
        kwargs["password"] = address.secrets["password"]
    return AdbcServer(dbapi.connect(db_kwargs=kwargs, autocommit=not writing))


def _bigquery(address: Address, writing: bool) -> Server:
    """``bigquery://project?schema=dataset``; Google's own way of finding credentials."""
    need("adbc_driver_bigquery", "bigquery")
    from adbc_driver_bigquery import dbapi

    kwargs = {
        "adbc.bigquery.sql.project_id": address.host,
        **_options(address, {"location": "adbc.bigquery.sql.location"}),
    }
    if address.schema:
        kwargs["adbc.bigquery.sql.dataset_id"] = address.schema
    return AdbcServer(dbapi.connect(db_kwargs=kwargs, autocommit=not writing))


def _databricks(address: Address) -> Server:
    """``databricks://host/sql/1.0/warehouses/…?catalog=…``; a token."""
    need("databricks", "databricks")
    from databricks import sql

    known = _options(address, {"catalog": "catalog"})
    return DatabricksServer(
        sql.connect(
            server_hostname=address.host,
            http_path=f"/{address.path}",
            access_token=address.secrets.get("token"),
            **known,
        )
    )


def _sqlserver(address: Address) -> Server:
    """``mssql://user@host:1433/database?driver=…``; an ODBC driver must be installed."""
    need("arrow_odbc", "sqlserver")
    given = _options(
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


def _options(address: Address, known: dict[str, str]) -> dict[str, str]:
    """The URL's options under the driver's names."""
    unknown = [o for o in address.options if o not in known]
    if unknown:
        raise DataError(
            f"a {address.scheme}:// URL has no option {unknown[0]}; it has schema, "
            f"{', '.join(known)}"
        )
    return {known[o]: value for o, value in address.options.items()}


def _nothing(schema: Any) -> Any:
    """A record batch without rows, which tells the columns."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)
