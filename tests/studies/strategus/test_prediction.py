"""Prediction models on the demonstration database, and their release."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.designs.test_prediction_measures import risks_and_outcomes
from tests.studies.strategus.prediction_designs import COHORTS, design, plan

from steropes import Laplace, LogisticRegression
from steropes.designs.prediction_measures.prediction_calibration import (
    calibration_line,
)
from steropes.designs.prediction_measures.prediction_thresholds import threshold_table
from steropes.errors import DataError, SeparationError
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts import CohortTable, drug_era_cohorts
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import share_unit
from steropes.studies.prediction import prediction_models
from steropes.studies.prediction.prediction_models import predicted, predicted_designs
from steropes.studies.prediction.prediction_population import divided, population
from steropes.studies.release.prediction_release import released_result
from steropes.studies.strategus.prediction_result_tables import prediction_tables

CELECOXIB, BLEEDING = 1118084, 192671


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
def test_released_thresholds_have_enough_people_of_both_kinds_between_them(rules, result):
    risk, outcome = risks_and_outcomes()
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
