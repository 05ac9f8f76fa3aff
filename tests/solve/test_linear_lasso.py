"""A linear lasso is a quadratic problem and takes few steps in any unit of y."""

import numpy as np
import pytest

import steropes
from reference import kkt


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e5])
def test_more_columns_than_rows_and_a_weak_penalty_take_few_steps(size, seed):
    rng = np.random.default_rng(seed)
    n, p = 50, 120
    X = rng.normal(size=(n, p))
    y = size * (3 + X[:, :5].sum(axis=1) + rng.normal(size=n))
    m = steropes.LinearRegression(prior=steropes.Laplace(1.0)).fit(X, y)
    assert m.converged_
    assert m.n_iter_ < 20
    r = m.intercept_ + X @ m.coef_ - y
    lam = np.sqrt(2.0)
    assert abs(r.sum()) < 1e-6 * size
    assert kkt(X.T @ r, m.coef_, lam, 0.0).max() < 1e-8 * max(size, lam)
    assert np.count_nonzero(m.coef_) < n


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_a_lasso_in_another_unit_is_the_same_fit(size, rng):
    X = rng.normal(size=(60, 100))
    y = X[:, :5].sum(axis=1) + rng.normal(size=60)
    m = steropes.LinearRegression(prior=steropes.Laplace(1.0)).fit(X, y)
    # λ on Σ (y − η)²/2 has y's unit: it goes with it, and its variance against it
    scaled = steropes.LinearRegression(prior=steropes.Laplace(size**-2.0)).fit(X, size * y)
    np.testing.assert_allclose(scaled.coef_ / size, m.coef_, atol=1e-7)
    assert scaled.n_iter_ == pytest.approx(m.n_iter_, abs=2)
    # columns in another unit have a penalty in another unit
    units = np.where(np.arange(100) % 2, 1e4, 1e-3)
    prior = steropes.Laplace(1.0 / units**2)
    other = steropes.LinearRegression(prior=prior).fit(X * units, y)
    np.testing.assert_allclose(other.coef_ * units, m.coef_, atol=1e-7)


@pytest.mark.parametrize("copies", [2, 3])
def test_columns_that_are_there_twice_do_not_keep_a_lasso_from_its_optimum(copies, rng):
    X = np.tile(rng.normal(size=(80, 10)), (1, copies))
    y = (rng.random(80) < 0.5).astype(int)
    for model, outcome in (
        (steropes.LinearRegression, 1e4 * rng.normal(size=80)),
        (steropes.LogisticRegression, y),
    ):
        m = model(prior=steropes.Laplace(10.0)).fit(X, outcome)
        assert m.converged_
        assert m.n_iter_ < 30
