"""Connections to servers that return the rows of a SELECT as Arrow record batches.

Drivers are imported on first use. Only PostgreSQL is tested against a real server; the others
follow their drivers' documentation.
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
# Options of PostgreSQL's sessions; \\ keeps the two words of a value together.
SNAPSHOT = (
    "-c default_transaction_read_only=on "
    "-c default_transaction_isolation=repeatable\\ read "
    "-c idle_in_transaction_session_timeout=0"
)


class Server(ABC):
    """An open connection for reading."""

    @abstractmethod
    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT as Arrow record batches, at least one, which may be empty."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class AdbcServer(Server):
    """A connection of an ADBC driver's DBAPI module.

    Parameters
    ----------
    connection : adbc_driver_manager.dbapi.Connection
    ours : bool
        Whether `close` closes the connection.
    snapshot : bool
        Whether all queries are one transaction, which a failing query ends.
    """

    def __init__(self, connection: Any, ours: bool = True, snapshot: bool = False) -> None:
        self.connection, self._ours, self._snapshot = connection, ours, snapshot
        self._lost = False

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT."""
        if self._lost:
            raise DataError(
                "an earlier query failed and ended the snapshot that all tables are read from; "
                "open the database again"
            )
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
                yield _empty_batch(reader.schema)
                yield from reader
        except GeneratorExit:
            raise
        except BaseException:
            self._lost = self._snapshot
            raise

    def close(self) -> None:
        """Close the connection, unless the user opened it."""
        if self._ours:
            self.connection.close()


class DatabricksServer(Server):
    """A connection of Databricks' own driver."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            table = cursor.fetchmany_arrow(BATCH)
            yield _empty_batch(table.schema)
            while table.num_rows:
                yield from table.to_batches()
                table = cursor.fetchmany_arrow(BATCH)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


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
        yield _empty_batch(reader.schema)
        yield from reader

    def close(self) -> None:
        """Do nothing, because no connection is open between queries."""


def connect(address: Address, writing: bool = False) -> Server:
    """Connect to a server.

    Parameters
    ----------
    address : Address
    writing : bool, default False
        Open an ADBC connection that may write, in a transaction that the caller commits.

    Raises
    ------
    DataError
        The connection fails; the message contains no credentials.
    MissingExtraError
        The driver is not installed.
    """
    by_adbc = {"postgresql": _postgresql, "snowflake": _snowflake, "bigquery": _bigquery}
    if address.scheme in by_adbc:
        return _without_credentials(address, lambda: by_adbc[address.scheme](address, writing))
    opened = {"databricks": _databricks, "sqlserver": _sqlserver}[address.scheme]
    return _without_credentials(address, lambda: opened(address))


def _without_credentials(address: Address, work: Callable[[], Server]) -> Server:
    """Open a connection; errors of the driver are raised without credentials."""
    try:
        return work()
    except (DataError, ImportError):
        raise
    except Exception as error:  # Drivers raise exceptions of any type.
        raise DataError(f"cannot connect to {address.public}: {address.cleaned(error)}") from None


def _postgresql(address: Address, writing: bool) -> Server:
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


def _snowflake(address: Address, writing: bool) -> Server:
    """Connect to ``snowflake://user@account/database?warehouse=…&role=…`` by password or token."""
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
    """Connect to ``bigquery://project?schema=dataset`` with Google's default credentials."""
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
    """Connect to ``databricks://host/sql/1.0/warehouses/…?catalog=…`` by token."""
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
    """Connect to ``mssql://user@host:1433/database?driver=…`` by an installed ODBC driver."""
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
    """Translate the URL's options to the driver's names."""
    unknown = [o for o in address.options if o not in known]
    if unknown:
        raise DataError(
            f"a {address.scheme}:// URL has no option {unknown[0]}; the options are schema, "
            f"{', '.join(known)}"
        )
    return {known[o]: value for o, value in address.options.items()}


def _empty_batch(schema: Any) -> Any:
    """Create a record batch with columns and without rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)
