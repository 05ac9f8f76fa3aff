"""Prediction models: populations against counts by hand, performance against its definitions."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.small_specification import PREDICTION_DESIGN

from steropes import Laplace, LogisticRegression
from steropes.designs.prediction_measures.prediction_calibration import (
    calibration_line,
    calibration_table,
    lowess,
    smooth_calibration_errors,
)
from steropes.designs.prediction_measures.prediction_performance import (
    auc_interval,
    demographic_table,
    precision_recall_area,
    statistics_of,
)
from steropes.designs.prediction_measures.prediction_thresholds import threshold_table
from steropes.errors import DataError, SeparationError
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts import CohortTable, drug_era_cohorts
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import share_unit
from steropes.studies.prediction import prediction_models
from steropes.studies.prediction.prediction_models import predicted, predicted_designs
from steropes.studies.prediction.prediction_population import TEST, UNUSED, divided, population
from steropes.studies.release.prediction_release import released_result
from steropes.studies.strategus.prediction_result_tables import prediction_tables
from steropes.studies.strategus_plans.prediction_plan import prediction_plan
from steropes.studies.strategus_plans.prediction_settings import SplitSettings
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

CELECOXIB, BLEEDING = 1118084, 192671
COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3)))


def design(**changes):
    """Return a design; each change is a field with the values that replace its own."""
    made = copy.deepcopy(PREDICTION_DESIGN)
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(value, dict) else value
    return made


def plan(*designs):
    return prediction_plan({"modelDesignList": list(designs)}, ("settings",), COHORTS)


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
        ("exclude", [1002], "covariates without a prior have no counterpart"),
        ("speed", 1, "priorParams.speed is not known"),
    ],
)
def test_other_priors_are_refused(name, value, why):
    values = design()
    values["modelSettings"]["param"]["priorParams"][name] = value
    assert why in reason(values)


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


# -- population ------------------------------------------------------------------------------------


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


# -- performance -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def risks():
    random = np.random.default_rng(3)
    risk = random.uniform(size=300).round(2)
    return risk, (random.uniform(size=300) < 0.2 + 0.5 * risk).astype(int)


def test_area_and_interval_are_those_of_all_pairs(risks):
    risk, outcome = risks
    area, low, high = auc_interval(risk, outcome)
    assert area == pytest.approx(roc_auc_score(outcome, risk))
    case, other = risk[outcome == 1], risk[outcome == 0]
    won = (case[:, None] > other) + 0.5 * (case[:, None] == other)
    variance = won.mean(axis=1).var(ddof=1) / len(case) + won.mean(axis=0).var(ddof=1) / len(other)
    assert high - low == pytest.approx(2 * 1.959964 * np.sqrt(variance), rel=1e-6)


def test_precision_is_integrated_over_interpolated_true_positives(risks):
    risk, outcome = risks
    true, false = 0.0, 0.0
    recall, precision = [], []
    for threshold in np.unique(risk)[::-1]:
        own = outcome[risk == threshold]
        share = np.linspace(0, 1, 2001)
        t, f = true + share * own.sum(), false + share * (len(own) - own.sum())
        if own.sum():
            recall.append(t[1:])
            precision.append((t / np.maximum(t + f, 1e-300))[1:])
        true, false = t[-1], f[-1]
    x, y = np.concatenate(recall), np.concatenate(precision)
    expected = np.trapezoid(y, x) + x[0] * y[0]
    assert precision_recall_area(risk, outcome) == pytest.approx(expected / outcome.sum(), rel=1e-3)


def test_precision_of_ordered_and_of_equal_risks():
    assert precision_recall_area(np.array([0.9, 0.8, 0.2, 0.1]), np.array([1, 1, 0, 0])) == 1.0
    assert precision_recall_area(np.full(8, 0.3), np.repeat([1, 0], [2, 6])) == 0.25


def test_recalibrated_risks_have_neither_shift_nor_gradient(risks):
    risk, outcome = risks
    found = statistics_of(np.clip(risk, 0.01, 0.99), outcome)
    logit = np.log(np.clip(risk, 0.01, 0.99) / (1 - np.clip(risk, 0.01, 0.99)))
    line = found["weak calibration intercept"] + found["weak calibration gradient"] * logit
    again = statistics_of(1 / (1 + np.exp(-line)), outcome)
    assert again["weak calibration gradient"] == pytest.approx(1.0, abs=1e-6)
    assert again["calibrationInLarge intercept"] == pytest.approx(0.0, abs=1e-6)
    assert again["calibrationInLarge mean prediction"] == pytest.approx(outcome.mean())
    mean = found["calibrationInLarge mean prediction"]
    scaled = 1 - found["brier score"] / (mean * (1 - mean))
    assert found["brier score scaled"] == pytest.approx(scaled)


def test_strata_of_calibration_are_tenths_with_everybody(risks):
    risk, outcome = risks
    table = calibration_table(risk, outcome)
    assert len(table) == 10
    assert table["person_count_at_risk"].sum() == 300
    assert table["person_count_with_outcome"].sum() == outcome.sum()
    assert (table["max_predicted_probability"].to_numpy()[:-1]
            <= table["prediction_threshold"].to_numpy()[1:]).all()  # fmt: skip
    assert (table["min_predicted_probability"] >= table["prediction_threshold"]).all()


def test_the_line_of_calibration_is_the_regression_of_its_strata(risks):
    risk, outcome = risks
    table = calibration_table(risk, outcome)
    x, y = table["average_predicted_probability"], table["observed_incidence"]
    gradient, intercept = np.polyfit(x, y, 1)
    assert calibration_line(table) == pytest.approx((intercept, gradient))
    found = statistics_of(risk, outcome)
    assert found["Hosmer-Lemeshow calibration gradient"] == pytest.approx(gradient)
    assert np.isnan(calibration_line(table.assign(average_predicted_probability=0.5))).all()


@pytest.mark.parametrize("n", [3, 20, 400])
@pytest.mark.parametrize("digits", [2, 12])
def test_the_smooth_curve_is_that_of_statsmodels_without_robustness(n, digits):
    from statsmodels.nonparametric.smoothers_lowess import lowess as theirs

    random = np.random.default_rng(n)
    x = np.sort(random.beta(1, 6, size=n)).round(digits)
    y = (random.uniform(size=n) < x).astype(float)
    expected = theirs(
        y, x, frac=2 / 3, it=0, delta=0.01 * np.ptp(x), is_sorted=True, return_sorted=False
    )
    assert lowess(x, y) == pytest.approx(expected, abs=1e-9)


def test_errors_of_calibration_are_distances_from_the_smooth_curve(risks):
    risk, outcome = risks
    inside = (risk > 0) & (risk < 1)
    order = np.argsort(risk[inside], kind="stable")
    x, y = risk[inside][order], outcome[inside][order].astype(float)
    gap = np.abs(x - lowess(x, y))
    found = smooth_calibration_errors(risk, outcome)
    assert found == {"Eavg": gap.mean(), "E90": np.quantile(gap, 0.9), "Emax": gap.max()}
    assert found["Eavg"] < found["E90"] < found["Emax"]
    assert np.isnan([*smooth_calibration_errors(np.full(9, 0.3), outcome[:9]).values()]).all()


def test_thresholds_classify_everybody_at_or_above_them(risks):
    risk, outcome = risks
    table = threshold_table(risk, outcome)
    assert (np.diff(table["prediction_threshold"]) < 0).all()
    for line in table.to_dict("records"):
        positive = risk >= min(line["prediction_threshold"], risk.max())
        assert line["positive_count"] == positive.sum()
        assert line["true_positive_count"] == outcome[positive].sum()
        assert line["true_count"] == outcome.sum()
        assert line["false_count"] == (1 - outcome).sum()
        assert line["specificity"] == pytest.approx(1 - line["false_positive_rate"])
        assert line["accuracy"] == pytest.approx((positive == (outcome == 1)).mean())
        odds = line["prediction_threshold"] / (1 - line["prediction_threshold"])
        odds *= (1 - outcome.mean()) / outcome.mean()
        assert line["preference_threshold"] == pytest.approx(odds / (1 + odds))
    assert table["positive_count"].iloc[-1] == len(risk)


def test_thresholds_are_the_highest_risks_and_hundredths_of_the_people():
    risk = np.linspace(0.001, 0.999, 1000)
    table = threshold_table(risk, np.repeat([0, 1], [900, 100]))
    assert table["positive_count"].tolist() == [*range(1, 101), *range(101, 1000, 10), 1000]
    top = table.set_index("positive_count").loc[100]
    assert top[["sensitivity", "specificity", "f_1_score"]].tolist() == [1, 1, 1]
    assert np.isinf(top["diagnostic_odds_ratio"])
    assert len(threshold_table(risk, np.ones(1000, int))) == 0


def test_ages_are_groups_of_five_years_for_each_gender():
    risk, outcome = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([0, 1, 0, 1, 0])
    age = np.array([64.0, 60.0, 65.0, 61.0, np.nan])
    table = demographic_table(risk, outcome, age, np.array([8507, 8507, 8532, 0, 8507.0]))
    key = table[["age_group", "gen_group"]].to_numpy().tolist()
    assert key == [
        ["Age group: 60-64", "Male"], ["Age group: 60-64", "Unknown"],
        ["Age group: 65-69", "Female"],
    ]  # fmt: skip
    assert table["person_count_at_risk"].tolist() == [2, 1, 1]
    assert table["person_count_with_outcome"].tolist() == [1, 1, 0]
    assert table["p_50_predicted_probability"].tolist() == pytest.approx([0.15, 0.4, 0.3])


def test_one_class_has_counts_only():
    assert statistics_of(np.array([0.1, 0.2]), np.array([0, 0])) == {
        "populationSize": 2, "outcomeCount": 0,
    }  # fmt: skip


# -- models on the demonstration database ----------------------------------------------------------


@pytest.fixture(scope="module")
def db():
    with OmopDatabase(demo_database()) as found:
        yield found


@pytest.fixture(scope="module")
def cohorts(db):
    events = pd.DataFrame(
        db.rows(
            "SELECT 3, person_id, min(condition_start_date), min(condition_start_date) "
            f"FROM {db.table('condition_occurrence')} WHERE condition_concept_id = {BLEEDING} "
            "GROUP BY person_id"
        ),
        columns=["cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date"],
    )
    return drug_era_cohorts(db, {1: CELECOXIB}) + CohortTable.from_frame(events)


@pytest.fixture(scope="module")
def result(db, cohorts):
    (made,) = plan(design()).designs
    return predicted(db, made, cohorts)


def test_predictions_of_training_data_have_their_mean(result):
    shown = result.statistics.pivot_table("value", "metric", "evaluation")
    mean, observed = (
        shown.loc[f"calibrationInLarge {kind}"] for kind in ("mean prediction", "observed risk")
    )
    assert mean["Train"] == pytest.approx(observed["Train"], abs=1e-6)
    assert shown.loc["populationSize", "Train"] == shown.loc["populationSize", "CV"]
    assert shown.loc["AUROC", "CV"] < shown.loc["AUROC", "Train"]
    total = result.attrition["target_count"].iloc[-1]
    sizes = shown.loc["populationSize"]
    assert sizes["Train"] + sizes["Test"] == total
    assert result.converged
    strata = result.calibration.groupby("evaluation")["person_count_at_risk"].sum()
    assert strata.to_dict() == sizes.to_dict()


@pytest.mark.parametrize("error", [DataError, SeparationError, np.linalg.LinAlgError])
def test_a_design_that_cannot_be_fitted_leaves_the_others(db, cohorts, result, error, monkeypatch):
    answers = iter([error("why"), result])

    def predict(*_):
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(prediction_models, "predicted", predict)
    failed = {}
    found = predicted_designs(db, plan(design(), design()), cohorts, failed, lambda _: None)
    assert found == [result]
    assert list(failed.values()) == ["why"]


def test_a_fixed_variance_gives_the_lasso_of_the_training_data(db, cohorts):
    values = design()
    values["modelSettings"]["settings"]["crossValidationInPrior"] = False
    values["modelSettings"]["param"]["priorParams"]["variance"] = 0.5
    values["covariateSettings"] = {"DemographicsGender": True}
    (made,) = plan(values).designs
    found = predicted(db, made, cohorts)
    assert found.variance == 0.5
    people = population(db, made, cohorts)
    training = divided(people.outcome, made.split) > 0
    rows = db.rows(f"SELECT person_id, gender_concept_id FROM {db.table('person')}")
    woman = people.entries["person_id"].map(dict(rows)).to_numpy() == 8532
    covariate = found.covariates.set_index("covariate_id")["covariate_value"].dropna()
    (kept,) = covariate.index
    x = (woman if kept == 8532001 else ~woman)[training, None].astype(float)
    model = LogisticRegression(prior=Laplace(variance=0.5)).fit(x, people.outcome[training])
    assert covariate[kept] == pytest.approx(model.coef_[0], abs=1e-6)
    assert found.intercept == pytest.approx(float(model.intercept_), abs=1e-6)


def test_covariates_of_people_with_and_without_the_outcome_add_up(result):
    table = result.covariates
    parts = table["with_outcome_covariate_count"] + table["with_no_outcome_covariate_count"]
    assert (parts == table["covariate_count"]).all()
    people = table["with_outcome_people"] + table["with_no_outcome_people"]
    assert {*people} == {result.attrition["target_count"].iloc[-1]}
    ones = table[table["binary"]]
    assert ones["covariate_mean"].to_numpy() == pytest.approx(
        (ones["covariate_count"] / ones["people"]).to_numpy()
    )
    assert table["covariate_value"].notna().sum() > 5


def test_released_results_show_no_single_person(result):
    rules = DisclosureRules("ohdsi", 5)
    found = released_result(result, rules)
    for name, columns in (
        ("plp_attrition", ["target_count", "unique_people", "outcomes"]),
        ("plp_calibration_summary", ["person_count_at_risk", "person_count_with_outcome"]),
        ("plp_prediction_distribution", ["person_count"]),
        ("plp_demographic_summary", ["person_count_at_risk", "person_count_with_outcome"]),
        ("plp_threshold_summary", ["true_positive_count", "positive_count", "true_count"]),
        ("plp_covariate_summary", ["covariate_count", "with_outcome_covariate_count"]),
    ):
        counts = found[name][columns]
        assert (counts.isna() | (counts % 5 == 0)).all(axis=None)
    names = ("plp_calibration_summary", "plp_prediction_distribution", "plp_demographic_summary")
    for name in names:
        assert found[name].filter(regex="^(min|max)_").isna().all(axis=None)
    table, exact = found["plp_covariate_summary"], result.covariates
    rare = exact["covariate_count"].between(1, 4)
    assert rare.any()
    assert table.loc[rare, ["covariate_value", "covariate_mean"]].isna().all(axis=None)
    few = exact["with_outcome_covariate_count"].between(1, 4)
    few_shown = table.loc[few, "with_outcome_covariate_count"]
    assert (few_shown == -5).any()
    assert not (few_shown >= 0).any()  # Others are withheld beside them.
    assert table.loc[few, "standardized_mean_diff"].isna().all()
    assert not {"people", "binary"} & {*table}
    shown = found["plp_evaluation_statistics"].set_index(["evaluation", "metric"])["value"]
    train = shown["Train"]
    assert train["populationSize"] % 5 == train["outcomeCount"] % 5 == 0
    assert train["calibrationInLarge mean prediction"] == train["calibrationInLarge observed risk"]
    kept = released_result(result, DisclosureRules("none", 0))
    assert kept["plp_evaluation_statistics"].equals(result.statistics)


@pytest.mark.parametrize("rules", [DisclosureRules("ohdsi", 10), DisclosureRules("opensafely", 8)])
def test_released_thresholds_have_enough_people_of_both_kinds_between_them(risks, rules, result):
    risk, outcome = risks
    exact = threshold_table(risk, outcome).assign(evaluation="Train")
    tables = released_result(replace(result, thresholds=exact), rules)
    found = tables["plp_threshold_summary"]
    shown_total = tables["plp_evaluation_statistics"].set_index(["evaluation", "metric"])["value"]
    assert len(found) > 2
    counts = ["true_positive_count", "false_positive_count"]
    shown = [np.argmin(np.abs(exact["prediction_threshold"] - t))
             for t in found["prediction_threshold"]]  # fmt: skip
    at = exact.iloc[shown]
    steps = pd.concat([at[counts].diff().fillna(at[counts]),
                       at[["false_negative_count", "true_negative_count"]]], axis=1)  # fmt: skip
    assert (steps >= rules.least).all(axis=None)
    assert (found["true_positive_count"] + found["false_negative_count"]
            == found["true_count"]).all()  # fmt: skip
    assert {*found["true_count"]} == {shown_total["Train", "outcomeCount"]}
    ratio = found["true_positive_count"] / found["positive_count"]
    assert found["positive_predictive_value"].to_numpy() == pytest.approx(ratio.to_numpy())


def test_rare_outcomes_have_no_thresholds(result):
    rules = DisclosureRules("ohdsi", 5)
    outcome = np.zeros(300, int)
    outcome[:9] = 1  # One part always has fewer than 5 of them.
    exact = threshold_table(np.linspace(0.9, 0.1, 300), outcome).assign(evaluation="Train")
    found = released_result(replace(result, thresholds=exact), rules)["plp_threshold_summary"]
    assert len(found) == 0


def test_the_released_line_of_calibration_follows_from_the_released_strata(result):
    found = released_result(result, DisclosureRules("ohdsi", 5))
    shown = found["plp_evaluation_statistics"].set_index(["evaluation", "metric"])["value"]
    for name, strata in found["plp_calibration_summary"].groupby("evaluation"):
        line = shown[name, "Hosmer-Lemeshow calibration gradient"]
        if strata["observed_incidence"].isna().any():
            assert np.isnan(line)
        else:
            assert line == pytest.approx(calibration_line(strata)[1], rel=0.01)


def test_statistics_of_few_outcomes_are_withheld(result):
    table = result.statistics.copy()
    few = (table["evaluation"] == "Test") & (table["metric"] == "outcomeCount")
    table.loc[few, "value"] = 3
    rules = DisclosureRules("ohdsi", 5)
    found = released_result(replace(result, statistics=table), rules)["plp_evaluation_statistics"]
    shown = found.set_index(["evaluation", "metric"])["value"]["Test"]
    assert shown["outcomeCount"] == -5
    assert shown.drop(["populationSize", "outcomeCount"]).isna().all()


def test_mean_risks_do_not_give_the_number_of_outcomes_that_is_rounded(result):
    rules = DisclosureRules("ohdsi", 5)
    tables = released_result(result, rules)
    shown = tables["plp_prediction_distribution"]
    means = shown.set_index(["evaluation", "class_label"])["average_predicted_probability"]["Train"]
    people = result.statistics.set_index(["evaluation", "metric"])["value"]["Train"]
    n = people["populationSize"]
    released = tables["plp_evaluation_statistics"].set_index(["evaluation", "metric"])["value"]
    # Risks of training data sum to the outcomes, and means of both classes thus give their odds.
    # Those of released risks are the odds of the released number.
    half = share_unit(int(n), 5) / 2
    ends = [(means[0] + e) / (1 - means[1] - e) for e in (-half, half)]
    least, most = (n * odds / (1 + odds) for odds in ends)
    assert least < released["Train", "outcomeCount"] < most
    assert most - least > 5
    names = ("plp_prediction_distribution", "plp_calibration_summary", "plp_demographic_summary")
    for name in names:
        found = released_result(result, rules)[name]
        found = found[found["evaluation"] == "Train"]["average_predicted_probability"].dropna()
        assert len(found)
        np.testing.assert_allclose(found / 0.005, (found / 0.005).round(), atol=1e-6)


def test_risks_and_coefficients_of_few_outcomes_are_withheld(result):
    rules = DisclosureRules("ohdsi", 300)  # 267 people have the outcome.
    database = {"database_meta_data": pd.DataFrame([{"database_id": "x"}])}
    tables = prediction_tables([result], COHORTS, database, rules)
    for name in (
        "plp_calibration_summary",
        "plp_prediction_distribution",
        "plp_demographic_summary",
    ):
        assert tables[name].filter(regex="_predicted_probability$").isna().all(axis=None)
    # The intercept of a model without covariates is the log odds of the outcome.
    assert tables["plp_models"]["intercept"].isna().all()
    assert tables["plp_covariate_summary"]["covariate_value"].isna().all()


def test_risks_of_groups_with_few_outcomes_are_withheld_in_training_data(result):
    exact = result.demographics.copy()
    trained = exact["evaluation"] == "Train"
    few = trained & (exact["person_count_at_risk"] >= 100)
    assert few.any()
    exact.loc[few | ~trained, "person_count_with_outcome"] = 3
    found = released_result(replace(result, demographics=exact), DisclosureRules("ohdsi", 5))
    shown = found["plp_demographic_summary"]
    assert shown[few].filter(regex="_predicted_probability$").isna().all(axis=None)
    # In other people the risks do not sum to the outcomes.
    assert shown[~trained]["average_predicted_probability"].notna().any()


def test_sums_of_values_do_not_give_the_few_people_with_a_covariate(result):
    table = result.covariates.head(2).copy()
    values = {
        "": (900, 23, 23 / 900), "with_no_outcome_": (800, 20, 20 / 800),
        "with_outcome_": (100, 3, 3 / 100),
    }  # fmt: skip
    for name, (people, count, mean) in values.items():
        table[[f"{name}people", f"{name}covariate_count"]] = people, count
        table[f"{name}covariate_mean"] = mean
    table["binary"] = [False, True]
    found = released_result(replace(result, covariates=table), DisclosureRules("ohdsi", 5))
    shown = found["plp_covariate_summary"]
    means = shown[[f"{name}covariate_mean" for name in values]]
    assert means.iloc[0].isna().all()
    assert means.iloc[1].tolist()[:2] == [25 / 900, 20 / 800]


def test_equal_settings_have_one_number(result):
    database = {"database_meta_data": pd.DataFrame([{"database_id": "x"}])}
    tables = prediction_tables([result, result], COHORTS, database, DisclosureRules("ohdsi", 5))
    assert len(tables["plp_population_settings"]) == len(tables["plp_tars"]) == 1
    assert tables["plp_cohorts"]["cohort_definition_id"].tolist() == [1, 3]
    designs = tables["plp_model_designs"].iloc[0]
    assert (designs["target_id"], designs["outcome_id"]) == (1, 2)
    assert tables["plp_database_details"]["database_meta_data_id"].tolist() == ["x"]
