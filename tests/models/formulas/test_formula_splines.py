"""Splines and clusters in formulas, against the numbers of R and the bases of patsy."""

import pickle

import numpy as np
import pandas as pd
import patsy
import pytest

from steropes import CoxRegression, DataError, Laplace, LinearRegression, SeparationError
from steropes.models.formulas.formula_splines import (
    harrell_knots,
    natural_spline,
    restricted_cubic_spline,
    short_name,
)

# ns(women$height, df = 5), the example of R's help page; rows 2, 5 and 8.
HEIGHT = np.arange(58.0, 73.0)
OF_R = {
    1: [7.592323e-03, 0.0, -8.670223e-02, 2.601067e-01, -1.734045e-01],
    4: [4.334305e-01, 1.311953e-02, -1.324404e-01, 3.973211e-01, -2.648807e-01],
    7: [4.791667e-01, 4.791667e-01, 1.406302e-02, 2.031093e-02, -1.354062e-02],
}


def same_space(A, B):
    """Whether two matrices have the same column space, constants included."""
    one = np.ones((len(A), 1))
    A, B = np.hstack([one, A]), np.hstack([one, B])
    left = A @ np.linalg.lstsq(A, B, rcond=None)[0]
    return A.shape == B.shape and np.abs(left - B).max() < 1e-8 * np.abs(B).max()


def test_natural_splines_are_those_of_r():
    X = natural_spline(HEIGHT, np.quantile(HEIGHT, np.linspace(0, 1, 6)))
    for row, numbers in OF_R.items():
        np.testing.assert_allclose(X[row], numbers, rtol=2e-6, atol=1e-9)


def test_restricted_and_natural_splines_span_the_same_functions_as_patsy(data):
    x, knots = data["age"].to_numpy(), np.array([30.0, 45.0, 60.0, 75.0])
    grid = np.linspace(knots[0], knots[-1], 100)
    theirs = patsy.dmatrix("cr(x, knots=[45, 60], lower_bound=30, upper_bound=75) - 1", {"x": grid})
    assert same_space(restricted_cubic_spline(grid, knots), np.asarray(theirs)[:, 1:])
    assert same_space(natural_spline(x, knots), restricted_cubic_spline(x, knots))


def test_restricted_cubic_splines_are_linear_beyond_the_outer_knots():
    X = restricted_cubic_spline([70.0, 80.0, 90.0, 0.0, -10.0], [10.0, 30.0, 60.0])
    np.testing.assert_allclose(X[1] - X[0], X[2] - X[1])
    assert (X[3:, 1] == 0).all()
    np.testing.assert_allclose(
        natural_spline([0.0, 1.0, 2.0], [5.0, 6.0, 9.0]).T @ [1, -2, 1], 0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("k", "shares"),
    [
        (3, [0.1, 0.5, 0.9]),
        (4, [0.05, 0.35, 0.65, 0.95]),
        (5, [0.05, 0.275, 0.5, 0.725, 0.95]),
        (6, [0.05, 0.23, 0.41, 0.59, 0.77, 0.95]),
        (7, [0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975]),
    ],
)
def test_knots_are_those_of_harrells_table(k, shares):
    np.testing.assert_allclose(harrell_knots(np.linspace(0, 1, 10001), k), shares, atol=5e-5)


def test_outer_knots_of_few_rows_are_the_fifth_values():
    np.testing.assert_allclose(harrell_knots(np.arange(50.0), 3), [4, 24.5, 45])


def test_columns_have_harrells_names(data):
    m = LinearRegression.from_formula(
        "y ~ rcs(age, 4) * drug + rcs(np.log(years), [0.2, 0.5, 0.9])", data
    )
    assert list(m.summary().index) == [
        "intercept", "age", "age'", "age''", "drug", "np.log(years)", "np.log(years)'",
        "age:drug", "age':drug", "age'':drug",
    ]  # fmt: skip
    assert short_name("rcs(`dose level`, 3)[']", ["rcs(`dose level`, 3)"]) == "dose level'"


