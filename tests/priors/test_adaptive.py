"""Broken adaptive ridge: fixed points, by closed form and by dense reweighting."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import reference
from every_family import EVERY, case
from steropes import (
    BrokenAdaptiveRidge,
    CrossValidation,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    NotConvergedWarning,
)
from steropes.fit import solve_with_prior
from steropes.infer.bootstrap_draws import Draws
from tuning import tune


def test_orthogonal_columns_have_the_roots_of_a_quadratic():
    """H β² − c β + 1/variance = 0: the larger root, or zero where there is none."""
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(60, 4)))[0] * 8.0
    y = X @ [2.0, -2.5, 0.3, 0.0] + rng.normal(size=60)
    prior = BrokenAdaptiveRidge(0.05, start_variance=1e6)
    model = LinearRegression(prior=prior, fit_intercept=False, tol=1e-10).fit(X, y)
    H, c = 64.0, X.T @ y
    inside = c**2 - 4 * H / 0.05
    root = np.sign(c) * (np.abs(c) + np.sqrt(np.maximum(inside, 0.0))) / (2 * H)
    np.testing.assert_allclose(model.coef_, np.where(inside > 0, root, 0.0), atol=1e-8)
    assert (model.coef_ == 0).sum() == 2


def _data(n=300, p=12):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.5)
    eta = X[:, :3] @ [1.5, -1.0, 1.0]
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int), rng


@pytest.mark.parametrize("as_x", [np.asarray, sparse.csc_array, pd.DataFrame])
def test_reweighted_dense_ridges_end_at_the_same_point(as_x):
    X, y, rng = _data()
    w, offset = rng.integers(0, 3, 300).astype(float), 0.2 * rng.normal(size=300)
    prior = BrokenAdaptiveRidge(0.2, exclude=[11])
    model = LogisticRegression(prior=prior).fit(as_x(X), y, sample_weight=w, offset=offset)
    Z, kappa = np.column_stack([np.ones(300), X]), np.r_[0.0, np.ones(11), 0.0]
    b = np.zeros(13)
    for _ in range(80):
        for _ in range(8):  # Newton's steps on the ridge
            mu = 1 / (1 + np.exp(-(Z @ b + offset)))
            g = Z.T @ (w * (mu - y)) + kappa * b
            b = b - np.linalg.solve(Z.T @ ((w * mu * (1 - mu))[:, None] * Z) + np.diag(kappa), g)
        b[1:12][np.abs(b[1:12]) < 1e-8] = 0.0
        kappa[1:12] = np.where(b[1:12] == 0, 1e14, 5.0 / np.maximum(b[1:12] ** 2, 1e-16))
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_), b, atol=1e-5)
    assert 0 < (model.coef_[:11] == 0).sum() < 11
    assert model.coef_[11] != 0


FAMILIES = [name for name in EVERY if name != "cumulative"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_ends_where_the_slope_is_the_price_over_the_coefficient(name):
    own = case(name, np.random.default_rng(6))
    model = own.fit(prior=BrokenAdaptiveRidge(2.0))
    problem = model._problem
    batch = problem.batch()
    batch.start_at((model._beta * problem.design.scale)[:, None])
    g = batch.gradients()[:, 0] * problem.design.scale
    b, g = model._beta[problem.n_free :], g[problem.n_free :]
    live = b != 0
    assert live.any()
    np.testing.assert_allclose(g[live], -1 / (2.0 * b[live]), atol=1e-4)
    assert model.converged_
    assert model.optimality_ <= model.tol


def test_each_fold_is_reweighted_by_itself():
    X, y, _ = _data()
    fold = np.arange(300) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    search = [0.1, 0.3]
    model = LogisticRegression(
        prior=BrokenAdaptiveRidge(), cv=CrossValidation(splits, search=search)
    ).fit(X, y)
    for variance, (_, row) in zip(search, model.cv_results_.iterrows(), strict=True):
        for k, (train, test) in enumerate(splits):
            part = LogisticRegression(prior=BrokenAdaptiveRidge(variance)).fit(X[train], y[train])
            score = -reference.logistic(part.linear_predictor(X[test]), y[test], 1.0)[0]
            assert row[f"fold{k}"] == pytest.approx(score, abs=1e-4)
    again = LogisticRegression(prior=BrokenAdaptiveRidge(model.variance_)).fit(X, y)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-6)


def test_a_weight_is_a_repeated_row_and_units_mean_little():
    X, y, rng = _data()
    w = rng.integers(0, 3, 300)
    prior = BrokenAdaptiveRidge(0.2, start_variance=1e4)
    weighted = LogisticRegression(prior=prior).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(300), w)
    repeated = LogisticRegression(prior=prior).fit(X[rows] * 10, y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_ * 10, atol=1e-6)
    same = weighted.fit(X, y, sample_weight=w)  # used again
    np.testing.assert_allclose(same.coef_, repeated.coef_ * 10, atol=1e-6)


def test_a_row_that_is_cut_short_is_not_called_converged(monkeypatch):
    X, y, _ = _data()
    tune(monkeypatch, solve_with_prior, "REPLICATES", max_descents=2)
    with pytest.warns(NotConvergedWarning):
        model = LogisticRegression(prior=BrokenAdaptiveRidge(0.2)).fit(X, y)
    assert model.optimality_ > 1e-4


def test_refusals():
    own = case("logistic", np.random.default_rng(0))
    with pytest.raises(DataError, match="no path of variances"):
        own.fit(prior=BrokenAdaptiveRidge(), cv=3)
    with pytest.raises(DataError, match="needs solver='newton'"):
        own.fit(prior=BrokenAdaptiveRidge(), solver="ccd")


def test_each_bootstrap_draw_is_reweighted_by_itself():
    X, y, _ = _data()
    model = LogisticRegression(prior=BrokenAdaptiveRidge(0.2)).fit(X, y)
    drawn = model.inference.bootstrap(3, random_state=5)
    draws = Draws(np.ones(len(y)), None, 3, np.random.default_rng(5))
    for k in range(3):
        again = LogisticRegression(prior=model.prior_).fit(X, y, sample_weight=draws.one(k))
        np.testing.assert_allclose(drawn.coef[k, 1:], again.coef_, atol=1e-3)
    assert (drawn.coef == 0).any()


def test_there_is_no_profile():
    model = case("logistic", np.random.default_rng(0)).fit(prior=BrokenAdaptiveRidge())
    with pytest.raises(DataError, match="there is no profile"):
        model.inference.profile(1)


def test_a_column_of_tiny_numbers_is_held_at_zero():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 3)) * [1.0, 1e-9, 1.0]
    y = (X[:, 0] + rng.logistic(size=150) > 0).astype(int)
    model = LogisticRegression(prior=BrokenAdaptiveRidge()).fit(X, y)
    alone = LogisticRegression(prior=BrokenAdaptiveRidge()).fit(X[:, [0, 2]], y)
    np.testing.assert_allclose(model.coef_, np.insert(alone.coef_, 1, 0.0), rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-150, 1e-80, 1e140])
@pytest.mark.parametrize("variance", [0.5, 1e-30])
def test_columns_in_extreme_units_collapse_without_overflow(unit, variance):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 3))
    y = (X[:, 0] + rng.logistic(size=150) > 0).astype(int)
    prior = BrokenAdaptiveRidge(variance)
    alone = LogisticRegression(prior=prior).fit(X[:, [0, 2]], y)
    model = LogisticRegression(prior=prior).fit(X * [1.0, unit, 1.0], y)
    assert model.converged_
    np.testing.assert_allclose(model.coef_, np.insert(alone.coef_, 1, 0.0), rtol=1e-6)
    start = LogisticRegression(prior=BrokenAdaptiveRidge(variance, [1.0, 1e-30, 1.0]))
    with pytest.raises(DataError, match="variance of column 'x1' is so small"):
        start.fit(X * [1.0, 1e-150, 1.0], y)


def test_there_are_no_walds_errors_even_where_every_coefficient_stays():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2))
    y = (X @ [1.0, -1.0] + rng.logistic(size=300) > 0).astype(int)
    m = LogisticRegression(prior=BrokenAdaptiveRidge(5.0)).fit(X, y)
    assert (m.coef_ != 0).all()
    for fitted in (m, pickle.loads(pickle.dumps(m))):
        with pytest.raises(DataError, match=r"bootstrap\(\)"):
            fitted.vcov()
        assert fitted.summary()["se"].isna().all()
    free = LogisticRegression(prior=BrokenAdaptiveRidge(5.0, exclude=[0, 1])).fit(X, y)
    np.testing.assert_allclose(free.vcov(), LogisticRegression().fit(X, y).vcov(), rtol=1e-6)


@pytest.mark.parametrize("exclude", [None, 1.5, {"x0": True}])
@pytest.mark.parametrize(
    "make", [Normal, Laplace, BrokenAdaptiveRidge, lambda v, exclude: ElasticNet(v, v, exclude)]
)
def test_columns_to_exclude_are_a_sequence(make, exclude):
    X, y = np.eye(6)[:, :2], [0, 1, 0, 1, 1, 0]
    with pytest.raises(DataError, match="exclude must be a sequence of names or positions"):
        LogisticRegression(prior=make(0.1, exclude=exclude)).fit(X, y)
