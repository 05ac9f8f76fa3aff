"""Tables of a server, copied on demand to a DuckDB file of the study.

A table is read on first use: only the rows of the people given to `narrowed`, and only the columns
that a study uses. Vocabulary tables are shared by all.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.duckdb_source_tables import close_scratch, scratch_database
from steropes.studies.database.server_registry import DIALECTS
from steropes.studies.database.sources.column_type_conversion import conformed
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import Server
from steropes.studies.database.sources.sql_dialects import Column, Dialect, Table
from steropes.studies.database.sources.table_source import (
    Condition,
    Layout,
    Naming,
    RecordsOf,
    TableSource,
    quoted,
)

__all__ = ["ServerSource"]

T = TypeVar("T")
CATALOG, SHARED = "cdm", "shared"
PERSONS = ("person_id", "subject_id")
# The columns that a study uses of the large vocabulary tables.
VOCABULARY = {
    "concept": (
        *("concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id"),
        *("standard_concept", "concept_code", "invalid_reason"),
    ),
    "concept_ancestor": (
        *("ancestor_concept_id", "descendant_concept_id"),
        *("min_levels_of_separation", "max_levels_of_separation"),
    ),
    "concept_relationship": ("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason"),
}


class ServerCache:
    """The state shared by the sources of one connection: server, DuckDB file and copied tables."""

    def __init__(self, address: Address, server: Server, zone: str) -> None:
        self.address, self.server, self.zone = address, server, zone
        self.home, self.spill = scratch_database()
        self.lock, self.closed, self.parts = threading.RLock(), False, 0
        self.layouts: dict[str, dict[str, Table]] = {}  # By schema in lower case.
        self.made: dict[object, str] = {}
        self.answers: dict[str, bool] = {}  # Answers to yes-or-no questions by their SQL.
        self.days: dict[str, list[dt.date]] = {}  # The distinct days of columns by their SQL.
        try:
            file = str(self.spill.path / "tables.duckdb").replace("'", "''")
            self.home.run(f"ATTACH '{file}' AS {CATALOG}")
            self.home.run(f"CREATE SCHEMA {CATALOG}.{SHARED}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the server and the DuckDB file, and remove the copied tables."""
        if self.closed:
            return
        self.closed = True
        with suppress(Exception):  # The connection may be lost already.
            self.server.close()
        close_scratch(self.home, self.spill)

    def once(self, key: object, make: Callable[[], str]) -> str:
        """Return the result of the first call for a key."""
        with self.lock:
            if key not in self.made:
                self.made[key] = make()
            return self.made[key]

    def asked(self, subject: str, work: Callable[[], T]) -> T:
        """Query the server; errors are raised without credentials and values of rows."""
        try:
            return work()
        except (DataError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise DataError(
                f"{self.address.name}: cannot read {subject}: {self.address.without_values(error)}"
            ) from None

    def rows(self, sql: str) -> list[tuple]:
        """Return all rows of a small query."""
        found: list[tuple] = []
        for batch in self.server.batches(sql):
            found += zip(*(c.to_pylist() for c in batch.columns), strict=True)
        return found

    def answer(self, table: str, sql: str) -> bool:
        """Ask a yes-or-no question about a table, once."""
        with self.lock:
            if sql not in self.answers:
                [(found,)] = self.asked(f"the table {table}", lambda: self.rows(sql))
                self.answers[sql] = bool(found)
            return self.answers[sql]

    def distinct_days(self, table: str, sql: str) -> list[dt.date]:
        """Ask for the distinct days of a column, once; values that are no dates are left out."""
        with self.lock:
            if sql not in self.days:
                found = self.asked(f"the table {table}", lambda: self.rows(sql))
                self.days[sql] = [day for (value,) in found if (day := _day(value)) is not None]
            return self.days[sql]

    def store(self, target: str, queries: Sequence[str], table: str) -> str:
        """Create a table of the rows of queries with the same columns.

        Returns SQL for it in the CDM's types; ``table`` is its name in messages.
        """
        connection = self.home.connection.cursor()
        try:
            for number, sql in enumerate(queries):
                connection.register("arriving", _reader(self.server.batches(sql)))
                if number:
                    connection.execute(f"INSERT INTO {target} FROM arriving")
                else:
                    connection.execute(f"CREATE OR REPLACE TABLE {target} AS FROM arriving")
                connection.unregister("arriving")
            described = connection.execute(f"DESCRIBE {target}").fetchall()
        finally:
            connection.close()
        types = {str(name).lower(): str(declared) for name, declared, *_ in described}
        with self.home.another() as work:
            return conformed(work, target, table, types, self.zone)


class ServerSource(TableSource):
    """A schema of a server, for all or some people.

    Parameters
    ----------
    part : str
        The schema of the copy that contains tables of people.
    people : sequence of RecordsOf
        Records that select the people; empty for everybody.
    """

    copies = True

    def __init__(
        self, cache: ServerCache, part: str = SHARED, people: Sequence[RecordsOf] = ()
    ) -> None:
        self._cache, self._part, self._people = cache, part, tuple(people)
        self.home = cache.home
        self.name, self.identity = cache.address.name, cache.address.public
        self.location = self.identity
        self._dialect: Dialect = DIALECTS[cache.address.scheme]

    @classmethod
    def of_server(cls, address: Address, server: Server, zone: str) -> ServerSource:
        """Use the tables behind an open connection."""
        need("pyarrow")
        try:
            return cls(ServerCache(address, server, zone))
        except BaseException:
            server.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether the connection has been closed."""
        return self._cache.closed

    def close(self) -> None:
        """Close the connection and remove the copied tables."""
        self._cache.close()

    def schema(self, asked: str) -> str:
        """Return ``asked``; for "main" the URL's schema, or the default if there is no "main"."""
        url = self._cache.address.schema
        usual = url or self._dialect.usual_schema
        if asked.lower() != "main" or not usual:
            return asked
        return usual if url or not self._tables(asked) else asked

    def layout(self, schema: str) -> Layout:
        """List tables and columns of one schema, or else the other schemas with a CDM."""
        found: Layout = {}
        tables = self._tables(schema)
        if tables:
            found[schema.lower()] = {
                name: tuple(c.name.lower() for c in t.columns) for name, t in tables.items()
            }
            return found
        sql = self._dialect.schemas()
        if sql is not None:
            for (other,) in self._cache.asked("the list of schemas", lambda: self._cache.rows(sql)):
                found[str(other).lower()] = {}
        return found

    def columns(self, schema: str, table: str) -> tuple[str, ...]:
        """List the columns of a table, in lower case."""
        known = self._tables(schema).get(table.lower())
        return tuple(c.name.lower() for c in known.columns) if known else ()

    def table(self, schema: str, name: str) -> str:
        """Return a table, copied on first use."""
        table = self._table(schema, name)
        person = _person(table)
        narrow = bool(self._people) and person is not None
        target = self._shared(table, self._part if narrow else SHARED)

        def read() -> str:
            wanted = self._of_wanted_people(schema, person) if narrow and person is not None else ""
            query = self._dialect.select(table, table.columns, wanted, self._cache.zone)
            return self._read(target, table, [query])

        return self._cache.once(target, read)

    def records(self, schema: str, wanted: RecordsOf) -> str:
        """Return some rows of a table, copied on first use."""
        asked_schema = wanted.schema or schema
        table = self._table(asked_schema, wanted.table)
        column = self._column(table, wanted.column)
        conditions = list(self._dialect.among(column, wanted.values)) or ["1 = 0"]
        return self._some(("records", asked_schema.lower(), wanted), table, conditions)

    def holding(self, schema: str, wanted: Callable[[], RecordsOf | Naming], table: str) -> str:
        """Return those records, or the whole table if it has been copied."""
        found = self._table(schema, table)
        if _person(found) is not None:
            return self.table(schema, table)
        whole = self._shared(found)
        if whole in self._cache.made:
            return self._cache.made[whole]
        asked = wanted()
        return (
            self.records(schema, asked)
            if isinstance(asked, RecordsOf)
            else self._naming(schema, asked)
        )

    def holds(self, schema: str, table: str, condition: Condition) -> bool:
        """Check on the server whether a table has a row that satisfies a condition."""
        found = self._table(schema, table)

        def written(name: str) -> str:
            """Return the quoted name of a column; raise if it is declared as text."""
            column = self._column(found, name)
            if column.is_text:  # Servers differ in comparisons of text with numbers.
                raise DataError(
                    f"{found.name}: {column.name} is declared as text; the column must be a BIGINT"
                )
            return self._dialect.quote(column.name)

        return self._cache.answer(found.name, self._dialect.exists(found, condition(written)))

    def last_day(self, schema: str, table: str, column: str, until: dt.date) -> dt.date | None:
        """Return the last day in a column that is not later than some day.

        Servers differ in the dates that they write and compare, so that they send all the days that
        occur, some thousand at most.
        """
        found = self._table(schema, table)
        sql = self._dialect.distinct_days(found, self._column(found, column), self._cache.zone)
        days = self._cache.distinct_days(found.name, sql)
        return max((day for day in days if day <= until), default=None)

    def narrowed(self, schema: str, people: Sequence[RecordsOf]) -> ServerSource:
        """Return the source with tables of people restricted to those with such records."""

        def make() -> str:
            self._cache.parts += 1
            part = f"part {self._cache.parts}"
            self.home.run(f"CREATE SCHEMA {CATALOG}.{quoted(part)}")
            return part

        part = self._cache.once(("part", schema.lower(), tuple(people)), make)
        return ServerSource(self._cache, part, people)

    # -- helpers ---------------------------------------------------------------------------------

    def _tables(self, schema: str) -> dict[str, Table]:
        """List the tables of a schema in the server's spelling, by name in lower case."""
        layouts, key = self._cache.layouts, schema.lower()
        with self._cache.lock:
            if key not in layouts:
                found: dict[str, list[tuple]] = {}
                listing = self._dialect.listing(schema)
                for row in self._cache.asked(
                    f"the tables of schema {schema!r}", lambda: self._cache.rows(listing)
                ):
                    found.setdefault(str(row[1]), []).append(row)
                layouts[key] = {
                    name.lower(): _read_of(
                        Table(str(rows[0][0]), name, tuple(Column.declared(*r[2:]) for r in rows))
                    )
                    for name, rows in found.items()
                }
            return layouts[key]

    def _table(self, schema: str, name: str) -> Table:
        """Find a table; raise if it does not exist."""
        found = self._tables(schema).get(name.lower())
        if found is None:
            raise DataError(f"{self.name} has no table {schema}.{name}")
        return found

    def _column(self, table: Table, name: str) -> Column:
        """Find a column of a table; raise if it does not exist."""
        found = table.column(name)
        if found is None:
            raise DataError(f"{self.name}: table {table.name} lacks the column {name}")
        return found

    def _naming(self, schema: str, wanted: Naming) -> str:
        """Return the rows of a table whose text has some words."""
        table = self._table(schema, wanted.table)
        condition = self._dialect.naming(self._column(table, wanted.column), wanted.words)
        return self._some(("naming", schema.lower(), wanted), table, [condition])

    def _some(self, key: object, table: Table, conditions: Sequence[str]) -> str:
        """Return rows that satisfy one of some conditions, copied on first use."""

        def read() -> str:
            target = f"{CATALOG}.{SHARED}.{quoted(f'records {len(self._cache.made)}')}"
            zone = self._cache.zone
            queries = [self._dialect.select(table, table.columns, c, zone) for c in conditions]
            return self._read(target, table, queries)

        return self._cache.once(key, read)

    def _read(self, target: str, table: Table, queries: Sequence[str]) -> str:
        """Store the rows of queries of a table and return SQL for them."""
        return self._cache.asked(
            f"the table {table.name}",
            lambda: self._cache.store(target, queries, table.name.lower()),
        )

    def _shared(self, table: Table, part: str = SHARED) -> str:
        """Name the copy of a table."""
        return f"{CATALOG}.{quoted(part)}.{quoted(f'{table.schema}.{table.name}'.lower())}"

    def _of_wanted_people(self, schema: str, person: Column) -> str:
        """Write the condition that selects the rows of the wanted people."""
        records = []
        for wanted in self._people:
            table = self._table(wanted.schema or schema, wanted.table)
            who = self._column(table, wanted.person)
            concept = self._column(table, wanted.column)
            for condition in self._dialect.among(concept, wanted.values):
                records.append((table, who, condition))
        return self._dialect.has_record(person, records) if records else "1 = 0"


def _person(table: Table) -> Column | None:
    """Find the column of the person, if the table has one."""
    return next((c for name in PERSONS if (c := table.column(name)) is not None), None)


def _day(value: object) -> dt.date | None:
    """Read a date, or a text that begins with one; None for anything else."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    with suppress(ValueError):
        return dt.date.fromisoformat(str(value).strip()[:10])
    return None


def _read_of(table: Table) -> Table:
    """Keep the columns that are read; tables of people are read without free text."""
    listed = VOCABULARY.get(table.name.lower())
    if listed is not None:
        return replace(table, columns=tuple(c for c in table.columns if c.name.lower() in listed))
    if _person(table) is None:
        return table
    return replace(table, columns=tuple(c for c in table.columns if c.kind != "text"))


def _reader(batches: Iterator[Any]) -> Any:
    """Combine record batches into one reader."""
    import pyarrow as pa

    first = next(batches)

    def rest() -> Iterator[Any]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, rest())
