"""Concepts of a specification that a database lacks, and cohorts that it cannot fill."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import (
    MEMBERS,
    CohortDefinition,
    place_concept_sets,
)
from steropes.studies.cohort_diagnostics.event_table_columns import EVENTS, recorded_events
from steropes.studies.cohorts.circe_schema import CRITERIA
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.strategus_plans.specification_plan import COHORTS, SpecificationPlan
from steropes.studies.strategus_plans.supported_parts import skipped, verdicts_without_entries

__all__ = ["check_on_database"]

LISTED = 5  # Concepts of each use that are listed.
CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
OTHER_TABLES = {
    "LocationRegion": "location_history"
}  # Tables with another name than the criterion.


def check_on_database(
    database: str | Path | object, schema: str, plan: SpecificationPlan
) -> tuple[SpecificationPlan, list[str]]:
    """List the concepts that the vocabulary lacks, and the cohorts without any entry event.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        A database that `OmopDatabase` accepts.
    schema : str
        Schema of the CDM tables.

    Returns
    -------
    SpecificationPlan
        The plan with the verdicts that this database allows: parts of which all results need a
        cohort that it cannot fill do not run.
    list of str
        Lines of text, with the headings "Concepts" and, if there are any, "Cohorts".
    """
    lines = ["Concepts"]
    with opened(database, schema, "UTC") as db:
        uses = [*_used(plan)]
        every = set().union(*(concepts for _, concepts in uses))
        known = {*db.concept_names(sorted(every))} if every else set()
        for use, concepts in uses:
            gone = sorted(concepts - known)
            if gone:
                first = ", ".join(map(str, gone[:LISTED])) + (", …" if len(gone) > LISTED else "")
                lines.append(
                    f"  {use}: {len(gone):,} of {len(concepts):,} are not in the vocabulary of "
                    f"{db.name} ({first})"
                )
        unmade, unfilled = _without_tables(db, plan), _unfilled(db, plan)
    lines = lines if len(lines) > 1 else ["Concepts", "  all are in the vocabulary"]
    if unmade or unfilled:
        names = plan.cohorts.names
        lines.append("Cohorts")
        lines += [f"  cohort {i} ({names[i]}) cannot be made: {text}" for i, text in unmade.items()]
        lines += [
            f"  cohort {i} ({names[i]}): {db.name} has no record of its entry events, so that "
            "nobody enters it"
            for i in unfilled
        ]
    return _with_cohorts(plan, unmade, unfilled), lines


def _with_cohorts(
    plan: SpecificationPlan, unmade: Mapping[int, str], unfilled: Collection[int]
) -> SpecificationPlan:
    """Return a plan with the verdicts that cohorts without entries allow, and their subsets."""
    names = plan.cohorts.names
    empty = {i: names[i] for i in (*unmade, *unfilled)}
    for subset in plan.cohorts.subsets:  # After the cohorts that they are made from.
        if subset.target in empty:
            empty[subset.id] = names[subset.id]
    verdicts = verdicts_without_entries(plan.verdicts, empty, COHORTS)
    gone = [skipped(COHORTS, f"cohort {i}", text) for i, text in unmade.items()]
    at = 1 + max((i for i, v in enumerate(verdicts) if v.module == COHORTS), default=-1)
    verdicts[at:at] = gone
    return replace(plan, verdicts=tuple(verdicts))


def _without_tables(db: OmopDatabase, plan: SpecificationPlan) -> dict[int, str]:
    """Describe cohorts whose definition reads a table that the database lacks."""
    found = {}
    for cohort in plan.cohorts.defined:
        if not plan.cohorts.fault(cohort.id):
            kinds = {*_criteria(json.loads(cohort.json_text))} - {"CustomEra"}
            tables = {OTHER_TABLES.get(k) or CAPITAL.sub("_", k).lower() for k in kinds}
            if gone := sorted(tables - {*db.tables}):
                found[cohort.id] = (
                    f"{db.name} has no table {' and no table '.join(gone)}, which its definition "
                    "reads"
                )
    return found


def _criteria(value: object) -> Iterator[str]:
    """Yield the kinds of criteria in a cohort definition."""
    if isinstance(value, dict):
        yield from (key for key in value if key in CRITERIA and isinstance(value[key], dict))
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _criteria(inner)


def _unfilled(db: OmopDatabase, plan: SpecificationPlan) -> list[int]:
    """Return the defined cohorts without a record of any entry event."""
    definitions = [
        CohortDefinition(c.id, c.name, c.json_text)
        for c in plan.cohorts.defined
        if not plan.cohorts.fault(c.id)
    ]
    found: set[tuple[int, str]] = set()
    with db.workspace() as work:
        sets = {(s.cohort, s.number): s.unique for s in place_concept_sets(db, work, definitions)}
        for event, _ in recorded_events(db):
            recorded = f"SELECT {event.concept} FROM {db.table(event.table)}"
            rows = work.rows(
                f"SELECT DISTINCT unique_set FROM {MEMBERS} WHERE concept_id IN ({recorded})"
            )
            found |= {(int(number), event.kind) for (number,) in rows}
    kinds = {event.kind for event in EVENTS}
    unfilled = []
    for definition in definitions:
        asked = {
            (sets.get((definition.id, -1 if number is None else number)), kind)
            for kind, number in definition.entry_events
        }
        known = all(unique is not None and kind in kinds for unique, kind in asked)
        if asked and known and not found & asked:
            unfilled.append(definition.id)
    return unfilled


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
