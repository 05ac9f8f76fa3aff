"""Designs of prediction models: those that are refused, and populations against counts by hand."""

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.prediction_designs import COHORTS, design, plan

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.prediction.prediction_population import TEST, UNUSED, divided, population
from steropes.studies.strategus_plans.prediction_plan import prediction_plan
from steropes.studies.strategus_plans.prediction_settings import SplitSettings


def reason(*designs):
    return plan(*designs).verdicts[0].reason


def test_a_design_runs_with_differences_that_it_names():
    found = plan(design())
    line = found.verdicts[0].line()
    assert line.startswith("design 1 (lasso logistic regression, 3 in 1): runs with a difference")
    assert "R's random numbers, and thus its division, cannot be reproduced" in line
    assert "plp_diagnostics" in line
    (made,) = found.designs
    assert (made.target, made.outcome, made.variance, made.seed) == (1, 3, None, 87552694)


def test_version_5_writes_the_settings_of_a_fit_as_an_attribute():
    values = design()
    model = values["modelSettings"]
    kept = model.pop("settings")
    names = ("modelName", "cyclopsModelType", "saveType", "predict")
    kept = {k: v for k, v in kept.items() if k not in names}
    own = {**kept, "name": "Lasso Logistic Regression", "modelType": "logistic"}
    model["param"] |= {"attr_settings": own, "attr_modelType": "binary", "attr_saveType": "RtoJson"}
    values["executeSettings"]["runfeatureEngineering"] = False
    del values["executeSettings"]["runFeatureEngineering"], values["hyperparameterSettings"]
    (old,), (new,) = plan(values).designs, plan(design()).designs
    assert old.seed == new.seed
    assert old.variance is new.variance is None
    # Before version 1.0 of Strategus, the settings were the list.
    assert prediction_plan([values], ("settings",), COHORTS).designs == (old,)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"speed": 1}, r"modelDesignList[0].speed is not known"),
        ({"populationSettings": {"minAge": 18}}, "populationSettings.minAge is not known"),
        ({"populationSettings": {"binary": False}}, "populationSettings.binary must be true"),
        ({"populationSettings": {"riskWindowEnd": 0}}, "riskWindowEnd is before riskWindowStart"),
        ({"splitSettings": {"attr_fun": "timeSplitter"}}, "timeSplitter is not available"),
        ({"splitSettings": {"test": 0.5}}, "shares with a sum of at most 1"),
        ({"splitSettings": {"nfold": 1}}, "splitSettings.nfold must be 2 or more"),
        ({"restrictPlpDataSettings": {"sampleSize": 0}}, "sampleSize must be positive"),
        ({"executeSettings": {"runSplitData": False}}, "runSplitData must be true"),
        (
            {
                "executeSettings": {"runSampleData": True},
                "sampleSettings": [{"attr_fun": "underSampleData"}],
            },
            "sampleSettings: underSampleData is not available",
        ),
        ({"modelSettings": {"settings": {"modelName": "xgboost"}}}, "the learner xgboost is R's"),
        ({"outcomeId": 9}, "cohort 9 is not defined"),
        ({"covariateSettings": {"Hfrs": True}}, "Hfrs: this covariate analysis is not available"),
    ],
)
def test_other_designs_are_refused_by_name(changes, why):
    assert why in reason(design(**changes))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("priorType", "normal", "the prior 'normal' has no counterpart"),
        ("forceIntercept", True, "a prior of the intercept is not available"),
        ("exclude", ["age"], "exclude must have ids of covariates"),
        ("speed", 1, "priorParams.speed is not known"),
    ],
)
def test_other_priors_are_refused(name, value, why):
    values = design()
    values["modelSettings"]["param"]["priorParams"][name] = value
    assert why in reason(values)


def test_covariates_without_a_prior_and_several_settings_are_read():
    values = design()
    values["modelSettings"]["param"]["priorParams"]["exclude"] = [0, 1002]
    given = values["covariateSettings"]
    values["covariateSettings"] = [
        {**given, "DemographicsAge": True}, {**given, "DemographicsGender": False}
    ]  # fmt: skip
    [made] = plan(values).designs
    assert made.exempt == (1002,)
    assert {1, 2} <= {*made.rules.analyses}
    values["covariateSettings"][1]["longTermStartDays"] = -100
    assert "covariateSettings[1]: several covariate settings" in reason(values)


def test_models_of_cyclops_other_than_logistic_are_refused():
    values = design()
    values["modelSettings"]["settings"]["cyclopsModelType"] = "cox"
    assert "no logistic regression with an intercept" in reason(values)
    values = design()
    values["modelSettings"]["param"]["priorCoefs"] = {"betas": 1}
    assert "coefficients of another model" in reason(values)


def test_settings_without_designs_or_with_further_fields_are_refused():
    with pytest.raises(DataError, match=r"settings\.modelDesignList must be a list of designs"):
        prediction_plan({"modelDesignList": []}, ("settings",), COHORTS)
    with pytest.raises(DataError, match=r"settings\.speed is not known"):
        prediction_plan({"modelDesignList": [design()], "speed": 1}, ("settings",), COHORTS)


def test_a_plan_leaves_out_designs_of_cohorts_that_could_not_be_made():
    found = plan(design(), design(targetId=2))
    assert [d.number for d in found.without({1: "gone"}).designs] == [2]


def days(*numbers):
    return [np.datetime64(START) + n for n in numbers]


