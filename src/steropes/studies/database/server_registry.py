"""All kinds of database servers, from the modules of ``servers``."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module

from steropes.errors import DataError
from steropes.studies.database import servers
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import Server
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["DIALECTS", "SCHEMES", "VENDORS", "connect"]


def _kinds() -> dict[str, ServerKind]:
    """Import every module of ``servers``, and return the kinds by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(servers.__path__))
    found = [import_module(f"{servers.__name__}.{name}").SERVER for name in names]
    return {kind.dialect.name: kind for kind in found}


SERVERS = _kinds()
DIALECTS: dict[str, Dialect] = {name: kind.dialect for name, kind in SERVERS.items()}
SCHEMES = {scheme: name for name, kind in SERVERS.items() for scheme in kind.schemes}
# The kinds that are known by the vendor name of their ADBC driver.
VENDORS = {kind.vendor: name for name, kind in SERVERS.items() if kind.vendor}


def connect(address: Address, writing: bool = False) -> Server:
    """Connect to a server.

    Parameters
    ----------
    writing : bool, default False
        Open an ADBC connection that may write, in a transaction that the caller commits.

    Raises
    ------
    DataError
        The connection fails; the message contains no credentials.
    MissingExtraError
        The driver is not installed.
    """
    kind = SERVERS[address.scheme]
    return _without_credentials(address, lambda: kind.connect(address, writing))


def _without_credentials(address: Address, work: Callable[[], Server]) -> Server:
    """Open a connection; errors of the driver are raised without credentials."""
    try:
        return work()
    except (DataError, ImportError):
        raise
    except Exception as error:  # Drivers raise exceptions of any type.
        raise DataError(f"cannot connect to {address.public}: {address.cleaned(error)}") from None
