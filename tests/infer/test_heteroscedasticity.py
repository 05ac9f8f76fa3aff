"""HC0 to HC3: statsmodels, formulas with dense X, and refusals where they are not defined."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

from every_family import EVERY, case
from simulators import mixed_matrix
from steropes import (
    DataError,
    GammaRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    NegativeBinomialRegression,
    Normal,
    PoissonRegression,
    ShardedDesign,
)

N = 60
KINDS = ("HC0", "HC1", "HC2", "HC3")


def drawn(rng):
    X = mixed_matrix(rng, N, 4)
    X[:, 2] += 30.0
    eta = 0.5 * X[:, 0] + 0.3 * (X[:, 2] - 30.0)
    return X, eta


def outcome(model, eta, rng):
    if model is LogisticRegression:
        return (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    if model is LinearRegression:
        return eta + rng.normal(size=N) * (1 + abs(eta))
    if model is GammaRegression:
        return rng.gamma(2.0, np.exp(eta) / 2)
    return rng.poisson(np.exp(eta))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
@pytest.mark.parametrize("kind", KINDS)
def test_linear_models_have_the_errors_of_statsmodels(kind, storage, rng):
    X, eta = drawn(rng)
    y = outcome(LinearRegression, eta, rng)
    m = LinearRegression().fit(storage(X), y)
    theirs = sm.OLS(y, sm.add_constant(X)).fit(cov_type=kind)
    np.testing.assert_allclose(m.vcov(kind), theirs.cov_params(), rtol=1e-6)
    np.testing.assert_allclose(m.summary(kind=kind)["se"], theirs.bse, rtol=1e-7)
    limits = m.confint(method=kind)
    np.testing.assert_allclose(limits, m.summary(kind=kind)[["lower", "upper"]])
    w = rng.integers(1, 4, N).astype(float)
    m = LinearRegression().fit(storage(X), y, sample_weight=w)
    weighted = sm.WLS(y, sm.add_constant(X), weights=w).fit(cov_type=kind)
    np.testing.assert_allclose(m.vcov(kind), weighted.cov_params(), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [LogisticRegression, PoissonRegression])
def test_canonical_models_have_the_leverages_of_statsmodels(model, kind, rng):
    X, eta = drawn(rng)
    y = outcome(model, eta, rng)
    family = sm.families.Binomial() if model is LogisticRegression else sm.families.Poisson()
    Z = sm.add_constant(X)
    theirs = sm.GLM(y, Z, family).fit(tol=1e-14)
    h = theirs.get_hat_matrix_diag()
    factor = {"HC0": 1.0, "HC1": N / (N - 5), "HC2": 1 / (1 - h), "HC3": 1 / (1 - h) ** 2}[kind]
    A = theirs.cov_params()
    expected = A @ (Z.T @ (Z * (factor * theirs.resid_response**2)[:, None])) @ A
    got = model().fit(sparse.csc_array(X), y).vcov(kind)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gamma", "negative binomial"])
def test_other_models_have_the_formula_with_dense_x(family, kind, rng):
    X, eta = drawn(rng)
    w = rng.integers(0, 3, N).astype(float)
    if family == "gamma":
        m = GammaRegression().fit(X, outcome(GammaRegression, eta, rng), sample_weight=w)
        scale = m.dispersion_
    else:
        m = NegativeBinomialRegression(dispersion=0.5)
        m.fit(X, outcome(PoissonRegression, eta, rng), sample_weight=w)
        scale = 1.0
    U = w[:, None] * m.checks.residuals("score").to_numpy()
    A = m.vcov().to_numpy() / scale
    Z = sm.add_constant(X)
    mean = m.predict(X)
    likelihood = m._problem.likelihood
    v = likelihood.backend.to_host(likelihood.y)[:, 0] / mean
    if family != "gamma":
        v = mean * (1 + 0.5 * v * mean) / (1 + 0.5 * mean) ** 2
    h = w * v * ((Z @ A) * Z).sum(axis=1)
    assert h.sum() == pytest.approx(5.0, rel=1e-6)
    n = (w > 0).sum()
    factor = {"HC0": 1.0, "HC1": n / (n - 5), "HC2": 1 / (1 - h), "HC3": 1 / (1 - h) ** 2}[kind]
    expected = A @ (U.T @ (U * np.broadcast_to(factor, N)[:, None])) @ A
    np.testing.assert_allclose(m.vcov(kind), expected, rtol=1e-5, atol=1e-9)
    if kind == "HC0":
        np.testing.assert_allclose(m.vcov(kind), m.vcov("robust"), rtol=1e-9)


def test_blocks_of_rows_and_a_fixed_coefficient_do_not_change_the_formula(rng):
    X, eta = drawn(rng)
    y = outcome(PoissonRegression, eta, rng)
    whole = PoissonRegression().fit(X, y)
    blocks = PoissonRegression().fit(ShardedDesign.from_blocks([X[:20], X[20:]]), y)
    np.testing.assert_allclose(blocks.vcov("HC3"), whole.vcov("HC3"), rtol=1e-6)
    held = PoissonRegression().fit(X, y, fixed={0: 0.5})
    other = PoissonRegression().fit(X[:, 1:], y, offset=0.5 * X[:, 0])
    np.testing.assert_allclose(held.vcov("HC2"), other.vcov("HC2"), rtol=1e-6)


def test_tests_and_predictions_accept_the_kinds(rng):
    X, eta = drawn(rng)
    m = LogisticRegression().fit(X, outcome(LogisticRegression, eta, rng))
    V = m.vcov("HC3").to_numpy()
    got = m.inference.linear_hypothesis("x0", kind="HC3")["chisq"]
    assert got == pytest.approx(m.coef_[0] ** 2 / V[1, 1])
    table = m.inference.linear_combination("x0 - x1", method="HC3")
    assert table["se"].iloc[0] == pytest.approx(np.sqrt(V[1, 1] + V[2, 2] - 2 * V[1, 2]))
    se = m.effects.predictions(X[:3], kind="HC3")["se"]
    Z = sm.add_constant(X)[:3]
    np.testing.assert_allclose(se, np.sqrt(((Z @ V) * Z).sum(axis=1)), rtol=1e-7)


def test_a_row_that_alone_determines_a_coefficient_has_no_hc2_or_hc3(rng):
    X, eta = drawn(rng)
    X = np.column_stack([X, np.arange(N) == 7])
    m = LinearRegression().fit(X, outcome(LinearRegression, eta, rng))
    for kind in ("HC2", "HC3"):
        with pytest.raises(DataError, match="Row 7 alone determines a coefficient"):
            m.vcov(kind)
    assert np.isfinite(m.vcov("HC1").to_numpy()).all()


@pytest.mark.parametrize("name", EVERY)
def test_models_without_scores_of_single_rows_refuse(name, rng):
    own = case(name, rng)
    if name in ("linear", "logistic", "poisson", "gamma"):
        assert np.isfinite(own.fit().vcov("HC3").to_numpy()).all()
        return
    words = "dispersion=" if name == "negative binomial" else "robust"
    with pytest.raises(DataError, match=words):
        own.fit().vcov("HC3")


def test_priors_clusters_and_other_words_are_refused(rng):
    X, eta = drawn(rng)
    y = outcome(LogisticRegression, eta, rng)
    with pytest.raises(DataError, match="maximum likelihood"):
        LogisticRegression(prior=Normal(1.0)).fit(X, y).vcov("HC3")
    with pytest.raises(DataError, match="Laplace"):
        LogisticRegression(prior=Laplace(1.0)).fit(X, y).vcov("HC3")
    m = LogisticRegression().fit(X, y)
    with pytest.raises(DataError, match="cluster goes with"):
        m.vcov("HC2", cluster=np.arange(N) // 2)
    with pytest.raises(DataError, match="'HC0' to 'HC3'"):
        m.vcov("HC4")
    with pytest.raises(DataError, match="more rows"):
        LinearRegression().fit(X[:5], y[:5] * 1.0 + rng.normal(size=5)).vcov("HC1")
