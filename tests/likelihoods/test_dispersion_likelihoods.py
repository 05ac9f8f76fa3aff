"""Gamma and negative binomial likelihoods: derivatives, weights, order, and SciPy's densities."""

import numpy as np
import pytest
from builders import dense_curvature, evaluate
from scipy import optimize, stats
from scipy.special import digamma, gammaln

from steropes.backends import get_backend
from steropes.likelihoods import GammaLikelihood, NegativeBinomialLikelihood
from steropes.likelihoods.gamma_likelihood import gamma_log_density, gamma_shape

KINDS = ("gamma", "negative binomial", "given dispersion")


def build(kind, y):
    backend = get_backend("cpu", 1)
    if kind == "gamma":
        return GammaLikelihood(y, backend)
    return NegativeBinomialLikelihood(y, backend, None if kind == "negative binomial" else 0.7)


def draw(kind, seed, n=60):
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=n)
    if kind == "gamma":
        y = rng.gamma(2.0, np.exp(eta) / 2.0)
    else:
        y = rng.poisson(rng.gamma(1.5, np.exp(eta + 0.5) / 1.5)).astype(float)
    w = rng.integers(0, 4, n).astype(float)
    w[rng.random(n) < 0.3] *= 0.37
    return eta, y, w


def minus_log_likelihood(y, w, eta, alpha):
    """The negative binomial's from SciPy's probabilities, without log y!."""
    size = 1 / alpha
    terms = stats.nbinom.logpmf(y, size, size / (size + np.exp(eta))) + gammaln(y + 1)
    return -np.sum(w * terms)


@pytest.mark.parametrize("seed", range(3))
def test_the_gamma_loss_gives_the_largest_log_likelihood_over_shapes(seed):
    eta, y, w = draw("gamma", seed)
    loss, _ = evaluate(build("gamma", y), eta, w)

    def minus(log_shape):
        k = np.exp(log_shape)
        return -np.sum(w * stats.gamma.logpdf(y, k, scale=np.exp(eta) / k))

    best = optimize.minimize_scalar(minus, (-3, 3), tol=1e-12)
    k = float(gamma_shape(loss / w.sum()))
    assert k == pytest.approx(np.exp(best.x), rel=1e-6)
    value = float(gamma_log_density(k, loss, w.sum(), w @ np.log(y)))
    assert value == pytest.approx(-best.fun, rel=1e-12)


