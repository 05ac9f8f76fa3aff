"""Fine and Gray's likelihood, gradient and curvature against their definitions."""

from itertools import product

import numpy as np
import pytest

from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods.fine_gray_likelihood import FineGrayLikelihood
from steropes.solve.hessian import hessian, subdistribution_hessian
from survival_reference import censoring_survival, fine_gray_loss, numeric_gradient
from tuning import tune


def _data(seed, n=50, tied=True, stratified=True, weighted=True):
    rng = np.random.default_rng(seed)
    time = rng.integers(1, 9, n).astype(float) if tied else rng.exponential(size=n)
    code = rng.integers(0, 4, n)
    strata = rng.integers(0, 4, n) if stratified else None
    weight = rng.integers(0, 4, n) * rng.choice([1.0, 0.7], n) if weighted else np.ones(n)
    return time, code, strata, weight, rng.normal(size=n)


def _hessians(model, eta, bound, n):
    design = as_design(np.eye(n))
    rows = design.by_rows(np.arange(n), None, model.backend)
    H = hessian(rows, model.curvature(eta[:, None], bound, exact=True))

    def gradient(e):
        return model.evaluate(e[:, None], bound)[1][:, 0]

    step = 1e-5 * np.eye(n)
    numeric = np.array([(gradient(eta + h) - gradient(eta - h)) / 2e-5 for h in step])
    return H * design.scale**2, numeric


@pytest.mark.sampled
@pytest.mark.parametrize(("tied", "stratified", "weighted"), list(product([False, True], repeat=3)))
@pytest.mark.parametrize("cause", [1, 3])
def test_loss_gradient_and_curvature_by_their_definitions(tied, stratified, weighted, cause):
    time, code, strata, w, eta = _data(5, 30, tied, stratified, weighted)
    model = FineGrayLikelihood(time, code, get_backend("cpu"), cause, strata)
    order = model.order

    def loss(eta):
        return fine_gray_loss(eta, time, code, cause, w, strata)

    bound = model.weigh(w[order][:, None])
    value, gradient = model.evaluate(eta[order][:, None], bound)
    assert value[0] == pytest.approx(loss(eta), rel=1e-12)
    assert model.loss(eta[order][:, None], bound)[0] == value[0]
    np.testing.assert_allclose(gradient[:, 0], numeric_gradient(loss, eta)[order], atol=1e-8)
    H, numeric = _hessians(model, eta[order], bound, len(eta))
    np.testing.assert_allclose(H, numeric, atol=1e-7)


def test_curvature_far_out_is_finite():
    """Late risk sets are 1e-174 of the early ones: c = h / S would be no number."""
    time, code, _, w, eta = _data(7, stratified=False)
    code[(code > 1) & (time < 6)] = 0  # those with a competing event would stay
    model = FineGrayLikelihood(time, code, get_backend("cpu"), 1)
    far = np.where(time[model.order] < 6, 0.0, eta - 400)
    curvature = model.curvature(far[:, None], model.weigh(w[model.order][:, None]))
    rows = as_design(np.eye(len(eta))).by_rows(np.arange(len(eta)), None, model.backend)
    H = hessian(rows, curvature)
    assert np.isfinite(H).all()
    assert np.linalg.eigvalsh(H).min() > -1e-9 * np.abs(H).max()


def test_curvature_in_many_batches_is_the_same(monkeypatch):
    time, code, strata, w, eta = _data(6)
    model = FineGrayLikelihood(time, code, get_backend("cpu"), 1, strata)
    bound = model.weigh(w[model.order][:, None])
    one, numeric = _hessians(model, eta, bound, len(eta))
    np.testing.assert_allclose(one, numeric, atol=1e-7)
    for size in (50, 150, 250):  # one, three, five groups at a time
        tune(monkeypatch, subdistribution_hessian, "SIZES", group_sums=size)
        many, _ = _hessians(model, eta, bound, len(eta))
        np.testing.assert_allclose(many, one, atol=1e-12)


def test_replicates_have_their_own_censoring_distribution():
    time, code, strata, _, eta = _data(7)
    rng = np.random.default_rng(1)
    W = rng.integers(0, 3, (len(time), 8)).astype(float)
    model = FineGrayLikelihood(time, code, get_backend("cpu"), 1, strata)
    order = model.order
    loss, gradient = model.evaluate(
        np.repeat(eta[order][:, None], 8, axis=1), model.weigh(W[order])
    )
    for b in range(8):
        assert loss[b] == pytest.approx(fine_gray_loss(eta, time, code, 1, W[:, b], strata))
        alone = model.evaluate(eta[order][:, None], model.weigh(W[order][:, [b]]))
        np.testing.assert_allclose(gradient[:, b], alone[1][:, 0], atol=1e-13)


def test_censoring_distribution_is_that_of_its_definition():
    time, code, _, w, _ = _data(8, stratified=False)
    model = FineGrayLikelihood(time, code, get_backend("cpu"), 1)
    order = model.order
    G = model.censoring.before(w[order][:, None])[model.censoring.moment][:, 0]
    expected = [censoring_survival(time, code, w, t) for t in time[order]]
    np.testing.assert_allclose(G, expected, atol=1e-14)


def test_without_competing_events_it_is_cox():
    from steropes.likelihoods.cox_likelihood import CoxLikelihood

    time, code, strata, w, eta = _data(9)
    code = np.minimum(code, 1)
    backend = get_backend("cpu")
    one = FineGrayLikelihood(time, code, backend, 1, strata)
    two = CoxLikelihood(time, code, backend, None, strata, "breslow")
    order = one.order
    a = one.evaluate(eta[order][:, None], one.weigh(w[order][:, None]))
    b = two.evaluate(eta[order][:, None], two.weigh(w[order][:, None]))
    np.testing.assert_allclose(a[0], b[0], rtol=1e-14)
    np.testing.assert_allclose(a[1], b[1], atol=1e-14)
