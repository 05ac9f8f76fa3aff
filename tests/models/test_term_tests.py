"""Tests of terms, by the equations that they stand for; nested fits against statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from pandas.testing import assert_frame_equal

from reference_numbers import data
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
    compare_nested_fits,
)
from steropes.design_matrix import null_design

RNG = np.random.default_rng(12)
N = 300
D = pd.DataFrame({
    "x": RNG.normal(size=N), "z": 2000 + 8 * RNG.normal(size=N), "g": RNG.choice(list("abc"), N),
    "k": RNG.integers(0, 4, N), "w": RNG.uniform(0.5, 2, N), "s": RNG.integers(0, 3, N),
})  # fmt: skip
D["y"] = D["x"] ** 2 + (D["g"] == "a") + RNG.normal(size=N)
D["b"] = (RNG.random(N) < 1 / (1 + np.exp(-D["x"]))) * 1
D["time"], D["event"] = RNG.exponential(np.exp(-D["x"])), (RNG.random(N) < 0.8) * 1


def row(table, term, part="all"):
    return table.loc[(term, part)].to_numpy()


def test_polynomials_have_the_rows_of_rms():
    m = LinearRegression.from_formula("y ~ x + I(x**2) + I(x**3) + z + g", D)
    table = m.inference.term_tests()
    bent = ["I(x ** 2)", "I(x ** 3)"]
    bent = [name for name in m.summary().index if name.replace(" ", "") in ("I(x**2)", "I(x**3)")]
    np.testing.assert_allclose(
        row(table, "x", "nonlinear"), m.inference.linear_hypothesis(bent), rtol=1e-7
    )
    np.testing.assert_allclose(
        row(table, "x"), m.inference.linear_hypothesis(["x", *bent]), rtol=1e-7
    )
    np.testing.assert_allclose(row(table, "z"), m.inference.linear_hypothesis("z"), rtol=1e-7)
    groups = m.inference.linear_hypothesis(["g[T.b]", "g[T.c]"])
    np.testing.assert_allclose(row(table, "g"), groups, rtol=1e-7)
    assert ("z", "nonlinear") not in table.index
    assert ("TOTAL", "interactions") not in table.index
    np.testing.assert_allclose(
        row(table, "TOTAL"), m.inference.model_tests().loc["wald"], rtol=1e-7
    )


@pytest.mark.parametrize("basis", ["poly(x, 3)", "bs(x, df=3)"])
def test_a_test_of_linearity_does_not_depend_on_the_basis(basis):
    expected = LinearRegression.from_formula(
        "y ~ x + I(x**2) + I(x**3) + z", D
    ).inference.term_tests()
    table = LinearRegression.from_formula(f"y ~ {basis} + z", D).inference.term_tests()
    for part in ("all", "nonlinear"):
        np.testing.assert_allclose(row(table, "x", part), row(expected, "x", part), rtol=1e-6)


def test_interactions_are_found_in_all_orders():
    m = LogisticRegression.from_formula("b ~ bs(x, df=4) * g + z", D)
    table = m.inference.term_tests()
    df = table["df"].to_dict()
    assert df == {
        ("x", "all"): 12, ("x", "interactions"): 8, ("x", "nonlinear"): 9,
        ("g", "all"): 10, ("g", "interactions"): 8, ("z", "all"): 1,
        ("bs(x, df=4):g", "all"): 8, ("bs(x, df=4):g", "nonlinear"): 6,
        ("TOTAL", "nonlinear"): 9, ("TOTAL", "interactions"): 8,
        ("TOTAL", "nonlinear and interactions"): 11, ("TOTAL", "all"): 15,
    }  # fmt: skip
    # Linear effects that differ between groups, as the model without bends has them.
    straight = LogisticRegression.from_formula("b ~ x * g + z", D)
    ratio = m.inference.term_tests("likelihood ratio").loc[("x", "nonlinear"), "chisq"]
    # The space of straight lines is part of that of the splines.
    expected = 2 * (m.log_likelihood_ - straight.log_likelihood_)
    np.testing.assert_allclose(ratio, expected, rtol=1e-5)


def test_weights_strata_offset_fixed_and_clusters_are_those_of_the_fit():
    given = {"sample_weight": "w", "strata": "s", "offset": 0.1 * D["z"] - 200}
    text = "Surv(time, event) ~ x + I(x**2) + C(k)"
    m = CoxRegression.from_formula(text, D, **given)
    bent = m.summary().index[1]
    for more in (
        {},
        {"kind": "robust"},
        {"kind": "robust", "cluster": D["s"] * 100 + D.index // 3},
    ):
        table = m.inference.term_tests(**more)
        expected = m.inference.linear_hypothesis([bent], **more)
        np.testing.assert_allclose(row(table, "x", "nonlinear"), expected, rtol=1e-6)
    fixed = CoxRegression.from_formula(text, D, fixed={"x": 0.5}, **given)
    table = fixed.inference.term_tests()
    np.testing.assert_allclose(row(table, "x"), fixed.inference.linear_hypothesis(bent), rtol=1e-6)


def test_without_a_formula_each_column_is_a_term():
    m = PoissonRegression().fit(D[["x", "z"]], D["b"])
    table = m.inference.term_tests("score")
    assert list(table.index) == [("x", "all"), ("z", "all"), ("TOTAL", "all")]
    np.testing.assert_allclose(row(table, "x"), m.inference.linear_hypothesis("x", test="score"))


def test_nested_fits_agree_with_statsmodels():
    texts = ("b ~ x", "b ~ x + z + C(k)")
    small, large = (LogisticRegression.from_formula(t, D) for t in texts)
    table = compare_nested_fits(small, large)
    low, high = (smf.logit(t, D).fit(disp=False) for t in texts)
    np.testing.assert_allclose(table["log_likelihood"], [low.llf, high.llf], rtol=1e-9)
    assert table["parameters"].tolist() == [2, 6]
    chisq = 2 * (high.llf - low.llf)
    np.testing.assert_allclose(table["chisq"].iloc[1], chisq, rtol=1e-6)
    assert list(table.index) == [m.formula_ for m in (small, large)]
    assert np.isnan(table["chisq"].iloc[0])


def test_nested_cox_fits_agree_with_r():
    # R: anova(coxph(Surv(time, status) ~ sex), coxph(... ~ age + sex + karno)), from the same
    # log-likelihoods as in test_hypotheses.py.
    lung = data("lung")
    y = Surv(lung["time"], lung["status"])
    small = CoxRegression().fit(lung[["sex"]], y)
    large = CoxRegression().fit(lung[["age", "sex", "karno"]], y)
    table = compare_nested_fits(small, large)
    both = large.inference.linear_hypothesis(["age", "karno"], test="likelihood ratio")
    np.testing.assert_allclose(table.loc[1, ["chisq", "df", "p"]], both, rtol=1e-6)
    np.testing.assert_allclose(table.loc[1, "chisq"], 8.50131478594, rtol=1e-6)  # of R
    middle = CoxRegression().fit(lung[["sex", "age"]], y)
    assert_frame_equal(compare_nested_fits(small, middle, large).iloc[[0]], table.iloc[[0]])


def test_what_is_not_nested_is_refused():
    x, xz = (LogisticRegression().fit(D[c], D["b"]) for c in (["x"], ["x", "z"]))
    with pytest.raises(DataError, match="needs two fitted models"):
        compare_nested_fits(x)
    with pytest.raises(DataError, match="not nested in model 2"):
        compare_nested_fits(xz, x)
    with pytest.raises(DataError, match="different families"):
        compare_nested_fits(x, PoissonRegression().fit(D[["x", "z"]], D["b"]))
    with pytest.raises(DataError, match="has a prior"):
        compare_nested_fits(x, LogisticRegression(prior=Normal()).fit(D[["x", "z"]], D["b"]))
    with pytest.raises(DataError, match="not fitted to the data of the first"):
        compare_nested_fits(x, LogisticRegression().fit(D[["x", "z"]], D["k"] > 0))
    with pytest.raises(DataError, match="not fitted to the data of the first"):
        compare_nested_fits(x, LogisticRegression().fit(D[["x", "z"]].iloc[1:], D["b"].iloc[1:]))
    varying = CoxRegression(time_varying={"x": [0.5]}).fit(D[["x"]], Surv(D["time"], D["event"]))
    with pytest.raises(DataError, match="change with time"):
        varying.inference.term_tests()


def test_terms_are_those_of_the_fit_when_the_setting_changes_afterwards():
    X, y = D[["x", "z"]], Surv(D["time"], D["event"])
    constant = CoxRegression().fit(X, y)
    expected = constant.inference.term_tests()
    assert_frame_equal(
        constant.set_params(time_varying={"x": [1.0]}).inference.term_tests(), expected
    )


@pytest.mark.host  # devices refuse effects that are functions of time
def test_effects_of_the_fit_change_with_time_when_the_setting_changes_afterwards():
    X, y = D[["x", "z"]], Surv(D["time"], D["event"])
    changing = CoxRegression(time_varying={"x": "log"}).fit(X, y).set_params(time_varying=None)
    with pytest.raises(DataError, match="change with time"):
        changing.inference.term_tests()


NOT_NESTED = {
    LinearRegression: "y",
    LogisticRegression: "b",
    PoissonRegression: "k",
    CumulativeProbabilityModel: "y",
    CoxRegression: None,
    ConditionalLogisticRegression: "b",
}


@pytest.mark.parametrize("model", NOT_NESTED)
def test_columns_of_nested_models_are_combinations_of_those_of_the_larger(model):
    """A larger model of other columns has a likelihood ratio, but no test of it."""
    rng = np.random.default_rng(5)
    n = 300
    table = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "z", "a"])
    name = NOT_NESTED[model]
    y = rng.standard_normal(n) + table["z"] if name == "y" else (rng.random(n) < 0.4) * 1
    given = {}
    if name is None:
        y = Surv(rng.exponential(size=n), np.ones(n))
        given = {"strata": np.arange(n) % 3}
    if model is ConditionalLogisticRegression:
        given = {"strata": np.arange(n) // 6}
    z = model().fit(table[["z"]], y, **given)
    xa = model().fit(table[["x", "a"]], y, **given)
    if xa.log_likelihood_ > z.log_likelihood_:
        with pytest.raises(DataError, match="'z' is not a linear combination"):
            compare_nested_fits(z, xa)
    with pytest.raises(DataError, match="not nested in model 2"):
        compare_nested_fits(z, xa)
    other = pd.DataFrame({"p": table["z"] + 1e3, "q": table["x"] - 2 * table["z"]})
    combined = model().fit(other, y, **given)
    assert compare_nested_fits(z, combined).loc[1, "df"] == 1
    assert compare_nested_fits(model().fit(null_design(n), y, **given), z).loc[1, "df"] == 1


def test_rows_without_weight_do_not_count_for_the_columns_of_nested_models():
    weights = np.where(np.arange(len(D)) % 5 == 0, 0.0, 1.0)
    moved = D["x"] + np.where(weights == 0, 7.0, 0.0)
    small = LinearRegression().fit(D[["x"]], D["y"], sample_weight=weights)
    large = LinearRegression().fit(
        pd.DataFrame({"x": moved, "z": D["z"]}), D["y"], sample_weight=weights
    )
    assert compare_nested_fits(small, large).loc[1, "df"] == 1


def test_an_interaction_is_tested_with_those_that_contain_it():
    """As R's rms::anova; without them the test depends on the zero of the third variable."""
    rng = np.random.default_rng(3)
    n = 200
    table = pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "z", "w"])
    table["y"] = table["x"] * table["z"] * 0.2 + rng.standard_normal(n)
    model = LinearRegression.from_formula("y ~ x * z * w", table)
    found = model.inference.term_tests()
    assert found.loc[("x:z", "all"), "df"] == 2
    assert found.loc[("x:z:w", "all"), "df"] == 1
    both = model.inference.linear_hypothesis(["x:z", "x:z:w"])
    assert found.loc[("x:z", "all"), "chisq"] == pytest.approx(both["chisq"], rel=1e-10)
    moved = LinearRegression.from_formula("y ~ x * z * w", table.assign(w=table["w"] + 10))
    other = moved.inference.term_tests()
    np.testing.assert_allclose(other.loc["x:z", "chisq"], found.loc["x:z", "chisq"], rtol=1e-6)
    bent = LinearRegression.from_formula("y ~ rcs(x, 3) * z * w", table).inference.term_tests()
    assert bent.loc["rcs(x, 3):z", "df"].to_dict() == {"all": 4, "nonlinear": 2}
