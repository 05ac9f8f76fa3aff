"""Result tables of the diagnostics of cohorts, as R's CohortDiagnostics writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from steropes.studies.cohort_diagnostics.cohort_findings import cohort_findings
from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import (
    CohortDefinition,
    DefinitionSet,
)
from steropes.studies.cohort_diagnostics.diagnostic_tables import cohort_diagnostics
from steropes.studies.cohort_diagnostics.vocabulary_tables import vocabulary_tables
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.covariate_analysis_catalogue import WINDOWED
from steropes.studies.covariates.window_summaries import COHORTS, WindowRules
from steropes.studies.database.concept_names_and_descendants import sex_labels
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.counts_in_text import released_text
from steropes.studies.release.cohort_diagnostics_release import released_diagnostics
from steropes.studies.strategus_plans.cohort_diagnostics_plan import (
    COHORT_DIAGNOSTICS,
    CohortDiagnosticsPlan,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts

__all__ = ["diagnostics_tables"]

CONCEPTS = ("index_event_breakdown", "included_source_concept", "orphan_concept", "visit_context")
EVERYBODY = "NULL"  # R's text for the sex of series that are not by sex.
Tables = dict[str, pd.DataFrame]


def diagnostics_tables(
    db: OmopDatabase,
    plan: CohortDiagnosticsPlan,
    shared: SharedCohorts,
    made: MadeCohorts,
    counted: Mapping[str, pd.DataFrame],
    rules: DisclosureRules,
    database: pd.Series,
    failed: dict[str, str],
    say: Callable[[str], None],
) -> Tables:
    """Compute and release the diagnostics of cohorts.

    Parameters
    ----------
    plan : CohortDiagnosticsPlan
        The plan, with cohorts that may have been refused.
    made : MadeCohorts
        The generated cohorts.
    counted : mapping of str to DataFrame
        Exact inclusion statistics by Circe's names.
    database : Series
        The row of the table ``database_meta_data``.
    failed : dict of str to str
        Gets the parts that could not be computed, with the reason.

    Raises
    ------
    DataError
        No cohort could be made.
    """
    database_id = str(database["database_id"])
    left = plan.without(made.refused)
    cohorts = made.table if made.table is not None else _nobody(db)
    exact = cohort_diagnostics(db, left.definitions, cohorts, left.asked, say)
    failed |= {f"{COHORT_DIAGNOSTICS}, {part}": why for part, why in exact.left_out.items()}
    own = _own_statistics(counted, left.cohorts) if plan.inclusion else {}
    found = released_diagnostics(exact, own, rules, database_id)
    where = {"database_id": database_id}
    found["cd_cohort"] = _cohorts(plan.definitions, shared)
    found["cd_subset_definition"] = pd.DataFrame(
        [
            {"subset_definition_id": s.definition.definition_id, "json": s.json_text}
            for s in shared.subsets
        ]
    )
    found["cd_concept_sets"] = _sets(exact.sets)
    found["cd_resolved_concepts"] = exact.tables["resolved_concepts"].assign(**where)
    found["cd_cohort_inclusion"] = _inclusion(left.definitions).assign(**where)
    if "cd_incidence_rate" in found:
        rates = _with_labels(db, found["cd_incidence_rate"])
        years = rates["calendar_year"].map(lambda y: f"{y:.0f}", na_action="ignore")
        found["cd_incidence_rate"] = rates.assign(calendar_year=years)
    if "cd_time_series" in found:
        series = _with_labels(db, found["cd_time_series"])
        found["cd_time_series"] = series.assign(gender=series["gender"].fillna(EVERYBODY))
    if exact.windows is not None and left.asked.windows is not None:
        found |= _references(left.asked.windows, exact.windows.columns)
    ids = {int(i) for name in CONCEPTS if name in exact.tables for i in _ids(exact.tables[name])}
    vocabulary = vocabulary_tables(db, ids | {*_ids(exact.tables["resolved_concepts"])})
    found |= {f"cd_{name}": table for name, table in vocabulary.items()}
    found["cd_database"] = pd.DataFrame([{
        **where, "database_name": database["cdm_source_name"],
        "description": database.get("source_description"), "is_meta_analysis": "0",
        "vocabulary_version": database["vocabulary_version"],
        "vocabulary_version_cdm": database["vocabulary_version"],
    }])  # fmt: skip
    refused = {**{i: why for i, _, why in plan.faults}, **made.refused}
    whys = {i: released_text(why, rules).rstrip(".") for i, why in refused.items()}
    names = {d.id: d.name for d in plan.definitions} | {i: name for i, name, _ in plan.faults}
    concepts = vocabulary["concept"]
    known = dict(zip(concepts["concept_id"], concepts["concept_name"], strict=True))
    found["cohort_finding"] = cohort_findings(found, names, whys, known).assign(**where)
    return found


def _nobody(db: OmopDatabase) -> CohortTable:
    """Return cohorts without entries."""
    never = np.zeros(0, "datetime64[D]")
    return CohortTable(np.zeros(0, np.int64), np.zeros(0, np.int64), never, never, db.identity)


def _own_statistics(
    counted: Mapping[str, pd.DataFrame], cohorts: Iterable[int]
) -> dict[str, pd.DataFrame]:
    """Return the inclusion statistics of some cohorts."""
    wanted = {*cohorts}
    return {
        name: table[table["cohort_definition_id"].isin(wanted)].reset_index(drop=True)
        for name, table in counted.items()
    }


def _cohorts(definitions: Sequence[CohortDefinition], shared: SharedCohorts) -> pd.DataFrame:
    """Return the cohorts with their definitions."""
    subsets = {s.id: s for s in shared.subsets}
    rows = []
    for definition in definitions:
        subset = subsets.get(definition.id)
        rows.append(
            {
                "cohort_id": definition.id,
                "cohort_name": definition.name,
                "metadata": json.dumps({"cohortId": definition.id, "cohortName": definition.name}),
                "json": definition.json_text,
                "subset_parent": definition.id if subset is None else subset.target,
                "subset_definition_id": None if subset is None else subset.definition.definition_id,
                "is_subset": int(subset is not None),
            }
        )
    return pd.DataFrame(rows)


def _sets(sets: Sequence[DefinitionSet]) -> pd.DataFrame:
    """Return the concept sets."""
    return pd.DataFrame(
        [
            {
                "cohort_id": s.cohort, "concept_set_id": s.number, "concept_set_name": s.name,
                "concept_set_expression": s.items,
            }
            for s in sets
        ]
    )  # fmt: skip


def _inclusion(definitions: Sequence[CohortDefinition]) -> pd.DataFrame:
    """Return the names of the inclusion rules."""
    return pd.DataFrame(
        [
            {
                "cohort_id": d.id, "rule_sequence": i, "name": rule.get("name") or f"rule {i + 1}",
                "description": rule.get("description"),
            }
            for d in definitions
            for i, rule in enumerate(d.expression.get("InclusionRules") or ())
        ],
        columns=["cohort_id", "rule_sequence", "name", "description"],
    )  # fmt: skip


def _with_labels(db: OmopDatabase, rates: pd.DataFrame) -> pd.DataFrame:
    """Replace the numbers of ages and sexes by R's labels; those of everybody are missing."""
    sexes = sex_labels(db, rates["gender_id"].dropna().unique())
    return rates.drop(columns="gender_id").assign(
        gender=rates["gender_id"].map(
            {g: name.capitalize() for g, name in sexes.items()}, na_action="ignore"
        ),
        age_group=rates["age_group"].map(lambda a: f"{10 * a:.0f}-{10 * a + 9:.0f}",
                                         na_action="ignore"),
    )  # fmt: skip


