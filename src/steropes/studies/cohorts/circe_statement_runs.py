"""Runs of the statements of Circe definitions, which share what they read of the database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.cohorts.circe_missing_columns import CompletedTables
from steropes.studies.cohorts.circe_repaired_tables import RegularTables
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["CDM", "RESULTS", "STATISTICS", "TARGET", "Entries", "InclusionCounts", "StatementRuns"]

CDM, RESULTS, TARGET = "the_cdm", "the_results", "circe_entries"
# Tables of Circe's inclusion statistics with their columns. Mode 0 counts events, and mode 1 people
# by the event that meets the most rules; bit k of a mask is set if rule k is met.
STATISTICS = {
    "cohort_inclusion_result": ("inclusion_rule_mask", "person_count", "mode_id"),
    "cohort_inclusion_stats": (
        "rule_sequence", "person_count", "gain_count", "person_total", "mode_id",
    ),
    "cohort_summary_stats": ("base_count", "final_count", "mode_id"),
    "cohort_censor_stats": ("lost_count",),
}  # fmt: skip
COHORT = "cohort_definition_id"
TABLE = re.compile(rf"\b{CDM}\.(\w+)", re.IGNORECASE)
# Statements that empty, drop or describe temporary tables, which are gone after each definition.
NEEDLESS = re.compile(r"DELETE\s+FROM|DROP\s+TABLE|TRUNCATE|ANALYZE\b", re.IGNORECASE)
CONCEPT_SETS = re.compile(r"INSERT\s+INTO\s+Codesets\b", re.IGNORECASE)
COUNTS = re.compile(rf"INSERT\s+INTO\s+(?:{'|'.join(STATISTICS)})\b", re.IGNORECASE)
# Tables of the vocabulary of which concept sets read few rows, with a copy of these.
EXCERPTS = {"concept": "some_concepts", "concept_ancestor": "some_links"}
READ = "concept_id, invalid_reason, ancestor_concept_id, descendant_concept_id"
PEOPLE_BY_MASK = """
    SELECT mask, count(DISTINCT person_id) FROM (
        SELECT person_id, CAST(coalesce(sum(2 ** inclusion_rule_id), 0) AS BIGINT) AS mask
        FROM qualified_events LEFT JOIN inclusion_events USING (person_id, event_id)
        GROUP BY person_id, event_id
    ) GROUP BY mask
"""
PEOPLE_BY_RULE = """
    SELECT inclusion_rule_id AS rule, count(DISTINCT person_id)
    FROM inclusion_events GROUP BY inclusion_rule_id
