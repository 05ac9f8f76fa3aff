"""Entropy balancing: exact and approximate balance, errors, and targets out of reach."""

import numpy as np
import pandas as pd
import pytest
from confounded_covariates import confounded
from scipy.optimize import minimize
from sklearn.base import clone

import steropes
from steropes import DataError, LinearRegression
from steropes.designs import EntropyBalancing, balance_table


@pytest.fixture(scope="module")
def exact(lalonde, lalonde_covariates):
    return {
        estimand: EntropyBalancing(estimand=estimand).fit(lalonde_covariates, lalonde.treat)
        for estimand in ("att", "atu", "ate")
    }


def effect(weights, lalonde):
    y, t = lalonde.re78.to_numpy(), lalonde.treat.to_numpy() == 1
    return np.average(y[t], weights=weights[t]) - np.average(y[~t], weights=weights[~t])


# WeightIt 2.0.0; its iterations stop where the means still differ by some 1e-6 standard deviations.
@pytest.mark.parametrize(
    ("estimand", "difference", "stacked", "hc0", "sizes"),
    [
        ("att", 1273.256189, 789.7431, 824.3853, (98.4586, 185)),
        ("ate", 951.6705701, 1233.9387, 1475.8250, (342.5421, 40.3577)),
    ],
)
def test_estimates_and_errors_are_those_of_weightit(
    exact, lalonde, estimand, difference, stacked, hc0, sizes
):
    fit, t = exact[estimand], lalonde.treat.to_numpy()
    assert effect(fit.weights_, lalonde) == pytest.approx(difference, rel=1e-5)
    found = fit.effective_sample_size_
    assert (found["comparator"], found["target"]) == pytest.approx(sizes, rel=1e-5)
    model = LinearRegression().fit(t[:, None], lalonde.re78, sample_weight=fit.weights_)
    last = (
        model.summary(kind="robust")["se"].iloc[-1],
        model.summary(weight_model=fit)["se"].iloc[-1],
    )
    assert last == pytest.approx((hc0, stacked), rel=1e-5)


@pytest.mark.parametrize(
    ("estimand", "difference", "stacked"),
    [("ate", 3.38106500, 0.4734639), ("att", 3.37769429, 0.4862647)],
)
def test_weight_gain_in_nhefs_is_that_of_weightit(
    nhefs, nhefs_covariates, estimand, difference, stacked
):
    known = nhefs.wt82_71.notna().to_numpy()
    X, d = nhefs_covariates[known], nhefs[known]
    fit = EntropyBalancing(estimand=estimand).fit(X, d.qsmk)
    model = LinearRegression().fit(d[["qsmk"]], d.wt82_71, sample_weight=fit.weights_)
    assert model.coef_[0] == pytest.approx(difference, rel=1e-5)
    assert model.summary(weight_model=fit)["se"].iloc[-1] == pytest.approx(stacked, rel=1e-5)


@pytest.mark.parametrize("estimand", ["att", "atu", "ate"])
def test_means_are_equal_and_the_population_keeps_its_weights(exact, lalonde, estimand):
    fit, t = exact[estimand], lalonde.treat.to_numpy() == 1
    assert fit.converged_
    assert fit.balance_.smd_after.abs().max() < 1e-8
    size = {"att": t.sum(), "atu": (~t).sum(), "ate": len(t)}[estimand]
    assert fit.weights_[t].sum() == pytest.approx(size)
    assert fit.weights_[~t].sum() == pytest.approx(size)
    assert {"att": (fit.weights_[t] == 1).all(), "atu": (fit.weights_[~t] == 1).all()}.get(
        estimand, True
    )


@pytest.mark.parametrize("estimand", ["att", "ate"])
def test_the_optimum_certifies_balance_within_the_tolerance(lalonde, lalonde_covariates, estimand):
    fit = EntropyBalancing(estimand=estimand, tolerance=0.05).fit(lalonde_covariates, lalonde.treat)
    assert fit.converged_
    assert (fit.imbalance_ <= fit.tolerance_ * (1 + 1e-6)).all()
    levels = fit.balance_[fit.balance_.kind != "factor"]
    assert levels.smd_after.abs().max() <= 0.05 * (1 + 1e-6)
    assert "race[black]" in fit.feature_names_  # the reference level is balanced as well
    equal = EntropyBalancing(estimand=estimand).fit(lalonde_covariates, lalonde.treat)
    assert fit.effective_sample_size_["comparator"] > equal.effective_sample_size_["comparator"]


