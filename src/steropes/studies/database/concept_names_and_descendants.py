"""Names and descendants of concepts in the vocabulary of a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Protocol

from steropes.studies.database.sources.table_source import RecordsOf
from steropes.studies.formatting.text_safety import plain_text

__all__ = ["UNNAMED", "descendants_of", "names_of", "sex_labels", "some_concepts"]

# Vocabulary extracts often lack these two although person refers to them.
WELL_KNOWN = {8507: "Male", 8532: "Female"}
UNNAMED = "unnamed concept"


class VocabularyTables(Protocol):
    """A database whose vocabulary can be read, such as `OmopDatabase`."""

    @property
    def tables(self) -> Collection[str]:
        """Names of the tables."""
        ...

    def rows(self, sql: str) -> list[tuple]:
        """Return the rows of a query."""
        ...

    def records(self, wanted: RecordsOf) -> str:
        """Return SQL of some records."""
        ...


def some_concepts(table: str, column: str, concepts: Iterable[int]) -> RecordsOf:
    """Select records with one of some concepts."""
    return RecordsOf(table, column, tuple(sorted({*concepts})))


def names_of(db: VocabularyTables, concept_ids: Iterable[int]) -> dict[int, str]:
    """Return the names of known concepts; see `OmopDatabase.concept_names`."""
    wanted = [int(c) for c in concept_ids]
    found = db.rows(
        "SELECT concept_id::BIGINT, min(nullif(trim(concept_name), '')) "
        f"FROM {db.records(some_concepts('concept', 'concept_id', wanted))} GROUP BY 1"
    )
    known = {c: WELL_KNOWN[c] for c in wanted if c in WELL_KNOWN}
    named = {c: plain_text(name).strip() for c, name in found if name}
    return known | {c: named.get(c) or known.get(c, UNNAMED) for c, _ in found}


def sex_labels(db: VocabularyTables, concept_ids: Iterable[int]) -> dict[int, str]:
    """Return a label of its own for each concept of ``gender_concept_id``, also for unknown ones.

    A sex without a label, or with that of another one, would look like everybody or like the other.
    """
    wanted = sorted({int(c) for c in concept_ids})
    names = {0: "No matching concept"} | names_of(db, wanted)
    labels = {c: names.get(c, f"concept {c}") for c in wanted}
    shared = Counter(label.lower() for label in labels.values())
    return {c: f"{x} ({c})" if shared[x.lower()] > 1 else x for c, x in labels.items()}


def descendants_of(db: VocabularyTables, concept_ids: Iterable[int]) -> list[int]:
    """Return concepts and all their descendants; see `OmopDatabase.descendants`."""
    ids = sorted({int(c) for c in concept_ids})
    if "concept_ancestor" not in db.tables or not ids:
        return ids
    below = db.records(some_concepts("concept_ancestor", "ancestor_concept_id", ids))
    found = db.rows(
        f"SELECT DISTINCT descendant_concept_id::BIGINT FROM {below} AS below "
        "WHERE descendant_concept_id IS NOT NULL"
    )
    return sorted({*ids, *(c for (c,) in found)})
