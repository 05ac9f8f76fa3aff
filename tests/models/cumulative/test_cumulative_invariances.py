"""What must not matter: order of rows, weights or repeats, storage, the scale of y and X."""

import numpy as np
import pytest
from scipy import sparse

from steropes.likelihoods.cumulative import CODES
from steropes.models.cumulative import CumulativeProbabilityModel

Model = CumulativeProbabilityModel


def same(a, b, rtol=1e-9):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=rtol)
    np.testing.assert_allclose(a.alpha_, b.alpha_, rtol=rtol, atol=1e-9)
    np.testing.assert_allclose(a.vcov(), b.vcov(), rtol=1e-7)
    np.testing.assert_allclose(a.alpha_summary()["se"], b.alpha_summary()["se"], rtol=1e-7)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, rel=1e-12)


@pytest.mark.parametrize("link", CODES)
def test_increasing_transformation_of_y_changes_only_thresholds(link, data):
    X, y = data
    a, b = Model(link=link).fit(X, y), Model(link=link).fit(X, np.log(y + 1) ** 3)
    same(a, b, 1e-12)
    np.testing.assert_allclose(b.thresholds_, np.log(a.thresholds_ + 1) ** 3)


def test_order_of_rows(data):
    X, y = data
    shuffle = np.random.default_rng(1).permutation(len(y))
    same(Model().fit(X, y), Model().fit(X[shuffle], y[shuffle]))


def test_weights_are_repeated_rows_and_zero_weight_is_absence(data):
    X, y = data
    w = np.arange(len(y)) % 4
    rows = np.repeat(np.arange(len(y)), w)
    a, b = Model().fit(X, y, sample_weight=w), Model().fit(X[rows], y[rows])
    same(a, b)
    np.testing.assert_array_equal(a.thresholds_, b.thresholds_)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_x_is_dense_x(make, data):
    X, y = data
    X = np.where(np.abs(X) > 0.8, X, 0.0)[:, :2]
    S = make(X)
    a, b = Model().fit(X, y), Model().fit(S, y)
    same(a, b)
    R = np.ones(len(y)) * np.arange(len(y)) % 9
    np.testing.assert_allclose(a.vcov(cluster=R), b.vcov(cluster=R), rtol=1e-7)
    np.testing.assert_allclose(a.predict_mean(X), b.predict_mean(S), rtol=1e-9)
    for x, z in zip(a.predict_mean(X, level=0.9), b.predict_mean(S, level=0.9), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-7)


def test_int64_indices(data):
    X, y = data
    S = sparse.csc_array(X[:, :2])
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    same(Model().fit(X[:, :2], y), Model().fit(S, y))


def test_mixed_sparse_and_dense_blocks(data):
    from steropes.design_matrix import Design, as_design

    X, y = data
    mixed = Design(
        [*as_design(sparse.csc_array(X[:, 1:2])).blocks, *as_design(X[:, [0, 2]]).blocks],
        ["b", "a", "c"],
    )
    a, b = Model().fit(X[:, [1, 0, 2]], y), Model().fit(mixed, y)
    same(a, b)


def test_shift_and_scale_of_a_column(data):
    X, y = data
    a = Model().fit(X, y)
    b = Model().fit(X * [1e3, 1, 1e-4] + [0, 0, 7.0], y)
    np.testing.assert_allclose(b.coef_ * [1e3, 1, 1e-4], a.coef_, rtol=1e-7)
    np.testing.assert_allclose(b.alpha_, a.alpha_ + 7.0 * b.coef_[2], rtol=1e-7)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, abs=1e-8)


def test_offset_takes_the_place_of_a_column(data):
    X, y = data
    a = Model().fit(X, y)
    b = Model().fit(X[:, :2], y, offset=X[:, 2] * a.coef_[2])
    np.testing.assert_allclose(b.coef_, a.coef_[:2], rtol=1e-6)
    np.testing.assert_allclose(b.alpha_, a.alpha_, rtol=1e-6)
    new = np.array([[0.5, 1.0, 21.0]])
    np.testing.assert_allclose(
        b.predict_cdf(new[:, :2], [3.0, 9.0], offset=new[:, 2] * a.coef_[2]),
        a.predict_cdf(new, [3.0, 9.0]),
        rtol=1e-6,
    )


def test_reflection_swaps_loglog_and_cloglog(data):
    X, y = data
    a, b = Model(link="loglog").fit(X, y), Model(link="cloglog").fit(X, -y)
    np.testing.assert_allclose(a.coef_, -b.coef_, rtol=1e-8)
    np.testing.assert_allclose(a.alpha_, -b.alpha_[::-1], rtol=1e-8)


@pytest.mark.usefixtures("eager_threads")
def test_threads_change_no_bit(data):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40000, 3))
    y = X @ [1.0, 0, -1] + rng.logistic(size=len(X))
    a, b = Model(n_jobs=1).fit(X, y), Model(n_jobs=3).fit(X, y)
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.alpha_, b.alpha_)


def test_outcomes_closer_than_rounding_of_alpha_converge():
    """At n = M = 30 000 neighbouring thresholds differ by 1e-4 and T's entries by 1e8."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30000, 2))
    for link in CODES:
        y = X @ [1.0, -2.0] + rng.normal(size=len(X)) * 0.5
        m = Model(link=link).fit(X, y)
        assert m.converged_
        assert m.n_iter_ <= (30 if link == "cauchit" else 12)
        assert (np.diff(m.alpha_) > 0).all()
