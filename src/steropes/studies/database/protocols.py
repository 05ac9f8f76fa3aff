"""What a study asks of the place that holds its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.database.column_types import MARK

__all__ = ["Condition", "Layout", "Naming", "Place", "RecordsOf", "Workspace", "confine", "quoted"]

# Writes a condition of SQL; the argument writes the name of a column.
Condition = Callable[[Callable[[str], str]], str]
# schema: table: columns, all in lower case
Layout = dict[str, dict[str, tuple[str, ...]]]


class Workspace:
    """A place for temporary tables: nobody else sees them, and they go when it closes.

    A value in the database that a statement cannot use is a `DataError`, whose message does not
    hold the value: it may be that of a person.

    Parameters
    ----------
    connection : DuckDB connection
        One of its own.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @contextmanager
    def another(self) -> Iterator[Workspace]:
        """Open another workspace on the same database for a while."""
        connection = self.connection.cursor()
        try:
            yield Workspace(connection)
        finally:
            connection.close()

    def run(self, sql: str, values: Sequence[Any] | None = None) -> Any:
        """Run a statement; returns DuckDB's result."""
        with _without_values():
            return self.connection.execute(sql, values)

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple]:
        """Return all rows of a (small) query."""
        with _without_values():
            return self.connection.execute(sql, values).fetchall()

    def frame(self, sql: str) -> pd.DataFrame:
        """Return all rows of a query as a table; dates have no time."""
        with _without_values():
            found: pd.DataFrame = self.connection.execute(sql).df()
        return found

    def arrays(self, sql: str) -> dict[str, NDArray]:
        """Return all rows of a query by columns, none of which has missing values."""
        with _without_values():
            found = self.connection.execute(sql).fetchnumpy()
        return {name: np.ma.getdata(values) for name, values in found.items()}

    def stream(self, sql: str, batch_size: int = 1_000_000) -> Iterator[Any]:
        """The rows of a query as Arrow record batches, never all at once."""
        need("pyarrow")
        with _without_values():
            relation = self.connection.sql(sql)
            # the method's name since DuckDB 1.5, and before
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            batches = iter(reader(batch_size))
        while True:
            with _without_values():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


@contextmanager
def _without_values() -> Iterator[None]:
    """Turn the database's complaints about values into errors that do not quote them."""
    duckdb = need("duckdb")
    try:
        yield
    except (duckdb.DataError, duckdb.InvalidInputException) as error:
        kind, _, said = str(error).partition(": ")
        _, ours, message = said.partition(MARK)
        if ours:
            raise DataError(message.partition("\n")[0]) from None
        if not isinstance(error, duckdb.DataError):  # of a file or a setting, for example
            raise
        raise DataError(
            f"the database holds a value that a query cannot use ({kind}); the value is not shown, "
            "as it may be that of a person"
        ) from None


@dataclass(frozen=True)
class RecordsOf:
    """Records whose concept (or cohort) is one of some.

    Attributes
    ----------
    table : str
    column : str
        The column that holds the concept.
    values : tuple of int or str
    person : str, default "person_id"
        The column that says whose record it is.
    schema : str, optional
        Default: that of the CDM.
    """

    table: str
    column: str
    values: tuple[int | str, ...]
    person: str = "person_id"
    schema: str | None = None


@dataclass(frozen=True)
class Naming:
    """Records whose text has all of some words, in any case.

    Attributes
    ----------
    table : str
    column : str
    words : tuple of str
    """

    table: str
    column: str
    words: tuple[str, ...]


class Place(ABC):
    """Where the tables are, as DuckDB sees them.

    Attributes
    ----------
    name : str
        What messages call it.
    identity : str
        Tells it from every other place; without credentials.
    home : Workspace
        The DuckDB in which the analysis runs; names that `table` and `records` give mean
        something there.
    closed : bool
    """

    name: str
    identity: str
    home: Workspace

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it has been closed."""

    def schema(self, asked: str) -> str:
        """The schema of the CDM tables where the study asks for ``asked``."""
        return asked

    @abstractmethod
    def layout(self, schema: str) -> Layout:
        """Tables and columns of the place; of ``schema`` at least."""

    @abstractmethod
    def columns(self, schema: str, table: str) -> tuple[str, ...]:
        """Columns of a table, in lower case; none if there is no such table."""

    @abstractmethod
    def table(self, schema: str, name: str) -> str:
        """A table in the CDM's types, as something that can stand after FROM in ``home``."""

    @abstractmethod
    def records(self, schema: str, wanted: RecordsOf) -> str:
        """Some rows of a table, as something that can stand after FROM in ``home``."""

    def holding(self, schema: str, wanted: Callable[[], RecordsOf | Naming], table: str) -> str:
        """A table that has such records, and perhaps others.

        Parameters
        ----------
        wanted : callable
            Makes what is wanted, where that saves anything: elsewhere it is not called.
        table : str
            That of what is wanted.
        """
        return self.table(schema, table)

    @abstractmethod
    def holds(self, schema: str, table: str, condition: Condition) -> bool:
        """Whether a table has a row, of anybody, that satisfies a condition.

        Parameters
        ----------
        schema, table : str
        condition : callable
            Writes the condition; its argument writes the name of a column as the place spells it.
            Comparisons of columns and whole numbers are understood everywhere.
        """

    @abstractmethod
    def narrowed(self, schema: str, people: Sequence[RecordsOf]) -> Place:
        """The same place, where tables of people hold (at least) those who have such records."""

    def confine(self, memory: str | None = None) -> None:
        """Limit memory, and let SQL reach nothing but the tables of the place.

        A database that was received may hold a view that reads any local file, for example by
        ``read_text``. Once everything is attached, DuckDB therefore refuses access to other files
        and to extensions, and its configuration is locked.

        Parameters
        ----------
        memory : str, optional
            The most memory that the database may use, such as "2GB".
        """
        if memory is not None:
            self.home.run(f"SET memory_limit = '{memory}'")
        confine(self.home, ())

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""


def confine(home: Workspace, folders: Sequence[str]) -> None:
    """Refuse files outside of some folders, and extensions, for the rest of a connection's life.

    Parameters
    ----------
    home : Workspace
        Its attached databases and its temporary folder stay usable.
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
    """An identifier in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'
