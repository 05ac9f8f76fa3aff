"""Estimates without misclassification, unmeasured confounding and selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import steropes
from steropes.designs.bias_analysis import (
    Misclassification,
    SelectionBias,
    UnmeasuredConfounder,
    bias_analysis,
    e_values,
    tipping_point,
    trapezoid,
)
from steropes.designs.evidence import combine_normal
from steropes.designs.values.normal_quantile import Z
from steropes.errors import DataError

TABLE = [[45, 94], [257, 945]]


def test_misclassified_exposure_agrees_with_episensr() -> None:
    found = bias_analysis(
        [[215, 1449], [668, 4296]], Misclassification("exposure", (0.78, 0.78), (0.99, 0.99))
    )
    expected = [0.94906946, 0.78956874, 1.1407909]
    assert_allclose(found.summary.loc["corrected"], expected, atol=5e-8)
    assert found.discarded == 0


def test_confounder_agrees_with_episensr() -> None:
    missing = UnmeasuredConfounder(exposed=0.8, unexposed=0.05, risk_ratio=0.63)
    found = bias_analysis([[105, 85], [527, 93]], missing, measure="risk ratio").summary["estimate"]
    assert_allclose(found["corrected"], 0.48505495, atol=5e-9)
    assert_allclose(found["observed"] / found["corrected"], 0.71726949, atol=5e-9)


def test_selection_agrees_with_episensr() -> None:
    taken = SelectionBias(cases=(0.94, 0.85), others=(0.64, 0.25))
    found = bias_analysis([[136, 107], [297, 165]], taken).summary
    assert_allclose(found.loc["corrected", "estimate"], 1.6346082, atol=5e-8)
    # An odds ratio needs no counts for selection.
    alone = bias_analysis(tuple(found.loc["observed", ["estimate", "lower", "upper"]]), taken)
    assert_allclose(alone.summary.loc["corrected"], found.loc["corrected"], rtol=1e-6)


def test_drawn_misclassification_agrees_with_episensr_within_its_error() -> None:
    often = trapezoid(0.75, 0.85, 0.95, 1)
    found = bias_analysis(TABLE, Misclassification("exposure", often, often), draws=20_000)
    # By quadrature over both parameters the median is 2.45698, and 750 of 20,000 draws are
    # discarded. Such medians have a standard deviation of 0.007, and such numbers one of 27, so
    # that episensr's 2.4722282 and 784 lie 2.2 and 1.3 of them above.
    u = often.ppf((np.arange(800) + 0.5) / 800)
    se, sp = np.meshgrid(u, u)
    true = Misclassification("exposure", 0.9, 0.9).corrected(
        np.repeat(np.ravel(TABLE).astype(float)[:, None], se.size, axis=1),
        {"a": se.ravel(), "b": se.ravel(), "c": sp.ravel(), "d": sp.ravel()},
    )
    good = (true > 0).all(axis=0)
    a, b, c, d = true[:, good]
    assert_allclose(np.median(a * d / (b * c)), 2.45698, atol=2e-4)
    assert_allclose(20_000 * (1 - good.mean()), 750, atol=2)
    assert_allclose(2.4722282, 2.45698, atol=3 * 0.007)
    assert_allclose(found.summary.loc["systematic error", "estimate"], 2.45698, atol=4 * 0.007)
    assert abs(found.discarded - 750) < 4 * 27
    assert len(found.draws) + found.discarded == 20_000
    specificity = found.draws["specificity of exposure (cases)"]
    assert specificity.min() > 1 - 257 / 1202


def test_e_values_agree_with_episensr() -> None:
    assert_allclose(e_values((3.9, 1.8, 8.7)), [7.263034, 3.0], atol=5e-7)
    assert_allclose(e_values((0.80, 0.71, 0.91)), [1.809017, 1.428571], atol=5e-7)
    assert_allclose(e_values((2.0, 0.9, 4.0))["limit"], 1.0)


def test_misclassified_outcome_returns_the_table_that_was_misclassified() -> None:
    true = np.array([[60.0, 40.0], [940.0, 1960.0]])
    se, sp = np.array([0.9, 0.7]), np.array([0.98, 0.99])
    seen = np.array([se * true[0] + (1 - sp) * true[1], (1 - se) * true[0] + sp * true[1]])
    bias = Misclassification("outcome", tuple(se), tuple(sp))
    for measure, ratio in (("odds ratio", 60 * 1960 / (40 * 940)), ("risk ratio", 0.06 / 0.02)):
        found = bias_analysis(seen, bias, measure=measure).summary
        assert_allclose(found.loc["corrected", "estimate"], ratio)


def test_biases_are_removed_in_their_order() -> None:
    true = np.array([[60.0, 40.0], [440.0, 460.0]])
    selected = true * [[0.9, 0.8], [0.5, 0.7]]
    se, sp = 0.85, 0.95
    seen = np.stack([se * selected[:, 0] + (1 - sp) * selected[:, 1],
                     (1 - se) * selected[:, 0] + sp * selected[:, 1]], axis=1)  # fmt: skip
    biases: list[Any] = [
        Misclassification("exposure", se, sp),
        SelectionBias((0.9, 0.8), (0.5, 0.7)),
        UnmeasuredConfounder(0.4, 0.2, 2.0),
    ]
    found = bias_analysis(seen, biases).summary
    factor = (0.4 * 1 + 1) / (0.2 * 1 + 1)
    assert_allclose(found.loc["corrected", "estimate"], 60 * 460 / (40 * 440) / factor)
    # An adjusted estimate with the counts behind it changes by the same factor.
    crude = found.loc["observed", ["estimate", "lower", "upper"]].to_numpy()
    adjusted = bias_analysis(tuple(1.3 * crude), biases, counts=seen).summary
    assert_allclose(adjusted.loc["corrected"], 1.3 * found.loc["corrected"], rtol=1e-6)


def test_random_error_after_misclassification_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(0)
    se, sp, n = 0.8, 0.9, 4000
    bias = Misclassification("exposure", se, sp)
    logs, errors = [], []
    for _ in range(300):
        cells = []
        for share in (0.4, 0.25):
            exposed = rng.binomial(n, share * se + (1 - share) * (1 - sp))
            cells.append([exposed, n - exposed])
        row = bias_analysis(cells, bias).summary.loc["corrected"]
        logs.append(np.log(row["estimate"]))
        errors.append(np.log(row["upper"] / row["lower"]) / 3.92)
    assert_allclose(np.mean(errors), np.std(logs), rtol=0.13)
    assert_allclose(np.mean(logs), np.log(0.4 / 0.6 / (0.25 / 0.75)), atol=0.02)


def test_correlated_parameters_have_their_distributions() -> None:
    cases, others = trapezoid(0.8, 0.85, 0.9, 1), scipy.stats.beta(90, 10)
    bias = Misclassification("exposure", (cases, others), 0.99, correlation=0.8)
    draws = bias.draw(20_000, np.random.default_rng(0))
    first, second = (draws[f"sensitivity of exposure ({x})"] for x in ("cases", "others"))
    assert 0.7 < scipy.stats.spearmanr(first, second).statistic < 0.85
    assert scipy.stats.kstest(first, cases.cdf).pvalue > 0.01
    assert scipy.stats.kstest(second, others.cdf).pvalue > 0.01


def test_a_tipping_point_brings_the_limit_to_one() -> None:
    def frailty(ratio: float) -> UnmeasuredConfounder:
        return UnmeasuredConfounder(0.5, 0.2, ratio)

    estimate = (1.5, 1.2, 1.875)
    at = tipping_point(estimate, frailty, (1, 20))
    assert_allclose(at, 1 + 0.2 / (0.5 - 1.2 * 0.2), rtol=1e-6)  # In closed form.
    assert_allclose(bias_analysis(estimate, frailty(at)).summary.loc["corrected", "lower"], 1.0)
    assert tipping_point(estimate, frailty, (1, 20), reaches="estimate") > at
    assert np.isnan(tipping_point(estimate, frailty, (1, 1.2)))

    def seen(specificity: float) -> Misclassification:
        return Misclassification("exposure", 0.9, (specificity, 1.0))

    point = tipping_point(TABLE, seen, (1.0, 0.7))
    corrected = bias_analysis(TABLE, seen(point)).summary.loc["corrected"]
    assert_allclose(corrected["lower"], 1.0)


def test_wrong_arguments_of_tipping_points_are_named() -> None:
    made: Any = UnmeasuredConfounder(0.5, 0.2, 2.0)
    wrong: Any = "ab"
    with pytest.raises(DataError, match="must be a function"):
        tipping_point((1.5, 1.2, 1.9), made, (1, 9))
    with pytest.raises(DataError, match="two different numbers"):
        tipping_point((1.5, 1.2, 1.9), lambda ratio: made, wrong)
    with pytest.raises(DataError, match="correlation must be a number"):
        Misclassification("exposure", (0.9, 0.8), 0.9, correlation=wrong)


@pytest.mark.parametrize(
    ("row", "limits"),
    [
        ({"ratio": 1.5, "log_ratio": np.log(1.5), "se": 0.1}, None),  # case-only designs
        ({"rr": 1.5, "ci_95_lb": 1.2, "ci_95_ub": 2.0, "log_rr": 0.4, "se_log_rr": 0.1}, (1.2, 2)),
        ({"hr": 1.5, "lower": 1.2, "upper": 2.0, "log_hr": 0.4, "se": 0.1}, (1.2, 2)),
        ({"ror": 1.7, "adjusted_or": 1.5, "lower": 1.2, "upper": 2.0}, (1.2, 2)),
    ],
)
def test_rows_of_all_tables_are_read(row: dict[str, float], limits: Any) -> None:
    double = UnmeasuredConfounder(0.5, 0.2, 2.0)
    expected = limits or 1.5 * np.exp([-0.1 * Z, 0.1 * Z])
    for given in (pd.Series(row), pd.DataFrame([row])):
        found = bias_analysis(given, double).summary
        assert_allclose(found.loc["observed"], [1.5, *expected])
        assert_allclose(found.loc["corrected", "estimate"], 1.5 / 1.25)
    hidden = pd.Series(dict.fromkeys(row, np.nan))
    with pytest.raises(DataError, match=r"missing|no finite ratio"):
        bias_analysis(hidden, double)


def test_differences_are_no_ratios() -> None:
    row = steropes.LinearRegression().fit([[0.0], [0.0], [1.0], [1.0]], [1, 2, 2, 4]).summary()
    with pytest.raises(DataError, match="no log ratio"):
        e_values(row.loc["x0"])
    with pytest.raises(DataError, match="must be numbers"):
        e_values(("much", 1, 2))


def test_estimates_of_any_origin_are_read() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.normal(60, 10, 800), "drug": rng.binomial(1, 0.5, 800)})
    people["stroke"] = rng.binomial(1, np.where(people["drug"], 0.3, 0.15))
    found = steropes.compare_groups(
        people, treatment="drug", outcome="stroke", covariates=["age"]
    ).effects.query("method == 'weights' and measure == 'risk ratio'")  # fmt: skip
    row = found.iloc[0]
    model = steropes.LogisticRegression().fit(people[["age", "drug"]], people["stroke"])
    coefficient = model.summary().loc["drug"]
    pooled = combine_normal([0.2, 0.4], [0.1, 0.1])
    missing = UnmeasuredConfounder(0.5, 0.2, 2.0)
    for given, ratio in (
        (row, row["estimate"]), (coefficient, np.exp(coefficient["coef"])),
        (pooled, np.exp(pooled.log_rr)),
    ):  # fmt: skip
        summary = bias_analysis(given, missing).summary
        assert_allclose(summary.loc["observed", "estimate"], ratio)
        assert_allclose(summary.loc["corrected", "estimate"], ratio / 1.25)
    assert_allclose(
        bias_analysis(row, missing).summary.loc["observed", ["lower", "upper"]],
        row[["lower", "upper"]].astype(float), rtol=1e-6,
    )  # fmt: skip
    difference = found.assign(measure="risk difference").iloc[0]
    with pytest.raises(DataError, match="risk difference"):
        bias_analysis(difference, missing)


@pytest.mark.parametrize(
    ("estimate", "bias", "options", "message"),
    [
        ((1.5, 1.2, 1.9), Misclassification("outcome", 0.9, 0.99), {}, "give counts="),
        ((1.5, 1.2, 1.9), SelectionBias((0.5, 0.5), (0.5, 0.4)), {"measure": "risk ratio"},
         "give counts="),
        (TABLE, Misclassification("exposure", 0.9, 0.6), {}, "contradict every value"),
        (TABLE, [], {}, "biases must be"),
        (TABLE, UnmeasuredConfounder(0.5, 0.2, 2), {"counts": TABLE}, "leave counts out"),
        (TABLE, UnmeasuredConfounder(0.5, 0.2, 2), {"measure": "hazard ratio"}, "measure must"),
        ([[0, 94], [257, 945]], UnmeasuredConfounder(0.5, 0.2, 2), {}, "empty"),
        ((1.5, -1.2, 1.9), UnmeasuredConfounder(0.5, 0.2, 2), {}, "must be positive"),
        ((1.5, 1.5, 1.5), UnmeasuredConfounder(0.5, 0.2, 2), {}, "no standard error"),
        ((1.5, 1.2, np.inf), UnmeasuredConfounder(0.5, 0.2, 2), {}, "no upper limit"),
        ("1.5", UnmeasuredConfounder(0.5, 0.2, 2), {}, "estimate must be"),
    ],
)  # fmt: skip
def test_bad_input_has_a_clear_error(
    estimate: Any, bias: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        bias_analysis(estimate, bias, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Misclassification("exposure", 1.2, 0.9), "between 0 and 1"),
        (lambda: Misclassification("exposure", "high", 0.9), "number or a distribution"),
        (lambda: Misclassification("exposure", scipy.stats.norm(0.9, 0.1), 0.9), "between 0 and"),
        (lambda: Misclassification("exposure", 0.9, 0.9, correlation=0.5), "correlation is for"),
        (lambda: UnmeasuredConfounder(0.5, 0.2, -1), "risk_ratio"),
        (lambda: SelectionBias((0.0, 0.5), (0.5, 0.5)), "nobody would be selected"),
        (lambda: trapezoid(0.9, 0.8, 0.95, 1), "ascending"),
    ],
)
def test_impossible_biases_are_refused(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_biases_of_another_kind_are_refused() -> None:
    wrong: Any = "treatment"
    with pytest.raises(DataError, match="of must be"):
        Misclassification(wrong, 0.9, 0.9)
    wrong = 0.5
    with pytest.raises(DataError, match="must be a pair"):
        SelectionBias(wrong, (0.5, 0.5))


def test_draws_depend_on_the_seed_alone_and_are_drawn() -> None:
    bias = UnmeasuredConfounder(trapezoid(0.3, 0.4, 0.5, 0.6), 0.2, 2.0)
    found = bias_analysis(TABLE, bias, draws=400)
    pd.testing.assert_frame_equal(found.draws, bias_analysis(TABLE, bias, draws=400).draws)
    assert found.plot().get_ylabel() == "Draws"
    with pytest.raises(DataError, match="one draw only"):
        bias_analysis(TABLE, UnmeasuredConfounder(0.5, 0.2, 2.0)).plot()
