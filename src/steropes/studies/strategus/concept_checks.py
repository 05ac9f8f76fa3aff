"""Concepts of a specification that the vocabulary of a database lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.strategus_plans.specification_plan import SpecificationPlan

__all__ = ["unknown_concepts"]

LISTED = 5  # Only so many concepts of each use are listed.


def unknown_concepts(
    database: str | Path | object, schema: str, plan: SpecificationPlan
) -> list[str]:
    """List the concepts that the vocabulary lacks, a line for each use.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        A database that `OmopDatabase` accepts.
    schema : str
        Schema of the CDM tables.

    Returns
    -------
    list of str
        Lines of text, beginning with "Concepts".
    """
    lines = ["Concepts"]
    with opened(database, schema, "UTC") as db:
        for use, concepts in _used(plan):
            gone = _absent(db, concepts)
            if gone:
                first = ", ".join(map(str, gone[:LISTED])) + (", …" if len(gone) > LISTED else "")
                lines.append(
                    f"  {use}: {len(gone):,} of {len(concepts):,} are not in the vocabulary of "
                    f"{db.name} ({first})"
                )
    return lines if len(lines) > 1 else ["Concepts", "  all are in the vocabulary"]


def _absent(db: OmopDatabase, concepts: set[int]) -> list[int]:
    """Return the concepts that the vocabulary lacks."""
    known = db.concept_names(sorted(concepts)) if concepts else {}
    return sorted(concepts - {*known})


def _used(plan: SpecificationPlan) -> Iterator[tuple[str, set[int]]]:
    """Yield each use of concepts with their ids."""
    for cohort in plan.cohorts.defined:
        if not plan.cohorts.fault(cohort.id):
            yield f"cohort {cohort.id} ({cohort.name})", {*_concepts(json.loads(cohort.json_text))}
    controls = {c.outcome_concept_id for c in plan.cohorts.controls}
    yield "negative controls", controls
    if plan.comparative is not None:
        for q in plan.comparative.questions:
            yield f"covariates excluded from {q.target} against {q.comparator}", {*q.exclude}
        for a in plan.comparative.analyses:
            if a.features is not None:
                yield f"covariates excluded by analysis {a.id}", {*a.features.exclude}
                yield f"covariates included by analysis {a.id}", {*a.features.include}
    if plan.prediction is not None:
        for d in plan.prediction.designs:
            yield f"covariates excluded by prediction design {d.number}", {*d.rules.exclude}
            yield f"covariates included by prediction design {d.number}", {*d.rules.include}


def _concepts(value: object) -> Iterator[int]:
    """Yield the concepts of the sets of a cohort definition."""
    if isinstance(value, dict):
        concept = value.get("CONCEPT_ID")
        if isinstance(concept, int) and not isinstance(concept, bool):
            yield concept
        for inner in value.values():
            yield from _concepts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _concepts(inner)
