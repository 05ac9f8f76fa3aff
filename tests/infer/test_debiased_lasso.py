"""The debiased lasso equals a few lines of scikit-learn, and without penalties Wald inference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    SeparationError,
    Surv,
)

POOLED = ("pooled", "pooled change")
FAMILIES = [name for name in EVERY if name not in (*POOLED, "cumulative")]


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_unpenalised_fits_and_regressions_are_wald_inference(name, rng):
    c = case(name, rng)
    model = c.fit()
    names = [x for x in model._coefficient_names() if x.startswith("x")][:3]
    for kind in ("model", "robust"):
        found = model.inference.debiased_lasso(names, kind=kind, nodewise_penalty=0.0)
        np.testing.assert_allclose(found.vcov, model.vcov(kind).loc[names, names], rtol=1e-8)
        np.testing.assert_allclose(found.coef, model.summary()["coef"][names], atol=1e-7)


def wide(rng, n=80, p=120):
    """Correlated columns, more than rows, of which two have effects."""
    X = rng.normal(size=(n, p)) + 0.7 * rng.normal(size=(n, 1))
    X[:, 1] = (X[:, 1] > 0.5) * 2.0
    return X, 0.8 * X[:, 0] - 0.6 * X[:, 1]


def straight_line(X, v, r, beta, j, penalty):
    """Equations 5 to 9 of van de Geer and others (2014), with standardised columns.

    The penalty is in units of the norm of column j.
    """
    n = len(X)
    Z = np.sqrt(v)[:, None] * (X - np.average(X, axis=0, weights=v))
    s = np.sqrt((Z**2).mean(axis=0))
    penalty = penalty * s[j]
    others = np.delete(np.arange(X.shape[1]), j)
    lasso = Lasso(alpha=penalty, fit_intercept=False, tol=1e-13, max_iter=200_000)
    gamma = np.zeros(X.shape[1])
    gamma[others] = lasso.fit(Z[:, others] / s[others], Z[:, j]).coef_ / s[others]
    gap = Z[:, j] - Z @ gamma
    tau2 = gap @ gap / n + penalty * (s * np.abs(gamma)).sum()
    theta = -gamma / tau2
    theta[j] = 1.0 / tau2
    b = beta[j] - theta @ ((X - np.average(X, axis=0, weights=v)).T @ r) / n
    sigma = Z.T @ Z / n
    return b, np.sqrt(theta @ sigma @ theta / n)


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
@pytest.mark.parametrize("store", [np.asarray, sparse.csc_array])
def test_agrees_with_nodewise_regressions_by_scikit_learn(family, store, rng):
    X, eta = wide(rng)
    n = len(X)
    if family == "linear":
        model, y = LinearRegression, eta + rng.normal(size=n)
    elif family == "logistic":
        model, y = LogisticRegression, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    else:
        model, y = PoissonRegression, rng.poisson(np.exp(0.5 * eta))
    fit = model(prior=Laplace(0.02), tol=1e-10).fit(store(X), y)
    at = fit.intercept_ + X @ fit.coef_
    if family == "linear":
        v, mean, dispersion = np.ones(n), at, fit._residual_variance()
    elif family == "logistic":
        mean = 1 / (1 + np.exp(-at))
        v, dispersion = mean * (1 - mean), 1.0
    else:
        v = mean = np.exp(at)
        dispersion = 1.0
    found = fit.inference.debiased_lasso(["x0", "x1", "x5"], nodewise_penalty=0.2)
    for name, j in (("x0", 0), ("x1", 1), ("x5", 5)):
        b, se = straight_line(X, v, mean - y, fit.coef_, j, 0.2)
        np.testing.assert_allclose(found.coef[name], b, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.summary().se[name], np.sqrt(dispersion) * se, rtol=1e-4)


def test_cox_agrees_with_regressions_over_the_risk_sets(rng):
    """The information of a Cox model is Σ over events of the weighted covariance at risk."""
    X, eta = wide(rng, n=60, p=70)
    time = rng.exponential(np.exp(-eta))
    y = Surv(np.minimum(time, 1.0), time < 1.0)
    fit = CoxRegression(prior=Laplace(0.02), tol=1e-10).fit(X, y)
    risk = np.exp(X @ fit.coef_)
    rows, score = [], np.zeros(X.shape[1])
    for i in np.flatnonzero(y["event"]):
        at = np.flatnonzero(y["time"] >= y["time"][i])
        share = risk[at] / risk[at].sum()
        mean = share @ X[at]
        rows.append(np.sqrt(share)[:, None] * (X[at] - mean))
        score -= X[i] - mean
    Z, d, penalty = np.concatenate(rows), int(y["event"].sum()), 0.3
    s = np.sqrt((Z**2).sum(axis=0) / d)
    found = fit.inference.debiased_lasso(["x0", "x2"], nodewise_penalty=penalty)
    for name, j in (("x0", 0), ("x2", 2)):
        others = np.delete(np.arange(X.shape[1]), j)
        # scikit-learn divides the sum of squares by the number of rows of Z, ours by events
        lasso = Lasso(penalty * s[j] * d / len(Z), fit_intercept=False, tol=1e-13, max_iter=200_000)
        gamma = lasso.fit(Z[:, others] / s[others], Z[:, j]).coef_ / s[others]
        direction = np.zeros(X.shape[1])
        direction[others], direction[j] = -gamma, 1.0
        z = Z @ direction
        slope = z @ Z[:, j]
        b = fit.coef_[j] - direction @ score / slope
        np.testing.assert_allclose(found.coef[name], b, rtol=1e-5)
        np.testing.assert_allclose(found.vcov.loc[name, name], z @ z / slope**2, rtol=1e-5)


@pytest.mark.slow
def test_intervals_cover_a_penalised_coefficient_with_more_columns_than_rows():
    """All of 200 simulations in which the lasso itself misses by shrinkage."""
    inside, shrunken, errors = 0, [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 150))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=100)
        model = LinearRegression(prior=Laplace(0.005)).fit(X, y)
        table = model.inference.debiased_lasso("x0").summary()
        inside += bool((table.lower.iloc[0] < 1.0) & (table.upper.iloc[0] > 1.0))
        shrunken.append(model.coef_[0] - 1.0)
        errors.append(table.coef.iloc[0] - 1.0)
    assert 180 <= inside <= 198  # 95 % ± three Monte Carlo errors, and a little below
    assert np.mean(shrunken) < -0.15
    assert abs(np.mean(errors)) < 0.05


def test_excluded_columns_stay_unpenalised_in_the_regressions(rng):
    """Their part is removed from the column completely."""
    X, eta = wide(rng)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int)
    model = LogisticRegression(prior=Laplace(0.02, exclude=[2, 3])).fit(X, y)
    found = model.inference.debiased_lasso("x0")
    assert found.nodewise.correlation["x0"] <= np.sqrt(2 * np.log(120) / 80) + 1e-9
    p = 1 / (1 + np.exp(-(model.intercept_ + X @ model.coef_)))
    largest = LogisticRegression(prior=Laplace(0.02, exclude=[2, 3])).fit(X, y)
    far = largest.inference.debiased_lasso(
        "x0", nodewise_penalty=1e6
    )  # only excluded columns take part
    v = p * (1 - p)
    A = np.column_stack([np.ones(len(X)), X[:, 2:4]])
    gamma = np.linalg.solve(A.T @ (v[:, None] * A), A.T @ (v * X[:, 0]))
    z = X[:, 0] - A @ gamma
    np.testing.assert_allclose(far.vcov.iloc[0, 0], 1 / (v @ z**2), rtol=1e-6)
    np.testing.assert_allclose(
        far.coef.iloc[0] - model.coef_[0], z @ (y - p) / (v @ z**2), rtol=1e-6
    )


@pytest.mark.slow
def test_thousands_of_sparse_columns_are_not_made_dense(rng):
    n, p = 2000, 5000
    X = sparse.random(n, p, 0.01, "csc", random_state=1)
    X.data[:] = 1.0
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - X[:, [0]].toarray()[:, 0]))).astype(int)
    model = LogisticRegression(prior=Laplace(0.05)).fit(X, y)
    found = model.inference.debiased_lasso(["x0", "x1"])
    assert (found.nodewise.correlation <= np.sqrt(2 * np.log(p) / n)).all()
    V = model.inference.debiased_lasso("x1").vcov
    np.testing.assert_allclose(found.vcov.loc["x1", "x1"], V.iloc[0, 0], rtol=1e-6)


@pytest.mark.parametrize("penalty", [None, 0.2])
def test_units_of_the_column_change_nothing_but_its_unit(penalty, rng):
    """A given penalty was once absolute, so that intervals depended on the unit of the column."""
    X, eta = wide(rng)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int)
    unit = np.ones(X.shape[1])
    unit[0] = 50.0
    one, two = (
        LogisticRegression(prior=Laplace(0.02, exclude=[0]), tol=1e-10)
        .fit(x, y)
        .inference.debiased_lasso("x0", nodewise_penalty=penalty)
        for x in (X, X * unit)
    )
    np.testing.assert_allclose(two.summary()["se"] * 50.0, one.summary()["se"], rtol=1e-5)
    np.testing.assert_allclose(two.coef * 50.0, one.coef, rtol=1e-5)
    np.testing.assert_allclose(two.nodewise["penalty"], one.nodewise["penalty"], rtol=1e-6)


def test_an_elastic_net_is_debiased_with_the_same_formula(rng):
    X, eta = wide(rng)
    y = eta + rng.normal(size=len(X))
    model = LinearRegression(prior=ElasticNet(0.02, 0.5), tol=1e-10).fit(X, y)
    at = model.intercept_ + X @ model.coef_
    found = model.inference.debiased_lasso("x0", nodewise_penalty=0.3)
    b, _ = straight_line(X, np.ones(len(X)), at - y, model.coef_, 0, 0.3)
    np.testing.assert_allclose(found.coef["x0"], b, rtol=1e-5)


def test_refusals(rng):
    X, eta = wide(rng)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int)
    model = LogisticRegression(prior=Laplace(0.02)).fit(X, y)
    with pytest.raises(DataError, match="intercept"):
        model.inference.debiased_lasso("intercept")
    with pytest.raises(SeparationError, match="ollinear"):
        model.inference.debiased_lasso("x0", nodewise_penalty=0.0)
    with pytest.raises(DataError, match="nodewise_penalty"):
        model.inference.debiased_lasso("x0", nodewise_penalty=-1)
    with pytest.raises(DataError, match="Laplace"):
        LogisticRegression(prior=Normal(1.0)).fit(X, y).inference.debiased_lasso("x0")
    for name in (*POOLED, "cumulative"):
        with pytest.raises(DataError, match="profiles or the bootstrap"):
            case(name, rng, n=100).fit().inference.debiased_lasso("x0")


@pytest.mark.parametrize("family", ["logistic", "cox"])
def test_copies_and_sums_of_columns_are_refused_by_name(family, rng):
    """Their intervals were once half as wide as the unpenalised ones of a single column."""
    X = rng.normal(size=(120, 6))
    eta = X[:, 0] - 0.5 * X[:, 1]
    if family == "cox":
        y, model = Surv(rng.exponential(np.exp(-eta)), np.ones(120, int)), CoxRegression
    else:
        y, model = (rng.random(120) < 1 / (1 + np.exp(-eta))).astype(int), LogisticRegression
    copied = np.column_stack([X, -2.0 * X[:, 0] + 3.0, X[:, 1] + X[:, 2]])
    fit = model(prior=Laplace(0.1)).fit(copied, y)
    for given in (None, 0.1, 1e-3):
        with pytest.raises(SeparationError, match="'x0' is not identified beside 'x6'"):
            fit.inference.debiased_lasso("x0", nodewise_penalty=given)
    with pytest.raises(SeparationError, match="'x7' is not identified beside 'x1', 'x2'"):
        fit.inference.debiased_lasso("x7")
    found = fit.inference.debiased_lasso(["x3", "x4"])  # others are not affected
    alone = model(prior=Laplace(0.1)).fit(np.delete(copied, 6, axis=1), y)
    other = alone.inference.debiased_lasso(["x3", "x4"])
    np.testing.assert_allclose(np.diag(found.vcov), np.diag(other.vcov), rtol=0.05)
    near = np.column_stack([X, X[:, 0] + 0.3 * rng.normal(size=120)])
    wide_interval = model(prior=Laplace(0.1)).fit(near, y).inference.debiased_lasso("x0").summary()
    single = model(prior=Laplace(0.1)).fit(X, y).inference.debiased_lasso("x0").summary()
    assert wide_interval["se"].iloc[0] > 1.5 * single["se"].iloc[0]


def test_a_complete_set_of_indicators_is_refused_beside_an_intercept(rng):
    """The correlations with ten other levels are small, but no penalty reduces them."""
    group = rng.integers(0, 11, 2000)
    X = np.column_stack([(group[:, None] == np.arange(11)) * 1.0, rng.normal(size=(2000, 20))])
    y = X[:, 1] - X[:, 12] + rng.normal(size=2000)
    fit = LinearRegression(prior=Laplace(0.01)).fit(X, y)
    with pytest.raises(SeparationError, match="'x1' is not identified beside"):
        fit.inference.debiased_lasso("x1")
    found = (
        LinearRegression(prior=Laplace(0.01))
        .fit(X[:, 1:], y)
        .inference.debiased_lasso("x0")
        .summary()
    )
    assert found["lower"].iloc[0] < 1.0 < found["upper"].iloc[0]


def test_representation_shows_the_table(rng):
    X, eta = wide(rng)
    model = LinearRegression(prior=Laplace(0.02)).fit(X, eta + rng.normal(size=len(X)))
    found = model.inference.debiased_lasso(["x0", "x1"])
    assert repr(found) == "<DebiasedLasso of 2 coefficients>"
    assert "x1" in found._repr_html_()
    np.testing.assert_allclose(found.lasso, model.coef_[:2])
