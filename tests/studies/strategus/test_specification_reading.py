"""Specifications of every generation are read, and faults name their JSON path."""

import datetime as dt
import json
import re

import pytest
from tests.studies.strategus.small_modules import cm_analysis_6, era_window
from tests.studies.strategus.small_specification import (
    module,
    new_specification,
    old_specification,
    series_question,
)

from steropes.designs.settings.validated_types import LONGEST
from steropes.errors import DataError
from steropes.studies.cohorts.study_populations import PopulationRules
from steropes.studies.comparative import Outcome, Question
from steropes.studies.comparative.grid_questions_and_analyses import BalanceFilter
from steropes.studies.sccs.specification.case_series_grid_settings import (
    SeriesExclusion,
    SeriesQuestion,
)
from steropes.studies.specifications.grid_specification import Exclusion
from steropes.studies.strategus_plans.specification_plan import (
    specification_plan,
)

CM, SCCS = "CohortMethodModule", "SelfControlledCaseSeriesModule"
CONTROLS = [81151, 78272]


def plan_of(specification):
    return specification_plan(json.loads(json.dumps(specification)))


def test_old_and_new_specifications_run_completely():
    for specification in (old_specification(CONTROLS), new_specification(CONTROLS)):
        plan = plan_of(specification)
        assert plan.complete, plan.lines()
        assert plan.comparative.spec(database_id="x") is not None
        assert plan.series.spec(database_id="x") is not None


def test_cohort_method_5_has_rules_of_the_population_and_scores_of_all_entries():
    analysis = plan_of(old_specification(CONTROLS)).comparative.analyses[0]
    assert analysis.population == PopulationRules(both="keep first")
    assert analysis.propensity.people == "all"
    # R requires the last day to be one day after the first, and cuts after 99999 days.
    assert analysis.at_risk.min_days == 2
    assert analysis.at_risk.max_days is None
    assert analysis.balance_shown == BalanceFilter((3,), (8532001, 4006969210, 438409210))


def test_cohort_method_6_has_neither():
    plan = plan_of(new_specification(CONTROLS))
    analysis = plan.comparative.analyses[0]
    assert analysis.population is None
    assert analysis.propensity.people == "at risk"
    assert analysis.at_risk.min_days == 1
    assert analysis.features.unknown == "note"
    assert plan.comparative.questions == (
        Question(
            1,
            2,
            (Outcome(3), Outcome(10001, 1.0), Outcome(10002, 1.0)),
            exclude=(1118084, 1124300, 99999999),
        ),
    )


def test_limits_that_r_writes_as_infinite_are_none():
    thresholds = plan_of(old_specification(CONTROLS)).comparative.thresholds
    assert thresholds.detectable is None
    assert thresholds.generalizability is None
    assert thresholds.systematic_error == 0.25


def test_days_beyond_any_life_and_upper_case_are_read():
    given = new_specification(CONTROLS)
    analysis = module(given, CM)["cmAnalysisList"][0]
    analysis["createStudyPopulationArgs"] |= {
        "priorOutcomeLookback": 9_999_999, "riskWindowEnd": 9_999_999, "endAnchor": "Cohort Start",
    }  # fmt: skip
    cut = module(given, SCCS)["sccsAnalysisList"][0]["createIntervalDataArgs"]
    cut["eraCovariateSettings"].append(era_window(label="Late", start=31, end=9_999_999))
    shared = next(r for r in given["sharedResources"] if "negativeControlOutcomes" in r)
    shared["negativeControlOutcomes"]["occurrenceType"] = "FIRST"
    plan = plan_of(given)
    assert plan.complete, plan.lines()
    at_risk = plan.comparative.analyses[0].at_risk
    assert (at_risk.look_back, at_risk.end, at_risk.end_anchor) == (
        LONGEST,
        LONGEST,
        "cohort start",
    )
    assert plan.series.analyses[0].windows[-1].end == LONGEST
    assert plan.cohorts.control_rules.occurrence_type == "first"


