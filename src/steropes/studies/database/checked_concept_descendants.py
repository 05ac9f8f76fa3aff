"""Concepts with their descendants, and checks that the vocabulary has the links.

Descendants are found by the links of ``concept_ancestor``. If links are missing, records of the
descendants would be lost silently: some of the outcomes, the users of a drug class, or covariates
that should be excluded. A vocabulary without any links is therefore rejected, and incomplete links
of a concept are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

import numpy as np

from steropes.errors import DataError
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, RecordsOf

__all__ = ["RECORDED", "ConceptLinks", "Descendants", "has_links", "recorded_tables"]

# Tables of records and the column of their concepts.
RECORDED = {
    "condition_occurrence": "condition_concept_id",
    "condition_era": "condition_concept_id",
    "drug_exposure": "drug_concept_id",
    "drug_era": "drug_concept_id",
    "procedure_occurrence": "procedure_concept_id",
    "device_exposure": "device_concept_id",
    "measurement": "measurement_concept_id",
    "observation": "observation_concept_id",
    "visit_occurrence": "visit_concept_id",
}
Quote = Callable[[str], str]


def recorded_tables(db: OmopDatabase) -> list[str]:
    """List the tables of records that a database has."""
    return [t for t, concept in RECORDED.items() if concept in db.columns(t)]


class ConceptLinks:
    """Links between concepts, of which those of many concepts can be read at once."""

    def __init__(self, db: OmopDatabase) -> None:
        self.db = db
        self._read = np.zeros(0, np.int64)  # The concepts whose links are known.
        self._known = {kind: np.zeros((0, 2), np.int64) for kind in ("below", "children")}

    def read(self, concepts: Iterable[int]) -> None:
        """Read the links of some concepts in place of those read before."""
        self._read = np.zeros(0, np.int64)
        ids = sorted({int(c) for c in concepts if abs(int(c)) < 2**63})  # NumPy has no larger ones.
        found = {"below": self.below(ids), "children": self.children(ids)}
        self._known = {
            kind: np.array(sorted(pairs), np.int64).reshape(-1, 2) for kind, pairs in found.items()
        }
        self._read = np.array(ids, np.int64)

    def below(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the rows of ``concept_ancestor`` below some concepts."""
        if "concept_ancestor" not in self.db.tables or not ids:
            return []
        if np.isin(ids, self._read).all():
            return self._of("below", ids)
        below = self.db.records(RecordsOf("concept_ancestor", "ancestor_concept_id", tuple(ids)))
        found = self.db.rows(
            "SELECT DISTINCT ancestor_concept_id::BIGINT, descendant_concept_id::BIGINT "
            f"FROM {below} AS below WHERE descendant_concept_id IS NOT NULL"
        )
        return [(int(above), int(lower)) for above, lower in found]

    def children(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the concepts that ``concept_relationship`` has below some concepts, in order."""
        needed = {"concept_id_1", "concept_id_2", "relationship_id"}
        if not ids or not needed <= {*self.db.columns("concept_relationship")}:
            return []
        if np.isin(ids, self._read).all():
            return self._of("children", ids)
        related = self.db.records(RecordsOf("concept_relationship", "concept_id_1", tuple(ids)))
        found = self.db.rows(
            f"SELECT DISTINCT concept_id_1::BIGINT, concept_id_2::BIGINT FROM {related} AS related "
            "WHERE relationship_id = 'Subsumes' AND concept_id_2 IS NOT NULL ORDER BY 1, 2"
        )
        return [(int(above), int(lower)) for above, lower in found]

    @cached_property
    def any(self) -> bool:
        """Whether ``concept_ancestor`` links any two concepts; see `has_links`."""
        return has_links(self.db)

    def _of(self, kind: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the links of some concepts that have been read."""
        known, wanted = self._known[kind], np.unique(ids)
        first, after = (np.searchsorted(known[:, 0], wanted, side) for side in ("left", "right"))
        return [
            (int(above), int(lower))
            for a, b in zip(first, after, strict=True)
            for above, lower in known[a:b]
        ]


class Descendants:
    """Finds the descendants of concepts, and collects notes on missing links.

    Parameters
    ----------
    named : iterable of int
        Concepts that the study uses for other purposes, and that are therefore not descendants.
    links : ConceptLinks, optional
        The links of the database's vocabulary, of which some may have been read.

    Attributes
    ----------
    notes : list of DataNote
        Notes on the concepts requested so far.
    """

    def __init__(
        self, db: OmopDatabase, named: Iterable[int] = (), links: ConceptLinks | None = None
    ) -> None:
        self.db = db
        self._links = links or ConceptLinks(db)
        self._named = {int(c) for c in named}
        self.notes: list[DataNote] = []
        self._known: dict[tuple[tuple[int, ...], tuple[str, ...]], list[int]] = {}

    def copy(self) -> Descendants:
        """Return a copy that collects further notes of its own."""
        other = Descendants(self.db, self._named, self._links)
        other.notes, other._known = [*self.notes], {**self._known}
        return other

    def members(
        self, concepts: Iterable[int], tables: Collection[str], purpose: str, instead: str
    ) -> list[int]:
        """Find the concepts themselves and all their descendants, in ascending order.

        Parameters
        ----------
        tables : collection of str
            Tables of the records that matter. If they contain no concepts other than the requested
            ones, nothing can be lost and no link is needed.
        purpose : str
            The use of the concepts, as the subject of messages, such as "the outcome".
        instead : str
            An alternative without descendants, as the end of messages.

        Raises
        ------
        DataError
            ``concept_ancestor`` is missing or has no links.
        """
        ids = sorted({int(c) for c in concepts})
        key = tuple(ids), tuple(tables)
        if key not in self._known:
            self._known[key] = self._find(ids, tables, purpose, instead)
        return [*self._known[key]]

    def _find(
        self, ids: list[int], tables: Collection[str], purpose: str, instead: str
    ) -> list[int]:
        """Find the members of some concepts and note missing links."""
        links = self._links.below(ids)
        members = sorted({*ids, *(below for _, below in links)})
        linked = any(above != below for above, below in links) or self._links.any
        rows = {above for above, _ in links}
        unlinked = ids if not linked else [c for c in ids if c not in rows]
        if unlinked and self._others_recorded(unlinked, tables):
            if not linked:
                raise DataError(self._refusal(unlinked, purpose, instead))
            self._note_unlinked(unlinked, purpose)
        if linked:
            self._note_children(ids, members, tables, purpose)
        return members

    def without_links(self, concepts: Sequence[int]) -> list[int]:
        """Return the concepts that have no row in ``concept_ancestor``."""
        linked = {above for above, _ in self._links.below(concepts)}
        return [c for c in concepts if c not in linked]

    def _others_recorded(self, ids: Sequence[int], tables: Collection[str]) -> bool:
        """Check whether a table has records of other concepts, which may be descendants."""
        listed = ", ".join(map(str, sorted({0, *ids, *self._named})))
        return self._any_record(tables, f"NOT IN ({listed})")

    def _any_record(self, tables: Collection[str], condition: str) -> bool:
        """Check whether a table has a record with a concept that satisfies a condition."""

        def has(table: str) -> bool:
            """Check one table."""
            concept = RECORDED[table]
            if concept not in self.db.columns(table):
                return False
            return self.db.holds(table, lambda quote: f"{quote(concept)} {condition}")

        return any(has(table) for table in tables)

    def _refusal(self, ids: Sequence[int], purpose: str, instead: str) -> str:
        """Describe the missing links and the remedies."""
        missing = "concept_ancestor" not in self.db.tables
        lacks = "has no table concept_ancestor" if missing else "has no links in concept_ancestor"
        return (
            f"{purpose}: concept {self._listed(ids)} is requested with its descendants, but "
            f"{self.db.name} {lacks}, and their records would be lost; load the "
            f"vocabulary's concept_ancestor, or {instead}"
        )

    def _note_unlinked(self, ids: Sequence[int], purpose: str) -> None:
        """Note concepts without any link."""
        text = (
            f"{_capital(purpose)}: concept_ancestor has no row of concept {self._listed(ids)}, so "
            "that no descendants were found and only records of the concept itself count"
        )
        self.notes.append(DataNote("missing_links", text, warning=True))

    def _note_children(
        self, ids: Sequence[int], members: Sequence[int], tables: Collection[str], purpose: str
    ) -> None:
        """Note recorded concepts that are descendants only by ``concept_relationship``."""
        known = {*members}
        left_out = [(a, b) for a, b in self._links.children(ids) if b not in known]
        for concept in dict.fromkeys(a for a, _ in left_out):
            below = [b for a, b in left_out if a == concept]
            recorded = [b for b in below if self._any_record(tables, f"= {b}")]
            if recorded:
                text = (
                    f"{_capital(purpose)}: concept_relationship has concept "
                    f"{self._listed(recorded)} below concept {self._listed([concept])}, but "
                    "concept_ancestor lacks that link, and records of it do not count"
                )
                self.notes.append(DataNote("missing_links", text, warning=True))

    def _listed(self, concepts: Sequence[int]) -> str:
        """Name the first of some concepts and count the others."""
        name = self.db.concept_names([concepts[0]]).get(concepts[0])
        first = f"{concepts[0]} ({name})" if name else str(concepts[0])
        return f"{first} and {len(concepts) - 1} more" if len(concepts) > 1 else first


def has_links(db: OmopDatabase) -> bool:
    """Check whether ``concept_ancestor`` links any two concepts, as complete vocabularies do."""
    if "concept_ancestor" not in db.tables:
        return False
    return db.holds(
        "concept_ancestor",
        lambda quote: f"{quote('ancestor_concept_id')} <> {quote('descendant_concept_id')}",
    )


def _capital(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]
