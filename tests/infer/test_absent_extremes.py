"""Rows without weight are absent after the fit too, however far out they are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    DataError,
    Laplace,
    LogisticRegression,
    PooledLogisticRegression,
    Surv,
)

FAR = np.array([1e3, 1.0, 1e5, -1e5, 1e4])  # times what a column is elsewhere


def _after(model, name):
    """What is refitted after the fit, and what is made of it."""
    yield model.summary().to_numpy(float)
    yield model.confint([name], method="profile").to_numpy()
    yield model.inference.profile(name, [-0.2, 0.3]).to_numpy()
    yield model.inference.model_tests().to_numpy()
    yield model.inference.linear_hypothesis([name], test="likelihood ratio").to_numpy()
    yield model.inference.linear_hypothesis([name], value=0.1, test="score").to_numpy()


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_rows_without_weight_that_are_far_out_change_nothing(name, rng):
    c = case(name, rng, n=150)
    n, k = len(c.X), 20
    again = rng.permutation(n)[:k]
    X = np.concatenate([c.X, c.X[again] * FAR + 3 * FAR])
    y, weight = np.concatenate([c.y, c.y[again]]), np.append(np.ones(n), np.zeros(k))
    extras = {key: np.concatenate([v, v[again]]) for key, v in c.extras.items()}
    own = c.fit()
    effect = next(s for s in own.summary().index if s.startswith("x3"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = c.make().fit(X, y, sample_weight=weight, **extras)
        for a, b in zip(_after(own, effect), _after(whole, effect), strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-6)
        assert np.isfinite(whole.confint([effect], method="profile")).all(axis=None)


def test_a_pooled_effect_is_held_where_predictors_are_far_out(rng):
    """It is an offset then, of rows of η, that an intercept has to take back."""
    X = rng.normal(size=(150, 2)) * [1, 40]
    y = Surv(np.ceil(rng.exponential(size=150) * 4), rng.random(150) < 0.7)
    model = PooledLogisticRegression(interval=2.0, baseline=1)
    whole = model.fit(X, y)
    ratio = whole.inference.linear_hypothesis(["x1"], value=0.5, test="likelihood ratio")["chisq"]
    best = whole.log_likelihood_
    held = model.fit(X[:, :1], y, offset=0.5 * X[:, 1]).log_likelihood_
    np.testing.assert_allclose(ratio, 2 * (best - held), rtol=1e-6)


def test_the_row_without_a_logarithm_is_named_by_its_number_among_all(rng):
    X, time = rng.normal(size=(60, 1)), 1.0 + rng.random(60)
    time[[2, 7]] = 0.0
    weight = np.where(np.arange(60) < 5, 0.0, 1.0)
    model = CoxRegression().fit(X, Surv(time, np.ones(60, int)), sample_weight=weight)
    with pytest.raises(DataError, match="row 7 has none"):
        model.checks.proportionality("log")


@pytest.mark.sampled
@pytest.mark.parametrize("name", [s for s in EVERY if s not in ("linear", "cox by step")])
def test_a_sparse_column_may_be_tiny_but_for_a_row_without_weight(name, rng):
    """Stored by its largest entry it needs a coefficient that is thousands of reaches away."""
    c = case(name, rng, n=150)
    far = np.zeros((2, c.X.shape[1]))
    far[:, 0], far[:, 2] = 1e4, -1e5
    X, weight = np.concatenate([c.X, far]), np.append(np.ones(150), [0.0, 0.0])
    extras = {key: np.append(v, v[-2:]) for key, v in c.extras.items()}
    own = c.fit(sparse.csc_array(c.X), prior=Laplace(0.1))
    whole = c.make(prior=Laplace(0.1))
    whole.fit(sparse.csc_array(X), np.append(c.y, c.y[-2:]), sample_weight=weight, **extras)
    assert whole.converged_
    np.testing.assert_allclose(whole.coef_, own.coef_, rtol=1e-4, atol=1e-6)


def test_draws_without_the_row_that_is_far_out_converge(rng):
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    X[0] = [2e4, 0.0, -2e4]
    model = LogisticRegression(prior=Laplace(0.1)).fit(sparse.csc_array(X), y)
    draws = model.inference.bootstrap(n=20, random_state=1)
    assert draws.converged.all()
    assert np.abs(draws.coef[:, 1]).max() > 0.1  # about 0.5 where that row is left out


@pytest.mark.parametrize("name", ["conditional exact", "conditional poisson", "cumulative"])
def test_offsets_may_be_anything_where_there_is_no_weight(name, rng):
    c = case(name, rng, n=100)
    weight, offset = np.ones(100), 0.1 * rng.normal(size=100)
    weight[[3, 60]], offset[[3, 60]] = 0.0, [-2000.0, 2000.0]
    there = weight > 0
    whole = c.make().fit(c.X, c.y, sample_weight=weight, offset=offset, **c.extras)
    own = {key: v[there] for key, v in c.extras.items()}
    part = c.make().fit(c.X[there], c.y[there], offset=offset[there], **own)
    np.testing.assert_allclose(whole.summary(), part.summary(), rtol=1e-5, atol=1e-8)
    offset[50] = 2000.0
    with pytest.raises(DataError, match=r"further apart than exp can hold: .* in row 50"):
        c.make().fit(c.X, c.y, sample_weight=weight, offset=offset, **c.extras)
