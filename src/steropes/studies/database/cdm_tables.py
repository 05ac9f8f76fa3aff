"""Tables of an OMOP database as SQL, and queries of them in private workspaces."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from steropes.errors import DataError
from steropes.studies.database.concept_names_and_descendants import some_concepts
from steropes.studies.database.sources.table_source import (
    Condition,
    Naming,
    RecordsOf,
    TableSource,
    Workspace,
)

__all__ = ["CdmTables"]


class CdmTables:
    """The tables of an OMOP Common Data Model, wherever they are stored.

    Temporary tables are created in a workspace, which is private to its user.

    Attributes
    ----------
    schema : str
        The schema of the tables.
    """

    schema: str
    _source: TableSource

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._source.closed

    @property
    def name(self) -> str:
        """The name of the database in messages: that of its file, if it has one."""
        return self._source.name

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
            "concept_ancestor", lambda: some_concepts("concept_ancestor", column, concepts())
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
        return self.holding("concept", lambda: some_concepts("concept", "concept_id", concepts()))

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

    def _check_open(self) -> None:
        """Raise if the database is closed."""
        if self.closed:
            raise DataError(f"the database {self.name} is closed; open it again")
