"""The interface between a study and the source of its tables."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies._optional_packages import need

__all__ = [
    "MARK",
    "Condition",
    "Layout",
    "Naming",
    "RecordsOf",
    "TableSource",
    "Workspace",
    "confine",
    "quoted",
    "require_rows",
]

MOST_ROWS = 1_000_000  # The most rows of a table of results that grows with pairs or strata.
MARK = "steropes: "  # The prefix of messages that statements raise by DuckDB's error().
# A function that writes an SQL condition, given a function that quotes the name of a column.
Condition = Callable[[Callable[[str], str]], str]
# Tables by schema, and columns by table, all in lower case.
Layout = dict[str, dict[str, tuple[str, ...]]]


class Workspace:
    """A DuckDB connection with private temporary tables, which are dropped when it closes.

    A value in the database that a statement cannot use raises a `DataError` whose message omits the
    value, because it may be that of a person.

    Parameters
    ----------
    connection : DuckDB connection
        Not shared with other workspaces.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @contextmanager
    def another(self) -> Iterator[Workspace]:
        """Open another workspace on the same database as a context manager."""
        connection = self.connection.cursor()
        try:
            yield Workspace(connection)
        finally:
            connection.close()

    def run(self, sql: str, values: Sequence[object] | None = None) -> Any:
        """Run a statement and return DuckDB's result."""
        with _without_values():
            return self.connection.execute(sql, values)

    def rows(self, sql: str, values: Sequence[object] | None = None) -> list[tuple]:
        """Return all rows of a small query."""
        with _without_values():
            return self.connection.execute(sql, values).fetchall()

    def frame(self, sql: str) -> pd.DataFrame:
        """Return all rows of a query as a table; dates have no time."""
        with _without_values():
            found: pd.DataFrame = self.connection.execute(sql).df()
        return found

    def arrays(self, sql: str) -> dict[str, NDArray]:
        """Return all rows of a query by columns; values must not be missing."""
        with _without_values():
            found = self.connection.execute(sql).fetchnumpy()
        return {name: np.ma.getdata(values) for name, values in found.items()}

    def stream(self, sql: str, batch_size: int = 1_000_000) -> Iterator[Any]:
        """Yield the rows of a query as Arrow record batches."""
        need("pyarrow")
        with _without_values():
            relation = self.connection.sql(sql)
            # The method was renamed in DuckDB 1.5.
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            batches = iter(reader(batch_size))
        while True:
            with _without_values():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def require_rows(rows: float, of: str, most: int | None = None) -> None:
    """Raise if a table of results has more rows than memory and its readers are meant for.

    Parameters
    ----------
    rows : float
        The number of rows, or a bound below it.
    of : str
        What the rows are, such as "pairs of cohorts".
    most : int, optional
        The most rows. Default: `MOST_ROWS`.
    """
    most = MOST_ROWS if most is None else most
    if rows > most:
        raise DataError(
            f"left out, because there are more than {most:,} {of}: examine fewer cohorts at a time"
        )


@contextmanager
def _without_values() -> Iterator[None]:
    """Convert the database's errors about values into errors that do not quote them."""
    duckdb = need("duckdb")
    try:
        yield
    except (duckdb.DataError, duckdb.InvalidInputException) as error:
        kind, _, text = str(error).partition(": ")
        _, marked, message = text.partition(MARK)
        if marked:
            raise DataError(message.partition("\n")[0]) from None
        if not isinstance(error, duckdb.DataError):  # An error about a file or a setting.
            raise
        raise DataError(
            f"the database has a value that a query cannot use ({kind}); the value is not shown, "
            "because it may be that of a person"
        ) from None


@dataclass(frozen=True)
class RecordsOf:
    """Records with one of the given concepts (or cohorts).

    Attributes
    ----------
    table : str
    column : str
        Column of the concept.
    values : tuple of int or str
    person : str, default "person_id"
        Column of the person.
    schema : str, optional
        Schema of the table. Default: that of the CDM.
    """

    table: str
    column: str
    values: tuple[int | str, ...]
    person: str = "person_id"
    schema: str | None = None


