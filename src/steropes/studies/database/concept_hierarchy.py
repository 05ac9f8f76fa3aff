"""The hierarchy of concepts above those of some outcomes."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from steropes.errors import DataError
from steropes.studies.database.checked_concept_descendants import has_links
from steropes.studies.database.concept_names_and_descendants import some_concepts
from steropes.studies.database.omop import OmopDatabase

__all__ = ["concept_hierarchy"]


def concept_hierarchy(db: OmopDatabase, concepts: Iterable[int]) -> pd.DataFrame:
    """Return the concepts above some concepts, by OMOP's ``concept_ancestor``.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    concepts : iterable of int
        Concepts, such as those of the outcomes of a tree scan.

    Returns
    -------
    DataFrame
        ``descendant_concept_id`` and ``ancestor_concept_id``: a row for each of the concepts and
        each of its ancestors, with the concept itself among them. A concept without a link is
        there with itself alone.

    Raises
    ------
    DataError
        No concept is given, or the vocabulary has no links.

    See Also
    --------
    steropes.designs.surveillance.tree_scan : Takes it as ``tree``.

    Examples
    --------
    >>> from steropes.studies import concept_hierarchy, synthetic_database
    >>> concept_hierarchy(synthetic_database(200), [192671]).columns.tolist()
    ['descendant_concept_id', 'ancestor_concept_id']
    """
    ids = sorted({int(c) for c in concepts})
    if not ids:
        raise DataError("concepts is empty; give the concepts of the outcomes.")
    if not has_links(db):
        raise DataError(
            f"{db.name} has no links in concept_ancestor; load the vocabulary's concept_ancestor, "
            "or give a table of nodes and parents."
        )
    above = db.records(some_concepts("concept_ancestor", "descendant_concept_id", ids))
    links = db.rows(
        "SELECT DISTINCT descendant_concept_id::BIGINT, ancestor_concept_id::BIGINT "
        f"FROM {above} AS above WHERE ancestor_concept_id IS NOT NULL"
    )
    found = sorted({*((int(a), int(b)) for a, b in links), *((c, c) for c in ids)})
    return pd.DataFrame(found, columns=["descendant_concept_id", "ancestor_concept_id"])
