"""Concepts that covariates leave out, or that they use alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from steropes.studies.database.checked_concept_descendants import Descendants, recorded_tables
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import Workspace

__all__ = ["ConceptSelection", "place_selection"]

ALONE = "list the descendants too and set descendants=False of the covariates (features)"


@dataclass(frozen=True)
class ConceptSelection:
    """Concepts to exclude and to include, each with or without descendants.

    Attributes
    ----------
    exclude, include : tuple of int
        Concepts to leave out, and the only ones to use if there are any.
    below_excluded, below_included : bool
        Whether descendants follow their concepts.
    unknown : {"refuse", "note"}
        Whether a concept that the vocabulary lacks is an error or noted. The descendants that it
        has in spite of that are excluded or included, as in R.
    """

    exclude: tuple[int, ...] = ()
    include: tuple[int, ...] = ()
    below_excluded: bool = True
    below_included: bool = True
    unknown: Literal["refuse", "note"] = "refuse"


def place_selection(
    work: Workspace, family: Descendants, selection: ConceptSelection, read: Collection[str]
) -> list[DataNote]:
    """Create the temporary tables ``excluded`` and ``included``; note unknown concepts.

    Parameters
    ----------
    read : collection of str
        The tables that covariates are made of.

    Raises
    ------
    DataError
        A concept is unknown and these are refused, or the vocabulary has no links for descendants.
    """
    notes: list[DataNote] = []
    db = family.db
    tables = [table for table in recorded_tables(db) if table in read]
    for name, listed, below in (
        ("excluded", selection.exclude, selection.below_excluded),
        ("included", selection.include, selection.below_included),
    ):
        known = db.concept_names(listed) if listed else {}
        gone = [c for c in listed if c not in known]
        if gone and selection.unknown == "refuse":
            db.concept_name(gone[0])  # Raises an error that names the concept.
        if below:  # A partial vocabulary has links of concepts that it does not describe.
            gone = family.without_links(gone)
        if gone:
            notes.append(_absent(name[:-1], gone, len(listed)))
        members = [*listed]
        if below and len(gone) < len(listed):
            linked = [c for c in listed if c not in gone]
            members += family.members(linked, tables, f"the concepts to {name[:-1]}", ALONE)
        work.run(
            f"CREATE TEMP TABLE {name} AS SELECT unnest($1::BIGINT[]) AS concept_id", [members]
        )
    return notes


def _absent(verb: str, gone: list[int], of: int) -> DataNote:
    """Note concepts to exclude or include that the vocabulary lacks."""
    first = ", ".join(str(c) for c in gone[:3]) + (", …" if len(gone) > 3 else "")
    text = (
        f"The vocabulary lacks {len(gone):,} of the {of:,} concepts to {verb} as covariates "
        f"({first})"
    )
    return DataNote("unknown_concepts", text, warning=True)
