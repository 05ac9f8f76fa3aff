"""Small specifications of Strategus for the demonstration and synthetic databases."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

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


COVARIATES = {
    "temporal": False,
    "temporalSequence": False,
    "DemographicsGender": True,
    "DemographicsAgeGroup": True,
    "ConditionGroupEraLongTerm": True,
    "includedCovariateConceptIds": [],
    "includedCovariateIds": [],
    "addDescendantsToInclude": False,
    "excludedCovariateConceptIds": [],
    "addDescendantsToExclude": True,
    "shortTermStartDays": -30,
    "mediumTermStartDays": -180,
    "endDays": 0,
    "longTermStartDays": -365,
    "attr_class": "covariateSettings",
    "attr_fun": "getDbDefaultCovariateData",
}
PRIOR = {
    "priorType": "laplace", "variance": 0.1, "exclude": 0, "graph": None, "neighborhood": None,
    "useCrossValidation": False, "forceIntercept": False, "attr_class": "cyclopsPrior",
}  # fmt: skip
CONTROL = {
    "maxIterations": 1000, "tolerance": 2e-07, "fold": 10, "cvRepetitions": 1, "seed": 1,
    "threads": 1, "minCVData": 100, "useKKTSwindle": False, "noiseLevel": "quiet",
    "startingVariance": 0.01, "attr_class": "cyclopsControl",
}  # fmt: skip
TABLE_ONE = {
    "label": ["Age group", "Gender: female", "Medical history"],
    "analysisId": [3, 1, 210],
    "covariateIds": [None, "8532001", "4006969210,438409210"],
    "attr_class": ["spec_tbl_df", "tbl_df", "tbl", "data.frame"],
    "attr_row.names": [1, 2, 3],
}
AT_RISK = {
    "removeSubjectsWithPriorOutcome": True,
    "priorOutcomeLookback": 99999,
    "minDaysAtRisk": 1,
    "maxDaysAtRisk": 99999,
    "riskWindowStart": 1,
    "startAnchor": "cohort start",
    "riskWindowEnd": 365,
    "endAnchor": "cohort start",
    "censorAtNewRiskWindow": False,
}
OUTCOME_MODEL = {
    "modelType": "cox", "stratified": False, "useCovariates": False, "inversePtWeighting": False,
    "profileBounds": [-2.3026, 2.3026], "prior": PRIOR, "control": CONTROL, "attr_class": "args",
}  # fmt: skip
CM_ANALYSIS_5 = {
    "analysisId": 1,
    "description": "matched",
    "getDbCohortMethodDataArgs": {
        "studyStartDate": "", "studyEndDate": "", "firstExposureOnly": False,
        "removeDuplicateSubjects": "keep all", "restrictToCommonPeriod": True, "washoutPeriod": 0,
        "maxCohortSize": 0, "covariateSettings": COVARIATES, "attr_class": "args",
    },
    "createStudyPopArgs": {
        "firstExposureOnly": False, "restrictToCommonPeriod": False, "washoutPeriod": 0,
        "removeDuplicateSubjects": "keep first", **AT_RISK, "attr_class": "args",
    },
    "createPsArgs": {
        "maxCohortSizeForFitting": 250000, "errorOnHighCorrelation": True, "stopOnError": False,
        "prior": PRIOR, "control": CONTROL, "estimator": "att", "attr_class": "args",
    },
    "matchOnPsArgs": {
        "caliper": 0.2, "caliperScale": "standardized logit", "maxRatio": 1,
        "allowReverseMatch": False, "attr_class": "args",
    },
    "computeCovariateBalanceArgs": {
        "maxCohortSize": 250000, "covariateFilter": TABLE_ONE, "attr_class": "args",
    },
    "fitOutcomeModelArgs": OUTCOME_MODEL,
    "attr_class": "cmAnalysis",
}  # fmt: skip


def cm_analysis_6(number: int = 1) -> dict[str, Any]:
    """Return an analysis of CohortMethod 6."""
    made = copy.deepcopy(CM_ANALYSIS_5)
    made["analysisId"] = number
    made["createStudyPopulationArgs"] = dict(AT_RISK)
    for name in ("createStudyPopArgs", "attr_class"):
        del made[name]
    made["getDbCohortMethodDataArgs"] |= {
        "nestingCohortId": None, "minAge": None, "maxAge": None, "genderConceptIds": None,
        "removeDuplicateSubjects": "keep first, truncate to second",
    }  # fmt: skip
    made |= {"stratifyByPsArgs": None, "trimByPsArgs": None, "truncateIptwArgs": None}
    return made


def cm_outcomes(*controls: int) -> list[dict[str, Any]]:
    """Return the outcome of interest and negative controls."""
    of_interest = {
        "outcomeId": 3, "outcomeOfInterest": True, "trueEffectSize": None, "attr_class": "outcome",
    }  # fmt: skip
    negative = [{"outcomeId": c, "outcomeOfInterest": False, "trueEffectSize": 1} for c in controls]
    return [of_interest, *negative]


def era_window(**settings: Any) -> dict[str, Any]:
    """Return the covariate of the exposure."""
    return {
        "includeEraIds": "exposureId", "label": "Main", "stratifyById": False, "start": 0,
        "startAnchor": "era start", "end": 30, "endAnchor": "era end",
        "firstOccurrenceOnly": False, "allowRegularization": False, "profileLikelihood": True,
        "exposureOfInterest": True, **settings,
    }  # fmt: skip


PRE_EXPOSURE = {
    "label": "Pre-exposure", "start": -30, "end": -1, "endAnchor": "era start",
    "profileLikelihood": False, "exposureOfInterest": False,
}  # fmt: skip
SCCS_ANALYSIS_6 = {
    "analysisId": 1,
    "description": "series",
    "getDbSccsDataArgs": {
        "nestingCohortId": None, "deleteCovariatesSmallCount": 0, "studyStartDates": None,
        "studyEndDates": None, "maxCasesPerOutcome": 0, "exposureIds": "exposureId",
        "customCovariateIds": None,
    },
    "createStudyPopulationArgs": {
        "firstOutcomeOnly": True, "naivePeriod": 30, "minAge": None, "maxAge": None,
        "genderConceptIds": None, "restrictTimeToEraId": None,
    },
    "createIntervalDataArgs": {
        "eraCovariateSettings": [
            era_window(**PRE_EXPOSURE, preExposure=True, excludeEraIds=None),
            era_window(preExposure=False, excludeEraIds=None),
        ],
        "ageCovariateSettings": None,
        "seasonalityCovariateSettings": None,
        "calendarTimeCovariateSettings": None,
        "minCasesForTimeCovariates": 10000,
        "endOfObservationEraLength": 30,
        "eventDependentObservation": False,
    },
    "fitSccsModelArgs": {
        "prior": PRIOR, "control": CONTROL, "profileGrid": None,
        "profileBounds": [-2.3026, 2.3026],
    },
}  # fmt: skip
SCCS_ANALYSIS_5 = {
    **SCCS_ANALYSIS_6,
    "getDbSccsDataArgs": {
        "useCustomCovariates": False, "useNestingCohort": True, "nestingCohortId": 1,
        "deleteCovariatesSmallCount": 0, "studyStartDate": "20000101", "studyEndDate": "",
        "maxCasesPerOutcome": 100000, "exposureIds": "exposureId", "customCovariateIds": "",
        "attr_class": "args",
    },
    "createIntervalDataArgs": {
        "eraCovariateSettings": [
            era_window(isControlInterval=False, attr_class="EraCovariateSettings")
        ],
        "minCasesForTimeCovariates": 10000,
        "eventDependentObservation": False,
        "attr_class": "args",
    },
    "attr_class": "SccsAnalysis",
}  # fmt: skip


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


INCIDENCE = {
    "module": "CohortIncidenceModule",
    "settings": {
        "irDesign": {
            "targetDefs": [{"id": 1, "name": "celecoxib"}, {"id": 1001, "name": "first"}],
            "outcomeDefs": [{"id": 1, "name": "bleeding", "cohortId": 3, "cleanWindow": 9999}],
            "timeAtRiskDefs": [
                {
                    "id": 1,
                    "start": {"dateField": "start", "offset": 1},
                    "end": {"dateField": "start", "offset": 365},
                }
            ],
            "analysisList": [{"targets": [1, 1001], "outcomes": 1, "tars": 1}],
            "strataSettings": {"byAge": True, "byGender": True, "byYear": False, "ageBreaks": 65},
        }
    },
}


CHARACTERIZATION = {
    "module": "CharacterizationModule",
    "settings": {
        "analysis": {
            "timeToEventSettings": [{"targetIds": [1, 1001], "outcomeIds": 3}],
            "dechallengeRechallengeSettings": [
                {
                    "targetCohortDefinitionIds": [1, 1001],
                    "outcomeCohortDefinitionIds": 3,
                    "dechallengeStopInterval": 30,
                    "dechallengeEvaluationWindow": 30,
                    "attr_class": "dechallengeRechallengeSettings",
                }
            ],
            "targetBaselineSettings": [
                {
                    "targetIds": [1, 1001],
                    "limitToFirstInNDays": 99999,
                    "minPriorObservation": 30,
                    "covariateSettings": COVARIATES,
                }
            ],
        },
        "minCharacterizationMean": 0.01,
    },
}


COHORT_DIAGNOSTICS: dict[str, Any] = {
    "module": "CohortDiagnosticsModule",
    "settings": {
        "cohortIds": [1, 3, 1001],
        "runInclusionStatistics": True,
        "runTimeSeries": False,
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


PREDICTION_DESIGN: dict[str, Any] = {
    "targetId": 1,
    "outcomeId": 3,
    "restrictPlpDataSettings": {
        "studyStartDate": "", "studyEndDate": "", "firstExposureOnly": False, "washoutPeriod": 0,
        "sampleSize": None, "attr_class": "restrictPlpDataSettings",
    },
    "covariateSettings": COVARIATES,
    "populationSettings": {
        "binary": True, "includeAllOutcomes": True, "firstExposureOnly": True, "washoutPeriod": 30,
        "removeSubjectsWithPriorOutcome": True, "priorOutcomeLookback": 99999,
        "requireTimeAtRisk": False, "minTimeAtRisk": 364, "riskWindowStart": 1,
        "startAnchor": "cohort start", "riskWindowEnd": 365, "endAnchor": "cohort start",
        "restrictTarToCohortEnd": False, "attr_class": "populationSettings",
    },
    "sampleSettings": [
        {"numberOutcomestoNonOutcomes": 1, "sampleSeed": 1, "attr_fun": "sameData"},
    ],
    "featureEngineeringSettings": [{"attr_fun": "sameData"}],
    "preprocessSettings": {"minFraction": 0.001, "normalize": True, "removeRedundancy": True},
    "modelSettings": {
        "fitFunction": "fitCyclopsModel",
        "param": {
            "priorParams": {
                "priorType": "laplace", "forceIntercept": False, "variance": 0.01, "exclude": 0,
            },
            "includeCovariateIds": None, "upperLimit": 20, "lowerLimit": 0.01, "priorCoefs": None,
        },
        "settings": {
            "modelName": "lassoLogisticRegression", "modelType": "binary",
            "cyclopsModelType": "logistic", "priorfunction": "Cyclops::createPrior",
            "selectorType": "byPid", "crossValidationInPrior": True, "addIntercept": True,
            "useControl": True, "seed": 87552694, "threads": -1, "tolerance": 2e-06,
            "cvRepetitions": 1, "maxIterations": 3000, "saveType": "RtoJson",
            "predict": "predictCyclops",
        },
        "attr_class": "modelSettings",
    },
    "splitSettings": {
        "test": 0.25, "train": 0.75, "seed": 1526, "nfold": 3, "attr_fun": "randomSplitter",
    },
    "hyperparameterSettings": {
        "search": "grid",
        "tuningMetric": {"fun": {"serialized_code": ["58"]}, "maximize": True, "name": "AUC"},
        "sampleSize": None, "randomSeed": None, "generator": None,
    },
    "executeSettings": {
        "runSplitData": True, "runSampleData": False, "runFeatureEngineering": False,
        "runPreprocessData": True, "runModelDevelopment": True, "runCovariateSummary": True,
    },
    "attr_class": "modelDesign",
}  # fmt: skip
# The synthetic database has few outcomes in a year.
_LONG = PREDICTION_DESIGN["populationSettings"] | {"riskWindowEnd": 3650}
_TWO_FOLDS = PREDICTION_DESIGN["splitSettings"] | {"nfold": 2}
PREDICTION = {
    "module": "PatientLevelPredictionModule",
    "settings": {
        "modelDesignList": [
            PREDICTION_DESIGN | {"populationSettings": _LONG, "splitSettings": _TWO_FOLDS}
        ],
        "skipDiagnostics": False,
    },
}


def module(specification: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the settings of a module, without the version's wrapper."""
    found = next(m for m in specification["moduleSpecifications"] if m["module"] == name)
    settings = found["settings"]
    for wrapper in ("cmAnalysesSpecifications", "sccsAnalysesSpecifications"):
        settings = settings.get(wrapper, settings)
    return settings