def _references(rules: WindowRules, columns: pd.DataFrame) -> Tables:
    """Return the tables of windows, analyses and covariates."""
    analyses = [
        {
            "analysis_id": number,
            "analysis_name": WINDOWED[number].name,
            "domain_id": WINDOWED[number].domain,
            "is_binary": "Y" if WINDOWED[number].binary else "N",
            "missing_means_zero": None
            if WINDOWED[number].binary
            else "N" if WINDOWED[number].kind == "value" else "Y",
        }
        for number in rules.analyses
    ]  # fmt: skip
    if rules.cohorts:
        analyses.append(
            {"analysis_id": COHORTS, "analysis_name": "CohortTemporal", "domain_id": "cohort",
             "is_binary": "Y"}
        )  # fmt: skip
    times = [
        {"time_id": i, "start_day": first, "end_day": last}
        for i, (first, last) in enumerate(rules.windows, 1)
    ]
    return {
        "cd_temporal_analysis_ref": pd.DataFrame(analyses),
        "cd_temporal_covariate_ref": columns.rename(columns={"name": "covariate_name"}),
        "cd_temporal_time_ref": pd.DataFrame(times),
    }


def _ids(table: pd.DataFrame) -> list[int]:
    """Return the concepts of a table."""
    columns = [c for c in ("concept_id", "source_concept_id", "visit_concept_id") if c in table]
    return [int(i) for c in columns for i in table[c].dropna().unique()]
