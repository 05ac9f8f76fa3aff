"""An OMOP database: how it is opened, restricted to people and days, and the names of its source.

The database is never modified. Where the tables are stored is the subject of the other modules of
``database/``.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from steropes.data.html_representations import TextInHtml
from steropes.designs.values.dates_and_ages import require_time_zone
from steropes.errors import DataError
from steropes.studies.database.cdm_layout import require_cdm_tables
from steropes.studies.database.cdm_tables import CdmTables
from steropes.studies.database.concept_names_and_descendants import (
    UNNAMED,
    descendants_of,
    names_of,
)
from steropes.studies.database.duckdb_source_tables import require_memory
from steropes.studies.database.open_database import open_source
from steropes.studies.database.sources.table_source import (
    Naming,
    RecordsOf,
    Workspace,
)

__all__ = ["Naming", "OmopDatabase", "RecordsOf", "Workspace", "opened"]


class OmopDatabase(CdmTables, TextInHtml):
    """A read-only view of an OMOP Common Data Model (v5.x).

    Use it as a context manager; temporary files and tables copied from a server are removed when it
    closes. A connection that was passed in stays open.

    Parameters
    ----------
    database : str, Path or connection
        One of

        - a DuckDB file;
        - a folder with a Parquet file, or a folder of Parquet files, for each table;
        - the URL of a server, such as ``postgresql://user@host/database?schema=cdm``; there is one
          module in ``steropes.studies.database.servers`` for each kind of server. Prefer not to put
          passwords into it: ``steropes.studies.database.sources.server_address`` lists the other
          ways;
        - an open DuckDB connection with the CDM in its current catalog. Temporary tables of that
          connection are not visible;
        - an open ADBC connection to a server whose module accepts one.
    schema : str, default "main"
        The schema of the CDM tables, in any case. On a server without a schema "main", it means the
        URL's schema, or else the default one, such as "public".
    memory : str, optional
        Memory limit of the database, such as "500MB" or "2GB"; the rest goes to a temporary folder.
        Default: DuckDB's. Not for an open connection, which has its own setting.
    time_zone : str, default "UTC"
        Time zone that determines the dates of instants (``TIMESTAMP WITH TIME ZONE``,
        ``timestamptz``), which are stored without a zone. All other values are local dates, and
        the time zone of the computer is never used.

    Attributes
    ----------
    schema : str
        The schema of the CDM tables.
    tables : set of str
        The tables that studies read and the database has.
    time_zone : str
        The time zone of dates.
    observed_until : date or None
        The day on which all observation ends (`until`), if it ends before that of the data.

    Raises
    ------
    DataError
        The file or schema does not exist, the file is not a database, CDM tables or columns are
        missing, or a server rejects the connection.

    See Also
    --------
    demo_database : The path of a synthetic database.
    synthetic_database : A database simulated in memory.

    Examples
    --------
    >>> import steropes
    >>> with steropes.OmopDatabase(steropes.demo_database()) as db:
    ...     db.name
    'eunomia.duckdb'
    """

    def __init__(
        self,
        database: str | Path | Any,
        schema: str = "main",
        memory: str | None = None,
        time_zone: str = "UTC",
    ) -> None:
        if not isinstance(schema, str) or not schema:
            raise DataError(f"schema must be the name of a schema, not {schema!r}")
        if memory is not None:
            require_memory(memory)
        if memory is not None and not isinstance(database, str | Path):
            raise DataError("the memory of an open connection is set where it is opened")
        self.time_zone = require_time_zone(time_zone)
        self.observed_until: dt.date | None = None
        self._source = open_source(database, self.time_zone)
        try:
            self.schema = self._source.schema(schema)
            found = self._source.layout(self.schema)
            self.tables = require_cdm_tables(found, self.schema, self.name)
            self._source.confine(memory)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> OmopDatabase:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"OmopDatabase({self._source.location!r}, schema={self.schema!r}{state})"

    def close(self) -> None:
        """Close the database and remove everything temporary."""
        self._source.close()

    @property
    def copies(self) -> bool:
        """Whether tables are copied from a server."""
        return self._source.copies

    @property
    def identity(self) -> str:
        """The file or server with the schema, which identifies the people of a cohort."""
        return f"{self._source.identity} ({self.schema.lower()})"

    def narrowed(self, people: Iterable[RecordsOf]) -> OmopDatabase:
        """Return the same database restricted to relevant people.

        A server is then asked only for rows of people with at least one such record. If nothing is
        copied (DuckDB, Parquet) there is no restriction, and everybody is included. The result
        closes with this database.

        Parameters
        ----------
        people : iterable of RecordsOf
            Records, of which relevant people have at least one.

        Returns
        -------
        OmopDatabase
            The restricted database.
        """
        self._check_open()
        narrow = copy.copy(self)
        narrow._source = self._source.narrowed(self.schema, tuple(people))
        return narrow

    def until(self, day: dt.date | None) -> OmopDatabase:
        """Return the same database with observation that ends on a day at the latest.

        Parameters
        ----------
        day : date or None
            The last day of observation. None changes nothing.

        Returns
        -------
        OmopDatabase
            The database, which closes with this one.
        """
        self._check_open()
        if day is None:
            return self
        cut = copy.copy(self)
        cut.observed_until = day
        return cut

    def concept_name(self, concept_id: int) -> str:
        """Return the name of a concept.

        Parameters
        ----------
        concept_id : int
            The concept.

        Returns
        -------
        str
            Its name, or "unnamed concept 123" for concept 123 without a name.

        Raises
        ------
        DataError
            The vocabulary lacks the concept.
        """
        names = self.concept_names([concept_id])
        if concept_id not in names:
            raise DataError(
                f"concept {concept_id} is unknown: table concept of {self.name} "
                "has no such concept_id"
            )
        name = names[concept_id]
        return f"{name} {concept_id}" if name == UNNAMED else name

    def concept_names(self, concept_ids: Iterable[int]) -> dict[int, str]:
        """Return the names of concepts.

        Parameters
        ----------
        concept_ids : iterable of int
            The concepts.

        Returns
        -------
        dict of int to str
            Names of known concepts, "unnamed concept" for those without a name.
        """
        return names_of(self, concept_ids)

    def descendants(self, concept_ids: Iterable[int]) -> list[int]:
        """Return the concepts and all their descendants by ``concept_ancestor``.

        Without links in the vocabulary these are the concepts alone. Studies therefore find
        members by `Descendants`, which rejects such a vocabulary.

        Parameters
        ----------
        concept_ids : iterable of int
            The concepts.

        Returns
        -------
        list of int
            Concept ids, ascending.
        """
        return descendants_of(self, concept_ids)

    def source_name(self) -> str | None:
        """Return the name of the database in ``cdm_source``.

        Returns
        -------
        str or None
            The name, None without one.
        """
        if "cdm_source" not in self.tables:
            return None
        names = self.rows(
            f"SELECT cdm_source_name FROM {self.table('cdm_source')} ORDER BY 1 LIMIT 1"
        )
        return names[0][0] if names else None

    def provenance(self) -> dict[str, str | None]:
        """Return names, versions and dates from ``cdm_source``.

        Returns
        -------
        dict
            ``name``, ``cdm`` and ``vocabulary`` (versions), ``release`` (date of the CDM) and
            ``source_release`` (date of the source data); None for unknown ones.
        """
        columns = {
            "name": "cdm_source_name",
            "cdm": "cdm_version",
            "vocabulary": "vocabulary_version",
            "release": "cdm_release_date",
            "source_release": "source_release_date",
        }
        have = self.columns("cdm_source")
        found: dict[str, str | None] = dict.fromkeys(columns)
        for name, column in columns.items():
            if column in have:
                rows = self.rows(f"SELECT max({column}::VARCHAR) FROM {self.table('cdm_source')}")
                found[name] = rows[0][0]
        return found


@contextmanager
def opened(
    database: str | Path | OmopDatabase | Any,
    schema: str,
    time_zone: str,
    memory: str | None = None,
    observed_until: dt.date | None = None,
) -> Iterator[OmopDatabase]:
    """Open a database as a context manager; an open one is used as it is and stays open.

    Observation ends on ``observed_until`` at the latest, if it is given.
    """
    if isinstance(database, OmopDatabase):
        yield database.until(observed_until)
        return
    with OmopDatabase(database, schema, memory, time_zone) as db:
        yield db.until(observed_until)
