"""Attacks on the released tables of prediction models: what follows of numbers with the outcome."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests.studies.prediction_attacks import random_validation
from tests.studies.strategus.small_modules import PREDICTION_DESIGN

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.prediction.prediction_models import PredictionResult
from steropes.studies.prediction.prediction_population import TEST, Population, divided
from steropes.studies.prediction.unsuppressed_prediction_performance import performance_tables
from steropes.studies.release.prediction_release import released_result
from steropes.studies.release.prediction_thresholds import Strata, thresholds_beside_strata
from steropes.studies.strategus.prediction_result_tables import prediction_tables
from steropes.studies.strategus.results_model import module_tables
from steropes.studies.strategus_plans.prediction_plan import prediction_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3)))
OHDSI = DisclosureRules("ohdsi", 5)
DATABASE = {"database_meta_data": pd.DataFrame([{"database_id": "x"}])}


def design(**split):
    """Return a design with other shares of training and test."""
    values = copy.deepcopy(PREDICTION_DESIGN)
    values["splitSettings"] |= split
    return prediction_plan({"modelDesignList": [values]}, ("settings",), COHORTS).designs[0]


def fitted(risk, n):
    """Shift the log odds of risks so that they sum to n, as an intercept does."""
    logit = np.log(risk / (1 - risk))
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        if (1 / (1 + np.exp(-(logit + middle)))).sum() < n:
            low = middle
        else:
            high = middle
    return 1 / (1 + np.exp(-(logit + low)))


@cache
def result(cases, n=1000, spread=1.0, seed=1, entries=1, **split):
    """Return the exact results of a model whose risks sum to the outcomes of the training data."""
    random = np.random.default_rng(seed)
    score = random.normal(size=n) * spread
    order = np.argsort(score + random.gumbel(size=n))
    outcome = np.zeros(n, int)
    outcome[order[n - cases :]] = 1
    made = design(**split)
    group = divided(outcome, made.split)
    training, tested = np.flatnonzero(group > 0), np.flatnonzero(group == TEST)
    base = 1 / (1 + np.exp(4 - score))
    trained = fitted(base[training], outcome[training].sum())
    shift = np.log(trained[0] / (1 - trained[0])) - np.log(
        base[training][0] / (1 - base[training][0])
    )
    risk = 1 / (1 + np.exp(4 - score - shift))
    age = random.integers(40, 60, n)
    gender = random.choice([8507, 8532], n)
    person = np.arange(n) // entries
    frame = pd.DataFrame({"person_id": person, "age": age, "gender_id": gender})
    steps = pd.DataFrame(
        [
            {
                "description": "all",
                "target_count": n,
                "unique_people": len({*person}),
                "outcomes": cases,
                "outcome_people": len({*person[outcome == 1]}),
            }
        ]
    )
    held_out = np.clip(risk[training] * np.exp(0.1 * random.normal(size=len(training))), 0, 0.99)
    parts = {"Train": (training, risk[training]), "CV": (training, held_out)}
    parts["Test"] = (tested, risk[tested])
    tables = performance_tables(parts, Population(frame, outcome, steps))
    covariate = (score > 1).astype(int)
    row = {"covariate_id": 1, "covariate_name": "high", "concept_id": 0, "binary": True,
           "covariate_value": 1.0, "standardized_mean_diff": 0.1}  # fmt: skip
    for name, own in (
        ("", np.ones(n, bool)), ("with_no_outcome_", outcome == 0), ("with_outcome_", outcome == 1)
    ):  # fmt: skip
        row[f"{name}covariate_count"] = int(covariate[own].sum())
        row[f"{name}people"] = int(own.sum())
        row[f"{name}covariate_mean"] = covariate[own].mean()
        row[f"{name}covariate_st_dev"] = covariate[own].std()
    intercept = float(np.log(risk[0] / (1 - risk[0])) - score[0])
    none = pd.Series(dtype=float)
    return PredictionResult(
        most_entries=entries, attrition=steps, covariates=pd.DataFrame([row]), **tables,
        design=made, variance=0.1, intercept=intercept, converged=True, coefficients=none,
        scales=none,
    )  # fmt: skip


def statistics(tables):
    return tables["plp_evaluation_statistics"].set_index(["evaluation", "metric"])["value"]


@pytest.mark.sampled
@pytest.mark.parametrize("cases", [38, 42])
@pytest.mark.parametrize("seed", [1, 2])
def test_risks_of_strata_sum_to_the_rounded_number_of_outcomes_and_not_to_the_exact_one(
    cases, seed
):
    exact = result(round(cases / 0.75), seed=seed)
    outcomes = exact.statistics.set_index(["evaluation", "metric"])["value"]["Train"]
    n, own = int(outcomes["populationSize"]), int(outcomes["outcomeCount"])
    found = released_result(exact, OHDSI)
    shown = statistics(found)["Train", "outcomeCount"]
    strata = found["plp_calibration_summary"].query("evaluation == 'Train'")
    means = strata["average_predicted_probability"]
    # An attacker knows that the strata are tenths and that risks of training data sum to outcomes.
    assert abs(means.mean() * n - shown) < 1.5
    # Percentiles of the strata give their means, too.
    points = [0.0, *(strata[f"{k}_predicted_probability"].to_numpy() for k in
                     ("p_25", "median", "p_75"))][1:]  # fmt: skip
    weights = np.array([0.3, 0.4, 0.3])
    before = exact.calibration.query("evaluation == 'Train'")
    same = [before[f"{k}_predicted_probability"].to_numpy() for k in
            ("p_25", "median", "p_75")]  # fmt: skip
    ratio = (weights @ np.array(points)).sum() / (weights @ np.array(same)).sum()
    assert ratio * own == pytest.approx(shown, abs=0.6)


def test_the_intercept_and_constant_risks_do_not_give_the_outcomes():
    numbers = []
    for cases in (83, 85, 87):
        exact = result(cases, spread=1e-3)  # All risks are nearly the share with the outcome.
        tables = prediction_tables([exact], COHORTS, DATABASE, OHDSI)
        shown = statistics(tables)
        people = shown["Train", "populationSize"]
        odds = np.exp(tables["plp_models"]["intercept"].item())
        dist = tables["plp_prediction_distribution"].query("evaluation == 'Train'")
        numbers.append(
            [
                people * odds / (1 + odds),
                people * dist["median_predicted_probability"].mean(),
                people * tables["plp_calibration_summary"]["median_predicted_probability"].mean(),
                people * shown["Train", "calibrationInLarge observed risk"],
            ]
        )
    # These numbers of outcomes have one rounded number, and so has each attack.
    assert np.ptp(np.array(numbers), axis=0).max() < 0.7


def test_a_model_that_separates_nobody_has_no_tables_of_risks():
    exact = result(40, spread=0.0)
    tables = prediction_tables([exact], COHORTS, DATABASE, OHDSI)
    assert statistics(tables).drop(["populationSize", "outcomeCount"], level=1).isna().all()
    assert tables["plp_models"]["intercept"].isna().all()


def limit(tables):
    """What stands for a withheld count: minus a number that all entries of the target are below."""
    return -(tables["plp_attrition"]["target_count"].max() + 5)


def test_withheld_counts_are_no_blanks_where_r_requires_a_number():
    exact = result(31, test=0.1, train=0.9)  # All numbers with the outcome are withheld.
    assert released_result(exact, OHDSI)["plp_attrition"]["outcomes"].isna().all()
    tables = prediction_tables([exact], COHORTS, DATABASE, OHDSI)
    withheld = 0
    for name, columns in module_tables("PatientLevelPredictionModule").items():
        own = columns["column_name"][columns["data_type"] == "int"]
        counts = tables.get(name, pd.DataFrame()).filter(own)
        assert counts.notna().all(axis=None), name
        withheld += (counts == limit(tables)).to_numpy().sum()
    assert withheld > 10


def test_few_outcomes_of_a_random_part_do_not_follow_from_its_share_and_the_others():
    shares = {"test": 0.1, "train": 0.9}
    releases = []
    for cases in (31, 45):  # A tenth of them is 3 or 4.
        exact = result(cases, **shares)
        tables = prediction_tables([exact], COHORTS, DATABASE, OHDSI)
        assert statistics(tables)["Test", "outcomeCount"] == -5
        releases.append(tables)
    counts = ("outcomes", "person_count_with_outcome", "person_count", "covariate_value",
              "with_outcome_covariate_count", "with_outcome_covariate_mean", "intercept",
              "with_no_outcome_covariate_count", "observed_incidence")  # fmt: skip
    for tables in releases:
        for name, table in tables.items():
            for column in {*counts} & {*table}:
                values = table[column]
                if column == "person_count":
                    values = values[table["class_label"] == 1]
                hidden = values.isna() | values.isin([-5, limit(tables)])
                assert hidden.all(), (name, column)
        shown = statistics(tables)
        assert shown.drop(["populationSize", "outcomeCount"], level=1).isna().all()
        assert np.isnan(shown["Train", "outcomeCount"])
        assert tables["plp_threshold_summary"].empty


def test_another_division_of_the_same_people_does_not_give_the_outcomes_of_few_either():
    few, enough = result(45, test=0.1, train=0.9), result(45, test=0.25, train=0.75)
    tables = prediction_tables([few, enough], COHORTS, DATABASE, OHDSI)
    assert (tables["plp_attrition"]["outcomes"] == limit(tables)).all()
    assert tables["plp_threshold_summary"].empty


def test_numbers_of_all_parts_follow_from_one_rounded_total():
    releases = []
    for cases in (118, 120, 122):
        shown = statistics(released_result(result(cases), OHDSI))
        releases.append(shown.xs("outcomeCount", level="metric").to_dict())
    # Roundings of each part would differ within these totals, and narrow them together.
    assert all(numbers == releases[0] for numbers in releases)


def test_entries_of_few_people_are_not_counted_as_people():
    exact = result(120, entries=2)
    found = released_result(exact, OHDSI)
    strata = exact.calibration["person_count_with_outcome"]
    # Up to eight entries can be of four people.
    few = strata.between(1, 8).to_numpy()
    assert few.any()
    shown = found["plp_calibration_summary"]["person_count_with_outcome"][few]
    assert (shown == -9).any()
    assert not (shown >= 0).any()  # Others are withheld beside them.
    steps = exact.attrition.assign(target_count=900, unique_people=4, outcomes=60, outcome_people=2)
    changed = copy.copy(exact)
    object.__setattr__(changed, "attrition", pd.concat([steps, exact.attrition]))
    first = released_result(changed, OHDSI)["plp_attrition"].iloc[0]
    assert (first[["target_count", "unique_people", "outcomes"]] < 0).all()
    assert "outcome_people" not in first


def test_coefficients_of_covariates_with_few_outcomes_are_withheld():
    exact = result(120)
    table = exact.covariates.copy()
    table["with_outcome_covariate_count"] = 3
    changed = copy.copy(exact)
    object.__setattr__(changed, "covariates", table)
    found = released_result(changed, OHDSI)["plp_covariate_summary"]
    assert (found["with_outcome_covariate_count"] == -5).all()
    # The odds ratio of a covariate and its rounded numbers give the outcomes.
    assert found["covariate_value"].isna().all()
    assert released_result(exact, OHDSI)["plp_covariate_summary"]["covariate_value"].notna().all()


@pytest.mark.parametrize("rules", [OHDSI, DisclosureRules("opensafely", 8)], ids=str)
def test_means_of_numeric_covariates_do_not_give_the_number_with_the_outcome(rules):
    """The mean of all is that of both groups, weighted with their numbers."""
    exact = result(120)
    table = exact.covariates.assign(binary=False, covariate_count=1000, covariate_mean=68.8)
    for name, mean in (("with_outcome_", 500.0), ("with_no_outcome_", 10.0)):
        table[f"{name}covariate_mean"] = mean
        table[f"{name}covariate_count"] = table[f"{name}people"]
    changed = copy.copy(exact)
    object.__setattr__(changed, "covariates", table)
    found = released_result(changed, rules)["plp_covariate_summary"].iloc[0]
    factor = np.exp(log_unit(120, rules.least) / 2)
    whole, with_it, without = (
        np.array([found[f"{name}covariate_mean"] / factor, found[f"{name}covariate_mean"] * factor])
        for name in ("", "with_outcome_", "with_no_outcome_")
    )
    cases = 1000 * (whole - without[::-1]) / (with_it[::-1] - without[::-1])
    assert cases[0] < 120 < cases[1]
    assert cases[1] - cases[0] > rules.least


@pytest.mark.parametrize("rules", [OHDSI, DisclosureRules("opensafely", 8)], ids=str)
def test_lines_of_recalibration_give_the_rounded_number_to_who_knows_all_risks(rules):
    """An intercept that is moved by the difference of log odds of shares gave the exact number."""
    exact = random_validation(np.random.default_rng(5))
    shown = statistics(released_result(exact, rules))["1|Validation"]
    share = shown["outcomeCount"] / shown["populationSize"]
    assert shown["outcomeCount"] != exact.attrition["outcomes"].iloc[-1]
    of = exact.log_odds[exact.log_odds["evaluation"] == "1|Validation"]
    for intercept, gradient in (
        (shown["calibrationInLarge intercept"], 1.0),
        (shown["weak calibration intercept"], shown["weak calibration gradient"]),
    ):
        risks = 1 / (1 + np.exp(-intercept - gradient * of["log_odds"]))
        assert np.average(risks, weights=of["people"]) == pytest.approx(share, abs=2e-4)


def test_a_threshold_that_narrows_a_stratum_of_few_people_is_left_out():
    """At most 109 have the outcome, 103 of them above a threshold and 5 in the second tenth."""
    low = np.array([1.0, 5.0, *[8.0] * 8])
    cases = Strata(np.arange(10.0), low, low + 3, np.arange(10) == 0, (80.0, 109.0))
    others = Strata(cases.starts, low * 0, low * 0 + 25, cases.hidden, (0.0, 250.0))
    counts = [(50, 50), (105, 100)]
    assert thresholds_beside_strata([5.0, 1.5], counts, (cases, others), OHDSI) == [0, 1]
    assert thresholds_beside_strata([5.0, 2.5], counts, (cases, others), OHDSI) == [0]
    none = Strata(cases.starts, low, low + 3, np.zeros(10, bool), cases.total)
    assert thresholds_beside_strata([5.0, 2.5], counts, (none, none), OHDSI) == [0, 1]