def test_weights_have_the_least_divergence_of_all_that_balance_within_the_tolerance():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    t = (rng.random(30) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    fit = EntropyBalancing(estimand="att", tolerance=0.1).fit(X, t)
    C, goal, delta = X[t == 0], X[t == 1].mean(axis=0), fit.tolerance_
    found = minimize(
        lambda w: w @ np.log(w),
        np.full(len(C), 1 / len(C)),
        jac=lambda w: np.log(w) + 1,
        bounds=[(1e-9, 1)] * len(C),
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1},
            {"type": "ineq", "fun": lambda w: delta - (w @ C - goal)},
            {"type": "ineq", "fun": lambda w: delta + (w @ C - goal)},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(fit.weights_[t == 0] / t.sum(), found.x, atol=1e-6)


def test_sparse_covariates_are_balanced_like_dense_ones():
    X, t = confounded(600, 150)
    sparse = EntropyBalancing(estimand="att", tolerance=0.1).fit(X, t)
    dense = EntropyBalancing(estimand="att", tolerance=0.1).fit(X.toarray(), t)
    assert sparse.converged_
    np.testing.assert_allclose(sparse.weights_, dense.weights_, rtol=1e-6)
    assert (sparse.imbalance_ <= sparse.tolerance_ * (1 + 1e-6)).all()


def test_order_of_rows_units_and_repeated_rows_do_not_matter(lalonde, lalonde_covariates):
    X, t = lalonde_covariates.drop(columns="race").to_numpy(float), lalonde.treat.to_numpy()
    for tolerance in (0.0, 0.03):
        balancing = EntropyBalancing(estimand="ate", tolerance=tolerance)
        w = balancing.fit(X, t).weights_
        order = np.random.default_rng(0).permutation(len(t))
        np.testing.assert_allclose(balancing.fit(X[order], t[order]).weights_, w[order], rtol=1e-6)
        other = balancing.fit(X * [12, 1, 1, 1, 1e-3, 100] + [5, 0, 0, 0, 7, 0], t).weights_
        np.testing.assert_allclose(other, w, rtol=1e-6)
    twice = np.arange(len(t)) % 3 == 0
    rows = np.repeat(np.arange(len(t)), 1 + twice)
    balancing = EntropyBalancing(estimand="ate")
    weighted = balancing.fit(X, t, sample_weight=1.0 + twice).weights_
    repeated = balancing.fit(X[rows], t[rows]).weights_
    np.testing.assert_allclose(np.bincount(rows, repeated), weighted, rtol=1e-6)


def test_a_level_that_the_treated_lack_gets_no_weight():
    X = pd.DataFrame({"age": [50.0, 60, 47, 40, 53, 65, 80, 58], "rare": [0, 0, 0, 1, 0, 0, 1, 0]})
    fit = EntropyBalancing(estimand="att").fit(X, [1, 1, 0, 0, 0, 0, 0, 0])
    assert fit.converged_
    assert not fit.weights_[X.rare == 1].any()
    assert fit.balance_.smd_after.abs().max() < 1e-8
    one_row = X.assign(age=[50, 60, 70, 40, 55, 65, 80, 58])  # only one has the mean or less
    np.testing.assert_allclose(
        EntropyBalancing(estimand="att").fit(one_row, [1, 1, 0, 0, 0, 0, 0, 0]).weights_,
        [1, 1, 0, 0, 2, 0, 0, 0],
    )


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_a_target_outside_the_range_of_a_column_is_named(tolerance):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=40), "dose": np.r_[np.full(10, 5.0), np.zeros(30)]})
    X["dose"] += rng.uniform(0, 1, 40)
    with pytest.raises(DataError, match=r"comparator group.*'dose'.*outside the range.*tolerance"):
        EntropyBalancing(estimand="att", tolerance=tolerance).fit(X, np.arange(40) < 10)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_a_target_outside_the_convex_hull_is_refused_with_its_columns(tolerance):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "noise"])
    t = X.a + X.b > 2.5
    with pytest.raises(DataError, match="convex hull") as refused:
        EntropyBalancing(estimand="att", tolerance=tolerance).fit(X, t)
    named = str(refused.value).split("most: ")[1]
    assert max(named.index("'a'"), named.index("'b'")) < len("'a', 'b', ")
    possible = EntropyBalancing(estimand="att", tolerance=2.0).fit(X, t)
    assert possible.converged_


