"""Draws of posteriors agree with numerical integrals and with a Gibbs sampler."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from every_family import case
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    NotConvergedWarning,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
)
from steropes.infer import posterior_sampling
from steropes.infer.posterior import effective_sample_size, split_r_hat
from tuning import tune

SCALE = 0.7


def marginal_prior(kind, beta):
    """Log density of coefficients (…, 2), integrated over a half-Cauchy standard deviation."""
    log_s = np.linspace(-12.0, 12.0, 4001)
    s = np.exp(log_s)
    hyper = log_s - np.log1p((s / SCALE) ** 2)
    if kind is Laplace:
        size = np.abs(beta).sum(axis=-1)
        table = np.linspace(0.0, size.max(), 3000) + 1e-9
        terms = -2 * log_s - table[:, None] * np.sqrt(2) / s + hyper
    else:
        size = (beta**2).sum(axis=-1)
        table = np.linspace(0.0, np.sqrt(size.max()), 3000) ** 2 + 1e-12
        terms = -2 * log_s - 0.5 * table[:, None] / s**2 + hyper
    return np.interp(size, table, logsumexp(terms, axis=1))


def by_quadrature(log_likelihood, kind, center, width, points=45):
    """Means and standard deviations of three coefficients, of which the first has a flat prior."""
    axes = [m + w * np.linspace(-1, 1, points) for m, w in zip(center, width, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    flat = grid.reshape(-1, 3)
    found = np.concatenate([log_likelihood(part) for part in np.array_split(flat, 30)])
    found = found + marginal_prior(kind, flat[:, 1:])
    p = np.exp(found - found.max())
    p /= p.sum()
    edge = p.reshape(grid.shape[:3])
    assert max(edge[0].sum(), edge[-1].sum(), edge[:, 0].sum(), edge[:, :, -1].sum()) < 1e-3
    mean = p @ flat
    marginals = [edge.sum(axis=tuple(k for k in range(3) if k != j)) for j in range(3)]
    upper = [
        np.interp(0.9, np.cumsum(m) - 0.5 * m, at) for m, at in zip(marginals, axes, strict=True)
    ]
    return mean, np.sqrt(p @ (flat - mean) ** 2), upper


def example(family, rng):
    """A model with three columns, and its log-likelihood at coefficients (m, 3)."""
    n = 40
    X = np.column_stack([rng.random(n) < 0.5, rng.normal(size=(n, 2))]).astype(float)
    eta = 0.6 * X[:, 0] - 0.5 * X[:, 1]
    if family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
        sign = 2.0 * y - 1.0
        return (
            LogisticRegression(fit_intercept=False),
            X,
            y,
            {},
            lambda b: -np.logaddexp(0.0, -sign * (b @ X.T)).sum(axis=1),
        )
    if family == "poisson":
        y = rng.poisson(np.exp(eta))
        return (
            PoissonRegression(fit_intercept=False),
            X,
            y,
            {},
            lambda b: (y * (b @ X.T) - np.exp(b @ X.T)).sum(axis=1),
        )
    if family == "conditional":
        strata = np.repeat(np.arange(n // 4), 4)
        y = np.zeros(n, int)
        y[::4] = 1
        sets = X.reshape(-1, 4, 3)
        return (
            ConditionalLogisticRegression(),
            X,
            y,
            {"strata": strata},
            lambda b: sum(b @ part[0] - logsumexp(b @ part.T, axis=1) for part in sets),
        )
    time = rng.exponential(np.exp(-eta))
    y = Surv(np.minimum(time, 1.5), time < 1.5)
    events = np.flatnonzero(y["event"])

    def log_likelihood(b):
        at = b @ X.T
        return sum(at[:, i] - logsumexp(at[:, y["time"] >= y["time"][i]], axis=1) for i in events)

    return CoxRegression(), X, y, {}, log_likelihood


@pytest.mark.parametrize(
    ("family", "kind", "dense"),
    [
        ("logistic", Laplace, 1000),
        pytest.param("logistic", Laplace, 0, marks=pytest.mark.slow),
        ("poisson", Normal, 1000),
        pytest.param("cox", Laplace, 1000, marks=pytest.mark.slow),
        pytest.param("cox", Normal, 0, marks=pytest.mark.slow),
        pytest.param("conditional", Normal, 1000, marks=pytest.mark.slow),
    ],
)
def test_agrees_with_numerical_integration(family, kind, dense, monkeypatch):
    """With the metric of few columns, and with that of many."""
    tune(monkeypatch, posterior_sampling, "POSTERIOR", max_dense_columns=dense)
    model, X, y, extras, log_likelihood = example(family, np.random.default_rng(3))
    model.set_params(prior=kind(0.5, exclude=[0])).fit(X, y, **extras)
    draws = model.inference.posterior(
        ["x0", "x1", "x2"], scale=SCALE, n=500, warmup=250, random_state=1
    )
    table = draws.summary()
    width = 6.0 * table["sd"].to_numpy()
    mean, sd, upper = by_quadrature(log_likelihood, kind, table["mean"].to_numpy(), width)
    np.testing.assert_allclose((table["mean"] - mean) / sd, 0.0, atol=0.12)
    np.testing.assert_allclose(table["sd"] / sd, 1.0, atol=0.1)
    np.testing.assert_allclose((draws.quantiles(0.9)[0.9] - upper) / sd, 0.0, atol=0.2)
    assert (table.r_hat < 1.01).all()


@pytest.mark.slow
def test_multinomial_model_agrees_with_numerical_integration():
    """Relative to a class, with a coefficient of each other class under the prior."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=50)
    eta = np.column_stack([np.zeros(50), 0.9 * x, -0.4 * x])
    y = np.array([rng.choice(3, p=p) for p in np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)])
    model = MultinomialLogisticRegression(reference=0, fit_intercept=False, prior=Normal(0.5))
    model.fit(x[:, None], y)
    found = model.inference.posterior(
        ["1:x0", "2:x0"], scale=SCALE, n=500, warmup=250, random_state=1
    )
    axis = np.linspace(-3.0, 3.0, 200)  # without zero, where the density of the prior is infinite
    b = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    at = np.stack([np.zeros((len(b), 50)), *(b[:, [k]] * x for k in (0, 1))], axis=-1)
    log_p = at[:, np.arange(50), y].sum(axis=1) - logsumexp(at, axis=2).sum(axis=1)
    log_p += marginal_prior(Normal, b)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ b
    sd = np.sqrt(p @ (b - mean) ** 2)
    table = found.summary()
    np.testing.assert_allclose((table["mean"] - mean) / sd, 0.0, atol=0.12)
    np.testing.assert_allclose(table["sd"] / sd, 1.0, atol=0.1)


