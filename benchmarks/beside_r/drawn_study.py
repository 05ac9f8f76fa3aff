"""Draw a cohort study that both packages run: a simulated database and settings by R's names."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from benchmarks.omop import HARMED, PAIRS, RISKS, SEASONAL, UNHARMED, make_database

from steropes.studies import OmopDatabase
from steropes.studies.cohorts import circe_cohorts

__all__ = [
    "cohort_definitions", "draw_settings", "shared_resources", "strategus_specification",
    "write_databases",
]  # fmt: skip

TARGET, COMPARATOR = PAIRS[0][:2]
OUTCOMES = (HARMED, UNHARMED)
NESTING = RISKS[0]  # people from their first record of this risk factor
FEMALE = 8532001  # FeatureExtraction's number of the covariate

# Columns and tables that R's packages read and the simulated database lacks.
MORE_COLUMNS = {
    "person": ("month_of_birth INT=1 + person_id % 12", "day_of_birth INT=1 + person_id % 28"),
    "drug_era": ("drug_era_id BIGINT=rowid", "drug_exposure_count INT=1", "gap_days INT=0"),
    "condition_occurrence": (
        "condition_occurrence_id BIGINT=rowid",
        "condition_end_date DATE=condition_start_date",
        "condition_type_concept_id INT=32817",
        "condition_source_concept_id INT=0",
        "condition_status_concept_id INT=0",
        "visit_occurrence_id BIGINT=NULL",
    ),
    "procedure_occurrence": (
        "procedure_occurrence_id BIGINT=rowid", "visit_occurrence_id BIGINT=NULL",
    ),
    "measurement": (
        "measurement_id BIGINT=rowid", "unit_concept_id INT=0", "visit_occurrence_id BIGINT=NULL",
    ),
    "observation": (
        "observation_id BIGINT=rowid", "value_as_number DOUBLE=NULL", "unit_concept_id INT=0",
        "visit_occurrence_id BIGINT=NULL",
    ),
}  # fmt: skip
MORE_TABLES = (
    "CREATE TABLE condition_era AS SELECT rowid AS condition_era_id, person_id, "
    "condition_concept_id, condition_start_date AS condition_era_start_date, "
    "condition_start_date AS condition_era_end_date, 1 AS condition_occurrence_count "
    "FROM condition_occurrence",
    "CREATE TABLE visit_occurrence (visit_occurrence_id BIGINT, person_id BIGINT, "
    "visit_concept_id INT, visit_start_date DATE, visit_end_date DATE)",
    "CREATE TABLE concept_relationship (concept_id_1 INT, concept_id_2 INT, "
    "relationship_id VARCHAR, valid_start_date DATE, valid_end_date DATE, invalid_reason VARCHAR)",
    "CREATE TABLE device_exposure (device_exposure_id BIGINT, person_id BIGINT, "
    "device_concept_id INT, device_exposure_start_date DATE, device_exposure_end_date DATE, "
    "visit_occurrence_id BIGINT)",
)


def write_databases(folder: Path, people: int, seed: int, edits: Sequence[str] = ()) -> None:
    """Write the same simulated rows as ``omop.duckdb`` and, for R, as ``omop.sqlite``.

    The table ``cohort`` has the cohorts of `cohort_definitions`. Dates of SQLite are seconds since
    1970, as R's DatabaseConnector stores them. Statements of SQL may edit the rows before both are
    written.
    """
    shutil.rmtree(folder, ignore_errors=True)  # an earlier run may have been interrupted
    folder.mkdir(parents=True)
    make_database(folder / "omop.duckdb", people, seed)
    with duckdb.connect(folder / "omop.duckdb") as made:
        for table, columns in MORE_COLUMNS.items():
            for column in columns:
                name, value = column.split("=")
                made.execute(f"ALTER TABLE {table} ADD COLUMN {name}")
                made.execute(f"UPDATE {table} SET {name.split()[0]} = {value}")
        for statement in MORE_TABLES:
            made.execute(statement.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
        for statement in edits:
            made.execute(statement)
    with (
        duckdb.connect(folder / "omop.duckdb", read_only=True) as source,
        sqlite3.connect(folder / "omop.sqlite") as other,
    ):
        names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"
        for (table,) in source.execute(names).fetchall():
            if table != "cohort":
                _copy(source, other, table)
    with (
        OmopDatabase(folder / "omop.duckdb") as db,
        sqlite3.connect(folder / "omop.sqlite") as other,
    ):
        entries = pd.DataFrame(circe_cohorts(db, cohort_definitions()).frame())
        for name in ("cohort_start_date", "cohort_end_date"):
            entries[name] = pd.to_datetime(entries[name]).astype("datetime64[s]").astype("int64")
        entries.to_sql("cohort", other, index=False)
        other.execute("ANALYZE")


def cohort_definitions() -> dict[int, str]:
    """Return definitions of two drugs, of outcomes and of a nesting cohort, by cohort id."""
    kinds = {TARGET: "DrugEra", COMPARATOR: "DrugEra"}
    kinds |= dict.fromkeys((*OUTCOMES, SEASONAL, NESTING), "ConditionOccurrence")
    ends = {"EndStrategy": {"DateOffset": {"DateField": "EndDate", "Offset": 0}}}
    return {
        concept: json.dumps(
            {
                "ConceptSets": [
                    {
                        "id": 0,
                        "name": "concept",
                        "expression": {
                            "items": [
                                {"concept": {"CONCEPT_ID": concept}, "includeDescendants": True}
                            ]
                        },
                    }
                ],
                "PrimaryCriteria": {
                    "CriteriaList": [{kind: {"CodesetId": 0}}],
                    "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
                    "PrimaryCriteriaLimit": {"Type": "All"},
                },
                "QualifiedLimit": {"Type": "All"},
                "ExpressionLimit": {"Type": "First" if concept == NESTING else "All"},
                "InclusionRules": [],
                "CensoringCriteria": [],
                "CollapseSettings": {"CollapseType": "ERA", "EraPad": 0},
                "CensorWindow": {},
                **({} if concept == NESTING else ends),
            }
        )
        for concept, kind in kinds.items()
    }


def _copy(source: duckdb.DuckDBPyConnection, other: sqlite3.Connection, table: str) -> None:
    """Copy a table to SQLite, with an index on each of its ids of people and concepts."""
    described = source.execute(f"DESCRIBE {table}").fetchall()
    selected, declared = [], []
    for name, kind, *_ in described:
        if kind == "DATE" or kind.startswith("TIMESTAMP"):
            selected.append(f"epoch({name})::DOUBLE")
            declared.append(f"{name} REAL")
        elif kind == "VARCHAR":
            selected.append(name)
            declared.append(f"{name} TEXT")
        elif kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
            selected.append(f"{name}::DOUBLE")
            declared.append(f"{name} REAL")
        else:
            selected.append(f"{name}::BIGINT")
            declared.append(f"{name} INTEGER")
    other.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
    rows = source.execute(f"SELECT {', '.join(selected)} FROM {table}").fetchall()
    other.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(described))})", rows)
    names = [name for name, *_ in described]
    for key in ("person_id", "subject_id", "concept_id", "descendant_concept_id"):
        if key in names:
            other.execute(f"CREATE INDEX {table}_{key} ON {table} ({key})")


def draw_settings(seed: int, analyses: int = 4) -> dict[str, Any]:
    """Draw analyses of cohort studies, with the names of R's arguments."""
    rng = np.random.default_rng([72, seed])
    drawn = [_draw_analysis(rng, k) for k in range(1, analyses + 1)]
    # R stops if no analysis has a propensity model (docs/differences_from_r.md).
    while not any("propensity" in analysis for analysis in drawn):
        drawn = [*drawn[:analyses], _draw_analysis(rng, analyses + 1)]
    return {
        "target": TARGET,
        "comparator": COMPARATOR,
        "outcomes": [*OUTCOMES] if analyses > 1 else [OUTCOMES[seed % 2]],
        "exclude": [TARGET, COMPARATOR],
        "refit": seed % 7 != 6,  # else propensity models are those of everybody in the cohorts
        **({"nesting": NESTING} if seed % 8 == 5 else {}),
        "analyses": drawn,
    }


