"""Covariances: HC0 and by clusters in every family, and refused where they mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from reference_numbers import data
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    SelfControlledCaseSeries,
    Surv,
)
from steropes.infer.information_matrix import Information

FAMILIES = [name for name in EVERY if name != "cumulative"]


def test_agrees_with_sandwiches_in_r():
    """R: A <- solve(t(X) %*% (X * v)); A %*% crossprod(rowsum(X * r, cluster)) %*% A."""
    lung = data("lung")
    X = lung[["age", "sex", "karno"]]
    m = LogisticRegression().fit(X, lung.status, sample_weight=lung.w)
    se = m.summary(kind="robust").se
    expected = [1.8775097254233, 0.0186996079557, 0.3459121970958, 0.0148457691203]
    np.testing.assert_allclose(se, expected, rtol=1e-8)
    se = m.summary(kind="robust", cluster=lung.cl).se
    expected = [2.0048348771053, 0.0228731155176, 0.3101788207257, 0.0154641336757]
    np.testing.assert_allclose(se, expected, rtol=1e-8)
    m = PoissonRegression().fit(X, lung.status, exposure=lung.time)
    se = m.summary(kind="robust", cluster=lung.cl).se
    expected = [0.91926861755150, 0.00969818819128, 0.12661110084968, 0.00705530968614]
    np.testing.assert_allclose(se, expected, rtol=1e-8)
    m = LinearRegression().fit(X, lung.time)
    expected = [175.93444752976, 1.51691146740, 29.13974827933, 1.43666359501]
    np.testing.assert_allclose(m.summary(kind="robust").se, expected, rtol=1e-9)
    # clogit(status ~ age + karno + strata(set), method = "efron"), residuals(fit, "score")
    m = ConditionalLogisticRegression(method="efron")
    m.fit(lung[["age", "karno"]], lung.status, strata=np.arange(len(lung)) // 4)
    expected = [0.00608071399542, 0.00525044563315]
    np.testing.assert_allclose(m.summary(kind="robust").se, expected, rtol=1e-9)
    expected = [0.00467947864832, 0.00311232074721]  # clogit(..., cluster = cl), which cuts sets
    np.testing.assert_allclose(m.summary(kind="robust", cluster=lung.cl).se, expected, rtol=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_robust_errors_are_how_estimates_move_with_clusters_weights(number, rng):
    name = FAMILIES[number]
    prior = [None, Normal(0.3)][number % 2]
    store = [np.asarray, sparse.csc_matrix, sparse.csr_array][number % 3]
    c = case(name, rng, n=200, p=3)
    cluster = np.arange(200) // 20
    model = c.fit(store(c.X), prior=prior)
    V = model.vcov("robust", cluster=cluster).to_numpy()
    moved = []
    for g in range(10):
        w = 1.0 + 1e-3 * (cluster == g)
        m = c.make(prior=prior).fit(c.X, c.y, sample_weight=w, **c.extras)
        moved.append(m._coefficients())
    D = (np.array(moved) - model._coefficients()) / 1e-3
    np.testing.assert_allclose(V, D.T @ D, rtol=1e-2, atol=1e-2 * np.diag(V).max())
    np.testing.assert_array_equal(V, V.T)
    again = c.fit(c.X, prior=prior, n_jobs=1).vcov("robust", cluster=cluster)
    np.testing.assert_allclose(again, V, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["conditional exact", "conditional efron", "case series"])
def test_strata_are_the_clusters_of_models_that_condition_on_them(name, rng):
    c = case(name, rng)
    model = c.fit()
    V = model.vcov("robust")
    by = rng.permutation(len(c.y))
    other = c.make().fit(c.X[by], c.y[by], **{k: v[by] for k, v in c.extras.items()})
    np.testing.assert_allclose(other.vcov("robust"), V, rtol=1e-6)
    labelled = model.vcov("robust", cluster=[f"set {s}" for s in c.extras["strata"]])
    np.testing.assert_allclose(labelled, V)
    if name == "conditional exact":
        with pytest.raises(DataError, match="cuts the stratum"):
            model.vcov("robust", cluster=np.arange(len(c.y)))


@pytest.mark.parametrize("name", ["conditional efron", "conditional poisson", "case series"])
def test_clusters_may_cut_strata_where_rows_have_weights(name, rng):
    """A row's part of the score is the derivative in its weight, whatever it is added to."""
    c = case(name, rng)
    cluster = np.arange(len(c.y)) % 9
    model = c.fit(sparse.csc_array(c.X))
    moved = []
    for g in range(9):
        w = 1.0 + 1e-4 * (cluster == g)
        moved.append(c.make(tol=1e-10).fit(c.X, c.y, sample_weight=w, **c.extras).coef_)
    D = (np.array(moved) - model.coef_) / 1e-4
    V = model.vcov("robust", cluster=cluster).to_numpy()
    np.testing.assert_allclose(V, D.T @ D, rtol=1e-2, atol=1e-2 * np.diag(V).max())


