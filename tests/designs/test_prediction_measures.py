"""Measures of predicted risks against their definitions."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

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


@pytest.fixture(scope="module")
def risks():
    return risks_and_outcomes()


def risks_and_outcomes():
    """Return risks with few digits, and outcomes that follow them."""
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