def selected(tmp_path, entries, observed=(0, 1000), **changes):
    """Return the population of entries (cohort, person, first day, last day) of a design."""
    omop = TinyOmop(tmp_path)
    ids = {p: omop.person(observed=observed) for p in sorted({e[1] for e in entries})}
    table = CohortTable(
        [e[0] for e in entries],
        [ids[e[1]] for e in entries],
        days(*(e[2] for e in entries)),
        days(*(e[3] for e in entries)),
    )
    (made,) = plan(design(**changes)).designs
    with OmopDatabase(omop.write()) as db:
        return population(db, made, table)


def start_days(found):
    """Return the days on which the entries of a population start."""
    starts = pd.to_datetime(found.entries["start"]).to_numpy().astype("datetime64[D]")
    return (starts - np.datetime64(START)).astype(int).tolist()


def test_outcomes_count_from_the_first_to_the_last_day_at_risk(tmp_path):
    entries = [(1, p, 100, 110) for p in range(4)]
    events = [(3, 0, 101, 101), (3, 1, 465, 465), (3, 2, 466, 466)]
    found = selected(tmp_path, entries + events)
    assert found.outcome.tolist() == [1, 1, 0, 0]


def test_people_with_an_outcome_before_the_risk_window_are_removed(tmp_path):
    entries = [(1, p, 100, 110) for p in range(3)]
    events = [(3, 0, 100, 100), (3, 1, 40, 40)]
    found = selected(tmp_path, entries + events)
    assert len(found.entries) == 1
    counts = found.attrition.set_index("description")["target_count"]
    assert counts["At least 30 days of observation prior"] == 3
    assert counts["No prior outcome"] == 1
    # The look-back of 60 days ends after the outcome of the second person.
    recent = {"priorOutcomeLookback": 60}
    assert len(selected(tmp_path, entries + events, populationSettings=recent).entries) == 2
    kept = {"removeSubjectsWithPriorOutcome": False}
    assert len(selected(tmp_path, entries + events, populationSettings=kept).entries) == 3


def test_the_first_exposure_is_chosen_before_the_washout(tmp_path):
    entries = [(1, 0, 10, 20), (1, 0, 200, 210), (1, 1, 50, 60), (1, 1, 300, 310)]
    assert start_days(selected(tmp_path, entries)) == [50]
    every = {"firstExposureOnly": False}
    assert start_days(selected(tmp_path, entries, populationSettings=every)) == [200, 50, 300]
    # The restriction of the data chooses it before it looks at observation.
    limits = {"firstExposureOnly": True, "washoutPeriod": 40}
    assert start_days(selected(tmp_path, entries, restrictPlpDataSettings=limits)) == [50]


def test_required_time_at_risk_spares_outcomes_unless_asked_otherwise(tmp_path):
    entries = [(1, 0, 800, 810), (1, 1, 800, 810), (1, 2, 100, 110), (3, 0, 900, 900)]
    required = {"requireTimeAtRisk": True, "minTimeAtRisk": 364}
    found = selected(tmp_path, entries, populationSettings=required)
    assert sorted(start_days(found)) == [100, 800]
    every = {**required, "includeAllOutcomes": False}
    assert start_days(selected(tmp_path, entries, populationSettings=every)) == [100]


def test_the_end_of_the_study_and_of_the_cohort_end_the_time_at_risk(tmp_path):
    entries = [(1, 0, 100, 150), (1, 1, 100, 150), (3, 0, 140, 140), (3, 1, 200, 200)]
    ends = {"restrictTarToCohortEnd": True}
    assert selected(tmp_path, entries, populationSettings=ends).outcome.tolist() == [1, 0]
    end = str(np.datetime64(START) + 160).replace("-", "")
    dated = {"studyEndDate": end}
    assert selected(tmp_path, entries, restrictPlpDataSettings=dated).outcome.tolist() == [1, 0]
    late = {"studyStartDate": end}
    assert len(selected(tmp_path, entries, restrictPlpDataSettings=late).entries) == 0
    anchored = {"startAnchor": "cohort end", "endAnchor": "cohort end", "riskWindowEnd": 100,
                "removeSubjectsWithPriorOutcome": False}  # fmt: skip
    assert selected(tmp_path, entries, populationSettings=anchored).outcome.tolist() == [0, 1]


def test_a_sample_has_its_size_and_is_always_the_same(tmp_path):
    entries = [(1, p, 100 + 3 * p, 900) for p in range(20)]
    limits = {"sampleSize": 7}
    first = start_days(selected(tmp_path, entries, restrictPlpDataSettings=limits))
    assert len({*first}) == 7
    assert first == start_days(selected(tmp_path, entries, restrictPlpDataSettings=limits))


def test_people_with_and_without_the_outcome_are_divided_in_the_same_shares():
    outcome = np.repeat([1, 0], [60, 400])
    split = SplitSettings(test=0.25, train=0.5, nfold=5, seed=7)
    group = divided(outcome, split)
    for value, n in ((1, 60), (0, 400)):
        counts = pd.Series(group[outcome == value]).value_counts()
        assert counts[TEST] == counts[UNUSED] == n // 4
        assert [counts[k] for k in range(1, 6)] == [n // 10] * 5
    assert (group == divided(outcome, split)).all()
    assert (group != divided(outcome, SplitSettings(test=0.25, train=0.5, nfold=5, seed=8))).any()


def test_too_few_outcomes_are_refused():
    with pytest.raises(DataError, match="fewer than 10 people have the outcome"):
        divided(np.repeat([1, 0], [9, 400]), SplitSettings(seed=1))
    with pytest.raises(DataError, match="a fold would have fewer than 5"):
        divided(np.repeat([1, 0], [19, 400]), SplitSettings(seed=1))
