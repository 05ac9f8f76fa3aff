"""An OMOP database in a DuckDB file or an open connection: checked, asked about concepts.

Nothing here knows of a study. A file is attached to an in-memory database and cannot be changed;
whoever needs tables of their own makes them in a workspace, which shares them with nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.scratch import ScratchFolder

__all__ = ["OmopDatabase", "Workspace"]

# What a study reads of the CDM (v5.x), table by table.
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
# Vocabulary extracts often leave these two out although person refers to them.
WELL_KNOWN = {8507: "Male", 8532: "Female"}
UNNAMED = "unnamed concept"


class Workspace:
    """A place for temporary tables: nobody else sees them, and they go when it closes.

    Parameters
    ----------
    connection : DuckDB connection
        One of its own.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def run(self, sql: str, values: Sequence[Any] | None = None) -> Any:
        """Run a statement; returns DuckDB's result."""
        return self.connection.execute(sql, values)

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple]:
        """All rows of a (small) query."""
        return self.connection.execute(sql, values).fetchall()

    def stream(self, sql: str, batch_size: int = 1_000_000) -> Iterator[Any]:
        """The rows of a query as Arrow record batches, never all at once."""
        need("pyarrow")
        relation = self.connection.sql(sql)
        # the method's name since DuckDB 1.5, and before
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from reader(batch_size)


