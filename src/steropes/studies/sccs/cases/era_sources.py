"""SQL sources of outcomes and eras: condition records, eras and cohort tables."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable, require_cohorts
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.irregular_rows import irregular_eras, last_day
from steropes.studies.database.omop import OmopDatabase, RecordsOf, Workspace
from steropes.studies.sccs.specification.case_series_settings import CaseRules, ExposureWindow

__all__ = ["EraSources", "concept_members"]

# Columns of each table: concept, first day and last day.
ERAS = {
    "drug_era": ("drug_concept_id", "drug_era_start_date", "drug_era_end_date"),
    "condition_era": ("condition_concept_id", "condition_era_start_date", "condition_era_end_date"),
    "condition_occurrence": (
        "condition_concept_id",
        "condition_start_date",
        "condition_start_date",
    ),
}


ALONE = "take concepts alone with descendants=False (--no-descendants, or descendants = false)"


class EraSources:
    """The source tables of a study, with the ids, eras and names in them.

    Parameters
    ----------
    work : Workspace
        Receives the cohort entries.
    cohorts : CohortTable, optional
        Required if outcomes, exposures or nesting are cohorts.
    placed : bool, default False
        Whether the workspace has the cohort entries already.

    Attributes
    ----------
    placed : bool
        Whether the workspace has the cohort entries.
    family : Descendants
        Finds the descendants of concepts and collects notes on missing links.
    """

    def __init__(
        self,
        db: OmopDatabase,
        work: Workspace,
        rules: CaseRules,
        cohorts: CohortTable | None,
        placed: bool = False,
    ) -> None:
        self.db, self.work, self.rules, self.cohorts = db, work, rules, cohorts
        self.placed = placed
        self.family = Descendants(db)
        uses = [rules.outcomes_from, rules.exposures_from]
        if "cohort" in uses or rules.nesting_cohort is not None:
            if cohorts is None:
                raise DataError(
                    "the settings refer to cohorts, but there is no cohort table: pass cohorts="
                )
            if cohorts.database and cohorts.database != db.identity:
                raise DataError(
                    f"the cohorts are of {cohorts.database}, not of {db.identity}; person ids are "
                    "not comparable across databases"
                )
            if not placed:
                cohorts.place(work, "cohort_entries")
                self.placed = True
        for table in {*uses, *(["condition_era"] if "condition_era" in uses else [])}:
            self.check(table)

    def copy(self) -> EraSources:
        """Return a copy that collects further notes of its own."""
        other = copy(self)
        other.family = self.family.copy()
        return other

    def check(self, table: str) -> None:
        """Raise if a table is missing or lacks a column."""
        if table == "cohort":
            return
        have = self.db.columns(table)
        if not have:
            raise DataError(f"{self.db.name} has no table {table}, which the study reads")
        gone = [c for c in ("person_id", *ERAS[table]) if c not in have]
        if gone:
            raise DataError(f"{self.db.name}: table {table} lacks the columns {', '.join(gone)}")

    # -- ids -------------------------------------------------------------------------------------

    def members(self, table: str, ids: Iterable[int]) -> list[int]:
        """Return the ids that records may have for these ids, including descendants."""
        return concept_members(self.family, self.rules, table, ids)

    def name(self, table: str, era: int) -> str:
        """Return the name of an id."""
        if table == "cohort":
            assert self.cohorts is not None
            return self.cohorts.name(era)
        return self.db.concept_names([era]).get(era, f"concept {era}")

    def names(self, table: str, ids: list[int]) -> dict[int, str]:
        """Return the names of many ids."""
        if table == "cohort":
            return {i: self.name(table, i) for i in ids}
        found = self.db.concept_names(ids)
        return {i: found.get(i, f"concept {i}") for i in ids}

    def table_of(self, window: ExposureWindow) -> str:
        """Return the table of a window's eras."""
        return "condition_era" if window.kind == "condition" else self.rules.exposures_from

    # -- relations -------------------------------------------------------------------------------

    def _records(self, table: str, concept: str, ids: Iterable[int] | None) -> str:
        """Return the records of some concepts, or all records of people with the outcome."""
        if ids is not None:
            return self.db.records(RecordsOf(table, concept, tuple(sorted({*ids}))))
        of, rules = self.rules.outcomes_from, self.rules
        if of == "cohort":
            return self.db.table(table)
        outcome = RecordsOf(of, ERAS[of][0], tuple(self.members(of, [rules.outcome])))
        return self.db.narrowed([outcome]).table(table)

    def relation(self, table: str, ids: Iterable[int] | None = None) -> str:
        """Return a SELECT of ``person_id``, ``era_id``, ``first``, ``last``, without id 0."""
        ids = None if ids is None else sorted({*ids})
        if table == "cohort":
            concept, first, last = "cohort_definition_id", "cohort_start_date", "cohort_end_date"
            person, place = "subject_id", "cohort_entries"
        else:
            concept, first, last = ERAS[table]
            person, place = "person_id", self._records(table, concept, ids)
        some = "" if ids is None else f" AND {concept} IN ({_list(ids)})"
        return (
            f"SELECT {person}::BIGINT AS person_id, {concept}::BIGINT AS era_id, "
            f"{first} AS first, {last_day(first, last)} AS last FROM {place} AS records "
            f"WHERE {first} IS NOT NULL AND {concept} <> 0{some}"
        )

    def irregular_eras(self, table: str, ids: Iterable[int] | None) -> tuple[DataNote, ...]:
        """Count the cases' eras of some or all ids that lack a day or end before they start."""
        if table == "cohort":  # CohortTable has checked its entries.
            return ()
        concept, *dates = ERAS[table]
        source = self._records(table, concept, ids)
        of_cases = "person_id IN (SELECT person_id FROM cases)"
        return irregular_eras(self.work, source, table, (dates[0], dates[1]), of_cases)

    def undated_outcomes(self) -> tuple[DataNote, ...]:
        """Count the records of the outcome without a first day."""
        table, outcome = self.rules.outcomes_from, self.rules.outcome
        if table == "cohort":
            return ()
        concept, first, _ = ERAS[table]
        source = self._records(table, concept, self.members(table, [outcome]))
        return irregular_eras(self.work, source, f"{table} with the outcome", (first, first))

    def outcomes(self) -> str:
        """Return a SELECT of the distinct outcome days: ``person_id``, ``on_day``."""
        table, outcome = self.rules.outcomes_from, self.rules.outcome
        if table == "cohort":
            assert self.cohorts is not None
        ids = self.members(table, [outcome])
        return f"SELECT DISTINCT person_id, first AS on_day FROM ({self.relation(table, ids)})"

    def outcome_and_nesting(self, table: str) -> set[int]:
        """Return the ids in a table that are not exposures: the outcome and the nesting cohort."""
        same = {
            "cohort": ("cohort",),
            "drug_era": ("drug_era",),
            "condition_era": ("condition_era", "condition_occurrence"),
        }
        found: set[int] = set()
        if self.rules.outcomes_from in same.get(table, ()):
            found |= {*self.members(self.rules.outcomes_from, [self.rules.outcome])}
        if table == "cohort" and self.rules.nesting_cohort is not None:
            found.add(self.rules.nesting_cohort)
        return found

    def outcome_name(self) -> str:
        """Return the name of the outcome."""
        return self.name(self.rules.outcomes_from, self.rules.outcome)

    def nesting(self) -> str:
        """Return a SELECT of the spells of the nesting cohort."""
        assert self.cohorts is not None
        assert self.rules.nesting_cohort is not None
        require_cohorts(self.cohorts, [self.rules.nesting_cohort], "nesting_cohort")
        return self.relation("cohort", [self.rules.nesting_cohort])


def concept_members(
    family: Descendants, rules: CaseRules, table: str, ids: Iterable[int]
) -> list[int]:
    """Find the ids that records of a table may have for these ids, including descendants.

    Raises
    ------
    DataError
        A concept is unknown, or the vocabulary has no links to find descendants.
    """
    ids = sorted({int(i) for i in ids})
    if table == "cohort":
        return ids
    for i in ids:
        family.db.concept_name(i)
    if not rules.descendants or not ids:
        return ids
    return family.members(ids, [table], f"the concepts of {table}", ALONE)


def _list(values: Iterable[int]) -> str:
    """Join numbers with commas."""
    return ", ".join(str(int(v)) for v in values) or "NULL"
