"""The exact conditional likelihood against sums over all sets of cases, and at its extremes."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb, log

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.special import gammaln

from steropes import DataError
from steropes.backends import get_backend
from steropes.design_matrix import RowMatrix, as_design
from steropes.likelihoods import ConditionalLogisticLikelihood
from steropes.solve.hessian import hessian


def all_sets(eta, d):
    """−log likelihood's log-sum, inclusion probabilities and their covariance, by enumeration."""
    n = len(eta)
    sets = [np.isin(np.arange(n), s) for s in itertools.combinations(range(n), d)]
    size = np.array([eta[s].sum() for s in sets])
    share = np.exp(size - size.max())
    logsum = size.max() + np.log(share.sum())
    share /= share.sum()
    draws = np.array(sets, float)
    pi = share @ draws
    return logsum, pi, (draws * share[:, None]).T @ draws - np.outer(pi, pi)


def one_stratum(n, d, rng):
    case = np.zeros(n, int)
    case[rng.permutation(n)[:d]] = 1
    return case, ConditionalLogisticLikelihood(case, np.zeros(n, int), get_backend("cpu", 1))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_loss_gradient_and_covariance_equal_the_sums_over_all_sets(d, spread, rng):
    n = 8
    case, likelihood = one_stratum(n, d, rng)
    eta = rng.normal(0, spread, n)
    w = likelihood.weigh(np.full((n, 1), 2.0))
    loss, r = likelihood.evaluate(eta[:, None], w)
    logsum, pi, cov = all_sets(eta, d)
    np.testing.assert_allclose(loss[0], 2 * (logsum - eta @ case), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(likelihood.loss(eta[:, None], w), loss)
    np.testing.assert_allclose(r[:, 0], 2 * (pi - case), atol=2e-14)
    J = likelihood.differentiate(eta[:, None], w, np.eye(n))
    np.testing.assert_allclose(J, 2 * cov, atol=1e-14)


@pytest.mark.parametrize("d", [1, 3, 6])
def test_the_cheap_curvature_has_the_covariance_s_diagonal_and_row_sums(d, rng):
    n = 7
    _, likelihood = one_stratum(n, d, rng)
    eta = rng.normal(0, 1, (n, 1))
    cheap = likelihood.curvature(eta, np.ones((n, 1)))
    H = np.diag(cheap.v) - np.outer(cheap.u, cheap.u) * cheap.c[-1]
    cov = all_sets(eta[:, 0], d)[2]
    np.testing.assert_allclose(np.diag(H), np.diag(cov), atol=1e-5)
    np.testing.assert_allclose(H.sum(axis=0), 0, atol=1e-5)
    if d in (1, n - 1):
        np.testing.assert_allclose(H, cov, atol=1e-14)


@pytest.mark.parametrize("d", [1, 2, 4, 7])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_the_cheap_curvature_bounds_the_covariance(d, spread, rng):
    n = 8
    _, likelihood = one_stratum(n, d, rng)
    for _ in range(20):
        eta = rng.normal(0, spread, n)
        cheap = likelihood.curvature(eta[:, None], np.ones((n, 1)))
        design = as_design(np.eye(n)[:, 1:] - np.eye(n)[:, :1])
        rows = RowMatrix(design, np.arange(n - 1), likelihood.order, likelihood.backend)
        bound = likelihood.min_curvature_ratio * np.asarray(hessian(rows, cheap))
        Z = np.asarray(rows.matmul(np.eye(n - 1)))
        ratio = eigh(Z.T @ all_sets(eta, d)[2] @ Z, bound, eigvals_only=True)
        assert ratio.min() >= 1.0
        assert ratio.max() < 4.0


def test_gradient_is_the_derivative_of_the_loss(rng):
    n = 60
    strata = rng.integers(0, 5, n)
    case = rng.integers(0, 2, n)
    likelihood = ConditionalLogisticLikelihood(case, strata, get_backend("cpu", 2))
    m = likelihood.n
    eta = rng.normal(0, 2, (m, 1))
    w = np.ones((m, 1))
    r = likelihood.evaluate(eta, w)[1][:, 0]
    for i in range(0, m, 7):
        h = np.zeros((m, 1))
        h[i] = 1e-5
        slope = (likelihood.loss(eta + h, w) - likelihood.loss(eta - h, w))[0] / 2e-5
        np.testing.assert_allclose(r[i], slope, atol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_exact_hessian_is_the_derivative_of_the_gradient(sparse, rng):
    from scipy.sparse import csc_array

    n, p = 90, 11
    strata, case = rng.integers(0, 4, n), rng.integers(0, 2, n)
    X = (rng.random((n, p)) < 0.4) * 1.0 if sparse else rng.normal(2000, 1, (n, p))
    design = as_design(csc_array(X)) if sparse else as_design(X).centered()
    likelihood = ConditionalLogisticLikelihood(case, strata, get_backend("cpu", 2))
    rows = RowMatrix(design, np.arange(p), likelihood.order, likelihood.backend)
    beta = rng.normal(0, 0.3, (p, 1))
    w = np.ones((likelihood.n, 1))
    H = hessian(rows, likelihood.curvature(rows.matmul(beta), w, exact=True))
    slopes = np.empty((p, p))
    for j in range(p):
        h = np.zeros((p, 1))
        h[j] = 1e-4
        up = rows.rmatmul(likelihood.evaluate(rows.matmul(beta + h), w)[1])
        down = rows.rmatmul(likelihood.evaluate(rows.matmul(beta - h), w)[1])
        slopes[:, j] = (up - down)[:, 0] / 2e-4
    np.testing.assert_allclose(H, slopes, rtol=1e-6, atol=1e-6)
    part = hessian(rows, likelihood.curvature(rows.matmul(beta), w, exact=True), 4)
    np.testing.assert_allclose(part[4:], H[4:], rtol=1e-12, atol=1e-12)


def two_groups(n1, n2, d, psi):
    """Exact log Σ and E(cases in group 1) where η is ψ = log 2^k in group 1 and 0 in group 2."""
    ks = range(max(0, d - n2), min(n1, d) + 1)
    terms = [comb(n1, k) * comb(n2, d - k) * 2 ** (psi * k) for k in ks]
    total = sum(terms)
    mean = Fraction(sum(k * t for k, t in zip(ks, terms, strict=True)), total)
    bits = total.bit_length() - 900  # beyond a float's range: scale before the logarithm
    return log(total >> bits) + bits * log(2.0), float(mean)


@pytest.mark.parametrize(
    ("n1", "n2", "d", "psi"), [(1000, 3000, 2000, 3), (9000, 1000, 1500, 1), (100, 9900, 200, 12)]
)
def test_thousands_of_rows_against_exact_integers(n1, n2, d, psi):
    n = n1 + n2
    case = np.zeros(n, int)
    case[np.random.default_rng(1).permutation(n)[:d]] = 1
    likelihood = ConditionalLogisticLikelihood(case, np.zeros(n, int), get_backend("cpu", 2))
    eta = np.where(np.arange(n) < n1, psi * np.log(2.0), 0.0)[:, None]
    loss, r = likelihood.evaluate(eta, np.ones((n, 1)))
    logsum, mean = two_groups(n1, n2, d, psi)
    np.testing.assert_allclose(loss[0], logsum - eta[:, 0] @ case, rtol=1e-12)
    pi = r[:, 0] + case
    np.testing.assert_allclose(pi[:n1], mean / n1, rtol=1e-10)
    np.testing.assert_allclose(pi[n1:], (d - mean) / n2, rtol=1e-10)


@pytest.mark.parametrize("spread", [0.0, 2.0, 700.0])
def test_ten_thousand_rows_against_the_recursion_in_logarithms(spread):
    rng = np.random.default_rng(2)
    n, d = 10_000, 300
    eta = rng.normal(0, spread, n)
    log_e = np.full(d + 1, -np.inf)
    log_e[0] = 0.0
    with np.errstate(under="ignore"):
        for x in eta:  # e_k ← e_k + exp(x) e_{k−1}, in logarithms
            log_e[1:] = np.logaddexp(log_e[1:], x + log_e[:-1])
    case = np.zeros(n, int)
    case[np.argsort(-eta)[:d]] = 1
    likelihood = ConditionalLogisticLikelihood(case, np.zeros(n, int), get_backend("cpu", 2))
    loss, r = likelihood.evaluate(eta[:, None], np.ones((n, 1)))
    np.testing.assert_allclose(loss[0], log_e[d] - eta @ case, rtol=1e-9, atol=1e-8 * spread)
    assert abs(r.sum()) < 1e-9 * d
    if spread == 0.0:
        np.testing.assert_allclose(loss[0], -(gammaln(d + 1) + gammaln(n - d + 1) - gammaln(n + 1)))


def test_all_others_chosen_is_the_same_likelihood_with_the_sign_of_eta_turned(rng):
    n = 40
    case, likelihood = one_stratum(n, 13, rng)
    mirror = ConditionalLogisticLikelihood(1 - case, np.zeros(n, int), get_backend("cpu", 1))
    eta = rng.normal(0, 3, (n, 1))
    a, b = likelihood.evaluate(eta, np.ones((n, 1))), mirror.evaluate(-eta, np.ones((n, 1)))
    np.testing.assert_allclose(a[0], b[0], rtol=1e-14)
    np.testing.assert_allclose(a[1], -b[1], atol=1e-14)


def test_cases_far_apart_from_the_rest_neither_overflow_nor_underflow():
    eta = np.array([[1000.0], [900.0], [-900.0], [-1000.0], [0.0]])
    for case in ([1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [1, 0, 1, 1, 1]):
        likelihood = ConditionalLogisticLikelihood(case, np.zeros(5, int), get_backend("cpu", 1))
        loss, r = likelihood.evaluate(eta, np.ones((5, 1)))
        d = sum(case)
        best = np.sort(eta[:, 0])[-d:].sum()  # one set outweighs all others
        np.testing.assert_allclose(loss[0], best - eta[:, 0] @ case, rtol=1e-14, atol=1e-12)
        assert np.isfinite(r).all()


def test_strata_that_say_nothing_cost_no_rows():
    strata = np.array([0, 0, 1, 1, 2, 3, 3])
    case = np.array([1, 0, 0, 0, 1, 1, 1])
    likelihood = ConditionalLogisticLikelihood(case, strata, get_backend("cpu", 1))
    assert likelihood.order.tolist() == [0, 1]
    with pytest.raises(DataError, match="No stratum carries information"):
        ConditionalLogisticLikelihood(case[2:], strata[2:] - 1, get_backend("cpu", 1))


def test_a_row_of_weight_zero_is_absent(rng):
    case = np.array([1, 1, 0, 0, 0, 0])
    likelihood = ConditionalLogisticLikelihood(case, np.zeros(6, int), get_backend("cpu", 1))
    short = ConditionalLogisticLikelihood(case[:5], np.zeros(5, int), get_backend("cpu", 1))
    eta = rng.normal(0, 1, (6, 1))
    eta[5] = 1e6
    w = np.array([[1.0]] * 5 + [[0.0]])
    a, b = likelihood.evaluate(eta, w), short.evaluate(eta[:5], np.ones((5, 1)))
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_array_equal(a[1][:5], b[1])
    assert a[1][5, 0] == 0


@pytest.mark.usefixtures("eager_threads")
def test_replicates_together_equal_one_by_one_whatever_the_threads(rng):
    n = 400
    strata, case = rng.integers(0, 20, n), rng.integers(0, 2, n)
    likelihood = ConditionalLogisticLikelihood(case, strata, get_backend("cpu", 2))
    alone = ConditionalLogisticLikelihood(case, strata, get_backend("cpu", 1))
    m = likelihood.n
    eta = rng.normal(0, 1, (m, 8))
    codes = strata[likelihood.order]
    w = (rng.integers(0, 3, (20, 8)) * 1.0)[codes]
    loss, r = likelihood.evaluate(eta, w)
    for b in range(8):
        one = alone.evaluate(eta[:, b : b + 1], w[:, b : b + 1])
        np.testing.assert_allclose(one[0][0], loss[b], rtol=1e-15)
        np.testing.assert_array_equal(one[1][:, 0], r[:, b])