def test_far_centres_do_not_matter(rng):
    X = rng.normal(size=(200, 2)) + np.array([1e4, 0.0])
    y = (rng.random(200) < 1 / (1 + np.exp(-(X[:, 0] - 1e4)))).astype(int)
    V = LogisticRegression().fit(X, y).vcov("robust").to_numpy()
    near = LogisticRegression().fit(X - np.array([1e4, 0.0]), y).vcov("robust").to_numpy()
    np.testing.assert_allclose(V[1:, 1:], near[1:, 1:], rtol=1e-6)
    move = np.array([1.0, -1e4, 0.0])
    np.testing.assert_allclose(V[0, 0], move @ near @ move, rtol=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_what_rounding_has_taken_is_no_standard_error(unit):
    """One row has all but 1e-15 of its risk set, and a ridge alone holds the coefficient."""
    X = np.column_stack([np.where(np.arange(8) == 0, unit, 0.0), np.arange(8) % 3])
    y = Surv(np.arange(1.0, 9), np.arange(8) == 0)
    some = CoxRegression(prior=Normal(variance=1e5 / unit**2)).fit(X, y)
    other = CoxRegression(prior=Normal(variance=1e17 / unit**2)).fit(X, y)
    assert np.isfinite(some.vcov()).all(axis=None)
    for kind in ("model", "robust"):
        with pytest.raises(DataError, match=r"'x0'.* lost in rounding.*stronger prior"):
            other.vcov(kind)


def test_an_information_without_an_inverse_is_refused(rng):
    model = PoissonRegression().fit(rng.normal(size=(30, 2)), rng.poisson(1.0, 30))
    problem = model._problem
    information = Information(problem, model._beta, *problem.penalties(None))
    information.H = np.ones((3, 3))  # of a fit that ended nowhere
    with pytest.raises(DataError, match="There are no standard errors at the fit"):
        information.vcov()


@pytest.mark.sampled
@pytest.mark.parametrize("prior", [Laplace(0.1, exclude=["x0"]), ElasticNet(0.1, 0.1)])
@pytest.mark.parametrize("family", ["logistic", "cox", "case series", "pooled"])
def test_under_a_laplace_prior_walds_intervals_are_refused_with_what_to_use(family, prior, rng):
    c = case(family, rng)
    model = c.fit(prior=prior)
    for call in (model.vcov, lambda: model.vcov("robust"), model.confint):
        with pytest.raises(DataError, match=r"confint\(method='profile'\).*bootstrap\(\)"):
            call()
    table = model.summary()
    assert table.se.isna().all()
    assert "bootstrap()" in table.attrs["note"]
    if prior.exclude:
        profiled = model.summary(kind="profile")
        limits = model.confint("x0", method="profile")
        np.testing.assert_allclose(profiled.loc[["x0"], ["lower", "upper"]], limits, atol=1e-6)
        assert profiled.loc["x3"].isna()["lower"]
        assert "prior of their own" in profiled.attrs["note"]
    if prior.exclude and family in ("cox", "case series"):
        drawn = model.summary(kind="bootstrap")
        assert np.isfinite(drawn).all(axis=None)


def test_summaries_by_profile_and_bootstrap(rng):
    c = case("poisson", rng)
    model = c.fit(random_state=3)
    profiled = model.summary(0.9, kind="profile")
    limits = model.confint(level=0.9, method="profile")
    np.testing.assert_allclose(profiled[["lower", "upper"]], limits, atol=1e-7)
    np.testing.assert_allclose(profiled["exp(upper)"], np.exp(limits["upper"]), atol=1e-6)
    ratio = model.inference.linear_hypothesis("x1", test="likelihood ratio")
    np.testing.assert_allclose(profiled.loc["x1", "z"] ** 2, ratio.chisq, rtol=1e-6)
    np.testing.assert_allclose(profiled.loc["x1", "p"], ratio.p, rtol=1e-6)
    drawn = model.summary(kind="bootstrap")
    again = model.inference.bootstrap(random_state=3)
    np.testing.assert_allclose(drawn[["lower", "upper"]], again.confint())
    np.testing.assert_allclose(drawn["se"], again.se)
    np.testing.assert_allclose(model.confint(1, method="bootstrap"), again.confint().iloc[[1]])
    with pytest.raises(DataError, match="kind must be"):
        model.summary(kind="hc3")


def test_thousands_of_columns_need_no_array_of_rows_by_columns(rng):
    n, p = 4000, 600
    X = sparse.random_array((n, p), density=0.02, rng=rng, format="csc")
    y = (rng.random(n) < 0.5).astype(int)
    m = LogisticRegression(prior=Normal(1.0)).fit(X, y)
    A = np.column_stack([np.ones(n), X.toarray()])
    mu = m.predict_proba(X)[:, 1]
    K = np.diag(np.append(0.0, np.ones(p)))
    H = np.linalg.inv((A * (mu * (1 - mu))[:, None]).T @ A + K)
    U = A * (y - mu)[:, None]
    np.testing.assert_allclose(m.vcov("robust"), H @ U.T @ U @ H, atol=1e-8)
    codes = np.arange(n) % 300
    by = np.zeros((300, p + 1))
    np.add.at(by, codes, U)
    np.testing.assert_allclose(m.vcov("robust", cluster=codes), H @ by.T @ by @ H, atol=1e-8)
    cox = CoxRegression(prior=Normal(1.0)).fit(X[:, :90], Surv(rng.exponential(size=n), y))
    assert np.linalg.eigvalsh(cox.vcov("robust")).min() > -1e-12


def test_a_case_series_has_the_robust_errors_of_its_people(rng):
    n = 60
    strata = np.repeat(np.arange(n // 3), 3)
    x, t = rng.integers(0, 2, n).astype(float), rng.uniform(1, 3, n)
    y = rng.poisson(np.exp(0.3 * x) * t).astype(float)
    m = SelfControlledCaseSeries().fit(x[:, None], y, strata=strata, exposure=t)
    share = t * np.exp(m.coef_[0] * x)
    total = np.bincount(strata, share)[strata]
    events = np.bincount(strata, y)[strata]
    U = np.bincount(strata, (y - events * share / total) * x)
    mean = np.bincount(strata, share * x)[strata] / total
    H = np.sum(events * share / total * (x - mean) ** 2)
    np.testing.assert_allclose(m.vcov("robust"), (U**2).sum() / H**2, rtol=1e-8)


def test_one_informative_stratum_has_no_robust_errors(rng):
    """Its scores add up to zero: the errors would be rounding, and every effect certain."""
    X, y = rng.normal(size=(12, 1)), np.r_[2, 0, 1, 0, 3, 0, np.zeros(6)]
    model = SelfControlledCaseSeries()
    model.fit(X, y, strata=np.arange(12) // 6, exposure=np.ones(12))
    assert model.vcov().to_numpy() > 0
    for cluster in (None, np.arange(12) // 6):
        with pytest.raises(DataError, match="only one of them informs"):
            model.vcov("robust", cluster=cluster)
