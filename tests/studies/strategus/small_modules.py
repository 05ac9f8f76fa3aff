"""Small settings of modules of Strategus: analyses, incidence, characterization and prediction."""

from __future__ import annotations

import copy
from typing import Any

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
CASES = {
    "targetIds": [1, 1001], "limitToFirstInNDays": 99999, "minPriorObservation": 30,
    "outcomeIds": 3, "outcomeWashoutDays": 365, "riskWindowStart": 1,
    "startAnchor": "cohort_start", "riskWindowEnd": 0, "endAnchor": "cohort_end",
}  # fmt: skip
DURING = {
    "temporal": False, "temporalSequence": False, "ConditionOccurrenceDuring": True,
    "VisitConceptCountDuring": True, "includedCovariateConceptIds": [],
    "addDescendantsToInclude": False, "excludedCovariateConceptIds": [],
    "addDescendantsToExclude": False, "includedCovariateIds": [],
    "attr_class": "covariateSettings", "attr_fun": "Characterization::getDbDuringCovariateData",
}  # fmt: skip
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
            "riskFactorSettings": [{**CASES, "covariateSettings": [COVARIATES]}],
            "caseSeriesSettings": [
                {
                    **CASES,
                    "caseCovariateSettings": [DURING],
                    "casePreTargetDuration": 365,
                    "casePostOutcomeDuration": 365,
                    "attr_class": "caseSeriesSettings",
                }
            ],
        },
        "minCharacterizationMean": 0.01,
    },
}
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
PATHWAYS = {
    "module": "TreatmentPatternsModule",
    "settings": {
        "cohorts": [
            {"cohortId": 1, "cohortName": "celecoxib users", "type": "target"},
            {"cohortId": 1001, "cohortName": "celecoxib", "type": "event"},
            {"cohortId": 2, "cohortName": "diclofenac", "type": "event"},
            {"cohortId": 3, "cohortName": "bleeding", "type": "exit"},
        ],
        "minEraDuration": 0,
        "eraCollapseSize": 14,
        "combinationWindow": 7,
        "minPostCombinationDuration": 7,
        "filterTreatments": "First",
        "maxPathLength": 5,
        "ageWindow": 5,
        "minCellCount": 1,
        "censorType": "minCellCount",
        "overlapMethod": "truncate",
        "concatTargets": True,
        "startAnchor": "startDate",
        "windowStart": 0,
        "endAnchor": "endDate",
        "windowEnd": 3650,
    },
    "attr_class": ["ModuleSpecifications", "TreatmentPatternsModuleSpecifications"],
}