def test_repetitions_of_the_cross_validation_of_outcome_models():
    given = new_specification(CONTROLS)
    fit = module(given, CM)["cmAnalysisList"][0]["fitOutcomeModelArgs"]
    fit |= {
        "useCovariates": True,
        "prior": {"priorType": "laplace", "useCrossValidation": True},
        "control": {"cvRepetitions": 10, "fold": 5},
    }
    model = plan_of(given).comparative.analyses[0].outcome_model
    assert (model.folds, model.repeats) == (5, 10)


def test_v6_nesting_and_windows_of_outcomes():
    given = new_specification(CONTROLS)
    settings = module(given, CM)
    settings["cmAnalysisList"][0]["getDbCohortMethodDataArgs"]["nestingCohortId"] = 3
    question = settings["targetComparatorOutcomesList"][0]
    question["nestingCohortId"] = 1001
    question["outcomes"][0] |= {
        "priorOutcomeLookback": 365, "riskWindowEnd": 30, "endAnchor": "cohort start",
    }  # fmt: skip
    plan = plan_of(given).comparative
    assert plan.analyses[0].nesting == 3
    assert plan.questions[0].nesting == 1001
    own = plan.questions[0].outcomes[0]
    assert (own.look_back, own.end, own.end_anchor) == (365, 30, "cohort start")
    assert any("look-back" in d for v in plan.verdicts for d in v.differences)


def test_excluded_analyses_are_read_by_columns():
    given = old_specification(CONTROLS)
    module(given, CM)["analysesToExclude"] = {
        "targetId": [1001, 1001], "analysisId": [1, 2], "attr_class": "data.frame",
    }  # fmt: skip
    plan = plan_of(given)
    assert plan.comparative.exclude == (
        Exclusion(target=1001, analysis=1),
        Exclusion(target=1001, analysis=2),
    )
    assert plan.series.exclude == (SeriesExclusion(exposure=2, analysis=1),)


def test_case_series_5_uses_its_flags():
    given = old_specification(CONTROLS)
    analysis = plan_of(given).series.analyses[0]
    assert analysis.settings["nesting_cohort"] == 1
    assert analysis.settings["study_periods"] == ((dt.date(2000, 1, 1), None),)
    assert analysis.settings["end_of_observation_days"] == 0
    data = module(given, SCCS)["sccsAnalysisList"][0]["getDbSccsDataArgs"]
    data["useNestingCohort"] = False
    assert "nesting_cohort" not in plan_of(given).series.analyses[0].settings


def test_windows_of_case_series_are_those_of_the_specification():
    given = new_specification(CONTROLS)
    cut = module(given, SCCS)["sccsAnalysisList"][0]["createIntervalDataArgs"]
    cut["eraCovariateSettings"].append(era_window(label="Late", start=31, end=60))
    analysis = plan_of(given).series.analyses[0]
    assert [w.label for w in analysis.windows] == ["Pre-exposure", "Main", "Late"]
    series = plan_of(given).series
    settings = analysis.settings_for(SeriesQuestion(1, 3), series.spec(database_id="x"))
    assert [w.eras for w in settings.windows] == [(1,)] * 3
    assert settings.cases.outcomes_from == settings.cases.exposures_from == "cohort"
    assert settings.cases.age_rule == "365.25 days"


def test_windows_of_exposures_that_are_not_loaded_have_no_eras():
    given = new_specification(CONTROLS)
    cut = module(given, SCCS)["sccsAnalysisList"][0]["createIntervalDataArgs"]
    cut["eraCovariateSettings"].append(era_window(label="Other", includeEraIds=2))
    plan = plan_of(given).series
    window = plan.analyses[0].windows[2]
    assert window.eras == window.exclude == (2,)
    assert any("'Other' has no eras" in d for d in plan.verdicts[0].differences)
    cut["eraCovariateSettings"][2]["includeEraIds"] = "exposureId2"
    assert "neither an id nor exposureId" in plan_of(given).series.verdicts[0].reason


