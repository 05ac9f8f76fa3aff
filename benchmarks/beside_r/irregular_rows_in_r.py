"""Irregular rows of databases, and the edits after which our numbers are those of R."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import duckdb
import pandas as pd

from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable, circe_cohorts, read_cohorts
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.strategus import specification_run

from .drawn_study import COMPARATOR, TARGET, cohort_definitions
from .table_comparison import CONVENTION, R_ERROR

__all__ = [
    "ENTRIES", "ODDITIES", "READINGS", "Reading", "cohorts_of", "given_cohorts", "write_as_r_reads",
]  # fmt: skip

# Irregular rows, one kind at a time.
REVERSED, OPEN = "eras that end before they begin", "eras without an end"
TWICE, OVERLAPPING = "people listed twice", "overlapping periods of observation"
ODDITIES = {
    REVERSED:
        "UPDATE drug_era SET drug_era_end_date = drug_era_start_date - 10 WHERE person_id % 7 = 1",
    OPEN: "UPDATE drug_era SET drug_era_end_date = NULL WHERE person_id % 7 = 2",
    TWICE: "INSERT INTO person SELECT * FROM person WHERE person_id % 7 = 3",
    OVERLAPPING:
        "INSERT INTO observation_period BY NAME SELECT * REPLACE (observation_period_id + 1000000 "
        "AS observation_period_id, observation_period_start_date + 200 AS "
        "observation_period_start_date) FROM observation_period WHERE person_id % 7 = 4",
    "records after observation":
        "UPDATE condition_occurrence SET condition_start_date = condition_start_date + 4000 "
        "WHERE person_id % 7 = 5",
    "people without a sex": "UPDATE person SET gender_concept_id = 0 WHERE person_id % 7 = 6",
    "outcomes twice a day":
        "INSERT INTO condition_occurrence SELECT * FROM condition_occurrence "
        "WHERE person_id % 7 = 1",
    "eras far in the future":
        "UPDATE drug_era SET drug_era_end_date = '2300-01-01' WHERE person_id % 7 = 2",
}  # fmt: skip

ENTRIES = "entries_of_r"  # Cohort entries of the database before it was edited, which R had.
OTHER = 1_000_000  # Added to the ids of people who are two people in R.


@dataclass(frozen=True)
class Reading:
    """How R reads irregular rows of a kind.

    Attributes
    ----------
    kind : str
        Class of the numbers that are R's after the edits and were not before.
    words : str
        The reason, as the page on R's differences states it.
    edits : sequence of str
        Statements of SQL. COPY stands for the people who are two people in R.
    once : str
        Regular expression of the table and column of numbers that are R's before the edits alone.
    """

    kind: str
    words: str
    edits: tuple[str, ...]
    once: str = "$^"


TWO_ROWS = "COPY person_id % 7 = 3"
TWO_PERIODS = (
    "COPY person_id % 7 = 4",
    f"DELETE FROM observation_period WHERE person_id % 7 = 4 AND observation_period_id > {OTHER}",
    f"DELETE FROM observation_period WHERE person_id > {OTHER} AND observation_period_id < {OTHER}",
)
# Numbers of distinct people and periods, and the share of these people.
COUNTS = r"sccs_attrition\.|.*\b(\w+_subjects|outcome_observation_periods|rare_outcome_\w+)\b"
SERIES, COHORTS = "SelfControlledCaseSeriesModule", "CohortMethodModule"
READINGS = {
    (SERIES, TWICE): Reading(
        R_ERROR, "people with two rows in table person are two cases", (TWO_ROWS,),
        COUNTS,
    ),
    (SERIES, OVERLAPPING): Reading(
        R_ERROR, "overlapping periods of observation are two cases", TWO_PERIODS,
        COUNTS,
    ),
    (COHORTS, OVERLAPPING): Reading(
        R_ERROR, "overlapping periods of observation are two people", TWO_PERIODS,
        r"cm_(attrition\.|result\.\w+_subjects)",
    ),
    (COHORTS, REVERSED): Reading(
        CONVENTION, "eras that end before they begin and before a window do not count in R",
        (
            "DELETE FROM drug_era AS e WHERE drug_era_end_date < drug_era_start_date AND EXISTS ("
            f"SELECT 1 FROM {ENTRIES} AS c WHERE c.subject_id = e.person_id "
            f"AND c.cohort_definition_id IN ({TARGET}, {COMPARATOR}) "
            "HAVING e.drug_era_start_date <= min(c.cohort_start_date) "
            "AND e.drug_era_end_date < min(c.cohort_start_date) - 365)",
        ),
    ),
    (COHORTS, OPEN): Reading(
        CONVENTION, "eras without an end do not count in R",
        ("DELETE FROM drug_era WHERE drug_era_end_date IS NULL",),
    ),
}  # fmt: skip


def write_as_r_reads(folder: Path, made: Path, edits: tuple[str, ...]) -> None:
    """Copy a folder, and edit the database so that it is read here as R reads the original.

    The table ``entries_of_r`` has the cohorts of the original, for `cohorts_of`.
    """
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for name in ("omop.duckdb", "settings.json", "specifications.json", "study.json", "r.json"):
        shutil.copy(folder / name, made / name)
    (made / "r").symlink_to((folder / "r").resolve())
    with OmopDatabase(folder / "omop.duckdb") as db:
        entries = pd.DataFrame(circe_cohorts(db, cohort_definitions()).frame())
    with duckdb.connect(made / "omop.duckdb") as db:
        db.register("given", entries)
        db.execute(
            f"CREATE TABLE {ENTRIES} AS SELECT * REPLACE (cohort_start_date::DATE AS "
            "cohort_start_date, cohort_end_date::DATE AS cohort_end_date) FROM given"
        )
        db.unregister("given")
        for edit in edits:
            for statement in _copies(db, edit[5:]) if edit.startswith("COPY ") else (edit,):
                db.execute(statement)


def _copies(db: duckdb.DuckDBPyConnection, where: str) -> Iterator[str]:
    """Yield statements that copy all rows of some people under other ids."""
    columns = db.execute(
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = 'main' AND column_name IN ('person_id', 'subject_id')"
    ).fetchall()
    for table, column in columns:
        yield (
            f"INSERT INTO {table} BY NAME SELECT * REPLACE ({column} + {OTHER} AS {column}) "
            f"FROM {table} WHERE {where.replace('person_id', column)}"
        )


def cohorts_of(db: OmopDatabase) -> CohortTable:
    """Return the cohorts that R had: those of the database, or of the one before its edits."""
    if not db.columns(ENTRIES):
        return circe_cohorts(db, cohort_definitions())
    return read_cohorts(db, [*cohort_definitions()], table=ENTRIES, allow_empty=True)


@contextmanager
def given_cohorts() -> Iterator[None]:
    """Give the cohorts of `cohorts_of` to the runs of specifications."""

    def made(db: OmopDatabase, *_: object) -> tuple[MadeCohorts, dict[str, pd.DataFrame]]:
        return MadeCohorts(cohorts_of(db), {}), {}

    with mock.patch.object(specification_run, "generate_cohorts", made):
        yield
