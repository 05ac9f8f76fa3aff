"""Where the cohorts of a grid come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steropes.errors import DataError
from steropes.studies.cohorts.circe import circe_cohorts, definition_text, entry_records
from steropes.studies.cohorts.entries import CohortTable
from steropes.studies.cohorts.sources import (
    ConceptSet,
    cohort_records,
    condition_cohorts,
    drug_era_cohorts,
    read_cohorts,
)
from steropes.studies.omop import OmopDatabase, RecordsOf

__all__ = ["CohortSources"]


@dataclass(frozen=True)
class CohortSources:
    """Where the cohorts of a grid come from; each may be given by one of the four ways.

    Attributes
    ----------
    table, schema : str
        An existing cohort table, and its schema (default: that of the CDM); "" for none.
    drugs : dict of int to ConceptSet
        Cohorts of drug eras, by id.
    conditions : dict of int to ConceptSet
        Cohorts of condition records, by id.
    definitions : dict of int to str
        Cohorts as ATLAS defines them (`circe_cohorts`), by id: a JSON file, or its text. What is in
        a file is read once, here.
    names : dict of int to str
        Names of cohorts.
    """

    table: str = ""
    schema: str = ""
    drugs: dict[int, ConceptSet] = field(default_factory=dict)
    conditions: dict[int, ConceptSet] = field(default_factory=dict)
    definitions: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = [*self.drugs, *self.conditions, *self.definitions]
        both = {i for i in listed if listed.count(i) > 1}
        if both:
            raise DataError(f"cohort {min(both)} is defined twice")
        if not (self.table or listed):
            raise DataError(
                "name a cohort table, or define cohorts of drugs, conditions or definitions"
            )
        texts = {i: definition_text(d) for i, d in self.definitions.items()}
        object.__setattr__(self, "definitions", texts)

    def refused(self, db: OmopDatabase, wanted: set[int]) -> dict[int, str]:
        """Which of the cohorts cannot be made, and why."""
        why = {}
        for cohort, concepts in {**self.drugs, **self.conditions}.items():
            try:
                concepts.resolve(db)
            except DataError as error:
                why[cohort] = f"cohort {cohort}: {error}"
        if not self.table:
            for cohort in wanted - {*self.drugs, *self.conditions, *self.definitions}:
                why[cohort] = f"cohort {cohort} is not defined"
        return why

    def make(self, db: OmopDatabase, wanted: set[int]) -> CohortTable:
        """The cohorts that were asked for, as far as they can be made."""
        wanted = wanted - {*self.refused(db, wanted)}
        parts = []
        for sets, make in (
            (self.drugs, drug_era_cohorts),
            (self.conditions, condition_cohorts),
        ):
            known = {i: c for i, c in sets.items() if i in wanted}
            if known:
                parts.append(make(db, known))
        texts = {i: t for i, t in self.definitions.items() if i in wanted}
        if texts:
            parts.append(circe_cohorts(db, texts))
        others = sorted(wanted - {*self.drugs, *self.conditions, *self.definitions})
        if others:
            schema = self.schema or None
            parts.append(
                read_cohorts(db, others, table=self.table, schema=schema, allow_empty=True)
            )
        if not parts:
            raise DataError("none of the cohorts can be made")
        made = parts[0]
        for part in parts[1:]:
            made = made + part
        names = {**(made.names or {}), **self.names}
        return CohortTable(
            made.definition, made.subject, made.start, made.end, made.database, names
        )

    def compared(self, db: OmopDatabase, cohorts: set[int]) -> OmopDatabase:
        """The database as far as the people go who are in one of some cohorts."""
        people = self._people(db, cohorts)
        return db if people is None else db.narrowed(people)

    def _people(self, db: OmopDatabase, cohorts: set[int]) -> list[RecordsOf] | None:
        """Records of which everybody in one of some cohorts has one; None if that is not known."""
        found = []
        for table, concept, sets in (
            ("drug_era", "drug_concept_id", self.drugs),
            ("condition_occurrence", "condition_concept_id", self.conditions),
        ):
            members = sorted({c for i in cohorts & {*sets} for c in sets[i].resolve(db)})
            if members:
                found.append(RecordsOf(table, concept, tuple(members)))
        for cohort in sorted(cohorts & {*self.definitions}):
            entries = entry_records(db, self.definitions[cohort])
            if entries is None:
                return None
            found += entries
        others = cohorts - {*self.drugs, *self.conditions, *self.definitions}
        if others:
            found.append(cohort_records(others, self.table, self.schema or None))
        return found


def with_texts(cohorts: object, folder: Path) -> object:
    """The values of ``CohortSources`` with what is in the files that they name, from a folder."""
    definitions = cohorts.get("definitions") if isinstance(cohorts, Mapping) else None
    if not isinstance(cohorts, Mapping) or not isinstance(definitions, Mapping):
        return cohorts
    texts = {
        i: definition_text(d, folder) if isinstance(d, str) else d for i, d in definitions.items()
    }
    return {**cohorts, "definitions": texts}
