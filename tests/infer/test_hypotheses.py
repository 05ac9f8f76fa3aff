"""Tests of hypotheses and information criteria: against R, and by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal
from scipy import stats

from every_family import EVERY, case
from reference_numbers import data
from steropes import (
    BrokenAdaptiveRidge,
    ConditionalLogisticRegression,
    CoxRegression,
    DataError,
    Hierarchical,
    Jeffreys,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)

FAMILIES = [name for name in EVERY if name != "cumulative"]
TESTS = ("wald", "score", "likelihood ratio")


@pytest.fixture(scope="module")
def lung():
    return data("lung")


def test_agrees_with_r_on_cox(lung):
    m = CoxRegression().fit(lung[["age", "sex", "karno"]], Surv(lung.time, lung.status))
    tests = (
        m.inference.model_tests()
    )  # R: summary(coxph(...))$logtest, $sctest, $waldtest (two digits)
    chisq = [18.7174783980, 18.8518978116, 18.53]
    np.testing.assert_allclose(tests.chisq[:2], chisq[:2], rtol=1e-9)
    np.testing.assert_allclose(tests.chisq["wald"], chisq[2], atol=0.005)
    np.testing.assert_allclose(tests.p[:2], [3.12746338177e-04, 2.93368574023e-04], rtol=1e-8)
    assert tests.df.tolist() == [3, 3, 3]
    np.testing.assert_allclose(m.null_log_likelihood_, -680.3903493334)
    np.testing.assert_allclose([m.aic_, m.bic_], [1348.06322027, 1357.13486183])
    # a weight of 2 is a row twice, where R counts the events whatever their weights
    w, y = np.arange(len(lung)) % 3, Surv(lung.time, lung.status)
    two = CoxRegression(ties="breslow").fit(lung[["age"]], y, sample_weight=w)
    rows = np.repeat(np.arange(len(lung)), w)
    repeated = CoxRegression(ties="breslow").fit(lung[["age"]].iloc[rows], y[rows])
    np.testing.assert_allclose(two.bic_, repeated.bic_)
    # R, by hand from coef, vcov, loglik, residuals(..., "score") and restricted fits
    R = [[1.0, 0.0, 1.0], [0.0, 1.0, -2.0]]
    expected = dict(zip(TESTS, (7.73050596024, 7.87604591153, 8.09299446662), strict=True))
    for test, value in expected.items():
        np.testing.assert_allclose(
            m.inference.linear_hypothesis(R, test=test).chisq, value, rtol=1e-9
        )
    both = m.inference.linear_hypothesis(["age", "karno"], test="likelihood ratio")
    np.testing.assert_allclose([both.chisq, both.df], [8.50131478594, 2])
    score = m.inference.linear_hypothesis(["age", "karno"], test="score")
    np.testing.assert_allclose(score.chisq, 8.76402175797, rtol=1e-9)


def test_agrees_with_r_on_glm_and_lm(lung):
    X = lung[["age", "sex", "karno"]]
    m = LogisticRegression().fit(X, lung.status)
    np.testing.assert_allclose([m.aic_, m.bic_], [242.222623263, 255.686527323])
    np.testing.assert_allclose(m.null_log_likelihood_, -128.806696173)
    np.testing.assert_allclose(m.inference.model_tests().chisq[:2], [23.3907690836, 22.6358077878])
    m = LinearRegression().fit(X, lung.time)
    np.testing.assert_allclose([m.aic_, m.bic_], [2903.29778336, 2920.12766344])


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_a_coefficient_at_a_value_by_name_and_by_matrix(number, rng):
    c = case(FAMILIES[number], rng)
    w = rng.integers(1, 3, len(c.y) // 5).repeat(5).astype(float)
    m = c.make().fit(c.X, c.y, sample_weight=w, **c.extras)
    names = m._coefficient_names()
    j = names.index("x2")
    R = np.zeros((1, len(names)))
    R[0, j] = 2.0  # an equation, not a name: another way to the same fit
    at = float(m._coefficients()[j]) + 0.1
    for test in TESTS:
        one = m.inference.linear_hypothesis("x2", at, test=test)
        np.testing.assert_allclose(
            m.inference.linear_hypothesis(R, 2 * at, test=test), one, rtol=1e-5
        )
        assert one.df == 1
        np.testing.assert_allclose(one.p, stats.chi2.sf(one.chisq, 1))
    profile = m.inference.profile("x2", [at, at - 0.1]).log_likelihood
    ratio = m.inference.linear_hypothesis("x2", at, test="likelihood ratio").chisq
    np.testing.assert_allclose(ratio, 2 * (profile[1] - profile[0]), atol=1e-6)
    if m.prior_ is None and FAMILIES[number] != "pooled change":
        tests = m.inference.model_tests()
        assert tests.df.iloc[0] == len(m.coef_)
        assert (tests.chisq > 0).all()
        np.testing.assert_allclose(
            2 * (m.log_likelihood_ - m.null_log_likelihood_), tests.chisq.iloc[0], rtol=1e-6
        )


def test_the_intercept_is_one_coefficient_among_others(rng):
    c = case("logistic", rng)
    m = c.fit(c.X + 5.0)
    loose = c.make(fit_intercept=False).fit(c.X + 5.0, c.y)
    ratio = m.inference.linear_hypothesis("intercept", test="likelihood ratio")
    expected = 2 * (m.log_likelihood_ - loose.log_likelihood_)
    np.testing.assert_allclose(ratio.chisq, expected, rtol=1e-5)
    R = np.zeros((1, 6))
    R[0, :2] = 1.0
    other = c.make(fit_intercept=False)
    other.fit(np.column_stack([c.X[:, 0] + 4.0, c.X[:, 1:] + 5.0]), c.y)
    ratio = m.inference.linear_hypothesis(R, test="likelihood ratio")
    expected = 2 * (m.log_likelihood_ - other.log_likelihood_)
    np.testing.assert_allclose(ratio.chisq, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "cox", "linear"])
def test_units_of_columns_do_not_matter(name, rng):
    own = case(name, rng)
    units = np.array([1e8, 1e8, 1e-8, 1e-8, 1.0])
    one, two = own.fit(), own.fit(own.X * units)
    k = len(one.summary()) - 5
    R = np.zeros((2, k + 5))
    R[:, k : k + 4] = [[1, -1, 0, 0], [0, 0, 1, 2]]  # as they are: rows of the same equation
    assert_frame_equal(one.inference.model_tests(), two.inference.model_tests(), rtol=1e-6)
    for test in ("wald", "score", "likelihood ratio"):
        assert_series_equal(
            one.inference.linear_hypothesis(R, test=test),
            two.inference.linear_hypothesis(R, test=test),
            rtol=1e-6,
        )


def test_robust_covariances_go_with_walds_test(rng):
    c = case("poisson", rng)
    m = c.fit()
    cluster = np.arange(len(c.y)) // 4
    V = m.vcov("robust", cluster=cluster).loc[["x0", "x3"], ["x0", "x3"]].to_numpy()
    b = m.coef_[[0, 3]]
    test = m.inference.linear_hypothesis(["x0", "x3"], kind="robust", cluster=cluster)
    np.testing.assert_allclose(test.chisq, b @ np.linalg.solve(V, b))
    with pytest.raises(DataError, match="go with test='wald'"):
        m.inference.linear_hypothesis("x0", test="score", kind="robust")


@pytest.mark.parametrize("name", ["linear", "poisson", "cox", "pooled"])
def test_k_clusters_carry_less_than_k_equations(name, rng):
    m = case(name, rng).fit()
    given = {"kind": "robust", "cluster": np.arange(200) % 3}
    assert np.isfinite(m.inference.linear_hypothesis(["x0", "x1"], **given).chisq)
    for columns in (["x0", "x1", "x2"], ["x0", "x1", "x2", "x3"]):
        with pytest.raises(DataError, match="too few: one more than equations"):
            m.inference.linear_hypothesis(columns, **given)


def test_a_linear_model_with_as_many_coefficients_as_rows_has_no_wald_test(rng):
    m = LinearRegression().fit(rng.normal(size=(3, 2)), rng.normal(size=3))
    for test in (lambda: m.inference.linear_hypothesis("x0"), m.inference.model_tests):
        with pytest.raises(DataError, match="no Wald test without standard errors"):
            test()


def test_under_a_prior_on_the_others(rng):
    c = case("cox", rng, p=8)
    m = c.fit(prior=Laplace(0.05, exclude=[0]))
    ratio = m.inference.linear_hypothesis("x0", test="likelihood ratio")
    values = m.inference.profile("x0", [float(m.coef_[0]), 0.0]).log_likelihood
    np.testing.assert_allclose(ratio.chisq, 2 * (values[0] - values[1]), atol=1e-6)
    with pytest.raises(DataError, match="bootstrap"):
        m.inference.linear_hypothesis("x0")
    with pytest.raises(DataError, match="likelihood ratio"):
        m.inference.linear_hypothesis("x0", test="score")
    with pytest.raises(DataError, match="prior of its own"):
        m.inference.linear_hypothesis("x1", test="likelihood ratio")
    with pytest.raises(DataError, match="prior=None"):
        m.inference.model_tests()
    free = 1 + np.count_nonzero(m.coef_[1:])
    np.testing.assert_allclose(m.aic_, -2 * m.log_likelihood_ + 2 * free)


def test_ridge_has_the_degrees_of_freedom_of_its_trace(rng):
    c = case("logistic", rng)
    m = c.fit(prior=Normal(0.05, exclude=[1]))
    A = np.column_stack([np.ones(len(c.y)), c.X])
    p = m.predict_proba(c.X)[:, 1]
    H = (A * (p * (1 - p))[:, None]).T @ A
    df = np.trace(np.linalg.solve(H + np.diag([0, 20, 0, 20, 20, 20]), H))
    np.testing.assert_allclose(m.aic_, -2 * m.log_likelihood_ + 2 * df, rtol=1e-6)
    n = len(c.y)
    np.testing.assert_allclose(m.bic_, -2 * m.log_likelihood_ + np.log(n) * df, rtol=1e-6)


def test_priors_that_join_coefficients(rng):
    c = case("logistic", rng)
    m = c.fit(prior=Hierarchical([0, 0, 1, 1, None], 0.2, 0.3, exclude=["x4"]))
    P = np.linalg.inv(0.2 * np.eye(4) + 0.3 * np.kron(np.eye(2), np.ones((2, 2))))
    ratio = m.inference.linear_hypothesis("x4", test="likelihood ratio")
    values = m.inference.profile("x4", [float(m.coef_[4]), 0.0]).log_likelihood
    np.testing.assert_allclose(ratio.chisq, 2 * (values[0] - values[1]), atol=1e-6)
    own = m.log_likelihood_ - 0.5 * m.coef_[:4] @ P @ m.coef_[:4]
    np.testing.assert_allclose(values[0], own, atol=1e-8)
    lower, upper = m.confint("x4", method="profile").to_numpy()[0]
    assert lower < m.coef_[4] < upper
    with pytest.raises(DataError, match="there is no profile"):
        m.inference.profile("x0")
    p, A = m.predict_proba(c.X)[:, 1], np.column_stack([np.ones(len(c.y)), c.X])
    H, whole = (A * (p * (1 - p))[:, None]).T @ A, np.zeros((6, 6))
    whole[1:5, 1:5] = P
    df = np.trace(np.linalg.solve(H + whole, H))
    np.testing.assert_allclose(m.aic_, -2 * m.log_likelihood_ + 2 * df, rtol=1e-6)
    zeros = c.fit(prior=BrokenAdaptiveRidge())
    with pytest.raises(DataError, match="there is no likelihood-ratio test"):
        zeros.inference.linear_hypothesis("intercept", test="likelihood ratio")
    firth = c.fit(prior=Jeffreys())
    ratio = firth.inference.linear_hypothesis("x1", test="likelihood ratio").chisq
    values = firth.inference.profile("x1", [float(firth.coef_[1]), 0.0]).log_likelihood
    np.testing.assert_allclose(ratio, 2 * (values[0] - values[1]), atol=1e-6)


def test_thresholds_count_in_cumulative_models(rng):
    c = case("cumulative", rng)
    m = c.fit()
    df = 5 + len(m.alpha_)
    np.testing.assert_allclose(m.aic_, -2 * m.log_likelihood_ + 2 * df)
    assert m.inference.model_tests().df.tolist() == [5, 5, 5]
    values = m.inference.profile("x1", [float(m.coef_[1]), 0.0]).log_likelihood
    ratio = m.inference.linear_hypothesis("x1", test="likelihood ratio").chisq
    np.testing.assert_allclose(ratio, 2 * (values[0] - values[1]), atol=1e-6)


def test_the_cases_count_in_conditional_models(rng):
    c = case("conditional exact", rng)
    m = c.fit()
    assert isinstance(m, ConditionalLogisticRegression)
    np.testing.assert_allclose(m.bic_ - m.aic_, 5 * (np.log(c.y.sum()) - 2))


@pytest.mark.parametrize(
    ("hypothesis", "value", "match"),
    [
        ([[1.0, 0.0]], 0.0, "2 columns, but there are 6"),
        (["x0", "x0"], 0.0, "depend on each other"),
        (np.zeros((1, 6)), 0.0, "is zero"),
        ("x0", np.nan, "must be finite"),
        ("x0", "a", "must be a number"),
        ([], 0.0, "one equation at least"),
        ("no", 0.0, "no coefficient"),
        ([0, 1, -1, 0, 0, 0], 0.0, r"row write \[\[0, 1, -1, 0, 0, 0\]\]"),
    ],
)
def test_hypotheses_that_make_no_sense_are_refused(hypothesis, value, match, rng):
    m = case("logistic", rng).fit()
    with pytest.raises(DataError, match=match):
        m.inference.linear_hypothesis(hypothesis, value)
    with pytest.raises(DataError, match="test must be"):
        m.inference.linear_hypothesis("x0", test="lagrange")


@pytest.mark.parametrize("value", [1000.0, 1e308])
@pytest.mark.parametrize("test", ["likelihood ratio", "score"])
@pytest.mark.parametrize("hypothesis", ["x0", "intercept", [[0.0, 1.0, -1.0]]])
def test_a_value_at_which_the_likelihood_overflows_is_refused(hypothesis, test, value, rng):
    X = rng.normal(size=(60, 2))
    m = PoissonRegression().fit(X, rng.poisson(1.0, 60))
    with pytest.raises(DataError, match="so far that exp overflows"):
        m.inference.linear_hypothesis(hypothesis, value, test=test)


def test_a_value_whose_test_statistic_overflows_is_refused(rng):
    m = LinearRegression().fit(rng.normal(size=(60, 2)), rng.normal(size=60))
    with pytest.raises(DataError, match="too far from the estimate"):
        m.inference.linear_hypothesis("x0", 1e308)


def test_whole_numbers_as_many_as_coefficients_are_refused():
    X, y = np.arange(12.0)[:, None] ** [1, 2] / 10, np.tile([0.0, 1.0, 1.0], 4)
    m = LinearRegression(fit_intercept=False).fit(X, y)
    with pytest.raises(DataError, match=r"can be positions or a row .* \[\[0, 1\]\]"):
        m.inference.linear_hypothesis([0, 1])
    assert m.inference.linear_hypothesis([[0, 1]]).df == 1
    assert (
        m.inference.linear_hypothesis([0.0, 1.0]).chisq == m.inference.linear_hypothesis("x1").chisq
    )
    assert m.inference.linear_hypothesis(["x0", "x1"]).df == 2
    assert m.inference.linear_hypothesis([1]).chisq == m.inference.linear_hypothesis("x1").chisq