class OmopDatabase:
    """A view of an OMOP Common Data Model (v5.x) held in a DuckDB file or an open connection.

    Nothing in it is changed. Use it as a context manager; spilled data vanish when it closes. A
    connection that was passed in stays open.

    Parameters
    ----------
    path : str, Path or DuckDB connection
        The DuckDB file, or an open connection to one; then the CDM is that of its current
        catalog. Tables that belong to the connection alone (temporary ones) are not seen.
    schema : str, default "main"
        The schema that holds the CDM tables. Upper and lower case make no difference.

    Raises
    ------
    DataError
        No such file, not a DuckDB file, no such schema, or CDM tables or columns missing.
    """

    def __init__(self, path: str | Path | Any, schema: str = "main") -> None:
        duckdb = need("duckdb")
        if not isinstance(schema, str) or not schema:
            raise DataError(f"schema must be the name of a schema, not {schema!r}")
        self.schema, self.closed = schema, False
        self._columns: dict[tuple[str, str], tuple[str, ...]] = {}  # of tables asked for
        self._spill: ScratchFolder | None = None
        if isinstance(path, duckdb.DuckDBPyConnection):
            self._join(duckdb, path)
        else:
            self._open(duckdb, Path(path))
        try:
            self.tables = self._check_tables()
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
        return f"OmopDatabase({str(self.path)!r}, schema={self.schema!r}{state})"

    def close(self) -> None:
        """Close the database and forget everything temporary."""
        self.closed = True
        self._home.connection.close()
        if self._spill is not None:
            self._spill.cleanup()

    @property
    def identity(self) -> str:
        """The file and the schema: tells whose people a cohort holds."""
        return f"{self._place} ({self.schema.lower()})"

    @property
    def name(self) -> str:
        """What messages call the database: the name of its file, if it has one."""
        return self.path.name

    # -- queries ---------------------------------------------------------------------------------

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """A workspace of one's own, for statements that build on each other.

        Two workspaces never see each other's tables, whatever their names, and so two studies on
        one database cannot mix.
        """
        self._check_open()
        connection = self._home.connection.cursor()
        try:
            yield Workspace(connection)
        finally:
            connection.close()

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple]:
        """All rows of a (small) query."""
        with self.workspace() as work:
            return work.rows(sql, values)

    def table(self, name: str, schema: str | None = None) -> str:
        """The table's full name, quoted, for use in SQL; of another schema if one is named."""
        schema = self.schema if schema is None else schema
        return f"{_quote(self._catalog)}.{_quote(schema)}.{_quote(name)}"

    def columns(self, table: str, schema: str | None = None) -> tuple[str, ...]:
        """Names of a table's columns, in lower case; none if there is no such table."""
        schema = self.schema if schema is None else schema
        key = (schema.lower(), table.lower())
        if key not in self._columns:
            found = self.rows(
                "SELECT lower(column_name) FROM information_schema.columns "
                "WHERE table_catalog = $1 AND lower(table_schema) = $2 AND lower(table_name) = $3 "
                "ORDER BY ordinal_position",
                [self._catalog, *key],
            )
            self._columns[key] = tuple(c for (c,) in found)
        return self._columns[key]

    # -- concepts --------------------------------------------------------------------------------

    def concept_name(self, concept_id: int) -> str:
        """Name of a concept; "unnamed concept 123" where the vocabulary has it without a name.

        Raises
        ------
        DataError
            The vocabulary does not hold the concept.
        """
        names = self.concept_names([concept_id])
        if concept_id not in names:
            raise DataError(
                f"concept {concept_id} is unknown: table concept of {self.path.name} "
                "has no such concept_id"
            )
        name = names[concept_id]
        return f"{name} {concept_id}" if name == UNNAMED else name

    def concept_names(self, concept_ids: Iterable[int]) -> dict[int, str]:
        """Names of the concepts that the vocabulary holds, "unnamed concept" if it has none."""
        wanted = [int(c) for c in concept_ids]
        found = self.rows(
            "SELECT concept_id::BIGINT, min(nullif(trim(concept_name), '')) "
            f"FROM {self.table('concept')} "
            "WHERE concept_id IN (SELECT unnest($1::BIGINT[])) GROUP BY 1",
            [wanted],
        )
        known = {c: WELL_KNOWN[c] for c in wanted if c in WELL_KNOWN}
        return known | {c: name or known.get(c, UNNAMED) for c, name in found}

    def descendants(self, concept_ids: Iterable[int]) -> list[int]:
        """The concepts themselves and all their descendants by ``concept_ancestor``, sorted."""
        ids = sorted({int(c) for c in concept_ids})
        if "concept_ancestor" not in self.tables or not ids:
            return ids
        listed = ", ".join(map(str, ids))
        found = self.rows(
            f"SELECT DISTINCT descendant_concept_id::BIGINT FROM {self.table('concept_ancestor')} "
            f"WHERE ancestor_concept_id IN ({listed}) AND descendant_concept_id IS NOT NULL"
        )
        return sorted({*ids, *(c for (c,) in found)})

    def source_name(self) -> str | None:
        """What the database calls itself in ``cdm_source``, if it does."""
        if "cdm_source" not in self.tables:
            return None
        names = self.rows(
            f"SELECT cdm_source_name FROM {self.table('cdm_source')} ORDER BY 1 LIMIT 1"
        )
        return names[0][0] if names else None

    def provenance(self) -> dict[str, str | None]:
        """What ``cdm_source`` says of names, versions and dates.

        ``name``, ``cdm`` and ``vocabulary`` (versions), ``release`` (date of the CDM) and
        ``source_release`` (date of the data it was made from).
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
        if self.closed:
            raise DataError(f"the database {self.path.name} is closed; open it again")

    def _open(self, duckdb: Any, path: Path) -> None:
        """Attach a file to an in-memory database of our own."""
        if not path.exists():
            raise DataError(f"there is no file {path}")
        if not path.is_file():
            raise DataError(
                f"{path} is not a file; a study needs an OMOP database in a DuckDB file"
            )
        self.path, self._place, self._catalog = path, str(path.resolve()), "cdm"
        self._spill = ScratchFolder()
        self._home = Workspace(duckdb.connect(config={"temp_directory": str(self._spill.path)}))
        try:
            self._attach(duckdb)
        except BaseException:
            self.close()
            raise

    def _join(self, duckdb: Any, connection: Any) -> None:
        """Use the database of an open connection, through a connection of our own."""
        try:
            self._home = Workspace(connection.cursor())
            [(catalog, file)] = self._home.rows(
                "SELECT database_name, path FROM duckdb_databases() "
                "WHERE database_name = current_catalog()"
            )
        except duckdb.Error as error:
            said = str(error).strip().splitlines()[0]
            raise DataError(f"the connection cannot be used: {said}") from error
        self._catalog = str(catalog)
        self.path = Path(file or self._catalog)
        self._place = (
            str(self.path.resolve()) if file else f"{self._catalog} in memory, {id(connection)}"
        )

    def _attach(self, duckdb: Any) -> None:
        literal = str(self.path).replace("'", "''")
        try:
            self._home.run(f"ATTACH '{literal}' AS cdm (READ_ONLY, TYPE duckdb)")
        except duckdb.Error as error:
            said = str(error).strip().splitlines()[0]
            raise DataError(f"cannot open {self.path} as a DuckDB database: {said}") from error

    def _check_tables(self) -> frozenset[str]:
        found: dict[str, dict[str, set[str]]] = {}
        for schema, table, column in self.rows(
            "SELECT lower(table_schema), lower(table_name), lower(column_name) "
            "FROM information_schema.columns WHERE table_catalog = $1",
            [self._catalog],
        ):
            found.setdefault(schema, {}).setdefault(table, set()).add(column)
        if self.schema.lower() not in found:
            others = ", ".join(sorted(found)) or "no tables at all"
            raise DataError(
                f"{self.path.name} has no tables in schema {self.schema!r} (it has: {others})"
            )
        tables = found[self.schema.lower()]
        absent = [name for name in REQUIRED if name not in tables]
        if absent:
            hint = [s for s, t in sorted(found.items()) if all(name in t for name in REQUIRED)]
            also = f"; schema {hint[0]!r} holds them" if hint else ""
            raise DataError(
                f"{self.path.name} is not an OMOP database: schema {self.schema!r} "
                f"lacks the tables {', '.join(absent)}{also}"
            )
        for name, columns in {**REQUIRED, **OPTIONAL}.items():
            gone = [c for c in columns if name in tables and c not in tables[name]]
            if gone:
                raise DataError(
                    f"{self.path.name} is not an OMOP database: "
                    f"table {name} lacks the columns {', '.join(gone)}"
                )
        return frozenset(tables)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
