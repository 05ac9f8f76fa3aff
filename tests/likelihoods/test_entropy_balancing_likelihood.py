"""The dual of entropy balancing: its derivatives, weights and bound."""

import numpy as np
import pytest
from builders import dense_curvature, evaluate

from steropes.backends import get_backend
from steropes.likelihoods.entropy_balancing_likelihood import EntropyBalancingLikelihood

N = 30


def drawn(seed):
    rng = np.random.default_rng(seed)
    base = (rng.random(N) < 0.6) * rng.uniform(0.5, 2.0, N)
    target = (rng.random(N) < 0.5) * 1.0  # some rows have both roles, some none
    likelihood = EntropyBalancingLikelihood(base, target, get_backend("cpu", 1))
    w = rng.integers(0, 4, N).astype(float)
    return likelihood, rng.normal(size=N), w, base, target


def by_definition(eta, q, u):
    W = q.sum()
    return W * (np.log(q @ np.exp(eta)) - np.log(W) - u @ eta / u.sum())


@pytest.mark.parametrize("seed", range(3))
def test_loss_is_the_dual_of_the_entropy(seed):
    likelihood, eta, w, base, target = drawn(seed)
    expected = by_definition(eta, w * base, w * target)
    assert evaluate(likelihood, eta, w)[0] == pytest.approx(expected, rel=1e-12)
    alone = likelihood.loss(eta[:, None], likelihood.weigh(w[:, None]))[0]
    assert alone == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_and_curvature_are_derivatives(seed):
    likelihood, eta, w, _, _ = drawn(seed)
    g, H, h = evaluate(likelihood, eta, w)[1], dense_curvature(likelihood, eta, w), 1e-5
    for i in range(N):
        e = h * (np.arange(N) == i)
        (up, g_up), (down, g_down) = (evaluate(likelihood, eta + s * e, w) for s in (1, -1))
        assert g[i] == pytest.approx((up - down) / (2 * h), abs=1e-7)
        np.testing.assert_allclose(H[i], (g_up - g_down) / (2 * h), atol=1e-8)


def test_a_constant_added_to_eta_changes_nothing():
    likelihood, eta, w, _, _ = drawn(1)
    loss, g = evaluate(likelihood, eta, w)
    shifted, h = evaluate(likelihood, eta + 300.0, w)
    assert shifted == pytest.approx(loss, abs=1e-10)
    np.testing.assert_allclose(h, g, atol=1e-10)


def test_integer_weights_are_repeated_rows():
    likelihood, eta, w, base, target = drawn(2)
    rows = np.repeat(np.arange(N), w.astype(int))
    repeated = EntropyBalancingLikelihood(base[rows], target[rows], get_backend("cpu", 1))
    value, g = evaluate(repeated, eta[rows], np.ones(len(rows)))
    expected, r = evaluate(likelihood, eta, w)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(np.bincount(rows, g, minlength=N), r, atol=1e-12)


def test_a_batch_is_its_replicates_one_by_one():
    likelihood, eta, w, _, _ = drawn(3)
    rng = np.random.default_rng(0)
    E, W = eta[:, None] + rng.normal(size=(N, 4)), np.column_stack([w, w * 2, w * 0, w + 1])
    values, R = likelihood.evaluate(E, likelihood.weigh(W))
    for b in (0, 1, 3):
        value, r = evaluate(likelihood, E[:, b].copy(), W[:, b].copy())
        assert values[b] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(R[:, b], r, atol=1e-12)
    assert values[2] == 0
    assert not R[:, 2].any()


def test_score_contributions_add_up_to_the_score():
    likelihood, eta, w, _, _ = drawn(0)
    Z = np.random.default_rng(5).normal(size=(N, 2))
    bound = likelihood.weigh(w[:, None])
    U = likelihood.score_residuals(eta[:, None], bound, Z)
    g = likelihood.evaluate(eta[:, None], bound)[1]
    np.testing.assert_allclose(U.sum(axis=0), -Z.T @ g[:, 0], atol=1e-10)