def _draw_analysis(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Draw an analysis whose results do not depend on the order of R's rows."""

    def one(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    analysis: dict[str, Any] = {
        "id": number,
        "description": f"analysis {number}",
        "data": {
            "removeDuplicateSubjects": one(
                "keep all", "remove all", "keep first, truncate to second"
            ),
            "firstExposureOnly": one(True, False),
            "washoutPeriod": one(0, 30, 365),
            "restrictToCommonPeriod": one(True, False),
        },
        "population": {
            "removeSubjectsWithPriorOutcome": one(True, False),
            "priorOutcomeLookback": one(99999, 365),
            "minDaysAtRisk": one(1, 1, 30),
            "riskWindowStart": one(0, 1),
            "riskWindowEnd": one(30, 365, 0),
            "endAnchor": one("cohort start", "cohort end"),
            "censorAtNewRiskWindow": one(False, False, True),
        },
    }
    for part, name, value in (
        ("data", "minAge", one(35, 45)),
        ("data", "maxAge", one(65, 75)),
        ("data", "genderConceptIds", [one(8532, 8507)]),
        ("data", "studyStartDate", one("20110101", "20120701")),
        ("data", "studyEndDate", one("20161231", "20180630")),
        ("population", "maxDaysAtRisk", one(180, 700)),
    ):
        if rng.random() < 0.12:
            analysis[part][name] = value
    if analysis["data"]["removeDuplicateSubjects"].startswith("keep first"):
        analysis["data"]["firstExposureOnly"] = True  # later entries follow another convention
    population = analysis["population"]
    if population["endAnchor"] == "cohort start" and population["riskWindowEnd"] == 0:
        population["riskWindowEnd"] = 90
    kind = one("cox", "cox", "logistic", "poisson")
    outcome: dict[str, Any] = {"modelType": kind, "stratified": False}
    way = one("match", "strata", "weights", "weights", "trim", "crude")
    if way != "crude":
        estimator = one("att", "ate", "ato") if way == "weights" else "att"
        analysis["propensity"] = {"estimator": estimator, "variance": one(0.01, 0.05)}
    if way == "match":
        analysis["match"] = {
            "maxRatio": one(1, 2, 4, 10, 100),
            "caliper": one(0.2, 0.05),
            "caliperScale": one("standardized logit", "standardized", "propensity score"),
            "allowReverseMatch": one(False, False, True),
        }
        outcome["stratified"] = analysis["match"]["maxRatio"] > 1 or one(True, False)
    if way == "strata":
        analysis["stratify"] = {
            "numberOfStrata": one(5, 10),
            "baseSelection": one("all", "target", "comparator"),
        }
        outcome["stratified"] = True
    if way == "weights":
        outcome["inversePtWeighting"] = True
        if one(True, False):
            analysis["truncate"] = {"maxWeight": one(2, 10)}
    if way == "trim":
        analysis["trim"] = one(
            {"trimFraction": 0.1, "trimMethod": "symmetric"},
            {"trimFraction": 0.05, "trimMethod": "asymmetric"},
            {"equipoiseBounds": [0.3, 0.7]},
        )
    if way != "weights" and one(True, False, False):
        outcome |= {"useCovariates": True, "variance": 0.05}
        analysis.setdefault("propensity", {"estimator": "att", "variance": 0.05})
    if way != "weights" and one(True, False, False, False):
        outcome["interactionCovariateIds"] = one([FEMALE], [FEMALE, NESTING * 1000 + 102])
    analysis["outcome"] = outcome
    return analysis


def shared_resources() -> dict[str, Any]:
    """Return the part of a specification of Strategus with all cohorts."""
    return {
        "sharedResources": [
            {
                "cohortDefinitions": [
                    {"cohortId": i, "cohortName": f"cohort {i}", "cohortDefinition": text}
                    for i, text in cohort_definitions().items()
                ],
                "attr_class": ["CohortDefinitionSharedResources", "SharedResources"],
            }
        ],
        "attr_class": "StudySpecifications",
    }


def strategus_specification(folder: Path, module: str) -> dict[str, Any]:
    """Return R's settings of a module as a specification of Strategus, with all cohorts."""
    settings = json.loads((folder / "specifications.json").read_text(encoding="utf-8"))
    return {
        **shared_resources(),
        "moduleSpecifications": [
            {
                "module": module,
                "settings": settings,
                "attr_class": [f"{module}Specifications", "ModuleSpecifications"],
            }
        ],
    }
