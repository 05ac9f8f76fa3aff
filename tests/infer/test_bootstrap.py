"""Bootstrap draws: each is the optimum of its weights, in every family."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.optimize import linprog

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PooledLogisticRegression,
    Surv,
)
from steropes.infer import bootstrap
from steropes.infer.bootstrap_draws import Draws, sampling_units

FAMILIES = [name for name in EVERY if name != "cumulative"]
PRIORS = [None, Laplace(0.05, exclude=[0]), Normal(0.2)]


def weights_of(model, n, seed, cluster=None):
    """Row weights of a model's draws, (rows, n)."""
    unit, _ = sampling_units(model._problem, cluster)
    rng = np.random.default_rng(seed)
    return Draws(model._problem.weights, unit, n, rng)(list(range(n)))


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_a_draw_is_the_fit_with_its_weights(number, rng):
    name, prior = FAMILIES[number], PRIORS[number % 3]
    c = case(name, rng, n=150)
    store = [np.asarray, sparse.csr_array, sparse.csc_matrix][number % 3]
    model = c.fit(store(c.X), prior=prior)
    drawn = model.inference.bootstrap(9, random_state=5)
    w = weights_of(model, 9, 5)
    for k in (0, 8):
        again = c.make(prior=prior).fit(c.X, c.y, sample_weight=w[:, k], **c.extras)
        np.testing.assert_allclose(drawn.coef[k], again._coefficients(), rtol=1e-3, atol=2e-3)
    assert drawn.units == ("strata" if "conditional" in name or name == "case series" else "rows")
    assert list(drawn.confint().index) == list(model.summary().index)
    if number % 3 == 1:
        zero = (drawn.coef == 0).mean(axis=0)
        np.testing.assert_allclose(drawn.nonzero, 1 - zero)


def test_the_seed_alone_decides_and_the_fit_stays_as_it_is(rng):
    c = case("logistic", rng)
    model = c.fit(prior=Laplace(0.1), n_jobs=2)
    before = model.summary(), model.coef_.copy(), model.optimality_
    drawn = model.inference.bootstrap(20, random_state=1)
    np.testing.assert_array_equal(
        drawn.coef, model.inference.bootstrap(20, random_state=1, n_jobs=1).coef
    )
    few = model.inference.bootstrap(10, random_state=1)
    np.testing.assert_allclose(few.coef, drawn.coef[:10], atol=1e-4)
    assert abs(model.inference.bootstrap(20, random_state=2).coef - drawn.coef).max() > 0.01
    np.testing.assert_array_equal(before[1], model.coef_)
    assert before[0].equals(model.summary())
    assert before[2] == model.optimality_


def test_weights_are_repeated_rows_where_copies_are_drawn_together(rng):
    c = case("cox", rng, n=80)
    w = rng.integers(0, 3, 80).astype(float)
    rows = np.repeat(np.arange(80), w.astype(int))
    one = c.make(ties="breslow")
    one.fit(c.X, c.y, sample_weight=w, offset=c.X[:, 0] / 3)
    many = c.make(ties="breslow").fit(c.X[rows], c.y[rows], offset=c.X[rows, 0] / 3)
    a = one.inference.bootstrap(10, random_state=3)
    b = many.inference.bootstrap(10, cluster=rows, random_state=3)
    assert (a.units, b.units) == ("rows", "clusters")
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-3, atol=2e-3)


