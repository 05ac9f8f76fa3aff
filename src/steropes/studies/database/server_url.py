"""URLs of database servers, and the credentials that belong to them."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from steropes.errors import DataError
from steropes.studies.database.server_registry import SCHEMES
from steropes.studies.database.sources.server_address import Address

__all__ = ["is_address", "read_address"]

KINDS = ("user", "password", "token")
VARIABLE = "STEROPES_DATABASE_"  # The prefix of the variables …_USER, …_PASSWORD and …_TOKEN.
FILE = "STEROPES_CREDENTIALS"


def is_address(database: object) -> bool:
    """Check whether a database is given as the URL of a server rather than a path."""
    return isinstance(database, str) and re.match(r"[A-Za-z][\w+.-]*://", database) is not None


def read_address(url: str) -> Address:
    """Parse a URL, and look up credentials in the environment and in a file.

    Credentials are taken from, in this order: the URL; the variables ``STEROPES_DATABASE_USER``,
    ``…_PASSWORD``, ``…_TOKEN``; the file (TOML with ``user``, ``password``, ``token``) named by
    ``STEROPES_CREDENTIALS``. PostgreSQL's own mechanisms (``PGPASSWORD``, ``~/.pgpass``, a service
    file) work as well.

    Raises
    ------
    DataError
        The kind of database is unknown, the URL cannot be parsed, or the credentials file is
        readable by others.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise DataError(
            f"{scheme}:// is not supported; a database is a DuckDB file, a folder of "
            f"Parquet files, or the URL of one of {', '.join(sorted({*SCHEMES.values()}))}"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # The message of the exception would quote the URL.
        raise DataError(
            f"the {scheme}:// URL cannot be read; characters such as @ : / ? # in a name or "
            "password are written %40 %3A %2F %3F %23"
        ) from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    given = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    from_file = _file()
    secrets = {
        kind: given.get(kind)
        or os.environ.get(VARIABLE + kind.upper(), "")
        or from_file.get(kind, "")
        for kind in KINDS
    }
    schema = options.pop("schema", "")
    return Address(
        SCHEMES[scheme],
        parts.hostname or "",
        port,
        unquote(parts.path.lstrip("/")),
        options,
        schema,
        {kind: value for kind, value in secrets.items() if value},
    )


def _file() -> dict[str, str]:
    """Read the credentials file, if one is named."""
    named = os.environ.get(FILE, "")
    if not named:
        return {}
    path = Path(named).expanduser()
    try:
        mode = path.stat().st_mode
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"cannot read the credentials file {path}: {error.strerror}") from None
    except ValueError:  # The message of the exception may quote a line.
        raise DataError(
            f'{path} is not a credentials file: it has lines such as password = "…"'
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise DataError(f"others can read the credentials file {path}: chmod 600 {path}")
    unknown = [k for k, v in values.items() if k not in KINDS or not isinstance(v, str)]
    if unknown:
        raise DataError(f"{path} may contain {', '.join(KINDS)}, each as text, not {unknown[0]}")
    return values
