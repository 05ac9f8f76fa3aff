"""Checks that the vocabulary can resolve the concept sets of a Circe definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from steropes.errors import DataError
from steropes.studies.database.checked_concept_descendants import (
    ConceptLinks,
    Descendants,
    recorded_tables,
)
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase

__all__ = ["ConceptSetChecks", "listed_concepts"]

ALONE = "list the descendants themselves and clear includeDescendants"


def listed_concepts(expression: Mapping[str, Any]) -> Iterator[int]:
    """Yield the concepts in the concept sets of a definition."""
    for concept_set in expression.get("ConceptSets") or ():
        for item in (concept_set.get("expression") or {}).get("items") or ():
            yield int(item["concept"]["CONCEPT_ID"])


class ConceptSetChecks:
    """Checks of the concept sets of definitions, whose concepts are read for many at once.

    Parameters
    ----------
    db : OmopDatabase
    """

    def __init__(self, db: OmopDatabase) -> None:
        self.db = db
        self._links = ConceptLinks(db)
        self._names: dict[int, str] = {}

    def read(self, concepts: Iterable[int]) -> None:
        """Read the names and the links of the concepts of the next definitions."""
        wanted = {*concepts}
        self._names = self.db.concept_names(wanted)
        self._links.read(c for c in wanted if c in self._names)

    def notes(self, cohort: int, expression: Mapping[str, Any]) -> list[DataNote]:
        """Reject concept sets that the vocabulary cannot resolve, and note incomplete ones.

        Parameters
        ----------
        cohort : int
            The id of the cohort, for messages.
        expression : mapping
            The definition, whose concepts have been read.

        Raises
        ------
        DataError
            ``concept_ancestor`` has no links although descendants are included, or
            ``concept_relationship`` maps nothing although mapped concepts are included.
        """
        family = Descendants(self.db, links=self._links)
        for concept_set in expression.get("ConceptSets") or ():
            items = (concept_set.get("expression") or {}).get("items") or ()
            purpose = f"cohort {cohort}, concept set {str(concept_set.get('name', ''))!r}"
            ids = (int(i["concept"]["CONCEPT_ID"]) for i in items if i.get("includeDescendants"))
            above = [c for c in ids if c in self._names]
            if above:
                family.members(above, recorded_tables(self.db), purpose, ALONE)
            if any(item.get("includeMapped") for item in items):
                _require_map(self.db, purpose)
        unknown = [c for c in listed_concepts(expression) if c not in self._names]
        if not unknown:
            return family.notes
        more = f" and {len({*unknown}) - 1} more" if len({*unknown}) > 1 else ""
        text = (
            f"Cohort {cohort}: table concept has no row of concept {unknown[0]}{more} in its "
            "concept sets, and records of it do not count"
        )
        return [*family.notes, DataNote("unknown_concepts", text, warning=True)]


def _require_map(db: OmopDatabase, purpose: str) -> None:
    """Raise if the vocabulary maps nothing although mapped concepts are included."""
    has_map = "relationship_id" in db.columns("concept_relationship") and db.holds(
        "concept_relationship", lambda quote: f"{quote('relationship_id')} = 'Maps to'"
    )
    if not has_map:
        raise DataError(
            f"{purpose}: mapped concepts are included (includeMapped), but {db.name} has no 'Maps "
            "to' in concept_relationship; load the vocabulary's concept_relationship, or clear "
            "includeMapped"
        )
