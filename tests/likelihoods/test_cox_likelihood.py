"""Cox's likelihood, gradient and curvature against their definitions."""

from itertools import product

import numpy as np
import pytest

from steropes.backends import get_backend
from steropes.design import as_design
from steropes.likelihoods.cox import CoxLikelihood
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
    from steropes.likelihoods import risk_set_lines

    time, event, entry, strata, w, eta = _data(4, 60)
    backend = get_backend("cpu")
    model = CoxLikelihood(time, event, backend, entry, strata, ties)
    bound = model.weigh(w[model.order][:, None])
    rows = as_design(np.eye(60)).by_rows(np.arange(60), None, backend)
    lines, H = [], []
    for left in (np.inf, 0.0):
        monkeypatch.setattr(risk_set_lines, "LEFT", left)
        curvature = model.curvature(eta[model.order][:, None], bound, exact=True)
        lines.append(len(curvature.runs))
        H.append(hessian(rows, curvature))
    assert lines[1] > lines[0] + 5
    np.testing.assert_allclose(H[0], H[1], atol=1e-9 * abs(H[0]).max())
