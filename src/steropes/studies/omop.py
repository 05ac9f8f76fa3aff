"""An OMOP database in a DuckDB file: opened read-only, checked, asked about concepts.

Nothing here knows of a study. The file is attached to an in-memory database, so that everything a
study makes is a temporary table there and the file cannot be changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from steropes.errors import DataError
from steropes.studies._extras import need

__all__ = ["OmopDatabase"]

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


class OmopDatabase:
    """A read-only view of an OMOP Common Data Model (v5.x) held in a DuckDB file.

    Use it as a context manager; temporary tables and spilled data vanish when it closes.

    Parameters
    ----------
    path : str or Path
        The DuckDB file.
    schema : str, default "main"
        The schema that holds the CDM tables. Upper and lower case make no difference.

    Raises
    ------
    DataError
        No such file, not a DuckDB file, no such schema, or CDM tables or columns missing.
    """

    def __init__(self, path: str | Path, schema: str = "main") -> None:
        duckdb = need("duckdb")
        path = Path(path)
        if not path.exists():
            raise DataError(f"there is no file {path}")
        if not path.is_file():
            raise DataError(
                f"{path} is not a file; a study needs an OMOP database in a DuckDB file"
            )
        self.path, self.schema = path, schema
        self._spill = tempfile.TemporaryDirectory(prefix="steropes-")
        self.connection = duckdb.connect(config={"temp_directory": self._spill.name})
        try:
            self._attach(duckdb)
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

    def close(self) -> None:
        """Close the database and forget everything temporary."""
        self.connection.close()
        self._spill.cleanup()

    # -- queries ---------------------------------------------------------------------------------

    def run(self, sql: str) -> Any:
        """Run a statement; returns DuckDB's result."""
        return self.connection.execute(sql)

    def rows(self, sql: str) -> list[tuple]:
        """All rows of a (small) query."""
        return self.connection.execute(sql).fetchall()

    def stream(self, sql: str, batch_size: int = 1_000_000) -> Iterator[Any]:
        """The rows of a query as Arrow record batches, never all at once."""
        need("pyarrow")
        relation = self.connection.sql(sql)
        # the method's name since DuckDB 1.5, and before
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from reader(batch_size)

    def table(self, name: str) -> str:
        """The table's full name, quoted, for use in SQL."""
        return f"cdm.{_quote(self.schema)}.{_quote(name)}"

    # -- concepts --------------------------------------------------------------------------------

    def concept_name(self, concept_id: int) -> str:
        """Name of a concept.

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
        return names[concept_id]

    def concept_names(self, concept_ids: Iterable[int]) -> dict[int, str]:
        """Names of the concepts that the vocabulary holds."""
        wanted = [int(c) for c in concept_ids]
        self.run("CREATE OR REPLACE TEMP TABLE wanted (concept_id BIGINT)")
        self.run(f"INSERT INTO wanted SELECT unnest({wanted}::BIGINT[])")
        found = self.rows(
            f"SELECT c.concept_id::BIGINT, any_value(c.concept_name ORDER BY c.concept_name) "
            f"FROM {self.table('concept')} c SEMI JOIN wanted w ON c.concept_id = w.concept_id "
            "GROUP BY 1"
        )
        return {c: WELL_KNOWN[c] for c in wanted if c in WELL_KNOWN} | dict(found)

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

    # -- checks ----------------------------------------------------------------------------------

    def _attach(self, duckdb: Any) -> None:
        literal = str(self.path).replace("'", "''")
        try:
            self.run(f"ATTACH '{literal}' AS cdm (READ_ONLY, TYPE duckdb)")
        except duckdb.Error as error:
            said = str(error).strip().splitlines()[0]
            raise DataError(f"cannot open {self.path} as a DuckDB database: {said}") from error

    def _check_tables(self) -> frozenset[str]:
        found: dict[str, dict[str, set[str]]] = {}
        for schema, table, column in self.rows(
            "SELECT lower(table_schema), lower(table_name), lower(column_name) "
            "FROM information_schema.columns WHERE table_catalog = 'cdm'"
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
