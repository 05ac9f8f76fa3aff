"""A builder of tiny OMOP databases, from plain Python lists."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from pathlib import Path

import duckdb
import pandas as pd
import pytest

TARGET, COMPARATOR, OUTCOME = 1, 2, 3
# Settings of studies for which neither folds nor orders of ties matter; the defaults take twice as
# long.
FEW = {"folds": 5, "tie_orders": 0}
START = dt.date(2010, 6, 15)  # the day people start a drug unless a test says otherwise

SCHEMA = {
    "person": "person_id BIGINT, gender_concept_id BIGINT, year_of_birth BIGINT",
    "observation_period": (
        "person_id BIGINT, observation_period_start_date DATE, observation_period_end_date DATE"
    ),
    "drug_era": (
        "person_id BIGINT, drug_concept_id BIGINT, drug_era_start_date DATE, drug_era_end_date DATE"
    ),
    "condition_occurrence": (
        "person_id BIGINT, condition_concept_id BIGINT, condition_start_date DATE"
    ),
    "procedure_occurrence": "person_id BIGINT, procedure_concept_id BIGINT, procedure_date DATE",
    "measurement": "person_id BIGINT, measurement_concept_id BIGINT, measurement_date DATE",
    "observation": "person_id BIGINT, observation_concept_id BIGINT, observation_date DATE",
    "condition_era": (
        "person_id BIGINT, condition_concept_id BIGINT, condition_era_start_date DATE, "
        "condition_era_end_date DATE"
    ),
    "concept": "concept_id BIGINT, concept_name VARCHAR",
    "concept_ancestor": "ancestor_concept_id BIGINT, descendant_concept_id BIGINT",
}


def day(offset: int) -> dt.date:
    """The day so many days after the usual start."""
    return START + dt.timedelta(days=offset)


# A link between two concepts that nobody has, for a vocabulary is never without links.
ELSEWHERE = (900_000_001, 900_000_002)


NUMBERS = itertools.count()


@functools.cache
def in_memory() -> duckdb.DuckDBPyConnection:
    """The database that writes the files."""
    return duckdb.connect()


class TinyOmop:
    """Rows of a CDM; ``write`` makes the DuckDB file. Days are offsets from the usual start.

    As in OMOP's vocabularies every concept is its own descendant, unless ``links`` is False.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, list[tuple]] = {table: [] for table in SCHEMA}
        self.ids = itertools.count(1)
        self.links = True
        for concept, name in ((TARGET, "newdrug"), (COMPARATOR, "olddrug"), (OUTCOME, "bleeding")):
            self.concept(concept, name)

    def person(
        self,
        *,
        target: int | None = None,
        comparator: int | None = None,
        outcome: int | None = None,
        observed: tuple[int, int] | None = (-1000, 1000),
        born: int = 1970,
        sex: int = 8532,
    ) -> int:
        """Add a person with the first day of each drug and of the outcome; returns the id."""
        person_id = next(self.ids)
        self.rows["person"].append((person_id, sex, born))
        if observed is not None:
            self.observed(person_id, *observed)
        for concept, start in ((TARGET, target), (COMPARATOR, comparator)):
            if start is not None:
                self.drug(person_id, concept, start)
        if outcome is not None:
            self.condition(person_id, OUTCOME, outcome)
        return person_id

    def observed(self, person_id: int, first: int, last: int) -> None:
        self.rows["observation_period"].append((person_id, day(first), day(last)))

    def drug(self, person_id: int, concept: int, first: int, last: int | None = None) -> None:
        end = day(first if last is None else last)
        self.rows["drug_era"].append((person_id, concept, day(first), end))

    def condition(self, person_id: int, concept: int, on: int) -> None:
        self.record("condition_occurrence", person_id, concept, on)

    def record(self, table: str, person_id: int, concept: int, on: int) -> None:
        self.rows[table].append((person_id, concept, day(on)))

    def concept(self, concept_id: int, name: str) -> None:
        self.rows["concept"].append((concept_id, name))

    def ancestor(self, ancestor: int, descendant: int) -> None:
        self.rows["concept_ancestor"].append((ancestor, descendant))

    def write(self, *, without: tuple[str, ...] = (), schema: str = "main", upper: bool = False):
        """Make the file; ``without`` leaves tables out, ``upper`` names columns in capitals."""
        path = self.folder / f"omop{len(list(self.folder.iterdir()))}.duckdb"
        rows = dict(self.rows)
        if self.links:
            own = [(c, c) for c, _ in rows["concept"]]
            rows["concept_ancestor"] = [*rows["concept_ancestor"], *own, ELSEWHERE]
        # A database in memory writes all of them, since opening one costs as much as the rows.
        name = f"written{next(NUMBERS)}"
        tables = {table: columns for table, columns in SCHEMA.items() if table not in without}
        with in_memory().cursor() as con:
            con.execute(f"ATTACH '{path}' AS {name}; USE {name}; BEGIN")
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            for table, columns in tables.items():
                columns = columns.upper() if upper else columns
                con.execute(f"CREATE TABLE {schema}.{table} ({columns})")
                if rows[table]:  # brought as a whole: one by one takes milliseconds each
                    con.register("brought", pd.DataFrame(rows[table], dtype=object))
                    con.execute(f"INSERT INTO {schema}.{table} SELECT * FROM brought")
                    con.unregister("brought")
            con.execute(f"COMMIT; USE memory; DETACH {name}")
        return path


@pytest.fixture
def omop(tmp_path: Path) -> TinyOmop:
    folder = tmp_path / "omop"
    folder.mkdir()
    return TinyOmop(folder)
