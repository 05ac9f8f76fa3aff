"""Tables that DuckDB reads directly: of a file, an open connection or a folder of Parquet files."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.sources.column_type_conversion import conformed, date_or_null
from steropes.studies.database.sources.table_source import (
    Condition,
    Layout,
    RecordsOf,
    TableSource,
    Workspace,
    confine,
    quoted,
)
from steropes.studies.database.temporary_folder import ScratchFolder

__all__ = ["DuckDBSource"]

CATALOG = "cdm"
# Tokens of connections to databases in memory. Python reuses the id of a connection that is gone,
# and stored results of its database would be taken for those of the next one.
_TOKENS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class DuckDBSource(TableSource):
    """A catalog of a DuckDB connection, created by ``of_file``, ``of_folder`` or ``of_connection``.

    Parameters
    ----------
    zone : str
        Time zone that determines the dates of instants.
    spill : ScratchFolder, optional
        Temporary folder, removed on closing.
    """

    def __init__(
        self,
        home: Workspace,
        catalog: str,
        name: str,
        identity: str,
        zone: str,
        spill: ScratchFolder | None,
    ) -> None:
        self.home, self.name, self.identity = home, name, identity
        self.location = identity
        self._catalog, self._zone, self._spill, self._closed = catalog, zone, spill, False
        # Column types and SQL of the tables in use, by schema and name in lower case.
        self._types: dict[tuple[str, str], dict[str, str]] = {}
        self._tables: dict[tuple[str, str], str] = {}
        self._last_days: dict[tuple[str, str, str, dt.date], dt.date | None] = {}
        self._folders: tuple[str, ...] = ()  # The folders that queries may read.

    @classmethod
    def of_file(cls, path: Path, zone: str) -> DuckDBSource:
        """Attach a DuckDB file, read-only, to a new in-memory database."""
        home, spill = scratch_database()
        duckdb = need("duckdb")
        literal = str(path).replace("'", "''")
        try:
            home.run(f"ATTACH '{literal}' AS {CATALOG} (READ_ONLY, TYPE duckdb)")
        except duckdb.Error as error:
            close_scratch(home, spill)
            raise DataError(f"cannot open {path} as a DuckDB database: {_line(error)}") from error
        except BaseException:
            close_scratch(home, spill)
            raise
        return cls(home, CATALOG, path.name, str(path.resolve()), zone, spill)

    @classmethod
    def of_folder(cls, folder: Path, zone: str) -> DuckDBSource:
        """Create views of a folder with a Parquet file, or a folder of them, for each table."""
        folder = folder.resolve()
        found = _parquet(folder)
        if not found:
            raise DataError(
                f"{folder} is a folder without Parquet files: a study needs an "
                "OMOP database in a DuckDB file, or a folder with a Parquet file (or a folder of "
                "them) for each table, such as person.parquet"
            )
        home, spill = scratch_database()
        duckdb = need("duckdb")
        try:
            home.run(f"ATTACH ':memory:' AS {CATALOG}")
            for table, pattern in found.items():
                literal = pattern.replace("'", "''")
                home.run(
                    f"CREATE VIEW {CATALOG}.main.{quoted(table)} AS "
                    f"FROM read_parquet('{literal}', union_by_name = true)"
                )
        except duckdb.Error as error:
            close_scratch(home, spill)
            raise DataError(f"cannot read the Parquet files of {folder}: {_line(error)}") from error
        except BaseException:
            close_scratch(home, spill)
            raise
        place = cls(home, CATALOG, folder.name, str(folder), zone, spill)
        # DuckDB compares paths as written, and these are written as patterns.
        place._folders = (str(folder), _escaped(folder))
        return place

    @classmethod
    def of_connection(cls, connection: Any, zone: str) -> DuckDBSource:
        """Use the current catalog of an open connection, by a new cursor."""
        duckdb = need("duckdb")
        try:
            home = Workspace(connection.cursor())
            [(catalog, file)] = home.rows(
                "SELECT database_name, path FROM duckdb_databases() "
                "WHERE database_name = current_catalog()"
            )
        except duckdb.Error as error:
            raise DataError(f"the connection cannot be used: {_line(error)}") from error
        where = Path(file or catalog)
        if file:
            return cls(home, str(catalog), where.name, str(where.resolve()), zone, None)
        token = _TOKENS.setdefault(connection, uuid4().hex)
        place = cls(home, str(catalog), where.name, f"{catalog} in memory, {token}", zone, None)
        place.location = f"{catalog} in memory"
        return place

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._closed

    def close(self) -> None:
        """Close the connection and remove temporary files."""
        self._closed = True
        close_scratch(self.home, self._spill)

    def confine(self, memory: str | None = None) -> None:
        """See `TableSource.confine`; a connection of the user's remains unchanged."""
        if self._spill is None:
            return
        if memory is not None:
            self.home.run(f"SET memory_limit = '{memory}'")
        confine(self.home, self._folders)

    def layout(self, schema: str) -> Layout:
        """List tables and columns of all schemas."""
        found: dict[str, dict[str, list[str]]] = {}
        for in_schema, table, column in self.home.rows(
            "SELECT lower(table_schema), lower(table_name), lower(column_name) "
            "FROM information_schema.columns WHERE table_catalog = $1 ORDER BY ordinal_position",
            [self._catalog],
        ):
            found.setdefault(in_schema, {}).setdefault(table, []).append(column)
        return {s: {t: tuple(c) for t, c in tables.items()} for s, tables in found.items()}

    def columns(self, schema: str, table: str) -> tuple[str, ...]:
        """List the columns of a table, in lower case."""
        return tuple(self._declared(schema, table))

    def table(self, schema: str, name: str) -> str:
        """Return the table's full name, or a subquery that converts its types."""
        key = (schema.lower(), name.lower())
        if key not in self._tables:
            place, types = self._place(schema, name), self._declared(schema, name)
            with self.home.another() as work:
                self._tables[key] = conformed(work, place, name.lower(), types, self._zone)
        return self._tables[key]

    def records(self, schema: str, wanted: RecordsOf) -> str:
        """Return a subquery of the records."""
        listed = ", ".join(_literal(v) for v in wanted.values) or "NULL"
        place = self.table(wanted.schema or schema, wanted.table)
        return f"(SELECT * FROM {place} WHERE {quoted(wanted.column)} IN ({listed}))"

    def holds(self, schema: str, table: str, condition: Condition) -> bool:
        """Check whether a table has a row that satisfies a condition."""
        place = self.table(schema, table)
        sql = f"SELECT EXISTS (SELECT 1 FROM {place} WHERE {condition(quoted)})"
        with self.home.another() as work:
            [(found,)] = work.rows(sql)
        return bool(found)

    def last_day(self, schema: str, table: str, column: str, until: dt.date) -> dt.date | None:
        """Return the last day in a column that is not later than some day."""
        key = (schema.lower(), table.lower(), column.lower(), until)
        if key not in self._last_days:
            declared = self._declared(schema, table)[column.lower()].upper()
            day = date_or_null(quoted(column), declared, self._zone)
            with self.home.another() as work:
                [(self._last_days[key],)] = work.rows(
                    f"SELECT max(day) FROM (SELECT {day} AS day FROM {self._place(schema, table)}) "
                    f"WHERE day BETWEEN DATE '0001-01-01' AND DATE '{until.isoformat()}'"
                )
        return self._last_days[key]

    def narrowed(self, schema: str, people: Sequence[RecordsOf]) -> DuckDBSource:
        """Return this source: nothing is copied, and DuckDB reads no more than a query needs."""
        return self

    def _place(self, schema: str, table: str) -> str:
        """Return the full name of a table."""
        return f"{quoted(self._catalog)}.{quoted(schema)}.{quoted(table)}"

    def _declared(self, schema: str, table: str) -> dict[str, str]:
        """Look up DuckDB's type of each column of a table, by name in lower case."""
        key = (schema.lower(), table.lower())
        if key not in self._types:
            with self.home.another() as work:
                found = work.rows(
                    "SELECT lower(column_name), data_type FROM information_schema.columns "
                    "WHERE table_catalog = $1 AND lower(table_schema) = $2 "
                    "AND lower(table_name) = $3 ORDER BY ordinal_position",
                    [self._catalog, *key],
                )
            self._types[key] = dict(found)
        return self._types[key]


