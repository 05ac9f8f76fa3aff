"""Cox's likelihood, gradient and curvature against their definitions."""

from itertools import product

import numpy as np
import pytest

from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods.cox_likelihood import CoxLikelihood
from steropes.solve.hessian import hessian
from survival_reference import cox_loss, numeric_gradient

OPTIONS = list(
    product(["efron", "breslow"], [False, True], [False, True], [False, True], [False, True])
)


def _data(seed, n=40, tied=True, late=True, stratified=True, weighted=True):
    rng = np.random.default_rng(seed)
    time = rng.integers(1, 8, n).astype(float) if tied else rng.exponential(size=n)
    entry = time - rng.integers(1, 5, n) if late else None
    if late and not tied:
        entry = time * rng.uniform(-0.5, 1, n)
    event = rng.integers(0, 2, n)
    strata = rng.integers(0, 4, n) if stratified else None
    weight = rng.integers(0, 4, n) * rng.choice([1.0, 0.7], n) if weighted else np.ones(n)
    return time, event, entry, strata, weight, rng.normal(size=n)


@pytest.mark.sampled
@pytest.mark.parametrize(("ties", "tied", "late", "stratified", "weighted"), OPTIONS)
def test_loss_gradient_and_curvature_by_their_definitions(ties, tied, late, stratified, weighted):
    time, event, entry, strata, w, eta = _data(3, 24, tied, late, stratified, weighted)
    backend = get_backend("cpu")
    model = CoxLikelihood(time, event, backend, entry, strata, ties)
    order = model.order

    def loss(eta):
        return cox_loss(eta, time, event, w, entry, strata, ties)

    bound = model.weigh(w[order][:, None])
    value, gradient = model.evaluate(eta[order][:, None], bound)
    assert value[0] == pytest.approx(loss(eta), rel=1e-12)
    np.testing.assert_allclose(gradient[:, 0], numeric_gradient(loss, eta)[order], atol=1e-8)

    def own_gradient(e):
        return model.evaluate(e[:, None], bound)[1][:, 0]

    n = len(eta)
    design = as_design(np.eye(n))
    rows = design.by_rows(np.arange(n), None, backend)
    H = hessian(rows, model.curvature(eta[order][:, None], bound, exact=True))
    numeric = np.array(
        [
            (own_gradient(eta[order] + h) - own_gradient(eta[order] - h)) / 2e-5
            for h in 1e-5 * np.eye(n)
        ]
    )
    np.testing.assert_allclose(H * design.scale**2, numeric, atol=1e-7)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_sums_that_begin_anew_at_every_event_time_are_the_same(ties, monkeypatch):
    """Late entry: whether what has left is taken out, or the sum made again from who is there."""
    from steropes.likelihoods import risk_set_row_order

    time, event, entry, strata, w, eta = _data(4, 60)
    backend = get_backend("cpu")
    model = CoxLikelihood(time, event, backend, entry, strata, ties)
    bound = model.weigh(w[model.order][:, None])
    rows = as_design(np.eye(60)).by_rows(np.arange(60), None, backend)
    lines, H = [], []
    for left in (np.inf, 0.0):
        monkeypatch.setattr(risk_set_row_order, "LEFT", left)
        curvature = model.curvature(eta[model.order][:, None], bound, exact=True)
        lines.append(len(curvature.runs))
        H.append(hessian(rows, curvature))
    assert lines[1] > lines[0] + 5
    np.testing.assert_allclose(H[0], H[1], atol=1e-9 * abs(H[0]).max())


@pytest.mark.parametrize("stratified", [False, True])
def test_risk_sets_each_far_below_the_last_have_the_curvature_of_their_own_rows(stratified):
    """Of what has left, what left since a sum began counts, and none of what was before."""
    rng = np.random.default_rng(0)
    level = np.repeat([0.0, -60.0, -120.0], 6)  # of η: rates fall by 1e26 from a set to the next
    start = np.repeat([4.0, 2.0, 0.0], 6)
    entry, time = start, start + rng.uniform(0.1, 1.9, 18)
    event = np.ones(18, int)
    event[::3] = 0
    strata = np.arange(18) % 2 if stratified else np.zeros(18, int)
    eta = level + rng.normal(size=18)
    backend = get_backend("cpu")
    model = CoxLikelihood(time, event, backend, entry, strata, "breslow")
    order = model.order
    curvature = model.curvature(eta[order][:, None], model.weigh(np.ones((18, 1))), exact=True)
    X = rng.normal(size=(18, 5))  # whose sums, unlike those of one row, do not cancel to zero
    design = as_design(X)
    expected = np.zeros((5, 5))
    for k in np.flatnonzero(event):
        here = (entry < time[k]) & (time[k] <= time) & (strata == strata[k])
        r = np.where(here, np.exp(eta - eta[here].max()), 0.0)
        r /= r.sum()
        expected += X.T @ (r[:, None] * X) - np.outer(r @ X, r @ X)
    H = hessian(design.by_rows(np.arange(5), order, backend), curvature)
    np.testing.assert_allclose(H * np.outer(design.scale, design.scale), expected, atol=1e-10)
