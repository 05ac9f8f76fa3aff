"""Hints in errors on concepts without records, which may belong to another domain.

Outcomes are searched among conditions and exposures among drugs. A drug given as the outcome is in
the vocabulary, and without a hint a study would silently have no events.
"""

from __future__ import annotations

from steropes.studies.database.omop import OmopDatabase, RecordsOf

__all__ = ["DOMAINS", "domain_hint"]

DOMAINS = {"condition_occurrence": "Condition", "condition_era": "Condition", "drug_era": "Drug"}


def domain_hint(db: OmopDatabase, concept_id: int, table: str) -> str:
    """Return a hint that a concept is not in the domain of a table's records, for a message's end.

    Empty if it is in that domain, or if its domain is unknown.
    """
    if table not in DOMAINS or "domain_id" not in db.columns("concept"):
        return ""
    concept = db.records(RecordsOf("concept", "concept_id", (concept_id,)))
    found = db.rows(
        f"SELECT DISTINCT domain_id FROM {concept} AS named "
        f"WHERE concept_id = {int(concept_id)} AND trim(domain_id) <> '' ORDER BY 1"
    )
    domains = [str(domain) for (domain,) in found]
    # The domain "Condition/Meas" belongs to both.
    if not domains or any(DOMAINS[table].lower() in d.lower() for d in domains):
        return ""
    return (
        f"; it is a concept of the domain {' and '.join(domains)}, and {table} has records of the "
        f"domain {DOMAINS[table]}"
    )
