"""What is said of a concept of which nobody has a record: perhaps it is of another domain.

Outcomes are looked for among conditions and exposures among drugs. A drug given as the outcome is
in the vocabulary, and without this would make a study in which nothing happens.
"""

from __future__ import annotations

from steropes.studies.database.omop import OmopDatabase, RecordsOf

__all__ = ["DOMAINS", "domain_hint"]

DOMAINS = {
    "condition_occurrence": "Condition",
    "condition_era": "Condition",
    "drug_era": "Drug",
}


def domain_hint(db: OmopDatabase, concept_id: int, table: str) -> str:
    """That a concept is not of the domain whose records a table holds, to end a sentence with.

    Empty where it is, or where nothing says of which domain it is.
    """
    if table not in DOMAINS or "domain_id" not in db.columns("concept"):
        return ""
    concept = db.records(RecordsOf("concept", "concept_id", (concept_id,)))
    found = db.rows(
        f"SELECT DISTINCT domain_id FROM {concept} AS named "
        f"WHERE concept_id = {int(concept_id)} AND trim(domain_id) <> '' ORDER BY 1"
    )
    domains = [str(domain) for (domain,) in found]
    # "Condition/Meas" is of both
    if not domains or any(DOMAINS[table].lower() in d.lower() for d in domains):
        return ""
    return (
        f"; it is a concept of the domain {' and '.join(domains)}, and {table} holds records of "
        f"the domain {DOMAINS[table]}"
    )
