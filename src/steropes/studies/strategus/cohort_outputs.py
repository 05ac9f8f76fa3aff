"""Result tables of the cohorts of a specification, as CohortGenerator writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from steropes.studies.disclosure import Bound, DisclosureRules
from steropes.studies.disclosure.table_rows import signed
from steropes.studies.execution.cohort_sources import MadeCohorts
from steropes.studies.strategus.shared_cohorts import SharedCohorts

__all__ = ["cohort_tables", "released_statistics"]

# Names of the tables of inclusion statistics in CohortGenerator, by Circe's.
STATISTICS = {
    "cohort_inclusion_result": "cg_cohort_inc_result",
    "cohort_inclusion_stats": "cg_cohort_inc_stats",
    "cohort_summary_stats": "cg_cohort_summary_stats",
    "cohort_censor_stats": "cg_cohort_censor_stats",
}


def cohort_tables(
    cohorts: SharedCohorts, made: MadeCohorts, rules: DisclosureRules, database_id: str
) -> dict[str, pd.DataFrame]:
    """Make the tables of definitions, subsets, negative controls and counts.

    Parameters
    ----------
    cohorts : SharedCohorts
        The cohorts of the specification.
    made : MadeCohorts
        The generated cohorts.
    rules : DisclosureRules
        Rules that the counts follow.
    database_id : str
        Name of the database.

    Returns
    -------
    dict of str to DataFrame
        The tables for release.
    """
    where = {"database_id": database_id}
    names = cohorts.names
    subsets = {s.id for s in cohorts.subsets}
    definitions: list[dict[str, Any]] = [
        {
            "cohort_definition_id": c.id,
            "cohort_name": c.name,
            "json": c.json_text,
            "subset_parent": c.id,
            "is_subset": 0,
        }
        for c in cohorts.defined
    ]
    definitions += [
        {
            "cohort_definition_id": s.id,
            "cohort_name": names[s.id],
            "subset_parent": s.target,
            "is_subset": 1,
            "subset_definition_id": s.definition.definition_id,
        }
        for s in cohorts.subsets
    ]
    counts = _counts(cohorts, made, rules)
    listed = [*(c.id for c in cohorts.defined), *sorted(subsets)]
    controls = [c.cohort_id for c in cohorts.controls]
    rows: dict[str, list[dict[str, Any]]] = {
        "cg_cohort_definition": definitions,
        "cg_cohort_generation": [
            {
                "cohort_id": i,
                "cohort_name": names[i],
                "generation_status": "FAILED" if i in made.refused else "COMPLETE",
                **where,
            }
            for i in listed
        ],
        "cg_cohort_inclusion": _rules(cohorts),
        "cg_cohort_count": [{"cohort_id": i, **counts.get(i, _NONE), **where} for i in listed],
        "cg_cohort_count_neg_ctrl": [
            {"cohort_id": i, **counts.get(i, _NONE), **where} for i in controls
        ],
        "cg_cohort_subset_definition": [
            {"subset_definition_id": s.definition.definition_id, "json": s.json_text}
            for s in cohorts.subsets
        ],
        "cg_cohort_definition_neg_ctrl": _controls(cohorts),
    }
    return {name: pd.DataFrame(of) for name, of in rows.items()}


def released_statistics(
    counted: Mapping[str, pd.DataFrame], rules: DisclosureRules, database_id: str
) -> dict[str, pd.DataFrame]:
    """Return the inclusion statistics for release.

    The counts of rules and of their combinations add up in many ways, and those of people and of
    events differ by few. All are therefore rounded as `DisclosureRules.coarse` does.

    Parameters
    ----------
    counted : mapping of str to DataFrame
        Exact statistics, by Circe's names of the tables.
    rules : DisclosureRules
        The rules.
    database_id : str
        Name of the database.

    Returns
    -------
    dict of str to DataFrame
        The tables by CohortGenerator's names.
    """
    found = {}
    for name, table in counted.items():
        numbers = [c for c in table.columns if c.endswith(("_count", "_total"))]
        made = table.assign(database_id=database_id)
        for column in numbers:
            made[column] = made[column].map(rules.coarse)
        found[STATISTICS[name]] = made
    return found


def _controls(cohorts: SharedCohorts) -> list[dict[str, object]]:
    """Return the definitions of the negative controls."""
    rules = cohorts.control_rules
    return [
        {
            "cohort_id": c.cohort_id,
            "outcome_concept_id": c.outcome_concept_id,
            "cohort_name": c.cohort_name,
            "occurrence_type": rules.occurrence_type,
            "detect_on_descendants": int(rules.detect_on_descendants),
        }
        for c in cohorts.controls
    ]


def _rules(cohorts: SharedCohorts) -> list[dict[str, object]]:
    """Return the names of the inclusion rules of the defined cohorts."""
    found = []
    for cohort in cohorts.defined:
        if cohorts.fault(cohort.id):
            continue
        for i, rule in enumerate(json.loads(cohort.json_text).get("InclusionRules") or []):
            found.append(
                {
                    "cohort_definition_id": cohort.id,
                    "rule_sequence": i,
                    "name": rule.get("name") or f"rule {i + 1}",
                    "description": rule.get("description"),
                }
            )
    return found


_NONE = {"cohort_entries": 0.0, "cohort_subjects": 0.0}


def _counts(
    cohorts: SharedCohorts, made: MadeCohorts, rules: DisclosureRules
) -> dict[int, dict[str, float]]:
    """Return the released numbers of entries and people of each cohort.

    Neither the difference of a subset from its target nor that of entries from people may give a
    small number away.
    """
    if made.table is None:
        return {}
    exact = {
        int(row["cohort_definition_id"]): (int(row["entries"]), int(row["people"]))
        for row in made.table.counts().to_dict("records")
    }
    targets = {s.id: s.target for s in cohorts.subsets}
    found: dict[int, dict[str, float]] = {}
    for cohort, (entries, people) in exact.items():
        _, of = exact.get(targets.get(cohort, cohort), (0, 0))
        released = rules.part(people, of) if cohort in targets else rules.count(people)
        if isinstance(released, Bound):
            listed: int | Bound = released
        elif rules.small(entries - people):
            listed = Bound(released + rules.least)
        else:
            listed = rules.count(entries)
        found[cohort] = {"cohort_entries": signed(listed), "cohort_subjects": signed(released)}
    return found
