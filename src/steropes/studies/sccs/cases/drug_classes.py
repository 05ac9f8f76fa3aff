"""Drug classes: the ATC code of each ingredient at a given length."""

from __future__ import annotations

from steropes.errors import DataError
from steropes.studies.database.omop import OmopDatabase

__all__ = ["drug_classes"]


def drug_classes(db: OmopDatabase, drugs: list[int], length: int) -> dict[int, str]:
    """Look up the ATC class of each drug that has one; of several, the first by code.

    Parameters
    ----------
    db : OmopDatabase
        With ``concept_code`` and ``vocabulary_id`` in ``concept``, and ``concept_ancestor``.
    drugs : list of int
        Concept ids of ingredients.
    length : {1, 3, 4, 5}
        Length of the codes: anatomical, therapeutic, pharmacological or chemical group.

    Raises
    ------
    DataError
        The vocabulary has no ATC classes above any of the drugs.
    """
    gone = [c for c in ("concept_code", "vocabulary_id") if c not in db.columns("concept")]
    if gone or "concept_ancestor" not in db.tables:
        lacks = f"concept lacks the column {gone[0]}" if gone else "there is no concept_ancestor"
        raise DataError(f"a prior over drug classes needs ATC codes, but {lacks} in {db.name}")
    links = db.links("descendant_concept_id", lambda: drugs)
    concept = db.concepts(lambda: db.recorded_concepts(links, "ancestor_concept_id"))
    found = db.rows(
        "SELECT a.descendant_concept_id::BIGINT, min(c.concept_code) "
        f"FROM {links} a JOIN {concept} c "
        "ON c.concept_id = a.ancestor_concept_id "
        "WHERE c.vocabulary_id = 'ATC' AND length(c.concept_code) = $1 "
        "AND a.descendant_concept_id IN (SELECT unnest($2::BIGINT[])) GROUP BY 1",
        [int(length), [int(d) for d in drugs]],
    )
    if not found:
        raise DataError(
            f"a prior over drug classes needs ATC codes: none of the {len(drugs)} drugs has an ATC "
            f"class of {length} characters in the vocabulary of {db.name}"
        )
    return {int(drug): str(code) for drug, code in found}