def scratch_database() -> tuple[Workspace, ScratchFolder]:
    """Open an in-memory DuckDB database that may spill into its own temporary folder."""
    duckdb = need("duckdb")
    spill = ScratchFolder()
    config = {
        "temp_directory": str(spill.path),
        # Otherwise, DuckDB keeps most of the memory of its largest query.
        "allocator_background_threads": "true",
    }
    return Workspace(duckdb.connect(config=config)), spill


def close_scratch(home: Workspace, spill: ScratchFolder | None) -> None:
    """Close a connection and remove its folder."""
    home.connection.close()
    if spill is not None:
        spill.cleanup()


def _parquet(folder: Path) -> dict[str, str]:
    """Find the tables in a folder, with the pattern of each one's files."""
    found: dict[str, str] = {}
    for entry in sorted(folder.iterdir()):
        _refuse_links_outside(entry, folder)
        if entry.is_file() and entry.suffix.lower() == ".parquet":
            table, pattern = entry.stem.lower(), _escaped(entry)
        elif entry.is_dir() and any(entry.rglob("*.parquet")):
            table, pattern = entry.name.lower(), f"{_escaped(entry)}/**/*.parquet"
        else:
            continue
        if table in found:
            raise DataError(f"{folder} has the table {table} twice")
        found[table] = pattern
    return found


def _refuse_links_outside(entry: Path, folder: Path) -> None:
    """Raise if a table is a symbolic link to a target outside of the folder."""
    linked = [path for path in (entry, *entry.rglob("*")) if path.is_symlink()]
    for path in linked:
        if not path.resolve().is_relative_to(folder):
            raise DataError(
                f"{path} is a symbolic link to a target outside of {folder}; put the file itself "
                "into the folder"
            )


def _escaped(path: Path) -> str:
    """Escape the wildcards in a path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _literal(value: int | str) -> str:
    """Write a number or text as a literal."""
    return str(int(value)) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0]


def require_memory(memory: object) -> None:
    """Raise unless a memory limit is written correctly and large enough."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([KMGT])i?B", str(memory))
    megabytes = 0.0
    if found is not None:
        megabytes = float(found[1]) * 1000.0 ** ("KMGT".index(found[2]) - 1)
    if not 1 <= megabytes <= 1e9:  # DuckDB cannot work with less, nor parse more.
        raise DataError(
            f'memory must be an amount from 1MB to 1000TB, such as "500MB" or "2GB", not {memory!r}'
        )
