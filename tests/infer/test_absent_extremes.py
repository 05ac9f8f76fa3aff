"""Rows without weight are absent after the fit too, however far out they are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from every_family import EVERY, case
from steropes import CoxRegression, DataError, PooledLogisticRegression, Surv

FAR = np.array([1e3, 1.0, 1e5, -1e5, 1e4])  # times what a column is elsewhere


def _after(model, name):
    """What is refitted after the fit, and what is made of it."""
    yield model.summary().to_numpy(float)
    yield model.confint([name], method="profile").to_numpy()
    yield model.profile(name, [-0.2, 0.3]).to_numpy()
    yield model.model_tests().to_numpy()
    yield model.linear_hypothesis([name], test="likelihood ratio").to_numpy()
    yield model.linear_hypothesis([name], value=0.1, test="score").to_numpy()


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
    ratio = whole.linear_hypothesis(["x1"], value=0.5, test="likelihood ratio")["chisq"]
    best = whole.log_likelihood_
    held = model.fit(X[:, :1], y, offset=0.5 * X[:, 1]).log_likelihood_
    np.testing.assert_allclose(ratio, 2 * (best - held), rtol=1e-6)


def test_the_row_without_a_logarithm_is_named_by_its_number_among_all(rng):
    X, time = rng.normal(size=(60, 1)), 1.0 + rng.random(60)
    time[[2, 7]] = 0.0
    weight = np.where(np.arange(60) < 5, 0.0, 1.0)
    model = CoxRegression().fit(X, Surv(time, np.ones(60, int)), sample_weight=weight)
    with pytest.raises(DataError, match="row 7 has none"):
        model.test_proportionality("log")
