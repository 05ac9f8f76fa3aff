"""Checks that the vocabulary can resolve the concept sets of a Circe definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steropes.errors import DataError
from steropes.studies.database.checked_concept_descendants import Descendants, recorded_tables
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase

__all__ = ["concept_set_notes"]

ALONE = "list the descendants themselves and clear includeDescendants"


def concept_set_notes(
    db: OmopDatabase, cohort: int, expression: Mapping[str, Any]
) -> list[DataNote]:
    """Reject concept sets that the vocabulary cannot resolve, and note incomplete ones.

    Parameters
    ----------
    cohort : int
        The id of the cohort, for messages.
    expression : mapping
        The definition.

    Raises
    ------
    DataError
        ``concept_ancestor`` has no links although descendants are included, or
        ``concept_relationship`` maps nothing although mapped concepts are included.
    """
    family = Descendants(db)
    unknown: list[int] = []
    for concept_set in expression.get("ConceptSets") or ():
        items = (concept_set.get("expression") or {}).get("items") or ()
        ids = [int(item["concept"]["CONCEPT_ID"]) for item in items]
        known = db.concept_names(ids)
        unknown += [c for c in ids if c not in known]
        purpose = f"cohort {cohort}, concept set {str(concept_set.get('name', ''))!r}"
        above = [
            c
            for c, item in zip(ids, items, strict=True)
            if item.get("includeDescendants") and c in known
        ]
        if above:
            family.members(above, recorded_tables(db), purpose, ALONE)
        if any(item.get("includeMapped") for item in items):
            _require_map(db, purpose)
    if not unknown:
        return family.notes
    more = f" and {len({*unknown}) - 1} more" if len({*unknown}) > 1 else ""
    text = (
        f"Cohort {cohort}: table concept has no row of concept {unknown[0]}{more} in its concept "
        "sets, and records of it do not count"
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
