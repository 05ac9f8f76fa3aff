"""Small specifications of Strategus for the demonstration and synthetic databases."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tests.studies.strategus.small_modules import (
    CM_ANALYSIS_5,
    SCCS_ANALYSIS_5,
    SCCS_ANALYSIS_6,
    cm_analysis_6,
)

from steropes.studies import synthetic_database

CELECOXIB, DICLOFENAC, BLEEDING, UNKNOWN = 1118084, 1124300, 192671, 99999999
# Columns of condition_occurrence that the synthetic database lacks.
MORE = ", NULL::BIGINT AS visit_occurrence_id, NULL::DATE AS condition_end_date"


def write_database(folder: Path, people: int) -> str:
    """Write a synthetic database with all columns that Circe's SQL reads, as Parquet files."""
    folder.mkdir()
    with synthetic_database(people).workspace() as work:
        tables = work.rows("SELECT table_name FROM duckdb_tables() WHERE NOT temporary")
        for (table,) in tables:
            more = MORE if table == "condition_occurrence" else ""
            work.run(f"COPY (SELECT *{more} FROM {table}) TO '{folder / table}.parquet'")
    return str(folder)


def circe(concept: int, table: str, first: bool = False) -> str:
    """Return the definition of a cohort of all records of a concept, as a JSON text."""
    item = {"concept": {"CONCEPT_ID": concept}, "includeDescendants": True}
    limit = {"Type": "First" if first else "All"}
    expression: dict[str, Any] = {
        "ConceptSets": [{"id": 0, "name": "concept", "expression": {"items": [item]}}],
        "PrimaryCriteria": {
            "CriteriaList": [{table: {"CodesetId": 0}}],
            "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
            "PrimaryCriteriaLimit": limit,
        },
        "QualifiedLimit": limit,
        "ExpressionLimit": limit,
        "InclusionRules": [],
        "CensoringCriteria": [],
    }
    return json.dumps(expression)


def cm_outcomes(*controls: int) -> list[dict[str, Any]]:
    """Return the outcome of interest and negative controls."""
    of_interest = {
        "outcomeId": 3, "outcomeOfInterest": True, "trueEffectSize": None, "attr_class": "outcome",
    }  # fmt: skip
    negative = [{"outcomeId": c, "outcomeOfInterest": False, "trueEffectSize": 1} for c in controls]
    return [of_interest, *negative]


def series_question(outcome: int, ratio: float | None = None, **more: Any) -> dict[str, Any]:
    """Return a question about celecoxib."""
    exposure = {"exposureId": 1, "exposureIdRef": "exposureId", "trueEffectSize": ratio}
    return {"outcomeId": outcome, "exposures": [exposure], **more}


SUBSET = json.dumps(
    {
        "name": "first, adults",
        "definitionId": 1,
        "subsetOperators": [
            {
                "name": "first",
                "subsetType": "LimitSubsetOperator",
                "priorTime": 30,
                "followUpTime": 1,
                "minimumCohortDuration": 0,
                "limitTo": "firstEver",
            },
            {
                "name": "adults",
                "subsetType": "DemographicSubsetOperator",
                "ageMin": 18,
                "ageMax": 200,
                "gender": [8507, 8532],
            },
        ],
        "packageVersion": "1.1.0",
        "identifierExpression": "targetId * 1000 + definitionId",
        "operatorNameConcatString": ", ",
        "subsetCohortNameTemplate": "@baseCohortName - @subsetDefinitionName",
    }
)


def shared_resources(controls: list[int]) -> list[dict[str, Any]]:
    """Return cohorts 1 to 3, subsets 1001 and 2001, and negative controls from 10001."""
    cohorts = [
        (1, "celecoxib", circe(CELECOXIB, "DrugEra")),
        (2, "diclofenac", circe(DICLOFENAC, "DrugEra")),
        (3, "bleeding", circe(BLEEDING, "ConditionOccurrence")),
    ]
    return [
        {
            "cohortDefinitions": [
                {"cohortId": i, "cohortName": n, "cohortDefinition": d} for i, n, d in cohorts
            ],
            "subsetDefs": [SUBSET],
            "cohortSubsets": [
                {"cohortId": 1001, "subsetId": 1, "targetCohortId": 1},
                {"cohortId": 2001, "subsetId": 1, "targetCohortId": 2},
            ],
            "attr_class": ["CohortDefinitionSharedResources", "SharedResources"],
        },
        {
            "negativeControlOutcomes": {
                "negativeControlOutcomeCohortSet": [
                    {
                        "cohortId": str(10001 + i),
                        "cohortName": f"control {c}",
                        "outcomeConceptId": f"  {c}",
                    }
                    for i, c in enumerate(controls)
                ],
                "occurrenceType": "first",
                "detectOnDescendants": True,
            },
            "attr_class": ["NegativeControlOutcomeSharedResources", "SharedResources"],
        },
    ]