@dataclass(frozen=True)
class Naming:
    """Records whose text contains all of some words, in any case.

    Attributes
    ----------
    table : str
    column : str
    words : tuple of str
    """

    table: str
    column: str
    words: tuple[str, ...]


class TableSource(ABC):
    """A source of tables that can be read in DuckDB.

    Attributes
    ----------
    name : str
        Name in messages.
    identity : str
        Distinguishes the source from all others, without credentials.
    location : str
        The file, folder or server for people to read, without credentials.
    home : Workspace
        The DuckDB database of the analysis, in which the results of `table` and `records` can be
        used.
        something there.
    closed : bool
    """

    name: str
    identity: str
    location: str
    home: Workspace
    copies = False  # Whether tables are copied from elsewhere.

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the source has been closed."""

    def schema(self, asked: str) -> str:
        """Return the actual schema for a requested schema of the CDM tables."""
        return asked

    @abstractmethod
    def layout(self, schema: str) -> Layout:
        """List tables and columns of the source, at least those of ``schema``."""

    @abstractmethod
    def columns(self, schema: str, table: str) -> tuple[str, ...]:
        """List the columns of a table, in lower case; none if there is no such table."""

    @abstractmethod
    def table(self, schema: str, name: str) -> str:
        """Return SQL for a table in the CDM's types, for use after FROM in ``home``."""

    @abstractmethod
    def records(self, schema: str, wanted: RecordsOf) -> str:
        """Return SQL for some rows of a table, for use after FROM in ``home``."""

    def holding(self, schema: str, wanted: Callable[[], RecordsOf | Naming], table: str) -> str:
        """Return SQL for a table that includes the wanted records and may include others.

        Parameters
        ----------
        wanted : callable
            Computes the wanted records; called only if that saves work.
        table : str
            Table of the wanted records.
        """
        return self.table(schema, table)

    @abstractmethod
    def holds(self, schema: str, table: str, condition: Condition) -> bool:
        """Check whether a table has any row that satisfies a condition.

        Parameters
        ----------
        schema, table : str
        condition : callable
            Writes the condition, given a function that writes the name of a column in the source's
            SQL. Comparisons of columns and integers work in all sources.
        """

    @abstractmethod
    def last_day(self, schema: str, table: str, column: str, until: dt.date) -> dt.date | None:
        """Return the last day in a column that is not later than some day, for all people.

        The table is not copied, and asked once. Values that are no dates are left out.

        Parameters
        ----------
        schema, table, column : str
            Names of a column that exists.
        until : date
            Later days are left out.
        """

    @abstractmethod
    def narrowed(self, schema: str, people: Sequence[RecordsOf]) -> TableSource:
        """Return the source with tables of people restricted to those with such records."""

    def confine(self, memory: str | None = None) -> None:
        """Limit memory, and restrict SQL to the tables of the source.

        A database from someone else may contain a view that reads any local file, for example by
        ``read_text``. Once everything is attached, DuckDB therefore refuses access to other files
        and to extensions, and its configuration is locked.

        Parameters
        ----------
        memory : str, optional
            Memory limit of the database, such as "2GB".
        """
        if memory is not None:
            self.home.run(f"SET memory_limit = '{memory}'")
        confine(self.home, ())

    @abstractmethod
    def close(self) -> None:
        """Close the connection and remove temporary files."""


def confine(home: Workspace, folders: Sequence[str]) -> None:
    """Block extensions and files outside of some folders until the connection closes.

    Parameters
    ----------
    home : Workspace
        Its attached databases and its temporary folder remain usable.
    folders : sequence of str
        Absolute paths of folders that queries may read.
    """
    home.run("SET autoinstall_known_extensions = false")
    home.run("SET autoload_known_extensions = false")
    if folders:
        listed = ", ".join("'" + folder.replace("'", "''") + "'" for folder in folders)
        home.run(f"SET allowed_directories = [{listed}]")
    home.run("SET enable_external_access = false")
    home.run("SET lock_configuration = true")


def quoted(name: str) -> str:
    """Quote an identifier for DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'