"""
Entries = dict[str, NDArray]


class InclusionCounts:
    """Circe's statistics of the inclusion rules of cohorts, with the people that they count."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, ...]]] = {name: [] for name in STATISTICS}

    def add(self, work: Workspace, cohort: int) -> None:
        """Add the statistics of the definition that has run in a workspace."""
        found = {
            name: work.rows(f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL")
            for name, columns in STATISTICS.items()
        }
        by_mask = dict(work.rows(PEOPLE_BY_MASK))
        by_rule = dict(work.rows(PEOPLE_BY_RULE))
        [(everybody,)] = work.rows("SELECT count(DISTINCT person_id) FROM qualified_events")
        rules = {rule for rule, *_ in found["cohort_inclusion_stats"]}
        every_rule = 2 ** len(rules) - 1
        for mask, count, mode in found["cohort_inclusion_result"]:
            self._add(cohort, "cohort_inclusion_result", (mask, count, mode), [by_mask.get(mask)])
        for rule, *rest in found["cohort_inclusion_stats"]:
            gained = by_mask.get(every_rule - 2**rule)
            people = [by_rule.get(rule), gained, everybody]
            self._add(cohort, "cohort_inclusion_stats", (rule, *rest), people)
        for row in found["cohort_summary_stats"]:
            self._add(cohort, "cohort_summary_stats", row, [everybody, by_mask.get(every_rule)])
        for row in found["cohort_censor_stats"]:
            self._add(cohort, "cohort_censor_stats", row, [*row])

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the statistics of all cohorts as tables."""
        return {
            name: pd.DataFrame(
                np.array(rows, dtype=np.int64).reshape(len(rows), -1)
                if rows
                else np.zeros((0, len(_columns(name))), np.int64),
                columns=_columns(name),
            )
            for name, rows in self._rows.items()
        }

    def _add(
        self, cohort: int, name: str, row: Sequence[int], people: Sequence[int | None]
    ) -> None:
        """Add a row with the people of its counts, which are the counts of rows of people."""
        columns = STATISTICS[name]
        counts = [n for c, n in zip(columns, row, strict=True) if _is_count(c)]
        if columns[-1] == "mode_id" and row[-1] == 1:
            people = counts
        self._rows[name].append((cohort, *row, *(n or 0 for n in people)))


def _placed(statement: str, tables: Mapping[str, str]) -> str:
    """Write the SQL of tables into a statement."""
    return TABLE.sub(lambda found: tables[found[1].lower()], statement)


def _is_count(column: str) -> bool:
    """Check whether a column of a statistic is a count."""
    return column.endswith(("_count", "_total"))


def _columns(name: str) -> list[str]:
    """Return the columns of a table of statistics."""
    columns = STATISTICS[name]
    return [COHORT, *columns, *(f"{c}_people" for c in columns if _is_count(c))]


class StatementRuns:
    """A workspace in which definitions run one after another.

    Each runs in a transaction that is rolled back, so that two definitions never share a temporary
    table, whatever their ids. Tables are completed, repaired and described once for all.

    Parameters
    ----------
    db : OmopDatabase
    work : Workspace
        A workspace of the database.
    """

    def __init__(self, db: OmopDatabase, work: Workspace) -> None:
        self.db, self.work = db, work
        self._completed, self._regular = CompletedTables(db, work), RegularTables(db, work)
        self._excerpts: Mapping[str, str] = {}
        work.run(
            f"CREATE TEMP TABLE {TARGET} ({COHORT} BIGINT, subject_id BIGINT, "
            "cohort_start_date DATE, cohort_end_date DATE)"
        )
        for name, columns in STATISTICS.items():
            listed = ", ".join(f"{column} BIGINT" for column in columns)
            work.run(f"CREATE TEMP TABLE {name} ({COHORT} BIGINT, {listed})")

    @classmethod
    @contextmanager
    def of(cls, db: OmopDatabase) -> Iterator[StatementRuns]:
        """Open a workspace for definitions as a context manager."""
        with db.workspace() as work:
            yield cls(db, work)

    def read_concepts(self, concepts: Iterable[int]) -> None:
        """Copy the rows of the vocabulary that the concept sets of the next definitions read."""
        self._excerpts = {}
        listed = ", ".join(map(str, sorted({*concepts}))) or "NULL"
        links, concept = EXCERPTS["concept_ancestor"], EXCERPTS["concept"]
        duckdb = need("duckdb")
        try:
            complete, _ = self._completed.of(EXCERPTS, READ)
            tables = {t: complete.get(t) or self.db.table(t) for t in EXCERPTS}
            self.work.run(
                f"CREATE OR REPLACE TEMP TABLE {links} AS SELECT * FROM "
                f"{tables['concept_ancestor']} WHERE ancestor_concept_id IN ({listed})"
            )
            self.work.run(
                f"CREATE OR REPLACE TEMP TABLE {concept} AS SELECT * FROM {tables['concept']} "
                f"WHERE concept_id IN ({listed}) "
                f"OR concept_id IN (SELECT descendant_concept_id FROM {links})"
            )
        except (DataError, duckdb.Error):  # Definitions that read these tables raise the error.
            return
        self._excerpts = EXCERPTS

    def entries(
        self, cohort: int, statements: Sequence[str], counted: InclusionCounts | None
    ) -> tuple[Entries, tuple[DataNote, ...]]:
        """Run the statements of one cohort; return its entries and notes on irregular tables.

        Parameters
        ----------
        statements : sequence of str
            Circe's SQL with `CDM` in place of the schema.
        counted : InclusionCounts or None
            Gets the statistics of the inclusion rules.

        Raises
        ------
        DataError
            The database lacks what the definition reads, or has values that cannot be used.
        """
        duckdb = need("duckdb")
        try:
            named = {table.lower() for s in statements for table in TABLE.findall(s)}
            complete, lacking = self._completed.of(named, " ".join(statements))
            regular, notes = self._regular.of(named, complete)
            tables = {n: regular.get(n) or complete.get(n) or self.db.table(n) for n in named}
            self.work.run("BEGIN TRANSACTION")
            try:
                found = self._run(statements, tables)
                if counted is not None and any(COUNTS.match(s.strip()) for s in statements):
                    counted.add(self.work, cohort)
            finally:
                self.work.run("ROLLBACK")
        except (DataError, duckdb.Error) as error:
            reason = str(error).strip().splitlines()[0]
            if reason.startswith("Binder Error") and ("not found" in reason or "column" in reason):
                reason = f"it reads a column that the database lacks ({reason})"
            raise DataError(
                f"the definition of cohort {cohort} cannot be run on {self.db.name}: {reason}"
            ) from None
        return {COHORT: np.full(len(found["subject_id"]), cohort), **found}, (*notes, *lacking)

    def _run(self, statements: Iterable[str], tables: Mapping[str, str]) -> Entries:
        """Run the statements in order and return the entries that they insert."""
        for statement in map(str.strip, statements):
            if statement and not NEEDLESS.match(statement):
                few = self._excerpts if CONCEPT_SETS.match(statement) else {}
                self.work.run(_placed(statement, {**tables, **few}))
        found = self.work.frame(
            f"SELECT subject_id, cohort_start_date, cohort_end_date FROM {TARGET} ORDER BY ALL"
        )
        return {str(column): found[column].to_numpy() for column in found}
