"""Search of concepts by name, with the number of people who have them."""

from __future__ import annotations

import pandas as pd

from steropes.designs.settings.validated_types import Whole
from steropes.errors import DataError
from steropes.studies.database.checked_concept_descendants import has_links
from steropes.studies.database.omop import Naming, OmopDatabase, RecordsOf
from steropes.studies.disclosure import shown_count
from steropes.studies.formatting.text_safety import plain_text

__all__ = ["find_concepts"]

RECORDS = (
    ("drug_era", "drug_concept_id"),
    ("condition_occurrence", "condition_concept_id"),
    ("procedure_occurrence", "procedure_concept_id"),
    ("measurement", "measurement_concept_id"),
    ("observation", "observation_concept_id"),
)


def find_concepts(
    db: OmopDatabase, words: str, *, domain: str | None = None, limit: int = 20
) -> pd.DataFrame:
    """Find concepts whose name has all the words, in any order and case.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    words : str
        Words or parts of words; a number is a concept id.
    domain : str, optional
        Only concepts of this domain, such as "Drug" or "Condition".
    limit : int, default 20
        Largest number of concepts.

    Returns
    -------
    DataFrame
        ``concept_id``, ``name``, ``domain``, ``vocabulary`` and ``people`` (with a record of the
        concept or of a descendant, as text, without small counts), the most frequent first. If the
        vocabulary lacks links to descendants, ``attrs["note"]`` of the table explains it.

    Raises
    ------
    DataError
        No word is given.

    Examples
    --------
    >>> from steropes.studies import find_concepts, synthetic_database
    >>> found = find_concepts(synthetic_database(200), "hemorrhage")
    >>> found[["concept_id", "name"]].to_numpy().tolist()
    [[192671, 'Gastrointestinal hemorrhage']]
    """
    listed = words.split()
    if not listed:
        raise DataError("give a word to search for")
    Whole(1).require("limit", limit)
    have = db.columns("concept")
    more = {c: c if c in have else "NULL" for c in ("domain_id", "vocabulary_id")}
    number = listed[0] if len(listed) == 1 and listed[0].isdigit() else None
    like = " AND ".join(
        f"contains(lower(concept_name), lower(${i + 1}))" for i in range(len(listed))
    )
    where = f"concept_id = {int(number)}" if number else like

    def wanted() -> RecordsOf | Naming:
        """Select the concepts by id or by name."""
        if number:
            return RecordsOf("concept", "concept_id", (int(number),))
        return Naming("concept", "concept_name", tuple(listed))

    found = db.rows(
        f"SELECT concept_id::BIGINT, concept_name, {more['domain_id']}, {more['vocabulary_id']} "
        f"FROM {db.holding('concept', wanted)} WHERE {where} ORDER BY 1",
        None if number else listed,
    )
    table = pd.DataFrame(found, columns=["concept_id", "name", "domain", "vocabulary"])
    table["name"] = table["name"].map(plain_text, na_action="ignore")
    if domain is not None:
        table = table[table["domain"].fillna("").str.lower() == domain.lower()]
    ids = [int(c) for c in table["concept_id"]]
    counts = _people(db, ids)
    table = table.assign(n=[counts.get(int(c), 0) for c in table["concept_id"]])
    table = table.sort_values(["n", "concept_id"], ascending=[False, True]).head(limit)
    table["people"] = [shown_count(n) for n in table.pop("n")]
    table = table.reset_index(drop=True)
    note = _missing_links(db, [int(c) for c in table["concept_id"]])
    if note:
        table.attrs["note"] = note
    return table


def _missing_links(db: OmopDatabase, ids: list[int]) -> str:
    """Describe concepts whose descendants may not be counted; "" if all links exist."""
    if not ids:
        return ""
    lost = "people are counted by records of the concept itself, without its descendants"
    if not has_links(db):
        return f"{db.name} has no links in concept_ancestor: {lost}"
    below = db.records(RecordsOf("concept_ancestor", "ancestor_concept_id", tuple(ids)))
    linked = {int(c) for (c,) in db.rows(f"SELECT DISTINCT ancestor_concept_id FROM {below}")}
    # Codes of other vocabularies (those that are not standard concepts) have no descendants.
    if "standard_concept" in db.columns("concept"):
        named = db.records(RecordsOf("concept", "concept_id", tuple(ids)))
        other = f"SELECT concept_id FROM {named} WHERE standard_concept IS NULL"
        linked |= {int(c) for (c,) in db.rows(other)}
    gone = [c for c in ids if c not in linked]
    return f"concept_ancestor has no row of {', '.join(map(str, gone))}: {lost}" if gone else ""


def _people(db: OmopDatabase, ids: list[int]) -> dict[int, int]:
    """Count the people with a record of each concept or of a descendant."""
    if not ids:
        return {}
    listed = ", ".join(map(str, ids))
    below = f"SELECT unnest([{listed}]) AS above, unnest([{listed}]) AS below"
    if "concept_ancestor" in db.tables:
        below += " UNION SELECT ancestor_concept_id, descendant_concept_id FROM " + db.records(
            RecordsOf("concept_ancestor", "ancestor_concept_id", tuple(ids))
        )
    family = tuple(db.descendants(ids))
    parts = [
        f"SELECT person_id, {concept} AS concept "
        f"FROM {db.records(RecordsOf(table, concept, family))}"
        for table, concept in RECORDS
        if table in db.tables
    ]
    rows = db.rows(
        f"WITH family AS ({below}), records AS ({' UNION ALL '.join(parts)}) "
        "SELECT above::BIGINT, count(DISTINCT person_id) FROM family JOIN records "
        "ON concept = below GROUP BY 1"
    )
    return {int(c): int(n) for c, n in rows}
