"""Profiles and tests of linear combinations equal those of a coefficient of a changed design."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse, stats

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    DataError,
    GroupLaplace,
    Jeffreys,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MonotoneLikelihoodWarning,
    Normal,
    Surv,
)
from steropes.models.inference import linear_combinations

FAMILIES = EVERY
PRIORS = [None, Laplace(0.05, exclude=[0, 2, 4]), Normal(0.2, exclude=[0, 2, 4])]


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_profile_of_a_difference_is_that_of_a_coefficient(number, rng):
    """β_0 x_0 + β_2 x_2 = (β_0 − β_2) x_0 + β_2 (x_0 + x_2)."""
    name = FAMILIES[number]
    prior = PRIORS[number % 3]
    c = case(name, rng, n=150)
    store = [np.asarray, sparse.csc_matrix, sparse.csr_array][number % 3]
    model = c.fit(store(c.X), prior=prior)
    if name == "pooled change":  # the effect of x0 changes with time
        with pytest.raises(DataError, match="different periods"):
            model.inference.linear_combination("x0:t - x2")
        first, second = "x2", "x4"
    else:
        first, second = "x0", "x2"
    changed = c.X.copy()
    changed[:, int(second[1])] += changed[:, int(first[1])]
    direct = c.fit(changed, prior=prior)
    ours = model.inference.linear_combination(f"{first} - {second}")
    limits = direct.confint(first, method="profile").to_numpy()
    np.testing.assert_allclose(ours[["lower", "upper"]], limits, rtol=1e-5, atol=1e-6)
    a, b = (model._coefficients()[model._coefficient_names().index(x)] for x in (first, second))
    np.testing.assert_allclose(ours.coef, a - b, atol=1e-4)
    at = [float(limits[0, 0]), 0.0]
    theirs, tangent = (
        direct.inference.profile(first, at),
        model.inference.profile(f"{first} - {second}", at),
    )
    np.testing.assert_allclose(tangent.log_likelihood, theirs.log_likelihood, atol=1e-6)
    np.testing.assert_allclose(tangent.gradient, theirs.gradient, atol=1e-3)
    ratio = model.inference.linear_hypothesis(f"{first} = {second}", test="likelihood ratio")
    np.testing.assert_allclose(ratio.chisq, ours.z.iloc[0] ** 2, atol=1e-5)


def logistic_data(rng, n=300, p=40):
    """Two exposures, a covariate far from zero and many indicators."""
    X = pd.DataFrame((rng.random((n, p)) < 0.3).astype(float), columns=[f"x{j}" for j in range(p)])
    X["year"] = rng.normal(2015.0, 3.0, n)
    eta = 0.8 * X.x0 - 0.3 * X.x1 + 0.1 * (X.year - 2015) - 0.5
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)


@pytest.mark.parametrize("text", ["x0 - x1", "(x0 + x1) / 2", "-3*x0 + 2*x1 - x2", "x0 + 4*year"])
def test_profile_is_the_largest_likelihood_under_the_restriction(text, rng):
    X, y = logistic_data(rng)
    prior = Laplace(0.02, exclude=["x0", "x1", "x2", "year"])
    model = LogisticRegression(prior=prior).fit(X, y)
    table = model.inference.linear_combination(text)
    half = 0.5 * stats.chi2.ppf(0.95, 1)
    for limit in ("lower", "upper"):
        value = float(table[limit].iloc[0])
        test = model.inference.linear_hypothesis(f"{text} = {value!r}", test="likelihood ratio")
        np.testing.assert_allclose(test.chisq, 2 * half, atol=1e-6)
    adaptive = model.inference.profile(text)
    assert adaptive.point.is_monotonic_increasing
    best = adaptive.loc[adaptive.log_likelihood.idxmax()]
    np.testing.assert_allclose(best.point, table.coef.iloc[0], atol=1e-3)
    slopes = np.diff(adaptive.log_likelihood) / np.diff(adaptive.point)
    middle = 0.5 * (adaptive.gradient[1:].to_numpy() + adaptive.gradient[:-1].to_numpy())
    np.testing.assert_allclose(slopes, middle, atol=0.02 * np.abs(adaptive.gradient).max())


def test_several_equations_under_a_prior_are_a_fit_with_fewer_columns(rng):
    X, y = logistic_data(rng)
    prior = Normal(0.05, exclude=["x0", "x1", "x2"])
    model = LogisticRegression(prior=prior).fit(X, y)
    test = model.inference.linear_hypothesis("x0 = x1, x1 + x2 = 0.3", test="likelihood ratio")
    # β_2 = 0.3 − β_1 and β_0 = β_1
    merged = X.drop(columns=["x1", "x2"]).assign(x0=X.x0 + X.x1 - X.x2)
    fewer = LogisticRegression(prior=Normal(0.05, exclude=["x0"])).fit(merged, y, offset=0.3 * X.x2)

    def posterior(fit, free):
        shrunken = fit.coef_[[name not in free for name in fit.feature_names_in_]]
        return fit.log_likelihood_ - 0.5 * (shrunken**2).sum() / 0.05

    drop = posterior(model, {"x0", "x1", "x2"}) - posterior(fewer, {"x0"})
    np.testing.assert_allclose(test.chisq, 2 * drop, atol=1e-7)
    assert test.df == 2


@pytest.mark.parametrize(
    "prior",
    [
        None,
        Laplace(0.05, exclude=["x0", "x1", "year"]),
        pytest.param(Jeffreys(), marks=pytest.mark.slow),
    ],
)
def test_combinations_with_the_intercept_refer_to_zero(prior, rng):
    """The log odds where x0 = 1 are the intercept if x0 is reversed."""
    X, y = logistic_data(rng, p=6)
    ours = LogisticRegression(prior=prior).fit(X, y).inference.linear_combination("intercept + x0")
    reversed_ = LogisticRegression(prior=prior).fit(X.assign(x0=1 - X.x0), y)
    limits = reversed_.confint("intercept", method="profile").to_numpy()
    np.testing.assert_allclose(ours[["lower", "upper"]], limits, rtol=1e-5)


def test_difference_between_two_periods_of_an_effect(rng):
    """The difference of adjacent periods is the coefficient of the column in one of them."""
    X, n = rng.normal(size=(200, 3)), 200
    time = rng.exponential(np.exp(-0.7 * X[:, 0]))
    y = Surv(time, rng.random(n) < 0.7)
    model = CoxRegression(time_varying={0: [0.3, 0.8]}).fit(X, y)
    names = [name for name in model._coefficient_names() if name.startswith("x0")]
    wald = model.inference.linear_combination(f"{names[0]} - {names[1]}", method="wald")
    profile = model.inference.linear_combination(f"{names[0]} - {names[1]}")
    np.testing.assert_allclose(profile.coef, wald.coef, atol=1e-4)
    np.testing.assert_allclose(profile[["lower", "upper"]], wald[["lower", "upper"]], atol=0.05)
    test = model.inference.linear_hypothesis(f"{names[0]} = {names[1]}", test="likelihood ratio")
    np.testing.assert_allclose(test.chisq, profile.z.iloc[0] ** 2, atol=1e-6)
    with pytest.raises(DataError, match="different periods"):
        model.inference.linear_combination(f"{names[0]} - {names[2]}")
    with pytest.raises(DataError, match="different periods"):
        model.inference.linear_combination(f"{names[0]} - x1")


def test_difference_beside_thousands_of_sparse_columns(rng):
    n, p = 800, 3000
    X = sparse.random(n, p, 0.01, "csc", random_state=1)
    X.data[:] = 1.0
    X = X.tolil()
    X[:, 0], X[:, 1] = rng.random((n, 1)) < 0.4, rng.random((n, 1)) < 0.3
    X = X.tocsc()
    eta = X @ np.r_[0.7, 0.1, 0.4 * rng.normal(size=40), np.zeros(p - 42)]
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - eta))).astype(int)
    prior = Laplace(0.02, exclude=[0, 1])
    ours = LogisticRegression(prior=prior).fit(X, y).inference.linear_combination("x0 - x1")
    changed = sparse.hstack([X[:, [0]], X[:, [0]] + X[:, [1]], X[:, 2:]], "csc")
    direct = LogisticRegression(prior=prior).fit(changed, y).confint("x0", method="profile")
    np.testing.assert_allclose(ours[["lower", "upper"]], direct, rtol=1e-5)


def test_priors_of_the_combined_coefficients_are_ignored(rng):
    X, y = logistic_data(rng)
    shrunken = LogisticRegression(prior=Laplace(0.02)).fit(X, y)
    free = LogisticRegression(prior=Laplace(0.02, exclude=["x0", "x1"])).fit(X, y)
    ours, theirs = (m.inference.linear_combination("x0 - x1") for m in (shrunken, free))
    np.testing.assert_allclose(ours, theirs, atol=2e-4)


def test_wald_and_robust_are_those_of_the_covariance_matrix(rng):
    X, y = logistic_data(rng, p=4)
    model = LogisticRegression().fit(X, y)
    R = np.zeros((2, 6))
    R[0, [1, 2]], R[1, [1, 2, 3]] = (1, -1), (-0.5, 0.5, 1)
    for method, kind in (("wald", "model"), ("robust", "robust")):
        table = model.inference.linear_combination(R, method=method)
        V = R @ model.vcov(kind).to_numpy() @ R.T
        np.testing.assert_allclose(table.se, np.sqrt(np.diag(V)))
        np.testing.assert_allclose(table.coef, R[:, 1:] @ model.coef_)
        first = model.inference.linear_hypothesis("x0 = x1", kind=kind)
        np.testing.assert_allclose(table.p.iloc[0], first.p)
    assert list(table.index) == ["x0 - x1", "-0.5*x0 + 0.5*x1 + x2"]


def test_bootstrap_is_the_difference_of_the_draws(rng):
    X, y = logistic_data(rng, p=3)
    model = LogisticRegression(prior=Normal(1.0), random_state=3).fit(X, y)
    table = model.inference.linear_combination("x0 - x1", method="bootstrap")
    draws = model.inference.bootstrap(random_state=3).coef
    limits = np.quantile(draws[:, 1] - draws[:, 2], [0.025, 0.975])
    np.testing.assert_allclose(table[["lower", "upper"]].iloc[0], limits)


def test_fixed_coefficients_are_left_out(rng):
    X, y = logistic_data(rng, p=4)
    model = LogisticRegression().fit(X, y, fixed={"x2": 0.1})
    other = LogisticRegression().fit(X.drop(columns="x2"), y, offset=0.1 * X.x2)
    tables = [m.inference.linear_combination("x0 - x3") for m in (model, other)]
    np.testing.assert_allclose(*tables, atol=1e-6)
    with pytest.raises(DataError, match="fixed"):
        model.inference.linear_combination("x0 - x2")


@pytest.mark.parametrize(
    "bad", ["x0 - z", "x0 - 1", "x0 * x1", "x0 = x1", "x0 - x0", "2", "1e999*x0"]
)
def test_other_text_is_refused(bad, rng):
    X, y = logistic_data(rng, n=60, p=3)
    with pytest.raises(DataError, match="cannot be read"):
        LogisticRegression().fit(X, y).inference.linear_combination(bad)


def test_refuses_priors_that_join_the_coefficients(rng):
    X, y = logistic_data(rng, p=4)
    prior = GroupLaplace({"x0": "g", "x1": "g", "x2": "g"}, 0.1)
    model = LogisticRegression(prior=prior).fit(X, y)
    with pytest.raises(DataError, match="prior"):
        model.inference.linear_combination("x0 - year")
    with pytest.raises(DataError, match="no standard errors"):
        model.inference.linear_combination("x3 - year", method="wald")


def test_linear_models_refit_the_residual_variance(rng):
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 0.5, 0.0] + rng.normal(size=60)
    table = LinearRegression().fit(X, y).inference.linear_combination("x0 - x1")
    direct = LinearRegression().fit(X @ [[1, 1, 0], [0, 1, 0], [0, 0, 1]], y)
    limits = direct.confint("x0", method="profile")
    np.testing.assert_allclose(table[["lower", "upper"]], limits, rtol=1e-6)


def test_a_combination_that_separates_has_the_limit_of_the_likelihood():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 3))
    y = (x[:, 0] > 0) * 1
    m = LogisticRegression(prior=Laplace(0.1, exclude=[2])).fit(x, y)

    def fall(difference):
        def loss(b):
            eta = b[0] + difference * x[:, 0] + x @ np.array([b[1], b[1], b[2]])
            return np.logaddexp(0, eta).sum() - y @ eta

        return optimize.minimize(loss, np.zeros(3)).fun - 0.5 * stats.chi2.ppf(0.95, 1)

    with pytest.warns(MonotoneLikelihoodWarning, match=r"towards \+∞\): it"):
        found = m.inference.linear_combination("x0 - x1").iloc[0]
    assert found["coef"] == found["upper"] == np.inf
    assert found["lower"] == pytest.approx(optimize.brentq(fall, 5, 100), rel=0.1)
    with pytest.warns(MonotoneLikelihoodWarning):
        alone = m.inference.linear_combination("x0").iloc[0]
    with pytest.warns(MonotoneLikelihoodWarning):
        expected = m.confint(params=["x0"], method="profile").iloc[0]
    assert alone["lower"] == pytest.approx(expected["lower"], rel=0.1)


@pytest.mark.host  # devices refuse effects that are functions of time
def test_constant_effects_are_combined_beside_a_function_of_time(rng):
    """Also two effects that change by the same function; others act at different times."""
    X = pd.DataFrame(rng.standard_normal((120, 3)), columns=["a", "b", "c"])
    y = Surv(np.ceil(rng.exponential(10.0, 120)), rng.integers(0, 2, 120))
    model = CoxRegression(time_varying={"a": "log", "b": "log"}).fit(X, y)
    effects = model.inference.linear_combination(["b - c", "a:log(t) - b:log(t)"])
    sums = X.assign(b=X["b"], c=X["b"] + X["c"])  # β_b b + β_c c = (β_b − β_c) b + β_c (b + c)
    times = np.unique(y["time"][y["event"] == 1])
    rows = [(i, a, b) for i, t in enumerate(y["time"])
            for a, b in zip([0.0, *times], [*times, np.inf], strict=True) if a < t]  # fmt: skip
    person, start, stop = (np.array(v) for v in zip(*rows, strict=True))
    last = stop >= y["time"][person]
    stop = np.minimum(stop, y["time"][person])
    event = np.where(last, y["event"][person], 0)
    split = sums.iloc[person].reset_index(drop=True)
    log = np.log(stop)
    split["both"] = (split["a"] + split["b"]) * log
    split["first"] = split["a"] * log
    same = CoxRegression().fit(split, Surv(stop, event, entry=start))
    expected = same.confint(["b", "first"], method="profile")
    np.testing.assert_allclose(effects[["lower", "upper"]], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(DataError, match="different periods"):
        model.inference.linear_combination("a + 2*a:log(t)")


def test_a_limit_that_is_not_known_stays_on_its_side(monkeypatch, rng):
    """With a negative multiple the limits are exchanged, whether or not both are known."""
    X = rng.standard_normal((60, 2))
    model = LogisticRegression().fit(X, rng.random(60) < 0.5)
    known = model.inference.linear_combination(np.array([[0.0, 1.0, 0.0]])).iloc[0]
    find = linear_combinations.profile_ends

    def without_lower(*args):
        tops, ((a, b),) = find(*args)
        return tops, [(replace(a, value=np.nan), b)]

    monkeypatch.setattr(linear_combinations, "profile_ends", without_lower)
    found = model.inference.linear_combination(np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]))
    expected = [[np.nan, known["upper"]], [-known["upper"], np.nan]]
    np.testing.assert_allclose(found[["lower", "upper"]], expected)


def test_a_warning_names_the_side_of_the_combination():
    """Of a separated column, −x and 2x rise without end on opposite sides."""
    model = LogisticRegression(prior=Normal(100.0)).fit(
        [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 1, 0, 1, 1, 1]
    )
    for text, side, finite in (
        ("2*x0", r"towards \+∞\)", "lower"),
        ("-x0", r"towards −∞\)", "upper"),
    ):
        with pytest.warns(MonotoneLikelihoodWarning, match=side):
            table = model.inference.linear_combination(text)
        assert np.isfinite(table[finite].iloc[0])
        with pytest.warns(MonotoneLikelihoodWarning, match=side):
            model.inference.profile(text)