@pytest.mark.parametrize("shape", [1e-200, 1e-40, 1e-9, 1e-3, 0.5, 1.0, 30.0, 4e3, 1e6, 1e9])
def test_the_shape_of_the_mean_deviance_is_found(shape):
    if shape > 1e4:
        m = 1 / (2 * shape) + 1 / (12 * shape**2)
    else:
        m = np.log(shape) - digamma(shape)
    assert float(gamma_shape(m)) == pytest.approx(shape, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_negative_binomial_loss_is_the_smallest_over_dispersions(seed):
    eta, y, w = draw("negative binomial", seed)
    loss, _ = evaluate(build("negative binomial", y), eta, w)
    best = optimize.minimize_scalar(
        lambda a: minus_log_likelihood(y, w, eta, np.exp(a)), (-3, 3), tol=1e-12
    )
    assert loss == pytest.approx(best.fun, rel=1e-12)
    given, _ = evaluate(build("given dispersion", y), eta, w)
    assert given == pytest.approx(minus_log_likelihood(y, w, eta, 0.7), rel=1e-12)


@pytest.mark.parametrize("alpha", [1e-10, 1e-6, 1e-3, 0.049, 0.051, 1.0, 50.0])
def test_derivatives_in_the_dispersion_are_those_of_the_loss(alpha):
    eta, y, w = draw("negative binomial", 4)
    y[:5] = [0, 1, 300, 7, 2.5]
    likelihood = build("negative binomial", y)
    bound, at = likelihood.weigh(w[:, None]), eta[:, None]

    def loss(a):
        return likelihood._evaluate_at(at, bound, np.array([a]))[0][0]

    def slope(a):
        return likelihood._derivatives(at, bound, np.array([a]))[0][0]

    slope_here, curved = (x[0] for x in likelihood._derivatives(at, bound, np.array([alpha])))
    h = 1e-3 * alpha
    scale = abs(loss(alpha)) * 1e-13 / h
    assert slope_here == pytest.approx(
        (loss(alpha + h) - loss(alpha - h)) / (2 * h), rel=1e-5, abs=scale
    )
    assert curved == pytest.approx(
        (slope(alpha + h) - slope(alpha - h)) / (2 * h), rel=1e-5, abs=abs(slope_here) * 1e-9 / h
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_the_derivative_of_the_loss(kind):
    eta, y, w = draw(kind, 7)
    likelihood = build(kind, y)
    g, h = evaluate(likelihood, eta, w)[1], 1e-5
    for i in range(0, len(eta), 3):
        e = np.zeros_like(eta)
        e[i] = h
        up, down = evaluate(likelihood, eta + e, w)[0], evaluate(likelihood, eta - e, w)[0]
        assert g[i] == pytest.approx((up - down) / (2 * h), abs=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_curvature_is_the_derivative_of_the_gradient(kind):
    eta, y, w = draw(kind, 1)
    likelihood = build(kind, y)
    H, h = dense_curvature(likelihood, eta, w), 1e-5
    for i in range(len(eta)):
        e = np.zeros_like(eta)
        e[i] = h
        up, down = evaluate(likelihood, eta + e, w)[1], evaluate(likelihood, eta - e, w)[1]
        np.testing.assert_allclose(H[i], (up - down) / (2 * h), atol=5e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_curvature_for_steps_is_its_diagonal(kind):
    eta, y, w = draw(kind, 2)
    rough = dense_curvature(build(kind, y), eta, w, exact=False)
    assert (np.diag(rough) >= 0).all()
    assert not (rough - np.diag(np.diag(rough))).any()


def test_third_derivative_of_gamma_is_that_of_its_curvature():
    eta, y, w = draw("gamma", 3)
    likelihood = build("gamma", y)
    Z = np.random.default_rng(0).normal(size=(len(eta), 2))
    got = likelihood.third_derivative(eta[:, None], w[:, None], Z)[:, 0]

    def trace(e):
        return ((Z * Z).sum(axis=1) * likelihood.curvature(e[:, None], w[:, None]).v).sum()

    for i in range(0, len(eta), 7):
        e = np.zeros_like(eta)
        e[i] = 1e-5
        assert got[i] == pytest.approx((trace(eta + e) - trace(eta - e)) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_replicates_one_by_one(kind):
    eta, y, w = draw(kind, 4)
    rng = np.random.default_rng(0)
    W = np.stack([w, *(w * rng.integers(0, 3, len(w)) for _ in range(7))], axis=1)
    E = eta[:, None] + 0.3 * rng.normal(size=(len(eta), 8))
    likelihood = build(kind, y)
    values, R = likelihood.evaluate(E, likelihood.weigh(W))
    for b in range(8):
        value, r = evaluate(likelihood, E[:, b], W[:, b])
        assert values[b] == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(R[:, b], r, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_integer_weights_are_repeated_rows_in_any_order(kind):
    eta, y, _ = draw(kind, 5)
    rng = np.random.default_rng(1)
    w = rng.integers(0, 4, len(eta))
    rows = rng.permutation(np.repeat(np.arange(len(eta)), w))
    a = evaluate(build(kind, y), eta, w.astype(float))
    b = evaluate(build(kind, y[rows]), eta[rows], np.ones(len(rows)))
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    np.testing.assert_allclose(a[1], np.bincount(rows, b[1], len(eta)), atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_weight_are_absent_even_where_their_means_overflow(kind):
    eta, y, w = draw(kind, 6)
    likelihood, away = build(kind, y), eta.copy()
    w[:4] = 0.0
    away[:4] = [900.0, -900.0, 720.0, -720.0]
    a, b = evaluate(likelihood, eta, w), evaluate(likelihood, away, w)
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    np.testing.assert_allclose(a[1], b[1], atol=1e-12)
    assert np.isfinite(dense_curvature(likelihood, away, w)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_of_one_batch_have_their_own_losses_and_curvatures(kind):
    eta, y, w = draw(kind, 8)
    other = draw(kind, 9)[1]
    each = [build(kind, y), build(kind, other)]
    both = each[0].combine_outcomes(each, 2)
    values, R = both.evaluate(np.stack([eta, eta], axis=1), both.weigh(np.stack([w, w], axis=1)))
    for b, own in enumerate(each):
        value, r = evaluate(own, eta, w)
        assert values[b] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(R[:, b], r, atol=1e-11)
        np.testing.assert_allclose(
            dense_curvature(both.of_lane(b), eta, w), dense_curvature(own, eta, w), atol=1e-11
        )


@pytest.mark.parametrize("kind", ["gamma", "given dispersion"])
def test_the_likelihood_is_the_sum_of_its_parts(kind):
    eta, y, w = draw(kind, 10)
    whole = build(kind, y)
    total = 0.0
    for part, at in zip(
        whole.parts(np.array([0, 25, 60])), (slice(0, 25), slice(25, 60)), strict=True
    ):
        total += evaluate(part(whole.backend), eta[at], w[at])[0]
    assert total == pytest.approx(evaluate(whole, eta, w)[0], rel=1e-12)
    assert build("negative binomial", np.ones(4)).parts(np.array([0, 2, 4])) is None


def test_counts_that_vary_less_than_poissons_have_no_dispersion():
    rng = np.random.default_rng(2)
    y = rng.binomial(4, 0.5, 300).astype(float)
    likelihood = build("negative binomial", y)
    eta, bound = np.full((300, 1), np.log(2.0)), likelihood.weigh(np.ones((300, 1)))
    assert likelihood.fitted_dispersion(eta, bound) == 0.0
    loss, r = likelihood.evaluate(eta, bound)
    assert loss[0] == pytest.approx(np.sum(2.0 - y * np.log(2.0)), rel=1e-9)
    np.testing.assert_allclose(r[:, 0], 2.0 - y, atol=1e-9)
    assert likelihood.curvature(eta, bound, exact=True).u is None


@pytest.mark.parametrize("kind", ["gamma", "negative binomial"])
def test_held_out_rows_are_scored_at_the_dispersion_of_the_training_rows(kind):
    eta, y, _ = draw(kind, 11)
    train = (np.arange(len(y)) % 3 > 0).astype(float)
    held = 1.0 - train
    likelihood = build(kind, y)
    got = float(likelihood.score(eta[:, None], held[:, None], train[:, None])[0])
    if kind == "gamma":
        loss, _ = evaluate(likelihood, eta, train)
        k = float(gamma_shape(loss / train.sum()))
        expected = np.sum(held * stats.gamma.logpdf(y, k, scale=np.exp(eta) / k))
    else:
        bound = likelihood.weigh(train[:, None])
        size = 1 / likelihood.best_dispersion(eta[:, None], bound)[0]
        expected = held @ stats.nbinom.logpmf(y, size, size / (size + np.exp(eta)))
    assert got == pytest.approx(expected, rel=1e-10)
