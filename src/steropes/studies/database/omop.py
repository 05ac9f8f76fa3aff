"""An OMOP database: its tables, checks of them, and its vocabulary.

The database is never modified. Temporary tables are created in a workspace, which is private to its
user. Where the tables are stored is the subject of the other modules of ``database/``.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from steropes.data.html_representations import TextInHtml
from steropes.designs.values.dates_and_ages import require_time_zone
from steropes.errors import DataError
from steropes.studies.database.open_database import open_source
from steropes.studies.database.sources.protocols import (
    MARK,
    Condition,
    Layout,
    Naming,
    RecordsOf,
    Workspace,
)
from steropes.studies.formatting.plain_text import plain_text

__all__ = ["Naming", "OmopDatabase", "RecordsOf", "Workspace", "opened"]

# The CDM tables (v5.x) and columns that a study reads.
REQUIRED = {
    "person": ("person_id", "gender_concept_id", "year_of_birth"),
    "observation_period": (
        "person_id",
        "observation_period_start_date",
        "observation_period_end_date",
    ),
    "drug_era": ("person_id", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"),
    "condition_occurrence": ("person_id", "condition_concept_id", "condition_start_date"),
    "concept": ("concept_id", "concept_name"),
}
OPTIONAL = {
    "procedure_occurrence": ("person_id", "procedure_concept_id", "procedure_date"),
    "measurement": ("person_id", "measurement_concept_id", "measurement_date"),
    "observation": ("person_id", "observation_concept_id", "observation_date"),
    "concept_ancestor": ("ancestor_concept_id", "descendant_concept_id"),
    "cdm_source": ("cdm_source_name",),
}
# Vocabulary extracts often lack these two although person refers to them.
WELL_KNOWN = {8507: "Male", 8532: "Female"}
UNNAMED = "unnamed concept"


class OmopDatabase(TextInHtml):
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
            _refuse_amount(memory)
        if memory is not None and not isinstance(database, str | Path):
            raise DataError("the memory of an open connection is set where it is opened")
        self.time_zone = require_time_zone(time_zone)
        self.observed_until: dt.date | None = None
        self._source = open_source(database, self.time_zone)
        try:
            self.schema = self._source.schema(schema)
            self.tables = self._check_tables()
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
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._source.closed

    @property
    def copies(self) -> bool:
        """Whether tables are copied from a server."""
        return self._source.copies

    @property
    def identity(self) -> str:
        """The file or server with the schema, which identifies the people of a cohort."""
        return f"{self._source.identity} ({self.schema.lower()})"

    @property
    def name(self) -> str:
        """The name of the database in messages: that of its file, if it has one."""
        return self._source.name

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

    # -- queries ---------------------------------------------------------------------------------

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Open a private workspace for statements that build on each other.

        Workspaces never see each other's tables, whatever their names, so that two studies on one
        database cannot interfere.

        Yields
        ------
        Workspace
            Runs statements and returns their rows; it is closed at the end.
        """
        self._check_open()
        with self._source.home.another() as work:
            yield work

    def rows(self, sql: str, values: Sequence[object] | None = None) -> list[tuple]:
        """Return all rows of a small query.

        Parameters
        ----------
        sql : str
            A query in DuckDB's SQL.
        values : sequence, optional
            Values of the query's placeholders.

        Returns
        -------
        list of tuple
            The rows.
        """
        with self.workspace() as work:
            return work.rows(sql, values)

    def table(self, name: str, schema: str | None = None) -> str:
        """Return a table in the CDM's types for use after FROM.

        Parameters
        ----------
        name : str
            Name of the table.
        schema : str, optional
            Its schema. Default: that of the CDM tables.

        Returns
        -------
        str
            SQL.
        """
        self._check_open()
        return self._source.table(self.schema if schema is None else schema, name)

    def records(self, wanted: RecordsOf) -> str:
        """Return the rows of a table with one of some concepts, for use after FROM.

        A server sends no other rows of the table.

        Parameters
        ----------
        wanted : RecordsOf
            The table, its column of concepts and the concepts.

        Returns
        -------
        str
            SQL.
        """
        self._check_open()
        return self._source.records(self.schema, wanted)

    def holding(self, table: str, wanted: Callable[[], RecordsOf | Naming]) -> str:
        """Return a vocabulary table that includes some records, for use after FROM.

        A server sends no others; otherwise it is the whole table, and ``wanted`` is not called.

        Parameters
        ----------
        table : str
            Name of the vocabulary table.
        wanted : callable
            Function without arguments that returns the records, a `RecordsOf` or `Naming`.

        Returns
        -------
        str
            SQL.
        """
        self._check_open()
        return self._source.holding(self.schema, wanted, table)

    def holds(self, table: str, condition: Condition) -> bool:
        """Check whether a table has any row that satisfies a condition.

        Parameters
        ----------
        table : str
            Name of the table.
        condition : Condition
            The condition, as `TableSource.holds` takes it.

        Returns
        -------
        bool
            True if there is such a row.
        """
        self._check_open()
        return self._source.holds(self.schema, table, condition)

    def last_day(self, table: str, column: str, until: dt.date) -> dt.date | None:
        """Return the last day in a column of a table, for everybody in the database.

        Parameters
        ----------
        table : str
            Name of a table that has the column.
        column : str
            Name of the column.
        until : date
            Later days are left out.

        Returns
        -------
        date or None
            The day; None without any.
        """
        self._check_open()
        return self._source.last_day(self.schema, table, column, until)

    def links(self, column: str, concepts: Callable[[], Iterable[int]]) -> str:
        """Return rows of ``concept_ancestor`` that include some concepts in a column.

        Parameters
        ----------
        column : str
            Name of the column.
        concepts : callable
            Function without arguments that returns the concepts.

        Returns
        -------
        str
            SQL for use after FROM; see `holding`.
        """
        return self.holding(
            "concept_ancestor", lambda: _some("concept_ancestor", column, concepts())
        )

    def concepts(self, concepts: Callable[[], Iterable[int]]) -> str:
        """Return rows of ``concept`` that include some concepts.

        Parameters
        ----------
        concepts : callable
            Function without arguments that returns the concepts.

        Returns
        -------
        str
            SQL for use after FROM; see `holding`.
        """
        return self.holding("concept", lambda: _some("concept", "concept_id", concepts()))

    def recorded_concepts(self, table: str, column: str) -> list[int]:
        """Return the distinct concepts in a column of a table.

        Parameters
        ----------
        table : str
            SQL of the table, as after FROM.
        column : str
            Name of the column.

        Returns
        -------
        list of int
            Concept ids.
        """
        found = self.rows(
            f"SELECT DISTINCT {column}::BIGINT FROM {table} WHERE {column} IS NOT NULL"
        )
        return [c for (c,) in found]

    def columns(self, table: str, schema: str | None = None) -> tuple[str, ...]:
        """Return the names of a table's columns.

        Parameters
        ----------
        table : str
            Name of the table.
        schema : str, optional
            Its schema. Default: that of the CDM tables.

        Returns
        -------
        tuple of str
            Names in lower case; none if the table does not exist.
        """
        self._check_open()
        return self._source.columns(self.schema if schema is None else schema, table)

    def birth_day(self) -> str:
        """Return SQL of the day of birth, for a SELECT from ``person`` grouped by person.

        A missing or invalid month or day (0, the 30th of February) is taken as the first. Of
        several rows of a person the smallest values count.

        Returns
        -------
        str
            SQL of a date.
        """
        have = self.columns("person")
        month, day = (
            f"min({c})::BIGINT" if c in have else "1" for c in ("month_of_birth", "day_of_birth")
        )
        # make_date raises for an invalid day, which would stop the whole query.
        message = (
            f"{MARK}person: year_of_birth lies outside the years 1 to 9999; correct it, or write "
            "NULL where it is not known"
        )
        year = (
            "CASE WHEN min(year_of_birth) IS NULL OR min(year_of_birth) BETWEEN 1 AND 9999 "
            f"THEN min(year_of_birth)::BIGINT ELSE error('{message}') END"
        )
        first = f"make_date({year}, CASE WHEN {month} BETWEEN 1 AND 12 THEN {month} ELSE 1 END, 1)"
        return (
            f"{first} + CASE WHEN {day} BETWEEN 1 AND day(last_day({first})) "
            f"THEN ({day} - 1)::INTEGER ELSE 0 END"
        )

    # -- concepts --------------------------------------------------------------------------------

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
        wanted = [int(c) for c in concept_ids]
        found = self.rows(
            "SELECT concept_id::BIGINT, min(nullif(trim(concept_name), '')) "
            f"FROM {self.records(_some('concept', 'concept_id', wanted))} GROUP BY 1"
        )
        known = {c: WELL_KNOWN[c] for c in wanted if c in WELL_KNOWN}
        named = {c: plain_text(name).strip() for c, name in found if name}
        return known | {c: named.get(c) or known.get(c, UNNAMED) for c, _ in found}

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
        ids = sorted({int(c) for c in concept_ids})
        if "concept_ancestor" not in self.tables or not ids:
            return ids
        below = self.records(_some("concept_ancestor", "ancestor_concept_id", ids))
        found = self.rows(
            f"SELECT DISTINCT descendant_concept_id::BIGINT FROM {below} AS below "
            "WHERE descendant_concept_id IS NOT NULL"
        )
        return sorted({*ids, *(c for (c,) in found)})

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

    # -- checks ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Raise if the database is closed."""
        if self.closed:
            raise DataError(f"the database {self.name} is closed; open it again")

    def _check_tables(self) -> frozenset[str]:
        """Check that the required tables and columns exist, and return the names of all tables."""
        found = self._source.layout(self.schema)
        if self.schema.lower() not in found:
            others = ", ".join(sorted(found)) or "no tables at all"
            raise DataError(
                f"{self.name} has no tables in schema {self.schema!r} (it has: {others})"
            )
        tables = found[self.schema.lower()]
        absent = [name for name in REQUIRED if name not in tables]
        if absent:
            raise DataError(
                f"{self.name} is not an OMOP database: schema {self.schema!r} "
                f"lacks the tables {', '.join(absent)}{_hint(found)}"
            )
        for name, columns in {**REQUIRED, **OPTIONAL}.items():
            gone = [c for c in columns if name in tables and c not in tables[name]]
            if gone:
                raise DataError(
                    f"{self.name} is not an OMOP database: "
                    f"table {name} lacks the columns {', '.join(gone)}"
                )
        return frozenset(tables)


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


def _refuse_amount(memory: object) -> None:
    """Raise unless a memory limit is written correctly and large enough."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([KMGT])i?B", str(memory))
    megabytes = 0.0
    if found is not None:
        megabytes = float(found[1]) * 1000.0 ** ("KMGT".index(found[2]) - 1)
    if not 1 <= megabytes <= 1e9:  # DuckDB cannot work with less, nor parse more.
        raise DataError(
            f'memory must be an amount from 1MB to 1000TB, such as "500MB" or "2GB", not {memory!r}'
        )


def _some(table: str, column: str, concepts: Iterable[int]) -> RecordsOf:
    """Select records with one of some concepts."""
    return RecordsOf(table, column, tuple(sorted({*concepts})))


def _hint(found: Layout) -> str:
    """Name another schema that contains the tables, if there is one."""
    whole = [s for s, t in sorted(found.items()) if all(name in t for name in REQUIRED)]
    return f"; schema {whole[0]!r} has them" if whole else ""