@pytest.mark.slow
def test_multinomial_model_of_two_classes_has_the_logistic_posterior():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 3))
    y = (rng.random(80) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    binary = LogisticRegression(prior=Laplace(0.5, exclude=[0])).fit(X, y)
    several = MultinomialLogisticRegression(reference=0, prior=Laplace(0.5, exclude=[0])).fit(X, y)
    a, b = (
        m.inference.posterior(name, n=500, warmup=250, random_state=1).summary()
        for m, name in (
            (binary, ["intercept", "x0", "x1"]),
            (several, ["1:intercept", "1:x0", "1:x1"]),
        )
    )
    np.testing.assert_allclose(
        (a["mean"].to_numpy() - b["mean"].to_numpy()) / a["sd"], 0, atol=0.12
    )
    np.testing.assert_allclose(a["sd"].to_numpy() / b["sd"].to_numpy(), 1.0, atol=0.1)


@pytest.mark.parametrize("baseline", [1, pytest.param("interval", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_pooled_model_has_the_logistic_posterior_of_repeated_rows(baseline):
    """A row for each person and interval, with the baseline as columns without a prior."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2))
    time = rng.exponential(np.exp(-0.7 * X[:, 0]))
    y = Surv(np.minimum(time, 1.5), time < 1.5)
    pooled = PooledLogisticRegression(interval=0.5, baseline=baseline, prior=Normal(0.5))
    pooled.fit(X, y)
    number = np.ceil(y["time"] / 0.5).astype(int)
    person = np.repeat(np.arange(60), number)
    last = np.cumsum(number) - 1
    interval = np.arange(len(person)) - np.repeat(last + 1 - number, number)
    event = np.zeros(len(person), int)
    event[last] = y["event"]
    basis = np.eye(3) if baseline == "interval" else np.vander(np.arange(3.0), 2)
    columns = np.column_stack([X[person], basis[interval]])
    free = list(range(2, columns.shape[1]))
    rows = LogisticRegression(fit_intercept=False, prior=Normal(0.5, exclude=free))
    rows.fit(columns, event)
    np.testing.assert_allclose(pooled.coef_, rows.coef_[:2], atol=1e-6)
    a, b = (
        m.inference.posterior(["x0", "x1"], n=500, warmup=250, random_state=1).summary()
        for m in (pooled, rows)
    )
    np.testing.assert_allclose((a["mean"] - b["mean"]) / a["sd"], 0.0, atol=0.12)
    np.testing.assert_allclose(a["sd"] / b["sd"], 1.0, atol=0.1)


def gibbs(X, y, draws, rng):
    """Bayesian lasso of Park and Casella (2008) with half-Cauchy standard deviations.

    Laplace(s²) is a normal prior with variances τ_j² from an exponential distribution with mean s²,
    and half-Cauchy priors are mixtures of inverse gammas (Makalic and Schmidt 2016).
    """
    n, p = X.shape
    A = np.column_stack([np.ones(n), X])
    cross, moment = A.T @ A, A.T @ y
    tau2, s2, nu, sigma2, xi = np.ones(p), 1.0, 1.0, 1.0, 1.0
    out = np.empty((draws, p + 3))
    for i in range(draws):
        Q = cross / sigma2 + np.diag(np.append(0.0, 1.0 / tau2))
        L = np.linalg.cholesky(Q)
        mean = np.linalg.solve(Q, moment / sigma2)
        beta = mean + np.linalg.solve(L.T, rng.standard_normal(p + 1))
        sigma2 = (0.5 * ((y - A @ beta) ** 2).sum() + 1.0 / xi) / rng.gamma(0.5 * n + 0.5)
        xi = (1.0 / y.var() + 1.0 / sigma2) / rng.gamma(1.0)
        tau2 = 1.0 / rng.wald(np.sqrt(2.0 / s2) / np.abs(beta[1:]), 2.0 / s2)
        s2 = (tau2.sum() + 1.0 / nu) / rng.gamma(p + 0.5)
        nu = (1.0 / SCALE**2 + 1.0 / s2) / rng.gamma(1.0)
        out[i] = [*beta, np.log(s2), sigma2]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 25])
def test_linear_model_agrees_with_the_gibbs_sampler_of_the_bayesian_lasso(rows):
    """With more rows than columns, and with fewer."""
    rng = np.random.default_rng(rows)
    p = 30 if rows == 25 else 12
    X = rng.normal(size=(rows, p)) + 0.5 * rng.normal(size=(rows, 1)) + 3.0
    y = 2.0 + X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=rows)
    exact = gibbs(X, y, 12_000, rng)[2000:]
    model = LinearRegression(prior=Laplace(0.1)).fit(X, y)
    names = ["intercept", *(f"x{j}" for j in range(p))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        found = model.inference.posterior(names, scale=SCALE, n=1500, random_state=2)
    flat = np.column_stack(
        [found.draws.reshape(-1, p + 1), np.log(found.variance.ravel()), found.dispersion.ravel()]
    )
    sd = exact.std(axis=0)
    np.testing.assert_allclose((flat.mean(axis=0) - exact.mean(axis=0)) / sd, 0.0, atol=0.2)
    np.testing.assert_allclose(flat.std(axis=0) / sd, 1.0, atol=0.15)


@pytest.mark.slow
def test_sparse_and_dense_columns_have_the_same_posterior():
    rng = np.random.default_rng(0)
    X = (rng.random((90, 5)) < 0.3).astype(float)
    y = (rng.random(90) < 1 / (1 + np.exp(0.5 - X[:, 0]))).astype(int)
    tables = []
    for store in (np.asarray, sparse.csc_array):
        model = LogisticRegression(prior=Normal(0.5)).fit(store(X + 0.0), y)
        tables.append(model.inference.posterior("x0", n=1000, warmup=300, random_state=1).summary())
    np.testing.assert_allclose(*(t["mean"] / t["sd"] for t in tables), atol=0.15)


def test_seed_determines_the_draws_whatever_the_number_of_threads():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    draws = []
    for threads in (1, 2):
        model = LinearRegression(prior=Normal(0.5), n_jobs=threads).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            draws.append(model.inference.posterior("x0", n=100, warmup=100, random_state=4).draws)
    np.testing.assert_array_equal(*draws)


def test_effective_sample_size_and_r_hat_of_known_chains():
    """An autoregression with coefficient ρ has n (1 − ρ) / (1 + ρ) effective draws."""
    rng = np.random.default_rng(1)
    rho, n = 0.8, 20_000
    x = np.zeros((4, n))
    noise = rng.standard_normal((4, n))
    for i in range(1, n):
        x[:, i] = rho * x[:, i - 1] + noise[:, i]
    expected = 4 * n * (1 - rho) / (1 + rho)
    np.testing.assert_allclose(effective_sample_size(x), expected, rtol=0.15)
    assert split_r_hat(x) < 1.005
    x[0] += 1.0
    assert split_r_hat(x) > 1.01
    assert effective_sample_size(x) < 0.5 * expected


def test_warns_of_chains_that_are_too_short():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    model = LinearRegression(prior=Laplace(0.1)).fit(X, y)
    with pytest.warns(NotConvergedWarning, match="have not mixed"):
        model.inference.posterior("x0", n=100, warmup=100, chains=2, random_state=1)


def test_methods_describe_the_draws():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = LogisticRegression(prior=Normal(0.5)).fit(X, y)
    found = model.inference.posterior(["x2", "x0"], n=200, warmup=100, random_state=1)
    flat = found.draws.reshape(-1, 2)
    table = found.summary(0.9)
    np.testing.assert_allclose(table[["lower", "upper"]].T, np.quantile(flat, [0.05, 0.95], axis=0))
    np.testing.assert_allclose(table["exp(upper)"], np.exp(table["upper"]))
    np.testing.assert_allclose(found.probability_above(0.1), (flat > 0.1).mean(axis=0))
    assert list(found.quantiles([0.5]).index) == ["x2", "x0"]
    assert "x2" in found._repr_html_()
    with pytest.raises(DataError, match="probabilities"):
        found.quantiles([1.5])


def test_refusals(rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    for prior in (None, ElasticNet(0.1, 0.1)):
        with pytest.raises(DataError, match="Laplace"):
            LogisticRegression(prior=prior).fit(X, y).inference.posterior("x0")
    model = LogisticRegression(prior=Normal(0.5)).fit(X, y)
    for wrong in ({"n": 5}, {"chains": 1}, {"scale": 0.0}, {"warmup": 1.5}):
        with pytest.raises(DataError, match=next(iter(wrong))):
            model.inference.posterior("x0", **wrong)
    for name in ("fine gray", "cumulative", "gamma", "negative binomial"):
        with pytest.raises(DataError, match="bootstrap"):
            case(name, rng, n=100).fit(prior=Normal(0.5)).inference.posterior("x0")
    everything = LogisticRegression(prior=Normal(0.5, exclude=[0, 1, 2])).fit(X, y)
    with pytest.raises(DataError, match="excludes all"):
        everything.inference.posterior("x0")


def test_limits_of_coefficients_are_refused(rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = LogisticRegression(prior=Normal(0.5, lower=0.0)).fit(X, y)
    with pytest.raises(DataError, match="limits"):
        model.inference.posterior("x0")
