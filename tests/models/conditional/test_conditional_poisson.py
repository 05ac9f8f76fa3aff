"""The conditional Poisson likelihood: multinomial shares, weights as repeated rows."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends import get_backend
from steropes.design_matrix import RowMatrix, as_design
from steropes.likelihoods import ConditionalPoissonLikelihood
from steropes.solve.hessian import hessian


@pytest.fixture
def data(rng):
    n = 120
    strata = rng.integers(0, 15, n)
    y = rng.poisson(0.6, n).astype(float)
    y[strata == 3] = 0
    return y, strata, rng.normal(0, 2, n), rng.integers(0, 3, n).astype(float)


def by_hand(y, strata, eta, w):
    """−Σ w y log(share), stratum by stratum, with its derivative."""
    loss, r = 0.0, np.zeros(len(y))
    for s in np.unique(strata):
        at = (strata == s) & (w > 0)
        rate = w[at] * np.exp(eta[at] - eta[at].max(initial=0))
        total = (w[at] * y[at]).sum()
        loss -= np.sum(w[at] * y[at] * (eta[at] - eta[at].max(initial=0) - np.log(rate.sum())))
        r[at] = total * rate / rate.sum() - w[at] * y[at]
    return loss, r


def test_loss_and_gradient_equal_the_sums_by_hand(data):
    y, strata, eta, w = data
    likelihood = ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 2))
    order = likelihood.order
    bound = likelihood.weigh(w[order][:, None])
    loss, r = likelihood.evaluate(eta[order][:, None], bound)
    expected, gradient = by_hand(y, strata, eta, w)
    np.testing.assert_allclose(loss[0], expected, rtol=1e-13)
    np.testing.assert_allclose(likelihood.loss(eta[order][:, None], bound), loss, rtol=1e-15)
    np.testing.assert_allclose(r[:, 0], gradient[order], atol=1e-13)


def test_a_weight_is_so_many_rows(data):
    y, strata, eta, w = data
    again = np.repeat(np.arange(len(y)), w.astype(int))
    weighted = ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 1))
    repeated = ConditionalPoissonLikelihood(y[again], strata[again], get_backend("cpu", 1))
    o = weighted.order
    a = weighted.loss(eta[o][:, None], weighted.weigh(w[o][:, None]))
    e = eta[again][repeated.order][:, None]
    b = repeated.loss(e, repeated.weigh(np.ones_like(e)))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_curvature_is_the_derivative_of_the_gradient(data, rng):
    y, strata, _, w = data
    X = rng.normal(size=(len(y), 4))
    likelihood = ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 1))
    rows = RowMatrix(as_design(X), np.arange(4), likelihood.order, likelihood.backend)
    bound = likelihood.weigh(w[likelihood.order][:, None])
    beta = rng.normal(0, 0.5, (4, 1))
    H = hessian(rows, likelihood.curvature(rows.matmul(beta), bound, exact=True))
    for j in range(4):
        h = np.zeros((4, 1))
        h[j] = 1e-5
        up = rows.rmatmul(likelihood.evaluate(rows.matmul(beta + h), bound)[1])
        down = rows.rmatmul(likelihood.evaluate(rows.matmul(beta - h), bound)[1])
        np.testing.assert_allclose(H[:, j], (up - down)[:, 0] / 2e-5, rtol=1e-6, atol=1e-6)


def test_huge_predictors_and_rows_of_weight_zero_leave_it_finite():
    y, strata = np.array([1.0, 0, 2, 0]), np.array([0, 0, 0, 0])
    likelihood = ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 1))
    eta = np.array([[800.0], [790.0], [-900.0], [5000.0]])
    loss, r = likelihood.evaluate(eta, likelihood.weigh(np.array([[1.0], [1], [1], [0]])))
    top = 800 + np.log1p(np.exp(-10))
    np.testing.assert_allclose(loss[0], (top - 800) + 2 * (top + 900), rtol=1e-14)
    assert np.isfinite(r).all()
    assert r[3, 0] == 0


def test_rows_in_order_are_used_where_they_are():
    y, strata = np.array([1.0, 0, 0, 2, 0]), np.array([0, 0, 1, 1, 1])
    assert ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 1)).order is None
    # The person of the middle rows has no event, the last one a single interval.
    y, strata = np.array([1.0, 0, 0, 0, 3]), np.array([0, 0, 1, 1, 2])
    assert ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 1)).order.tolist() == [0, 1]


@pytest.mark.usefixtures("eager_threads")
def test_replicates_together_equal_one_by_one_whatever_the_threads(data, rng):
    y, strata, _, _ = data
    together = ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 2))
    alone = ConditionalPoissonLikelihood(y, strata, get_backend("cpu", 1))
    eta = rng.normal(0, 1, (together.n, 8))
    w = rng.integers(0, 3, (together.n, 8)) * 1.0
    loss, r = together.evaluate(eta, together.weigh(w))
    for b in range(8):
        one = alone.evaluate(eta[:, b : b + 1], alone.weigh(w[:, b : b + 1]))
        np.testing.assert_allclose(one[0][0], loss[b], rtol=1e-15)
        np.testing.assert_array_equal(one[1][:, 0], r[:, b])
