"""Result tables of the cohorts of a specification, as CohortGenerator writes them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.strategus_release import released_cohort_counts
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts

__all__ = ["cohort_tables"]

_NONE = {"cohort_entries": 0.0, "cohort_subjects": 0.0}


def cohort_tables(
    cohorts: SharedCohorts, made: MadeCohorts, rules: DisclosureRules, database_id: str
) -> dict[str, pd.DataFrame]:
    """Make the tables of definitions, subsets, negative controls and counts.

    Parameters
    ----------
    made : MadeCohorts
        The generated cohorts.
    rules : DisclosureRules
        Rules that the counts follow.

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
    counts = _counts(made, rules)
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


def _counts(made: MadeCohorts, rules: DisclosureRules) -> dict[int, dict[str, float]]:
    """Return the released numbers of entries and people of each cohort."""
    if made.table is None:
        return {}
    return {
        int(row["cohort_definition_id"]): released_cohort_counts(
            int(row["entries"]), int(row["people"]), rules
        )
        for row in made.table.counts().to_dict("records")
    }
