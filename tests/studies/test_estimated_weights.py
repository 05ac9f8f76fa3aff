"""Errors with estimated weights are those of stacked estimating equations, and of refits."""

import pickle

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit

import steropes
from steropes import DataError, Normal
from steropes.designs.propensity import EstimatedWeights, propensity_weights

N = 300
ESTIMANDS = ("att", "atu", "ate", "ato")


@pytest.fixture
def drawn():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=N) + 2.0, rng.random(N) < 0.3])
    treated = (rng.random(N) < expit(X @ [0.8, -0.7] - 1.5)).astype(int)
    eta = 0.6 * treated + 0.5 * X[:, 0] - 1.2
    return X, treated, eta, rng


def outcomes(family, eta, rng):
    if family == "logistic":
        return steropes.LogisticRegression(tol=1e-10), (rng.random(N) < expit(eta)).astype(int)
    if family == "poisson":
        return steropes.PoissonRegression(tol=1e-10), rng.poisson(np.exp(eta))
    if family == "linear":
        return steropes.LinearRegression(tol=1e-10), eta + rng.normal(size=N)
    if family == "cumulative":
        y = np.round(eta + rng.logistic(size=N))
        return steropes.CumulativeProbabilityModel(tol=1e-10), y
    time = rng.exponential(np.exp(-eta))
    event = rng.random(N) < 0.7
    if family == "fine gray":
        kind = np.where(event, 1 + (rng.random(N) < 0.4), 0)
        return steropes.FineGrayRegression(tol=1e-10), steropes.Surv(time, kind)
    if family == "pooled":
        y = steropes.Surv(np.ceil(5 * time).clip(1, 6), event & (5 * time < 6))
        return steropes.PooledLogisticRegression(interval=1.0, tol=1e-10), y
    return steropes.CoxRegression(tol=1e-10), steropes.Surv(np.ceil(10 * time), event)


FAMILIES = ("logistic", "poisson", "linear", "cumulative", "cox", "fine gray", "pooled")


