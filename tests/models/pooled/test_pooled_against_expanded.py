"""PooledLogisticRegression equals a logistic regression of the person-intervals."""

import dataclasses

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.interpolate import BSpline

import steropes
from person_intervals import columns, expand, power, simulate
from steropes import Laplace, LogisticRegression, Normal, PooledLogisticRegression


def spline(t):
    """Cubic B-splines with knots at 1, 3, 6 and 9; the first left to the constant."""
    knots = np.r_[[1.0] * 4, 3.0, 6.0, [9.0] * 4]
    return BSpline.design_matrix(t, knots, 3).toarray()[:, 1:]


def one(k):
    return np.ones(len(k))


def free(last):
    return [lambda k, j=j: (k == j).astype(float) for j in range(1, last + 1)]


BASELINES = {
    "quadratic": (2, [one, power(1), power(2)], ["intercept", "t", "t^2"]),
    "constant": (0, [one], ["intercept"]),
    "interval": ("interval", free(8), [f"t={k}" for k in range(1, 9)]),
    "log": (np.log, [one, np.log], ["intercept", "log(t)"]),
    "spline": (
        spline,
        [one, *(lambda k, m=m: spline(k)[:, m] for m in range(5))],
        ["intercept", *(f"spline(t)[{m}]" for m in range(1, 6))],
    ),
}
CHANGES = {
    "none": (None, [], []),
    "two": (
        {"x1": 2, 0: 1},
        [(0, power(1)), (1, power(1)), (1, power(2))],
        ["x0:t", "x1:t", "x1:t^2"],
    ),
    "all": (1, [(j, power(1)) for j in range(4)], [f"x{j}:t" for j in range(4)]),
    "function": ({"x2": np.sqrt}, [(2, np.sqrt)], ["x2:sqrt(t)"]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("baseline", BASELINES)
def test_maximum_likelihood_is_that_of_statsmodels(baseline, change, entry):
    spec, functions, names = BASELINES[baseline]
    changing, pairs, added = CHANGES[change]
    X, y = simulate(600, seed=3, entry=entry)
    _, k, event, _, Z = expand(X, y, np.arange(9.0))
    reference = sm.Logit(event, columns(k, Z, functions, pairs)).fit(
        disp=0, method="newton", tol=1e-13, maxiter=100
    )
    model = PooledLogisticRegression(
        breaks=range(9), baseline=spec, time_varying=changing, tol=1e-10
    ).fit(X, y)
    table = model.summary()
    assert list(table.index) == [*names, "x0", "x1", "x2", "x3", *added]
    np.testing.assert_allclose(table["coef"], reference.params, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(table["se"], reference.bse, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(reference.llf, rel=1e-10)
    assert model.converged_
    assert model.n_person_intervals_ == len(event)


def test_weights_and_offset_are_those_of_statsmodels():
    X, y = simulate(400, seed=5, entry=True)
    rng = np.random.default_rng(0)
    w, offset = rng.integers(0, 4, 400), rng.normal(size=400)
    person, k, event, shift, Z = expand(X, y, np.arange(9.0), offset)
    D = columns(k, Z, [one, power(1)], [(1, power(1))])
    reference = sm.GLM(event, D, sm.families.Binomial(), offset=shift, freq_weights=w[person]).fit(
        tol=1e-14, maxiter=100
    )
    model = PooledLogisticRegression(interval=1, baseline=1, time_varying={"x1": 1}).fit(
        X, y, sample_weight=w, offset=offset
    )
    table = model.summary()
    np.testing.assert_allclose(table["coef"], reference.params, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(table["se"], reference.bse, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(reference.llf, rel=1e-10)


@pytest.mark.parametrize(
    "prior",
    [
        Laplace(0.02),
        Normal(0.1),
        steropes.ElasticNet(0.05, 0.2),
        Laplace(0.02, exclude=["x1", "x0:t"]),
    ],
)
@pytest.mark.parametrize("baseline", ["quadratic", "interval"])
def test_priors_agree_with_the_logistic_model_of_the_rows(prior, baseline):
    spec, functions, names = BASELINES[baseline]
    X, y = simulate(500, seed=7)
    X[:, 3] *= 500  # the prior is on coefficients, not on standardised columns
    _, k, event, _, Z = expand(X, y, np.arange(9.0))
    D = columns(k, Z, functions, [(j, power(1)) for j in range(4)])
    labels = [*names, *(f"x{j}" for j in range(4)), *(f"x{j}:t" for j in range(4))]
    wide = dataclasses.replace(prior, exclude=[*names, *prior.exclude])
    rows = LogisticRegression(prior=wide, fit_intercept=False, tol=1e-11, max_iter=1000)
    rows.fit(steropes.as_design(D, labels), event)
    model = PooledLogisticRegression(
        breaks=range(9), baseline=spec, time_varying=1, prior=prior, tol=1e-11, max_iter=1000
    ).fit(X, y)
    M = len(names)
    np.testing.assert_allclose(model.coef_, rows.coef_[M:], atol=1e-7)
    np.testing.assert_allclose(model.baseline_coef_, rows.coef_[:M], atol=1e-7)
    assert model.log_likelihood_ == pytest.approx(rows.log_likelihood_, rel=1e-11)
    if isinstance(prior, Laplace) and not prior.exclude:
        assert 0 < (model.coef_ == 0).sum() < 8


def test_variances_by_column_go_to_their_changes_too():
    X, y = simulate(300, seed=2)
    each = np.array([0.01, 0.1, 1.0, 10.0])
    short = PooledLogisticRegression(interval=1, time_varying={2: 1, 0: 1}, prior=Normal(each))
    full = PooledLogisticRegression(
        interval=1, time_varying={2: 1, 0: 1}, prior=Normal(each[[0, 1, 2, 3, 0, 2]])
    )
    np.testing.assert_array_equal(short.fit(X, y).coef_, full.fit(X, y).coef_)


def test_a_weight_of_three_is_three_people_in_any_order():
    X, y = simulate(250, seed=11, entry=True)
    w = np.random.default_rng(1).integers(0, 4, 250)
    at = np.random.default_rng(2).permutation(np.repeat(np.arange(250), w))
    for prior in (None, Laplace(0.05)):
        model = PooledLogisticRegression(interval=1, time_varying={"x0": 1}, prior=prior, tol=1e-10)
        a = model.fit(X, y, sample_weight=w)
        a = np.append(a._coefficients(), a.log_likelihood_)
        b = model.fit(X[at], y[at])
        np.testing.assert_allclose(np.append(b._coefficients(), b.log_likelihood_), a, atol=1e-8)


def test_cross_validation_scores_are_those_of_separate_fits():
    X, y = simulate(300, seed=4)
    splits = [(np.flatnonzero(np.arange(300) % 4 != f), np.arange(f, 300, 4)) for f in range(4)]
    variances = [0.003, 0.03, 0.3]
    cv = steropes.CrossValidation(splits, search=variances, tol=1e-9)
    settings = {"breaks": range(9), "baseline": 1, "time_varying": {"x1": 1}}
    model = PooledLogisticRegression(prior=Laplace(), cv=cv, **settings).fit(X, y)
    for v, row in zip(variances, model.cv_results_.to_dict("records"), strict=True):
        scores = []
        for train, test in splits:
            fold = PooledLogisticRegression(prior=Laplace(v), tol=1e-10, **settings)
            fold.fit(X[train], y[train])
            person, k, event, _, _ = expand(X[test], y[test], np.arange(9.0))
            eta = fold.linear_predictor(X[test])[person, k.astype(int) - 1]
            scores.append(np.sum(event * eta - np.logaddexp(0, eta)))
        np.testing.assert_allclose([row[f"fold{f}"] for f in range(4)], scores, rtol=1e-6)
    best = model.cv_results_["mean"].idxmax()
    assert model.variance_ == model.cv_results_["variance"][best]
    refit = PooledLogisticRegression(prior=Laplace(model.variance_), **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-7)


def test_survival_is_the_product_over_the_intervals_that_ended():
    X, y = simulate(400, seed=6)
    model = PooledLogisticRegression(interval=0.5, baseline=2, time_varying={0: 1}).fit(X, y)
    b, g = model.baseline_coef_, model.coef_
    times = np.array([7.9, 0.0, 0.4999, 0.5, 3.0, 3.3, 3.0])
    offset = np.linspace(-1, 1, 400)
    survival = model.predict_survival(X, times, offset)
    for i in (0, 17, 399):
        s, by_end = 1.0, [1.0]
        for k in range(1, len(model.breaks_)):
            eta = b["intercept"] + b["t"] * k + b["t^2"] * k**2 + X[i] @ g[:4] + offset[i]
            s *= 1 - 1 / (1 + np.exp(-(eta + X[i, 0] * k * g[4])))
            by_end.append(s)
        expected = [by_end[int(np.floor(t / 0.5 + 1e-9))] for t in times]
        np.testing.assert_allclose(survival[i], expected, rtol=1e-12)
    np.testing.assert_allclose(
        np.cumprod(1 - model.predict_hazard(X), axis=1)[:, -1], 1 - model.predict(X), rtol=1e-12
    )
