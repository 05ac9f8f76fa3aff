"""From what a user names to the place that holds the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.database.drivers import AdbcServer, connect
from steropes.studies.database.duckdb_tables import LocalPlace
from steropes.studies.database.protocols import Place
from steropes.studies.database.server_address import Address, is_address, read_address
from steropes.studies.database.server_tables import ServerPlace
from steropes.studies.report.plain_text import without_credentials

__all__ = ["open_place", "require_database"]

# What ADBC drivers call their database.
VENDORS = {"postgresql": "postgresql", "snowflake": "snowflake", "bigquery": "bigquery"}


def open_place(database: str | Path | Any, zone: str = "UTC") -> Place:
    """Open a database.

    Parameters
    ----------
    database : str, Path or connection
        A DuckDB file, a folder of Parquet files, the URL of a server, or an open connection: of
        DuckDB, or of an ADBC driver's DBAPI.
    zone : str, default "UTC"
        The time zone whose date counts where a column holds instants.

    Raises
    ------
    DataError
        It is none of these, or cannot be opened.
    """
    duckdb = need("duckdb")
    if isinstance(database, duckdb.DuckDBPyConnection):
        return LocalPlace.of_connection(database, zone)
    if isinstance(database, str) and is_address(database):
        address = read_address(database)
        return ServerPlace.of_server(address, connect(address), zone)
    if isinstance(database, str | Path):
        path = Path(database)
        if not path.exists():
            raise DataError(without_credentials(f"there is no file {database}"))
        local = LocalPlace.of_folder if path.is_dir() else LocalPlace.of_file
        return local(path, zone)
    return _adbc(database, zone)


def require_database(database: str) -> None:
    """Refuse, before any work, a file that is not there and a server of an unknown kind."""
    if is_address(database):
        read_address(database)
    elif not Path(database).exists():
        raise DataError(without_credentials(f"there is no file {database}"))


def _adbc(connection: Any, zone: str) -> Place:
    """A connection that an ADBC driver made; it stays open."""
    kinds = "a path, a URL, or an open connection of DuckDB or of an ADBC driver"
    try:
        from adbc_driver_manager import dbapi
    except ImportError:
        raise DataError(f"a database is {kinds}, not {type(connection).__name__}") from None
    if not isinstance(connection, dbapi.Connection):
        raise DataError(f"a database is {kinds}, not {type(connection).__name__}")
    vendor = str(connection.adbc_get_info().get("vendor_name", "")).lower()
    if vendor not in VENDORS:
        raise DataError(f"there is no way to read a database of {vendor or 'an unknown kind'}")
    address = Address(VENDORS[vendor], "", None, f"connection {id(connection)}")
    return ServerPlace.of_server(address, AdbcServer(connection, ours=False), zone)