@pytest.mark.parametrize("stabilized", [True, False])
@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_errors_are_those_of_stacked_estimating_equations(drawn, estimand, stabilized):
    X, treated, eta, rng = drawn
    y = (rng.random(N) < expit(eta)).astype(int)
    ps = steropes.LogisticRegression(tol=1e-12).fit(X, treated)
    weights = EstimatedWeights(ps, estimand, stabilized=stabilized)
    A = np.column_stack([treated, X[:, 1]])
    m = steropes.LogisticRegression(tol=1e-12).fit(A, y, sample_weight=weights.values)
    Z, B = np.column_stack([np.ones(N), X]), np.column_stack([np.ones(N), A])

    def equations(theta):
        gamma, share, beta = theta[:3], theta[3], theta[4:]
        e = expit(Z @ gamma)
        w = {
            "att": np.where(treated, 1.0, e / (1 - e)),
            "ate": np.where(treated, 1 / e, 1 / (1 - e)),
            "atu": np.where(treated, (1 - e) / e, 1.0), "ato": np.where(treated, 1 - e, e),
        }[estimand]  # fmt: skip
        if stabilized and estimand != "ato":
            w = w * np.where(treated, share, 1 - share)
        return np.column_stack(
            [Z * (treated - e)[:, None], treated - share, B * (w * (y - expit(B @ beta)))[:, None]]
        )

    start = np.r_[ps.intercept_, ps.coef_, treated.mean(), m.intercept_, m.coef_]
    theta = optimize.root(lambda t: equations(t).sum(axis=0), start, tol=1e-12).x
    np.testing.assert_allclose(theta, start, atol=1e-7)
    h = 1e-5 * np.eye(len(theta))
    J = np.column_stack(
        [(equations(theta + d) - equations(theta - d)).sum(axis=0) / 2e-5 for d in h]
    )
    inverse, U = np.linalg.inv(J), equations(theta)
    V = (inverse @ U.T @ U @ inverse.T)[4:, 4:]
    found = m.vcov(weight_model=weights)
    np.testing.assert_allclose(found, V, rtol=1e-5)
    assert found.attrs["errors"] == "M-estimation"
    assert np.abs(V / m.vcov().to_numpy() - 1).max() > 0.02
    group = rng.integers(0, 40, N)
    G = np.stack([U[group == g].sum(axis=0) for g in range(40)])
    V = (inverse @ G.T @ G @ inverse.T)[4:, 4:]
    np.testing.assert_allclose(m.vcov("robust", group, weights), V, rtol=1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_influences_are_the_change_of_refits_with_other_weights(drawn, family):
    X, treated, eta, rng = drawn
    ps = steropes.LogisticRegression(tol=1e-12).fit(X, treated)
    weights = EstimatedWeights(ps, "ate", largest=2.0)
    make, y = outcomes(family, eta, rng)
    A = np.column_stack([treated, X[:, 1]])
    m = make.fit(A, y, sample_weight=weights.values)
    assert (weights.values == 2.0).any()

    def with_row(i, h):
        """Coefficients after the weight of row i changes by a share h, in both models."""
        times = np.ones(N)
        times[i] += h
        other = steropes.LogisticRegression(tol=1e-12).fit(X, treated, sample_weight=times)
        e, share = expit(other.intercept_ + X @ other.coef_), times @ treated / times.sum()
        w = np.where(treated, share / e, (1 - share) / (1 - e)).clip(max=2.0)
        model, _ = outcomes(family, eta, np.random.default_rng(0))
        model.fit(A, y, sample_weight=times * w)
        return model.summary(kind="model")["coef"].to_numpy()

    own = m._row_influences()
    found = own + weights.influences(own)
    size = np.abs(found).max(axis=0)
    for i in (0, 7, 23):
        change = (with_row(i, 1e-3) - with_row(i, -1e-3)) / 2e-3
        np.testing.assert_allclose(found[i] / size, change / size, atol=2e-3)


def test_tables_name_the_errors_and_a_constant_or_zero_changes_nothing(drawn):
    X, treated, eta, rng = drawn
    ps = steropes.LogisticRegression().fit(X, treated)
    weights = EstimatedWeights(ps, "ate")
    m, y = outcomes("cox", eta, rng)
    m.fit(treated[:, None], y, sample_weight=weights.values)
    V = m.vcov(weight_model=weights)
    table = m.summary(weight_model=weights)
    assert "M-estimation errors" in repr(table)
    assert table["se"].iloc[0] == np.sqrt(V.iloc[0, 0])
    limits = m.confint(weight_model=weights)
    np.testing.assert_array_equal(limits, table[["lower", "upper"]])
    other, _ = outcomes("cox", eta, rng)
    other.fit(treated[:, None], y, sample_weight=3.0 * weights.values)
    np.testing.assert_allclose(other.vcov(weight_model=weights), V, rtol=1e-6)
    left = np.where(np.arange(N) < 20, 0.0, weights.values)
    other.fit(treated[:, None], y, sample_weight=left)
    assert other.vcov(weight_model=weights).iloc[0, 0] > 0
    score = ps.predict_proba(X)[:, 1]
    np.testing.assert_allclose(weights.values, propensity_weights(score, treated, "ate"))
    assert str(weights.values[0]) not in repr(weights)


def test_what_is_no_model_of_the_weights_is_refused(drawn):
    X, treated, eta, rng = drawn
    ps = steropes.LogisticRegression().fit(X, treated)
    weights = EstimatedWeights(ps)
    m, y = outcomes("cox", eta, rng)
    m.fit(treated[:, None], y, sample_weight=weights.values)
    with pytest.raises(DataError, match="has a prior"):
        EstimatedWeights(steropes.LogisticRegression(prior=Normal(1.0)).fit(X, treated))
    for model in (steropes.LogisticRegression(), steropes.PoissonRegression().fit(X, treated)):
        with pytest.raises(DataError, match="fitted LogisticRegression"):
            EstimatedWeights(model)
    with pytest.raises(DataError, match="without its data"):
        EstimatedWeights(pickle.loads(pickle.dumps(ps)))
    with pytest.raises(DataError, match="EstimatedWeights"):
        m.vcov(weight_model=ps)
    with pytest.raises(DataError, match="weight of row"):
        m.vcov(weight_model=EstimatedWeights(ps, "ate"))
    for call in (m.vcov, m.summary):
        for kind in ("model", "jackknife", "HC1"):
            with pytest.raises(DataError, match="kind='robust' only"):
                call(kind, weight_model=weights) if call == m.vcov else call(
                    kind=kind, weight_model=weights
                )
    with pytest.raises(DataError, match="'wald' or 'robust'"):
        m.confint(method="profile", weight_model=weights)
    short, _ = outcomes("cox", eta, rng)
    short.fit(treated[:200, None], y[:200], sample_weight=weights.values[:200])
    with pytest.raises(DataError, match="300 rows and the fit 200"):
        short.vcov(weight_model=weights)
    sets = steropes.ConditionalLogisticRegression(method="breslow")
    sets.fit(X, treated, strata=np.arange(N) // 10, sample_weight=weights.values)
    with pytest.raises(DataError, match="rows of a stratum with each other"):
        sets.vcov(weight_model=weights)