def old_specification(controls: list[int]) -> dict[str, Any]:
    """Return a specification of Strategus 1.1 with CohortMethod 5 and SCCS 5."""
    ids = [10001 + i for i in range(len(controls))]
    return copy.deepcopy(
        {
            "sharedResources": shared_resources(controls),
            "moduleSpecifications": [
                {"module": "CohortGeneratorModule", "settings": {"generateStats": True}},
                {
                    "module": "CohortMethodModule",
                    "settings": {
                        "cmAnalysisList": [CM_ANALYSIS_5],
                        "targetComparatorOutcomesList": [
                            {
                                "targetId": 1001,
                                "comparatorId": 2001,
                                "outcomes": cm_outcomes(*ids),
                                "excludedCovariateConceptIds": [CELECOXIB, DICLOFENAC],
                                "attr_class": "targetComparatorOutcomes",
                            }
                        ],
                        "refitPsForEveryOutcome": False,
                        "refitPsForEveryStudyPopulation": False,
                        "cmDiagnosticThresholds": {
                            "mdrrThreshold": "Inf", "easeThreshold": 0.25, "sdmThreshold": 0.1,
                            "equipoiseThreshold": 0.2, "attr_class": "CmDiagnosticThresholds",
                        },
                    },
                    "attr_class": ["ModuleSpecifications", "CohortMethodModuleSpecifications"],
                },
                {
                    "module": "SelfControlledCaseSeriesModule",
                    "settings": {
                        "sccsAnalysisList": [SCCS_ANALYSIS_5],
                        "exposuresOutcomeList": [series_question(3)],
                        "analysesToExclude": {"exposureId": 2, "analysisId": 1},
                        "combineDataFetchAcrossOutcomes": False,
                        "sccsDiagnosticThresholds": {
                            "mdrrThreshold": 10, "easeThreshold": 0.25,
                            "timeTrendPThreshold": 0.05, "preExposurePThreshold": 0.05,
                        },
                    },
                },
            ],
            "attr_class": "AnalysisSpecifications",
        }
    )  # fmt: skip


def new_specification(controls: list[int]) -> dict[str, Any]:
    """Return a specification of Strategus 1.5 with CohortMethod 6 and SCCS 6."""
    ids = [10001 + i for i in range(len(controls))]
    return copy.deepcopy(
        {
            "sharedResources": shared_resources(controls),
            "moduleSpecifications": [
                {"module": "CohortGeneratorModule", "settings": {"generateStats": False}},
                {
                    "module": "CohortMethodModule",
                    "settings": {
                        "cmAnalysesSpecifications": {
                            "cmAnalysisList": [cm_analysis_6()],
                            "targetComparatorOutcomesList": [
                                {
                                    "targetId": 1,
                                    "comparatorId": 2,
                                    "outcomes": cm_outcomes(*ids),
                                    "nestingCohortId": None,
                                    "excludedCovariateConceptIds": [CELECOXIB, DICLOFENAC, UNKNOWN],
                                    "includedCovariateConceptIds": None,
                                }
                            ],
                            "analysesToExclude": None,
                            "refitPsForEveryOutcome": False,
                            "refitPsForEveryStudyPopulation": True,
                            "cmDiagnosticThresholds": {
                                "mdrrThreshold": 10, "easeThreshold": 0.25, "sdmThreshold": 0.1,
                                "sdmAlpha": None, "equipoiseThreshold": 0.2,
                                "generalizabilitySdmThreshold": 999,
                            },
                        }
                    },
                },
                {
                    "module": "SelfControlledCaseSeriesModule",
                    "settings": {
                        "sccsAnalysesSpecifications": {
                            "sccsAnalysisList": [SCCS_ANALYSIS_6],
                            "exposuresOutcomeList": [
                                series_question(3, nestingCohortId=None),
                                *(series_question(i, 1, nestingCohortId=None) for i in ids),
                            ],
                            "analysesToExclude": None,
                            "combineDataFetchAcrossOutcomes": False,
                            "sccsDiagnosticThresholds": {
                                "eventExposureDependenceNullBounds": [0.8, 1.25],
                                "eventObservationDependenceNullBounds": [0.5, 2],
                                "rareOutcomeMaxPrevalence": 0.1, "timeTrendMaxRatio": 1.1,
                                "easeThreshold": 0.25, "mdrrThreshold": 10,
                            },
                            "controlType": "outcome",
                        }
                    },
                },
            ],
            "attr_class": "AnalysisSpecifications",
        }
    )  # fmt: skip


COHORT_DIAGNOSTICS: dict[str, Any] = {
    "module": "CohortDiagnosticsModule",
    "settings": {
        "cohortIds": [1, 3, 1001],
        "runInclusionStatistics": True,
        "runTimeSeries": True,
        "runCohortRelationship": True,
        "runTemporalCohortCharacterization": True,
        "temporalCovariateSettings": {
            "temporal": True, "temporalSequence": False, "DemographicsGender": True,
            "DemographicsAge": True, "DemographicsAgeGroup": True,
            "DemographicsTimeInCohort": True, "ConditionOccurrence": True,
            "ConditionEraGroupOverlap": True, "DrugEraStart": True, "VisitCount": True,
            "temporalStartDays": [-365, 0, 1], "temporalEndDays": [-1, 0, 30],
            "includedCovariateConceptIds": [], "addDescendantsToInclude": False,
            "excludedCovariateConceptIds": [], "addDescendantsToExclude": False,
            "includedCovariateIds": [], "attr_class": "covariateSettings",
            "attr_fun": "getDbDefaultCovariateData",
        },
        "minCharacterizationMean": 0.01,
        "irWashoutPeriod": 0,
    },
}  # fmt: skip


def module(specification: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the settings of a module, without the version's wrapper."""
    found = next(m for m in specification["moduleSpecifications"] if m["module"] == name)
    settings = found["settings"]
    for wrapper in ("cmAnalysesSpecifications", "sccsAnalysesSpecifications"):
        settings = settings.get(wrapper, settings)
    return settings