def test_columns_that_are_combinations_of_others_do_no_harm(lalonde, lalonde_covariates, exact):
    X = lalonde_covariates.assign(earnings=lambda d: d.re74 + d.re75)
    fit = EntropyBalancing(estimand="att").fit(X, lalonde.treat)
    np.testing.assert_allclose(fit.weights_, exact["att"].weights_, rtol=1e-5)


def test_a_combination_that_the_target_contradicts_is_refused():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 50))
    t = np.arange(50) < 20
    X = pd.DataFrame({"a": a, "b": b, "sum": a + b + np.where(t, rng.uniform(0.3, 0.5, 50), 0)})
    with pytest.raises(DataError, match="combinations of other columns"):
        EntropyBalancing(estimand="att").fit(X, t)


def test_tolerances_by_name(lalonde, lalonde_covariates):
    fit = EntropyBalancing(estimand="att", tolerance={"age": 0.1, "race": 0.2})
    fit.fit(lalonde_covariates, lalonde.treat)
    table = fit.balance_.set_index("name").smd_after.abs()
    assert table["age"] == pytest.approx(0.1)
    assert table[["race[black]", "race[white]"]].max() == pytest.approx(0.2, rel=1e-5)
    assert table[["educ", "re74", "re75", "married"]].max() < 1e-8
    with pytest.raises(DataError, match="'agee'"):
        EntropyBalancing(tolerance={"agee": 0.1}).fit(lalonde_covariates, lalonde.treat)
    both = {"race": 0.1, "race[black]": 0.2}
    with pytest.raises(DataError, match=r"'race\[black\]' and the whole column"):
        EntropyBalancing(tolerance=both).fit(lalonde_covariates, lalonde.treat)


def test_settings_are_those_of_scikit_learn():
    balancing = EntropyBalancing(estimand="att", tolerance=0.1)
    assert clone(balancing).get_params() == balancing.get_params()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimand": "ato"}, "estimand"),
        ({"tolerance": -1.0}, "tolerance must be a finite number"),
        ({"tolerance": "0.1"}, "tolerance must be a finite number"),
        ({"tolerance": True}, "tolerance must be a finite number"),
        ({"tolerance": {"x0": "0.1"}}, "tolerance must be a finite number"),
        ({"tol": 0}, "tol must be positive"),
        ({"max_iter": 1.5}, "max_iter must be a whole number of 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        EntropyBalancing(**settings).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("treatment", "message"),
    [([0, 0, 0, 0], "target group"), ([0, 1, 2, 1], "0 or 1"), ([0, 1, 1], "3 rows")],
)
def test_treatments_that_are_no_two_groups_are_refused(treatment, message):
    with pytest.raises(DataError, match=message):
        EntropyBalancing().fit(np.eye(4), treatment)


def test_errors_with_a_tolerance_are_refused(lalonde, lalonde_covariates):
    fit = EntropyBalancing(estimand="att", tolerance=0.1).fit(lalonde_covariates, lalonde.treat)
    model = LinearRegression().fit(lalonde[["treat"]], lalonde.re78, sample_weight=fit.weights_)
    with pytest.raises(DataError, match="exact balance"):
        model.summary(weight_model=fit)


def test_weights_that_did_not_converge_warn(lalonde, lalonde_covariates):
    with pytest.warns(steropes.NotConvergedWarning, match="tolerance or max_iter"):
        EntropyBalancing(max_iter=2).fit(lalonde_covariates, lalonde.treat)


def test_the_data_are_not_changed(lalonde, lalonde_covariates):
    X, t = lalonde_covariates.copy(), lalonde.treat.copy()
    EntropyBalancing(tolerance=0.05).fit(X, t)
    pd.testing.assert_frame_equal(X, lalonde_covariates)
    table = balance_table(X, t)
    assert (table.columns == ["name", "kind", *(f"{c}_before" for c in (
        "target_mean", "comparator_mean", "smd", "variance_ratio", "ks"))]).all()  # fmt: skip


def test_many_sparse_columns_without_a_solution_are_refused():
    X, t = confounded(300, 250)
    with pytest.raises(DataError, match=r"within the tolerance.*convex hull"):
        EntropyBalancing(estimand="att", tolerance=0.01).fit(X, t)
    assert EntropyBalancing(estimand="att", tolerance=0.25).fit(X, t).converged_
