"""A kind of database server: its URLs, its SQL dialect and its connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import Server
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["ServerKind"]


@dataclass(frozen=True)
class ServerKind:
    """A kind of database server.

    Attributes
    ----------
    schemes : tuple of str
        Schemes of its URLs.
    dialect : Dialect
        With the name of the kind.
    connect : callable
        Opens a connection to an address; the second argument is whether it may write.
    vendor : str, optional
        The vendor name that its ADBC driver reports, if open connections of the driver are accepted
        and results can be written to the server.
    """

    schemes: tuple[str, ...]
    dialect: Dialect
    connect: Callable[[Address, bool], Server]
    vendor: str | None = None
