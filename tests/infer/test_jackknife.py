"""HC1 and the jackknife, which correct for small samples, in every family."""

import numpy as np
import pytest
import statsmodels.api as sm

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    LinearRegression,
    LogisticRegression,
    Normal,
    Surv,
)

FAMILIES = [*EVERY, "multinomial"]


def left_out(c, weight, unit, **settings):
    """The jackknife's covariance by a fit of its own without each unit."""
    fits = []
    whole = c.make(**settings).fit(c.X, c.y, sample_weight=weight, **c.extras)
    for u in np.unique(unit[weight > 0]):
        kept = np.where(unit == u, 0.0, weight)
        one = c.make(**settings).fit(c.X, c.y, sample_weight=kept, **c.extras)
        fits.append(one.summary(kind="model")["coef"].to_numpy())
    D = np.stack(fits) - whole.summary(kind="model")["coef"].to_numpy()
    return whole, (len(D) - 1) / len(D) * D.T @ D


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_jackknife_is_a_fit_without_each_row_or_stratum(name, rng):
    c = case(name, rng, n=60, p=2)
    weight = rng.integers(0, 3, 60) * 0.7
    conditional = name.startswith("conditional") or name == "case series"
    unit = c.extras["strata"] if conditional else np.arange(60)
    weight = weight[unit]  # of whole strata
    prior = Normal(0.5)
    whole, expected = left_out(c, weight, unit, tol=1e-9, prior=prior)
    found = whole.vcov("jackknife")
    assert found.attrs["errors"] == "jackknife"
    size = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        found / np.outer(size, size), expected / np.outer(size, size), atol=2e-4
    )
    np.testing.assert_allclose(whole.summary(kind="jackknife")["se"], np.sqrt(np.diag(found)))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["cox", "cox strata", "logistic", "fine gray", "cumulative"])
def test_jackknife_by_cluster_leaves_out_clusters(name, rng):
    c = case(name, rng, n=80, p=2)
    weight, cluster = rng.uniform(0.3, 2.0, 80), rng.integers(0, 20, 80)
    whole, expected = left_out(c, weight, cluster, tol=1e-9)
    found = whole.vcov("jackknife", cluster=cluster)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_jackknife_of_linear_models_is_hc3_in_other_words(rng):
    X, w = rng.normal(size=(40, 2)), rng.uniform(0.5, 2.0, 40)
    m = LinearRegression().fit(X, X[:, 0] + rng.normal(size=40), sample_weight=w)
    np.testing.assert_allclose(m.vcov("jackknife"), 39 / 40 * m.vcov("HC3"), rtol=1e-6)


def test_robust_errors_approach_those_of_the_jackknife_in_large_data(rng):
    X = rng.normal(size=(600, 2))
    y = Surv(rng.exponential(np.exp(-0.5 * X[:, 0])), rng.random(600) < 0.6)
    m = CoxRegression().fit(X, y, sample_weight=rng.uniform(0.5, 1.5, 600))
    np.testing.assert_allclose(np.diag(m.vcov("jackknife")), np.diag(m.vcov()), rtol=0.1)


@pytest.mark.parametrize("clustered", [False, True])
def test_hc1_is_that_of_statsmodels(clustered, rng):
    X, cluster = rng.normal(size=(60, 2)), rng.integers(0, 12, 60)
    y = (rng.random(60) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    m = LogisticRegression(tol=1e-10).fit(X, y)
    robust = m.vcov("robust", cluster=cluster if clustered else None)
    factor = 12 / 11 * 59 / 57 if clustered else 60 / 57
    found = m.vcov("HC1", cluster=cluster) if clustered else m.vcov("HC1")
    np.testing.assert_allclose(found, factor * robust, rtol=1e-12)
    if clustered:
        theirs = sm.OLS(y, sm.add_constant(X)).fit(cov_type="cluster", cov_kwds={"groups": cluster})
        own = LinearRegression().fit(X, y).vcov("HC1", cluster=cluster)
        np.testing.assert_allclose(own, theirs.cov_params(), rtol=1e-8)


@pytest.mark.parametrize(
    "name", [x for x in FAMILIES if x not in ("cumulative", "conditional exact")]
)
def test_hc1_of_every_family_is_robust_times_its_factor(name, rng):
    c = case(name, rng)
    m = c.fit()
    robust, found = m.vcov("robust"), m.vcov("HC1")
    n, k = (m._problem.weights > 0).sum(), len(found)
    factor = n / (n - k)
    if name.startswith("conditional") or name == "case series":
        factor = 40 / 39 * (n - 1) / (n - k)
    np.testing.assert_allclose(found, factor * robust, rtol=1e-12)


def test_a_row_without_which_a_coefficient_is_not_determined_is_named(rng):
    X = np.column_stack([rng.normal(size=30), np.arange(30) == 7])
    m = CoxRegression(prior=None).fit(X[:, :1], Surv(rng.exponential(size=30), np.ones(30)))
    assert np.isfinite(m.vcov("jackknife")).all(axis=None)
    m = LinearRegression().fit(X, rng.normal(size=30))
    with pytest.raises(DataError, match=r"Without row 7 .*'x1'.*HC1"):
        m.vcov("jackknife")


def test_options_that_do_not_fit_are_refused(rng):
    X, y = rng.normal(size=(30, 1)), rng.normal(size=30)
    m = LinearRegression(prior=Normal(1.0)).fit(X, y)
    with pytest.raises(DataError, match="maximum likelihood"):
        m.vcov("HC1")
    with pytest.raises(DataError, match="cluster goes with"):
        LinearRegression().fit(X, y).vcov("HC3", cluster=np.arange(30))
    with pytest.raises(DataError, match="'jackknife'"):
        m.vcov("HC4")
    cox = CoxRegression().fit(X, Surv(np.exp(y), y > 0))
    with pytest.raises(DataError, match="'HC1' or 'jackknife'"):
        cox.vcov("HC3")
    with pytest.raises(DataError, match="'jackknife'"):
        CumulativeProbabilityModel().fit(X, y).vcov("HC1")
