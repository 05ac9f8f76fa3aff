"""Connections to servers that return the rows of a SELECT as Arrow record batches.

Each kind of server has a module in ``servers``. Drivers are imported on first use. Only PostgreSQL
is tested against a real server; the others follow their drivers' documentation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from steropes.errors import DataError
from steropes.studies.database.sources.server_address import Address

__all__ = ["BATCH", "AdbcServer", "Server", "empty_batch", "read_options"]

BATCH = 100_000


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
                yield empty_batch(reader.schema)
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


def read_options(address: Address, known: dict[str, str]) -> dict[str, str]:
    """Translate the URL's options to the driver's names."""
    unknown = [o for o in address.options if o not in known]
    if unknown:
        raise DataError(
            f"a {address.scheme}:// URL has no option {unknown[0]}; the options are schema, "
            f"{', '.join(known)}"
        )
    return {known[o]: value for o, value in address.options.items()}


def empty_batch(schema: Any) -> Any:
    """Create a record batch with columns and without rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)