@pytest.mark.parametrize("term", ["rcs(age, 4)", "ns(age, df=3)", "cr(age, df=3)", "rcs(age)"])
def test_new_data_have_the_knots_of_the_fit(data, term):
    m = LinearRegression.from_formula(f"y ~ {term}", data)
    whole = m.predict(data)
    np.testing.assert_allclose(m.predict(data.tail(5)), whole[-5:])
    np.testing.assert_allclose(pickle.loads(pickle.dumps(m)).predict(data.head(5)), whole[:5])


def test_splines_go_with_priors_weights_and_strata(data):
    formula = "Surv(time, dead) ~ rcs(age, 4) + drug + strata(site) + offset(log(years))"
    m = CoxRegression.from_formula(formula, data, sample_weight="w", fixed={"drug": 0.3})
    twice = data.loc[np.repeat(data.index, data["w"].astype(int))]
    other = CoxRegression.from_formula(formula, twice, fixed={"drug": 0.3}, ties="breslow")
    m = CoxRegression.from_formula(
        formula, data, sample_weight="w", fixed={"drug": 0.3}, ties="breslow"
    )
    np.testing.assert_allclose(m.coef_, other.coef_, rtol=1e-6)
    assert CoxRegression.from_formula(
        formula, data, prior=Laplace(0.1, exclude=["age'"])
    ).converged_


@pytest.mark.parametrize("spline", ["cr", "cs", "cc"])
def test_cubic_regression_splines_are_centred_unless_asked_otherwise(data, spline):
    m = CoxRegression.from_formula(f"Surv(time, dead) ~ {spline}(age, df=3)", data)
    same = CoxRegression.from_formula(
        f"Surv(time, dead) ~ {spline}(age, df=3, constraints='center')", data
    )
    np.testing.assert_array_equal(m.coef_, same.coef_)
    np.testing.assert_allclose(m.design_matrix(data).mean(), 0, atol=1e-10)
    with pytest.raises(SeparationError, match="Collinear"):
        CoxRegression.from_formula(
            f"Surv(time, dead) ~ {spline}(age, df=3, constraints=None)", data
        )


def test_a_cyclic_spline_has_the_same_value_at_both_ends(data):
    m = CoxRegression.from_formula("Surv(time, dead) ~ cc(age, df=3)", data)
    ends = data.assign(age=[data["age"].min(), data["age"].max()] + [50.0] * (len(data) - 2))
    eta = m.linear_predictor(ends)
    assert eta[0] == pytest.approx(eta[1])


def test_clusters_of_a_formula_are_those_of_robust_errors_and_draws(data):
    people = data.assign(id=np.arange(len(data)) // 3, part=np.arange(len(data)) % 2)
    formula = "Surv(time, dead) ~ drug + age"
    plain = CoxRegression.from_formula(formula, people)
    m = CoxRegression.from_formula(f"{formula} + cluster(id)", people)
    np.testing.assert_array_equal(m.coef_, plain.coef_)
    pd.testing.assert_frame_equal(m.summary(), plain.summary())
    wanted = plain.vcov("robust", cluster=people["id"])
    pd.testing.assert_frame_equal(m.vcov("robust"), wanted)
    assert not np.allclose(wanted, plain.vcov("robust"))
    pd.testing.assert_frame_equal(m.vcov("robust", cluster=people["site"]),
                                  plain.vcov("robust", cluster=people["site"]))  # fmt: skip
    draws = m.inference.bootstrap(5, random_state=1).coef
    same = plain.inference.bootstrap(5, random_state=1, cluster=people["id"]).coef
    np.testing.assert_array_equal(draws, same)
    pairs = CoxRegression.from_formula(f"{formula} + cluster(id, part)", people)
    both = pd.Series(list(zip(people["id"], people["part"], strict=True)))
    pd.testing.assert_frame_equal(
        pairs.vcov("robust"), plain.vcov("robust", cluster=both.set_axis(people.index))
    )


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ rcs(age, 2)", "3 to 7 knots, not 2"),
        ("y ~ rcs(drug, 4)", "too few distinct values"),
        ("y ~ rcs(age, [50, 40, 60])", "ascending order"),
        ("y ~ rcs(site, 4)", "one column of numbers"),
        ("y ~ rcs(gone, 4)", "gone"),
        ("y ~ ns(age)", "ns.x, df=3. has df columns"),
        ("y ~ ns(age, df=0)", "df=1 or more"),
        ("y ~ ns(age, knots=[90])", "boundaries included"),
        ("y ~ age + cluster(site) + cluster(drug)", r"twice; write cluster\(a, b\)"),
        ("y ~ age:cluster(site)", "terms of their own"),
    ],
)
def test_refusals(data, formula, words):
    with pytest.raises(DataError, match=words):
        LinearRegression.from_formula(formula, data)