def test_clusters_stay_whole_and_must_not_cut_strata(rng):
    c = case("conditional exact", rng)
    model = c.fit()
    sets = c.extras["strata"]
    unit, _ = sampling_units(model._problem, sets // 4)
    w = Draws(np.ones(len(sets)), unit, 5, rng)(list(range(5)))
    for draw in w.T:
        times = [np.unique(draw[sets // 4 == g]) for g in np.unique(sets // 4)]
        assert all(len(t) == 1 for t in times)
        assert sum(t[0] for t in times) == len(times)
    with pytest.raises(DataError, match="cuts the stratum of row"):
        model.inference.bootstrap(5, cluster=np.arange(len(sets)) % 7)


def test_draws_without_a_finite_optimum_are_infinite_and_counted(rng):
    n = 200
    x = np.zeros(n)
    x[:5] = 1.0
    y = (rng.random(n) < 0.3).astype(int)
    y[:5] = [1, 0, 0, 0, 0]
    X = np.column_stack([x, rng.normal(size=n)])
    for model, outcome in (
        (LogisticRegression(), y),
        (CoxRegression(), Surv(rng.exponential(size=n), y)),
    ):
        model.fit(X, outcome)
        drawn = model.inference.bootstrap(24, random_state=0)
        w = weights_of(model, 24, 0)
        no_case = (w[0] == 0) & (w[:5].sum(axis=0) > 0)
        no_one = w[:5].sum(axis=0) == 0
        j = drawn.names.index("x0")
        np.testing.assert_array_equal(drawn.coef[:, j] == -np.inf, no_case)
        np.testing.assert_array_equal(np.isnan(drawn.coef[:, j]), no_one)
        assert np.isfinite(np.delete(drawn.coef, j, axis=1)).all()
        assert drawn.confint().loc["x0", "lower"] == -np.inf
        assert np.isfinite(drawn.confint(0.2).loc["x1"]).all()
        assert f"{no_case.sum()} without a finite optimum" in repr(drawn)


@pytest.mark.sampled
@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog"])
def test_draws_that_separate_a_cumulative_model_are_told_as_a_linear_program_tells_them(link):
    found = 0
    for seed in (0, 5, 12, 16):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(12, 2)), np.round(rng.normal(size=12), 1)
        model = CumulativeProbabilityModel(link=link).fit(X, y)
        drawn = model.inference.bootstrap(20, random_state=0)
        w = weights_of(model, 20, 0)
        expected = [in_order_along_a_direction(X[w[:, k] > 0], y[w[:, k] > 0]) for k in range(20)]
        np.testing.assert_array_equal(drawn.separated, expected)
        found += sum(expected)
    assert found > 3


def in_order_along_a_direction(X, y):
    """Whether some Xb is in the order of y, without being the same for all."""
    D = np.array([a - b for a, u in zip(X, y, strict=True) for b, v in zip(X, y, strict=True)
                  if u > v])  # fmt: skip
    found = linprog(-D.sum(axis=0), A_ub=-D, b_ub=np.zeros(len(D)), bounds=[(-1, 1)] * X.shape[1])
    return -found.fun > 1e-7


def test_draws_of_a_cumulative_model_without_what_bounds_an_effect(rng):
    n = 150
    x = np.zeros(n)
    x[:5] = 1.0
    y = np.clip(np.round(rng.normal(size=n), 1), -2, 1)
    y[:5] = [-0.5, 1.0, 1.0, 1.0, 1.0]  # of the exposed one is below the highest outcome
    X = np.column_stack([x, rng.normal(size=n)])
    model = CumulativeProbabilityModel().fit(X, y)
    drawn = model.inference.bootstrap(24, random_state=0)
    w = weights_of(model, 24, 0)
    np.testing.assert_array_equal(drawn.coef[:, 0] == np.inf, (w[0] == 0) & (w[:5].sum(axis=0) > 0))
    np.testing.assert_array_equal(np.isnan(drawn.coef[:, 0]), w[:5].sum(axis=0) == 0)
    assert np.isfinite(drawn.coef[:, 1]).all()


@pytest.mark.parametrize("offset", [0.0, 40.0])
def test_a_draw_without_an_event_in_an_interval_has_no_finite_baseline_there(offset, rng):
    """Intercepts that are not finite leave, and the others are looked at."""
    event = np.zeros(60, int)
    event[[0, 1, 2, 3, 20, 40, 41, 42]] = 1  # four, one and three in intervals of twenty people
    y = Surv(np.repeat([1.0, 2.0, 3.0], 20), event)
    model = PooledLogisticRegression(interval=1.0, baseline="interval")
    model.fit(rng.normal(size=(60, 1)), y, offset=np.full(60, offset))
    drawn = model.inference.bootstrap(20, random_state=1)
    w = weights_of(model, 20, 1)[:60]
    lacks = np.stack([w[(y["time"] == k) & (event == 1)].sum(axis=0) == 0 for k in (1, 2, 3)], 1)
    assert lacks.any(axis=0).tolist() == [False, True, True]
    np.testing.assert_array_equal(np.isneginf(drawn.coef[:, :3]), lacks)
    assert np.isfinite(drawn.coef[:, 3]).all()


def test_a_draw_says_nothing_about_collinear_columns(rng):
    n = 60
    a = rng.random(n) < 0.5
    X = np.column_stack([a, a, rng.normal(size=n)]).astype(float)
    X[0, 1] = 1.0 - X[0, 1]  # all that tells the two apart
    model = LinearRegression().fit(X, rng.normal(size=n))
    drawn = model.inference.bootstrap(30, random_state=1)
    lost = weights_of(model, 30, 1)[0] == 0
    assert 0 < lost.sum() < 30
    np.testing.assert_array_equal(np.isnan(drawn.coef[:, 1]), lost)
    np.testing.assert_array_equal(np.isnan(drawn.coef[:, 2]), lost)
    assert np.isfinite(drawn.coef[:, 3]).all()
    assert np.isinf(drawn.confint().loc[["x0", "x1"]]).all(axis=None)


def test_acceleration_is_that_of_the_mean_and_of_the_jackknife(rng):
    y = rng.exponential(size=40)
    mean = LinearRegression(fit_intercept=False).fit(np.ones((40, 1)), y)
    e = y - y.mean()
    expected = (e**3).sum() / (6 * (e**2).sum() ** 1.5)
    np.testing.assert_allclose(mean.inference.bootstrap(2, random_state=0).acceleration, [expected])
    c = case("poisson", rng, n=300)
    cluster = np.arange(300) % 50
    model = c.fit()
    values = []
    for g in range(50):
        w = (cluster != g).astype(float)
        values.append(c.make().fit(c.X, c.y, sample_weight=w, **c.extras)._coefficients())
    left = np.mean(values, axis=0) - values
    jackknife = (left**3).sum(axis=0) / (6 * (left**2).sum(axis=0) ** 1.5)
    ours = model.inference.bootstrap(2, cluster=cluster, random_state=0).acceleration
    np.testing.assert_allclose(ours, jackknife, atol=0.02)


def test_intervals_are_quantiles_reflected_and_corrected(rng):
    c = case("poisson", rng, n=100)
    drawn = c.fit().inference.bootstrap(50, random_state=4)
    q = np.quantile(drawn.coef, [0.05, 0.95], axis=0).T
    np.testing.assert_allclose(drawn.confint(0.9), q)
    basic = 2 * drawn.estimate[:, None] - q[:, ::-1]
    np.testing.assert_allclose(drawn.confint(0.9, method="basic"), basic)
    z0 = stats.norm.ppf(((drawn.coef < drawn.estimate).sum(axis=0) + 0.5) / 51)
    for j, a in enumerate(drawn.acceleration):
        z = z0[j] + stats.norm.ppf([0.05, 0.95])
        at = stats.norm.cdf(z0[j] + z / (1 - a * z))
        expected = np.quantile(drawn.coef[:, j], at)
        np.testing.assert_allclose(drawn.confint(0.9, method="bca").iloc[j], expected)
    with pytest.raises(DataError, match="method must be"):
        drawn.confint(method="normal")
    with pytest.raises(DataError, match="level must be"):
        drawn.confint(95)


def test_reselect_chooses_the_variance_in_each_draw(rng):
    c = case("logistic", rng, n=120)
    cv = CrossValidation(3, search=[0.01, 0.1, 1.0], random_state=1)
    model = c.fit(prior=Laplace(), cv=cv)
    drawn = model.inference.bootstrap(4, reselect=True, random_state=2)
    w = weights_of(model, 4, 2)
    assert set(drawn.variance) <= {0.01, 0.1, 1.0}
    for k in range(4):
        prior = Laplace(drawn.variance[k])
        again = c.make(prior=prior).fit(c.X, c.y, sample_weight=w[:, k])
        np.testing.assert_allclose(drawn.coef[k], again._coefficients(), atol=1e-3)
    with pytest.raises(DataError, match="fit with cv"):
        c.fit(prior=Laplace()).inference.bootstrap(4, reselect=True)


def test_a_pickle_has_the_intervals_and_not_the_data(rng):
    c = case("logistic", rng, n=5000)
    drawn = c.fit().inference.bootstrap(3, random_state=1)
    stored = pickle.dumps(drawn)
    assert len(stored) < 5000
    again = pickle.loads(stored)
    pd.testing.assert_frame_equal(again.confint(method="bca"), drawn.confint(method="bca"))


def test_settings_that_make_no_sense_are_refused(rng):
    model = case("linear", rng, n=50).fit()
    with pytest.raises(DataError, match="whole number from 2"):
        model.inference.bootstrap(1)
    with pytest.raises(DataError, match="one label only"):
        model.inference.bootstrap(5, cluster=np.zeros(50))
    with pytest.raises(DataError, match="random_state"):
        model.inference.bootstrap(5, random_state="x")


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(EVERY)))
def test_one_hessian_of_all_columns_finds_the_same_draws(number, rng, monkeypatch):
    c = case(EVERY[number], rng, n=150)
    model = c.fit(prior=Laplace(0.05, exclude=[0]))
    as_they_come = model.inference.bootstrap(5, random_state=3).coef
    monkeypatch.setattr(bootstrap, "MIN_COLUMNS", 2)
    # After a few steps draws go on by themselves.
    few = replace(bootstrap.BOOTSTRAP, max_shared_steps=2 if number % 3 == 0 else 60)
    monkeypatch.setattr(bootstrap, "BOOTSTRAP", few)
    drawn = model.inference.bootstrap(5, random_state=3)
    assert drawn.converged.all()
    np.testing.assert_allclose(drawn.coef, as_they_come, rtol=1e-3, atol=2e-3)
