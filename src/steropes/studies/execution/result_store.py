"""A DuckDB file of results, and of the steps that are complete.

The rows of a step are written in one transaction, together with those of other steps that are
completed within five seconds. A process that is killed leaves complete steps, and the next one
continues after them. At the end the file is written anew, sorted, so that its rows
do not depend on interruptions. (Every DuckDB file contains random bytes; the archive that
`archive_of` makes of its tables is the same to the byte.)
"""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import pandas as pd

from steropes.errors import DataError
from steropes.private_files import open_private, private_draft, refuse_foreign, restrict
from steropes.studies._optional_packages import need
from steropes.studies.formatting.text_safety import csv_text

__all__ = ["ResultStore", "Rows", "archive_of"]

Rows: TypeAlias = list[dict[str, Any]] | pd.DataFrame  # The rows of a table.
IN_MEMORY = ":memory:"
SECONDS = 5.0  # A step that is added this long after the last writing is written at once.


class ResultStore:
    """Result tables in a DuckDB file.

    Parameters
    ----------
    path : str or Path
        Created if it does not exist. ":memory:" stands for a store without a file.
    signature : str
        Hash of everything that results depend on; a file with another one is refused.
    tables : mapping of str to mapping of str to str
        Columns and types of each table.
    keys : mapping of str to tuple of str
        Columns that sort the rows of each table.

    Raises
    ------
    DataError
        The file is not a result file, or contains results of something else.
    """

    def __init__(
        self,
        path: str | Path,
        signature: str,
        tables: Mapping[str, Mapping[str, str]],
        keys: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.path, self.signature = Path(path), signature
        self.tables, self.keys = tables, keys
        duckdb = need("duckdb")
        of_file = str(path) != IN_MEMORY
        new = not of_file or not (self.path.exists() or self.path.is_symlink())
        try:
            if new and of_file:  # DuckDB makes its file readable for all, and opens no empty one.
                with private_draft(self.path) as draft:
                    duckdb.connect(str(draft)).close()
            if of_file:
                refuse_foreign(self.path, self.path.lstat(), stat.S_ISREG)
                restrict(self.path)
            self._db = duckdb.connect(str(self.path))
        except duckdb.Error as error:
            said = str(error).strip().splitlines()[0]
            raise DataError(f"cannot open {self.path}: {said}") from error
        if new:
            self._begin()
            self._make(self._db)
            self._db.execute("INSERT INTO progress VALUES ('signature', $1)", [signature])
            self._db.execute("COMMIT")
        else:
            self._recognise()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def done(self) -> set[str]:
        """Names of the complete steps."""
        rows = self._db.execute("SELECT step FROM progress WHERE kind = 'done'").fetchall()
        return {step for (step,) in rows}

    def add(self, step: str, tables: Mapping[str, Rows]) -> None:
        """Write the rows of a step and mark it as complete, in one transaction."""
        self.add_steps([(step, tables)])

    @contextmanager
    def buffered(self) -> Iterator[Callable[[str, Mapping[str, Rows]], None]]:
        """Return a function that adds steps in groups, since inserting many rows is hardly slower.

        All waiting steps are written with the first step that is added `SECONDS` after the last
        writing, or when the context ends. An interruption between two steps loses none, but a
        process that is killed loses those that wait.
        """
        waiting: list[tuple[str, Mapping[str, Rows]]] = []
        written = time.monotonic()

        def add(step: str, tables: Mapping[str, Rows]) -> None:
            """Add a step, and write all that wait if the last ones were written long ago."""
            nonlocal written
            waiting.append((step, tables))
            if time.monotonic() - written >= SECONDS:
                self.add_steps(waiting)
                waiting.clear()
                written = time.monotonic()

        try:
            yield add
        finally:
            self.add_steps(waiting)

    def add_steps(self, steps: Sequence[tuple[str, Mapping[str, Rows]]]) -> None:
        """Write the rows of several steps and mark them as complete, in one transaction."""
        lists: dict[str, list[dict[str, Any]]] = {}
        frames: dict[str, list[pd.DataFrame]] = {}
        self._begin()
        try:
            for _, tables in steps:
                for table, rows in tables.items():
                    if not isinstance(rows, pd.DataFrame):
                        lists.setdefault(table, []).extend(rows)
                    elif len(rows):
                        frames.setdefault(table, []).append(rows)
            for table, joined in lists.items():
                self._insert(table, joined)
            for table, parts in frames.items():
                self._insert(table, pd.concat(parts, ignore_index=True))
            names = [step for step, _ in steps]
            self._db.execute("INSERT INTO progress SELECT 'done', unnest($1::VARCHAR[])", [names])
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def table(self, name: str) -> pd.DataFrame:
        """Return the rows of a table, sorted by its key."""
        order = ", ".join(f"{c} NULLS FIRST" for c in self.keys[name])
        found: pd.DataFrame = self._db.execute(f"SELECT * FROM {name} ORDER BY {order}").df()
        return found

    def replace(self, name: str, rows: pd.DataFrame) -> None:
        """Replace the rows of a table."""
        self._begin()
        self._db.execute(f"DELETE FROM {name}")
        self._insert(name, rows)
        self._db.execute("COMMIT")

    def finish(self) -> None:
        """Write the file anew, each table sorted by its key, without the record of the steps."""
        duckdb = need("duckdb")
        tables = {name: self.table(name) for name in self.tables}
        self._db.close()
        with private_draft(self.path) as part, duckdb.connect(str(part)) as db:
            db.execute("BEGIN")  # With a transaction for each statement it took half as long again.
            self._make(db)
            db.execute("INSERT INTO progress VALUES ('signature', $1)", [self.signature])
            db.execute("INSERT INTO progress VALUES ('done', 'all')")
            for name, rows in tables.items():
                db.register("rows", rows)
                columns = ", ".join(f"{c}::{kind} AS {c}" for c, kind in self.tables[name].items())
                db.execute(f"INSERT INTO {name} SELECT {columns} FROM rows")
                db.unregister("rows")
            db.execute("COMMIT")
        self._db = duckdb.connect(str(self.path), read_only=True)

    # -- parts -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin a transaction."""
        self._prepare_log()
        self._db.execute("BEGIN")

    def _prepare_log(self) -> None:
        """Create the log of changes, to which DuckDB would give the permissions of the umask."""
        log = f"{self.path}.wal"
        if str(self.path) != IN_MEMORY and not os.path.lexists(log):
            os.close(open_private(log, os.O_WRONLY))

    def _make(self, db: Any) -> None:
        """Create the tables."""
        db.execute("CREATE TABLE progress (kind VARCHAR, step VARCHAR)")
        for name, columns in self.tables.items():
            listed = ", ".join(f"{c} {kind}" for c, kind in columns.items())
            db.execute(f"CREATE TABLE {name} ({listed})")

    def _recognise(self) -> None:
        """Raise if the file contains something else."""
        names = {
            n for (n,) in self._db.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        if not {"progress", *self.tables} <= names:
            self.close()
            raise DataError(f"{self.path} is not a file of results; choose another folder")
        rows = self._db.execute("SELECT step FROM progress WHERE kind = 'signature'").fetchall()
        if rows != [(self.signature,)]:
            self.close()
            raise DataError(
                f"{self.path} holds results of another specification or database; choose another "
                "folder, or remove the file"
            )

    def _insert(self, table: str, rows: Rows) -> None:
        """Insert rows into a table; columns that they lack are null."""
        if not len(rows):
            return
        columns = list(self.tables[table])
        if isinstance(rows, pd.DataFrame):
            frame = rows.reindex(columns=columns)
        else:
            frame = pd.DataFrame(rows, columns=columns)
        self._db.register("brought", frame)
        chosen = ", ".join(f"{c}::{kind}" for c, kind in self.tables[table].items())
        self._db.execute(f"INSERT INTO {table} SELECT {chosen} FROM brought")
        self._db.unregister("brought")


def archive_of(tables: Mapping[str, pd.DataFrame]) -> bytes:
    """Make a zip archive of the tables as CSV files, the same bytes for the same tables.

    Numbers have up to 17 digits; missing ones are empty.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in tables.items():
            entry = zipfile.ZipInfo(f"{name}.csv", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, csv_text(table))
    return packed.getvalue()