def test_custom_covariates_and_nesting_of_a_question_are_not_dropped():
    given = new_specification(CONTROLS)
    settings = module(given, SCCS)
    data = settings["sccsAnalysisList"][0]["getDbSccsDataArgs"]
    data["customCovariateIds"] = [2, 1001]
    cut = settings["sccsAnalysisList"][0]["createIntervalDataArgs"]
    cut["eraCovariateSettings"].append(
        era_window(label="Others", includeEraIds=[2, 1001], stratifyById=True)
    )
    settings["exposuresOutcomeList"] = [series_question(3, nestingCohortId=2001)]
    plan = plan_of(given).series
    assert plan.analyses[0].windows[2].eras == (2, 1001)
    assert plan.questions == (SeriesQuestion(1, 3, None, 2001),)


@pytest.mark.parametrize(
    ("change", "part", "said"),
    [
        (
            lambda s: module(s, CM)["cmAnalysisList"][0]["createPsArgs"].update(stopNow=True),
            "analysis 1",
            r"cmAnalysisList\[0\].createPsArgs.stopNow is not known",
        ),
        (
            lambda s: module(s, CM)["cmAnalysisList"][0]["getDbCohortMethodDataArgs"][
                "covariateSettings"
            ].update(ConditionEraPredicted=True),
            "analysis 1",
            r"covariateSettings.ConditionEraPredicted is not known",
        ),
        (
            lambda s: module(s, CM)["cmAnalysisList"][0]["createPsArgs"]["prior"].update(
                priorType="barupdate"
            ),
            "analysis 1",
            r"createPsArgs.prior.priorType: the prior 'barupdate' has no counterpart",
        ),
        (
            lambda s: module(s, CM)["cmAnalysisList"][0]["getDbCohortMethodDataArgs"].update(
                covariateSettings={"attr_fun": {"serialized_code": ["58", "0a"]}}
            ),
            "analysis 1",
            "function of R",
        ),
        (
            lambda s: module(s, CM)["targetComparatorOutcomesList"][0].update(targetId=77),
            "question 1",
            "cohort 77 is not defined",
        ),
        (
            lambda s: module(s, CM).update(refitPsForEveryOutcome=True),
            "analysis 1",
            "propensity model for each outcome",
        ),
        (
            lambda s: module(s, SCCS)["sccsAnalysisList"][0]["createIntervalDataArgs"][
                "eraCovariateSettings"
            ][0].update(weekly=True),
            "analysis 1 (series)",
            r"sccsAnalysisList\[0\].createIntervalDataArgs.eraCovariateSettings\[0\].weekly",
        ),
        (
            lambda s: module(s, SCCS)["exposuresOutcomeList"][0]["exposures"].append(
                {"exposureId": 2, "exposureIdRef": "other"}
            ),
            "1 question",
            "one exposure",
        ),
        (
            lambda s: s["moduleSpecifications"].append({"module": "NewModule", "settings": {}}),
            "module",
            "no module of this name",
        ),
        (
            lambda s: s["moduleSpecifications"][1].update(threads=4),
            "settings",
            r"moduleSpecifications\[1\].threads is not known",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_path(change, part, said):
    given = new_specification(CONTROLS)
    change(given)
    plan = plan_of(given)
    refused = [v for v in plan.verdicts if v.reason]
    assert len(refused) == 1
    assert refused[0].part.startswith(part)
    assert re.search(said, refused[0].reason), refused[0].reason


def test_duplicates_are_named():
    given = new_specification(CONTROLS)
    analyses = module(given, CM)["cmAnalysisList"]
    analyses += [cm_analysis_6(2), cm_analysis_6(1)]
    verdicts = [v for v in plan_of(given).comparative.verdicts if v.part.startswith("analysis")]
    assert any("same settings as analysis 1" in d for d in verdicts[1].differences)
    assert "analysis 1 is defined before" in verdicts[2].reason


def test_an_id_of_two_cohorts_is_refused_for_both():
    given = new_specification(CONTROLS)
    rows = given["sharedResources"][1]["negativeControlOutcomes"]
    rows["negativeControlOutcomeCohortSet"][0]["cohortId"] = "1001"
    plan = plan_of(given)
    assert "subset 'first, adults' of cohort 1 and the negative control" in plan.cohorts.fault(1001)
    assert [v.part for v in plan.verdicts if v.reason and "cohort" in v.part] == ["cohort 1001"]


def test_subsets_of_unknown_operators_do_not_run():
    given = new_specification(CONTROLS)
    subset = json.loads(given["sharedResources"][0]["subsetDefs"][0])
    subset["subsetOperators"][0]["subsetType"] = "WeatherSubsetOperator"
    given["sharedResources"][0]["subsetDefs"] = json.dumps(subset)
    assert "subsetOperators[0]" in plan_of(given).cohorts.fault(1001)
    subset["subsetOperators"][0] |= {"subsetType": "LimitSubsetOperator", "season": "summer"}
    given["sharedResources"][0]["subsetDefs"] = json.dumps(subset)
    assert "season is not known" in plan_of(given).cohorts.fault(1001)


def test_atlas_exports_drop_arguments_whose_flag_is_false():
    analysis = cm_analysis_6()
    people = analysis.pop("createStudyPopulationArgs")
    people = {k: v for k, v in people.items() if "Anchor" not in k}
    analysis["createStudyPopArgs"] = people | {
        "addExposureDaysToStart": False, "addExposureDaysToEnd": True, "firstExposureOnly": False,
        "washoutPeriod": 0, "restrictToCommonPeriod": False, "removeDuplicateSubjects": "keep all",
    }  # fmt: skip
    analysis |= {
        "createPs": True, "matchOnPs": False, "stratifyByPs": True, "trimByPs": False,
        "fitOutcomeModel": True, "targetType": None, "comparatorType": None,
        "stratifyByPsArgs": {
            "numberOfStrata": 5, "baseSelection": "all", "stratificationColumns": [],
        },
    }  # fmt: skip
    definitions = [
        {
            "id": int(d["cohortId"]),
            "name": d["cohortName"],
            "expression": json.loads(d["cohortDefinition"]),
        }
        for d in new_specification([])["sharedResources"][0]["cohortDefinitions"]
    ]
    export = {
        "skeletonType": "ComparativeEffectStudy",
        "cohortDefinitions": definitions,
        "doPositiveControlSynthesis": False,
        "negativeControls": [
            {"targetId": 1, "comparatorId": 2, "outcomeId": 81151, "outcomeName": "sprain",
             "type": "outcome"}
        ],
        "negativeControlOutcomeCohortDefinition": {
            "occurrenceType": "all", "detectOnDescendants": True, "domains": ["condition"],
        },
        "negativeControlExposureCohortDefinition": {},
        "estimationAnalysisSettings": {
            "estimationType": "ComparativeCohortAnalysis",
            "analysisSpecification": {
                "cohortMethodAnalysisList": [analysis],
                "targetComparatorOutcomes": [
                    {"targetId": 1, "comparatorId": 2, "outcomeIds": 3,
                     "excludedCovariateConceptIds": [1118084], "includedCovariateConceptIds": []}
                ],
            },
        },
    }  # fmt: skip
    plan = plan_of(export)
    assert plan.complete, plan.lines()
    made = plan.comparative.analyses[0]
    assert made.match is None
    assert made.stratify.strata == 5
    assert made.at_risk.end_anchor == "cohort end"
    assert plan.comparative.questions[0].outcomes == (Outcome(3), Outcome(81151, 1.0))
    assert plan.cohorts.control_rules.domains == ("condition",)
    export["colour"] = "red"
    with pytest.raises(DataError, match="colour is not known"):
        plan_of(export)


# -- attacks ---------------------------------------------------------------------------------------
