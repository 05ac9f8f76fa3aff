"""The multinomial likelihood: devices, small slopes, derivatives, replicates and its design."""

import numpy as np
import pytest
from scipy import sparse

from simulators import mixed_matrix
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.design_matrix.multinomial_design import ClassDesign
from steropes.likelihoods.multinomial_likelihood import MultinomialLikelihood
from steropes.solve.hessian import hessian


def likelihood(seed, C=4, n=30):
    rng = np.random.default_rng(seed)
    model = MultinomialLikelihood(rng.integers(0, C, n), C, get_backend("cpu", 1))
    return model, rng.normal(size=(C * n, 1)) * 2, rng.integers(0, 3, (n, 1)) * 0.7


def test_a_device_computes_the_same():
    pytest.importorskip("torch")
    model, eta, w = likelihood(0)
    backend = get_backend("torch-cpu", 1)
    other = MultinomialLikelihood(model.codes, 4, backend)
    found = []
    for m in (model, other):
        e, weights = (m.backend.asarray(x) for x in (eta, w))
        parts = *m.evaluate(e, weights), m.loss(e, weights), m.curvature(e, weights).v
        found.append([m.backend.to_host(x) for x in parts])
        found[-1].append(m.extent(e, w[:, 0]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


def test_slopes_of_nearly_certain_outcomes_keep_their_relative_accuracy():
    model, _, _ = likelihood(0, C=3, n=4)
    h = np.zeros((3, 4))
    h[model.codes, np.arange(4)] = 30.0  # 1 − p is 2e-13, of which p − 1 keeps three digits
    _, r = model.evaluate(h.reshape(-1, 1), np.ones((4, 1)))
    own = r.reshape(3, 4)[model.codes, np.arange(4)]
    np.testing.assert_allclose(own, -2 / (np.exp(30.0) + 2), rtol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_are_those_of_the_loss(seed):
    model, eta, w = likelihood(seed)
    loss, r = model.evaluate(eta, w)
    h = eta.reshape(4, -1)
    P = np.exp(h) / np.exp(h).sum(axis=0)
    at = model.codes, np.arange(model.n)
    assert loss[0] == pytest.approx(-np.sum(w[:, 0] * np.log(P[at])))
    assert model.loss(eta, w)[0] == loss[0]
    curvature = model.curvature(eta, w)
    H = np.zeros((len(eta), len(eta)))
    for c in range(4):
        for d in range(4):
            i = np.arange(model.n)
            H[c * model.n + i, d * model.n + i] = curvature.pair(c, d)
    np.testing.assert_allclose(np.diag(H), curvature.v)
    for i in range(len(eta)):
        e = np.zeros_like(eta)
        e[i] = 1e-5
        up, down = model.evaluate(eta + e, w), model.evaluate(eta - e, w)
        assert r[i, 0] == pytest.approx((up[0] - down[0])[0] / 2e-5, abs=1e-8)
        np.testing.assert_allclose(H[i], (up[1] - down[1])[:, 0] / 2e-5, atol=1e-8)


def test_a_constant_of_a_row_changes_nothing_and_rows_without_weight_are_absent():
    model, eta, w = likelihood(5)
    row = np.random.default_rng(0).normal(size=model.n) * 500
    shifted = (eta.reshape(4, -1) + row).reshape(-1, 1)
    a, b = model.evaluate(eta, w), model.evaluate(shifted, w)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-10)
    np.testing.assert_allclose(a[1], b[1], atol=1e-10)
    assert model.extent(shifted - eta) == pytest.approx(0.0, abs=1e-9)
    far = eta.reshape(4, -1).copy()
    far[:, w[:, 0] == 0] *= 1e200
    c = model.evaluate(far.reshape(-1, 1), w)
    np.testing.assert_allclose(a[0], c[0])
    np.testing.assert_allclose(a[1], c[1], atol=1e-12)


def test_a_batch_is_its_replicates_one_by_one_and_weights_are_repeated_rows():
    model, eta, _ = likelihood(6)
    rng = np.random.default_rng(1)
    W = rng.integers(0, 3, (model.n, 8)).astype(float)
    E = eta + rng.normal(size=(len(eta), 8))
    loss, r = model.evaluate(E, W)
    for b in range(8):
        one = model.evaluate(E[:, b : b + 1], W[:, b : b + 1])
        assert loss[b] == pytest.approx(one[0][0])
        np.testing.assert_allclose(r[:, b], one[1][:, 0], atol=1e-13)
    rows = rng.permutation(np.repeat(np.arange(model.n), W[:, 0].astype(int)))
    again = MultinomialLikelihood(model.codes[rows], 4, model.backend)
    e = E[:, 0].reshape(4, -1)[:, rows].reshape(-1, 1)
    assert again.loss(e, np.ones((len(rows), 1)))[0] == pytest.approx(loss[0])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_the_design_is_a_kronecker_product_without_the_columns_left_out(storage, rng):
    Z = mixed_matrix(rng, 20, 4)
    X = as_design(storage(Z)).centered().with_intercept()
    source = np.array([0, 0, 1, 3, 1, 2, 4, 2])
    channel = np.array([1, 2, 0, 0, 1, 1, 1, 2])
    design = ClassDesign(X, source, channel, 3, list("abcdefgh"), True)
    backend = get_backend("cpu", 1)
    own = np.column_stack([np.ones(20), Z - X.center[1:]]) / X.scale
    dense = np.zeros((60, 8))
    for j, (s, c) in enumerate(zip(source, channel, strict=True)):
        dense[c * 20 : (c + 1) * 20, j] = own[:, s]
    D, R = rng.normal(size=(8, 8)), rng.normal(size=(60, 8))
    np.testing.assert_allclose(design.matmul(D, backend), dense @ D, atol=1e-12)
    np.testing.assert_allclose(design.rmatmul(R, backend), dense.T @ R, atol=1e-12)
    chosen = np.array([5, 0, 7])
    np.testing.assert_allclose(design.rmatmul(R, backend, chosen), dense[:, chosen].T @ R)
    rows = design.by_rows(chosen, None, backend)
    np.testing.assert_allclose(rows.matmul(D[:3]), dense[:, chosen] @ D[:3], atol=1e-12)
    np.testing.assert_allclose(rows.rmatmul(R), dense[:, chosen].T @ R, atol=1e-12)
    model = MultinomialLikelihood(rng.integers(0, 3, 20), 3, backend)
    curvature = model.curvature(rng.normal(size=(60, 1)), np.ones((20, 1)))
    full = np.zeros((60, 60))
    for c in range(3):
        for d in range(3):
            full[c * 20 + np.arange(20), d * 20 + np.arange(20)] = curvature.pair(c, d)
    expected = dense[:, chosen].T @ full @ dense[:, chosen]
    np.testing.assert_allclose(hessian(rows, curvature), expected, atol=1e-12)
    np.testing.assert_allclose(rows.diagonal(curvature.v), np.diag(expected), atol=1e-12)
    beta = rng.normal(size=8)
    free = design.uncentered_coefficients(beta)
    whole = ClassDesign(X.uncentered(), source, channel, 3, list("abcdefgh"), True)
    a = (design.matmul((beta * design.scale)[:, None], backend)).reshape(3, 20)
    b = (whole.matmul((free * whole.scale)[:, None], backend)).reshape(3, 20)
    np.testing.assert_allclose(a[1:] - a[0], b[1:] - b[0], atol=1e-10)
