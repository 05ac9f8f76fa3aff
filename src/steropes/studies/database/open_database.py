"""Opening of databases given as a path, a URL or a connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.duckdb_source_tables import DuckDBSource
from steropes.studies.database.local_copies_of_server_tables import ServerSource
from steropes.studies.database.server_registry import VENDORS, connect
from steropes.studies.database.server_url import is_address, read_address
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import AdbcServer
from steropes.studies.database.sources.table_source import TableSource
from steropes.studies.formatting.text_safety import without_credentials

__all__ = ["open_source", "require_database"]


def open_source(database: str | Path | Any, zone: str = "UTC") -> TableSource:
    """Open a database.

    Parameters
    ----------
    database : str, Path or connection
        A DuckDB file, a folder of Parquet files, the URL of a server, or an open connection of
        DuckDB or of an ADBC driver's DBAPI module.
    zone : str, default "UTC"
        Time zone that determines the dates of instants.

    Raises
    ------
    DataError
        The database is none of these, or cannot be opened.
    """
    duckdb = need("duckdb")
    if isinstance(database, duckdb.DuckDBPyConnection):
        return DuckDBSource.of_connection(database, zone)
    if isinstance(database, str) and is_address(database):
        address = read_address(database)
        return ServerSource.of_server(address, connect(address), zone)
    if isinstance(database, str | Path):
        path = Path(database)
        if not path.exists():
            raise DataError(without_credentials(f"there is no file {database}"))
        local = DuckDBSource.of_folder if path.is_dir() else DuckDBSource.of_file
        return local(path, zone)
    return _adbc(database, zone)


def require_database(database: str) -> None:
    """Raise early if a file does not exist or the kind of server is unknown."""
    if is_address(database):
        read_address(database)
    elif not Path(database).exists():
        raise DataError(without_credentials(f"there is no file {database}"))


def _adbc(connection: object, zone: str) -> TableSource:
    """Use a connection that the user opened with an ADBC driver; it stays open."""
    kinds = "a path, a URL, or an open connection of DuckDB or of an ADBC driver"
    try:
        from adbc_driver_manager import dbapi
    except ImportError:
        raise DataError(f"a database is {kinds}, not {type(connection).__name__}") from None
    if not isinstance(connection, dbapi.Connection):
        raise DataError(f"a database is {kinds}, not {type(connection).__name__}")
    vendor = str(connection.adbc_get_info().get("vendor_name", "")).lower()
    kinds_of_vendor = {name.lower(): kind for name, kind in VENDORS.items()}
    if vendor not in kinds_of_vendor:
        raise DataError(f"a database of {vendor or 'an unknown vendor'} is not supported")
    address = Address(kinds_of_vendor[vendor], "", None, f"connection {id(connection)}")
    return ServerSource.of_server(address, AdbcServer(connection, ours=False), zone)
