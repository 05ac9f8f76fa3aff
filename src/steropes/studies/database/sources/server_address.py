"""Addresses of database servers, which never display credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

__all__ = ["Address"]

HIDDEN = "***"
# Classes of SQLSTATE whose messages name tables, columns, rights or resources: connection,
# transaction, authorisation, catalog, schema, syntax or access, resources, limits, state,
# intervention, system.
ABOUT_NAMES = ("08", "25", "28", "3D", "3F", "42", "53", "54", "55", "57", "58")
SQLSTATE = re.compile(r"SQLSTATE:?\s*\(?([0-9A-Z]{5})")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


@dataclass(frozen=True, repr=False)
class Address:
    """A server and a database on it.

    Attributes
    ----------
    scheme : str
        The kind of server, such as "postgresql".
    path : str
        The part after the host, without the first slash: usually the database.
    options : dict of str
        Query parameters of the URL, without ``schema``.
    schema : str
        Schema of the CDM tables; "" if the URL gives none.
    secrets : dict of str
        ``user``, ``password``, ``token``, if known.
    """

    scheme: str
    host: str
    port: int | None
    path: str
    options: dict[str, str] = field(default_factory=dict)
    schema: str = ""
    secrets: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Address({self.public!r})"

    @property
    def public(self) -> str:
        """The address without user, credentials and options."""
        host = self.host or self.options.get("host", "")  # libpq also accepts it as an option.
        port = self.port or self.options.get("port")
        return f"{self.scheme}://{host}{f':{port}' if port else ''}/{self.path}"

    @property
    def name(self) -> str:
        """The name of the database in messages."""
        return self.path.rstrip("/").rpartition("/")[2] or self.host or self.scheme

    def cleaned(self, text: object) -> str:
        """Return the first line of a driver's message without credentials.

        Further lines are dropped because they may quote rows.
        """
        line = next((part.strip() for part in str(text).splitlines() if part.strip()), "no reason")
        hidden = [*self.secrets.values(), *self._secret_options()]
        for secret in sorted({s for s in hidden if s}, key=len, reverse=True):
            for form in (secret, quote(secret, safe=""), quote(secret)):
                line = line.replace(form, HIDDEN)
        return re.sub(r"//[^/@\s]+@", f"//{HIDDEN}@", line)

    def without_values(self, error: BaseException) -> str:
        """Return a driver's message about a query without credentials and without values of rows.

        A server quotes the value that it cannot convert, and a function of the database may raise
        any text. Messages about names are returned unchanged. Other messages are reduced to the
        driver's own words, without quoted texts and numbers.
        """
        found = SQLSTATE.search(str(error))
        state = getattr(error, "sqlstate", None) or (found[1] if found else "")
        if state.startswith(ABOUT_NAMES):
            return self.cleaned(error)
        own, said, _ = self.cleaned(error).partition("ERROR:")
        own = QUOTED.sub(HIDDEN, own).rstrip(" :")
        if not (said or state):
            return own
        return (
            f"{own}{f' (SQLSTATE {state})' if state else ''}; the server's message is not shown, "
            "because it may quote values of people: see the server's log"
        )

    def _secret_options(self) -> Iterator[str]:
        """Yield the values of options that look like credentials."""
        for name, value in self.options.items():
            if re.search("pass|pwd|token|secret|key|credential", name, re.IGNORECASE):
                yield value