CODINGS = ["rcs(x, 4)", "ns(x, df=3)", "bs(x, df=4)", "cr(x, df=3)", "scale(x)", "poly(x, 2)"]


@pytest.mark.parametrize("coding", CODINGS)
def test_weights_count_for_knots_as_repeated_rows_do(coding):
    rng = np.random.default_rng(2)
    n = 150
    table = pd.DataFrame({"x": rng.exponential(size=n), "y": rng.standard_normal(n)})
    weight = rng.integers(0, 4, n) * 1.0
    table.loc[np.argmax(table.x), "x"] = 50.0
    weight[np.argmax(table.x)] = 0.0  # beyond all other rows
    text = f"y ~ {coding}"
    weighted = LinearRegression.from_formula(text, table, sample_weight=weight)
    repeated = table.loc[np.repeat(np.arange(n), weight.astype(int))]
    expected = LinearRegression.from_formula(text, repeated)
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        weighted.design_matrix(repeated), expected.design_matrix(repeated), rtol=1e-12
    )
    # Weights that are not whole leave rows of weight zero out, and count other rows once.
    part = np.where(weight > 0, rng.uniform(0.1, 0.9, n), 0.0)
    there = LinearRegression.from_formula(text, table[part > 0], sample_weight=part[part > 0])
    found = LinearRegression.from_formula(text, table, sample_weight=part)
    np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-6, atol=1e-9)


def test_levels_and_typical_values_are_those_of_rows_with_weight():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": np.arange(40.0), "y": rng.standard_normal(40)})
    table["site"] = np.where(np.arange(40) < 5, "a", np.where(np.arange(40) % 2, "b", "c"))
    weight = (np.arange(40) >= 5) * 1.0
    for site in (table["site"], table["site"].astype("category")):
        data = table.assign(site=site)
        model = LinearRegression.from_formula("y ~ x + site", data, sample_weight=weight)
        expected = LinearRegression.from_formula("y ~ x + site", data[weight > 0])
        assert model.coef_names_ == expected.coef_names_ == ["x", "site[T.c]"]
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
        np.testing.assert_allclose(
            model.inference.term_tests(), expected.inference.term_tests(), rtol=1e-8
        )


def test_values_beyond_the_knots_are_named_with_their_row():
    table = pd.DataFrame({"x": np.linspace(0, 1, 30), "y": np.sin(np.arange(30.0))})
    model = LinearRegression.from_formula("y ~ bs(x, df=4)", table)
    new = pd.DataFrame({"x": [0.5, 2.0, -1.0]})
    with pytest.raises(DataError, match=r"bs\(x\) is beyond .* 0 to 1, in row 1 and 1 more"):
        model.predict(new)
    wide = LinearRegression.from_formula("y ~ bs(x, df=4, extrapolation='clip')", table)
    assert np.isfinite(wide.predict(new)).all()


def test_functions_of_r_need_no_numpy():
    table = pd.DataFrame({"x": np.linspace(0, 1, 30), "y": np.sin(np.arange(30.0))})
    m = LinearRegression.from_formula("sqrt(y + 2) ~ sqrt(x) + log1p(x)", table)
    other = LinearRegression.from_formula("np.sqrt(y + 2) ~ np.sqrt(x) + np.log1p(x)", table)
    np.testing.assert_array_equal(m.coef_, other.coef_)
    with pytest.raises(DataError, match=r"sqrt\(x - 0.5\) is missing in row 0.*root or logarithm"):
        LinearRegression.from_formula("y ~ sqrt(x - 0.5)", table)
