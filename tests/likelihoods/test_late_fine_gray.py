"""Fine and Gray's likelihood with late entry against its definitions."""

from itertools import product

import numpy as np
import pytest

from late_entry_reference import censoring_and_entry, late_fine_gray_loss
from steropes import Surv, aalen_johansen
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods.cox_likelihood import CoxLikelihood
from steropes.likelihoods.fine_gray_likelihood import FineGrayLikelihood
from steropes.solve.hessian import diagonal, hessian, subdistribution_hessian
from survival_reference import numeric_gradient
from tuning import tune


def _data(seed, n=30, tied=True, stratified=True, weighted=True):
    """Some are there from the start and stay, so that there is always someone."""
    rng = np.random.default_rng(seed)
    time = rng.integers(2, 12, n).astype(float) if tied else rng.exponential(size=n) + 0.2
    entry = np.floor(rng.random(n) * time) if tied else rng.random(n) * time
    code = rng.integers(0, 4, n)
    strata = rng.integers(0, 2, n) if stratified else None
    weight = rng.integers(0, 4, n) * rng.choice([1.0, 0.7], n) if weighted else np.ones(n)
    first = np.arange(4)
    entry[first], time[first], weight[first], code[first] = -1, 9.5 + first % 2, 1.0, [0, 1, 2, 0]
    if stratified:
        strata[first] = [0, 1, 1, 0]
    return time, code, entry, strata, weight, rng.normal(size=n)


def _model(time, code, entry, strata=None, cause=1):
    return FineGrayLikelihood(time, code, get_backend("cpu"), cause, strata, entry)


@pytest.mark.sampled
@pytest.mark.parametrize(("tied", "stratified", "weighted"), list(product([False, True], repeat=3)))
def test_loss_gradient_and_curvature_by_their_definitions(tied, stratified, weighted):
    cause = 3 if tied == weighted else 1
    time, code, entry, strata, w, eta = _data(5, 24, tied, stratified, weighted)
    model = _model(time, code, entry, strata, cause)
    order = model.order
    assert model.cut_off(w) is None

    def loss(eta):
        return late_fine_gray_loss(eta, time, code, entry, cause, w, strata)

    bound = model.weigh(w[order][:, None])
    value, gradient = model.evaluate(eta[order][:, None], bound)
    assert value[0] == pytest.approx(loss(eta), rel=1e-12)
    assert model.loss(eta[order][:, None], bound)[0] == value[0]
    np.testing.assert_allclose(gradient[:, 0], numeric_gradient(loss, eta)[order], atol=1e-8)
    H, numeric = _hessians(model, eta[order], bound)
    np.testing.assert_allclose(H, numeric, atol=1e-7)


def _hessians(model, eta, bound):
    n = len(eta)
    design = as_design(np.eye(n))
    rows = design.by_rows(np.arange(n), None, model.backend)
    curvature = model.curvature(eta[:, None], bound, exact=True)
    H = hessian(rows, curvature) * design.scale**2
    np.testing.assert_allclose(
        diagonal(rows, curvature) * design.scale**2, np.maximum(np.diag(H), 0), atol=1e-12
    )

    def gradient(e):
        return model.evaluate(e[:, None], bound)[1][:, 0]

    step = 1e-5 * np.eye(n)
    return H, np.array([(gradient(eta + h) - gradient(eta - h)) / 2e-5 for h in step])


def test_curvature_in_many_batches_is_the_same(monkeypatch):
    time, code, entry, strata, w, eta = _data(6, 50)
    model = _model(time, code, entry, strata)
    bound, eta = model.weigh(w[model.order][:, None]), eta[model.order]
    one, numeric = _hessians(model, eta, bound)
    np.testing.assert_allclose(one, numeric, atol=1e-7)
    for size in (50, 150, 250):  # one, three, five groups at a time
        tune(monkeypatch, subdistribution_hessian, "SIZES", group_sums=size)
        np.testing.assert_allclose(_hessians(model, eta, bound)[0], one, atol=1e-12)


def test_third_derivative_is_that_of_the_hessian():
    time, code, entry, strata, w, eta = _data(7)
    model = _model(time, code, entry, strata)
    w, eta = w[model.order][:, None], eta[model.order][:, None]
    Z = np.random.default_rng(0).normal(size=(len(eta), 2))
    bound = model.weigh(w)
    rows = as_design(Z).by_rows(np.arange(2), None, model.backend)

    def trace(e):
        H = hessian(rows, model.curvature(e[:, None], bound, exact=True))
        return float((np.diag(H) * as_design(Z).scale ** 2).sum())

    third = model.third_derivative(eta, bound, Z)[:, 0]
    np.testing.assert_allclose(third, numeric_gradient(trace, eta[:, 0], 1e-4), atol=1e-7)


@pytest.mark.parametrize("tied", [False, True])
def test_probability_of_observation_is_that_of_geskus(tied):
    time, code, entry, _, w, _ = _data(8, 40, tied, stratified=False)
    model = _model(time, code, entry)
    order = model.order
    ours = model.censoring.before(w[order][:, None])[model.censoring.moment][:, 0]
    there = (w > 0)[order]
    theirs = [np.prod(censoring_and_entry(time, code, entry, w, t)) for t in time[order]]
    ratio = np.array(theirs)[there] / ours[there]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_replicates_have_their_own_distributions():
    time, code, entry, strata, _, eta = _data(9, 60)
    W = np.random.default_rng(1).integers(0, 3, (60, 8)).astype(float)
    W[:4] = 1
    model = _model(time, code, entry, strata)
    order = model.order
    loss, gradient = model.evaluate(
        np.repeat(eta[order][:, None], 8, axis=1), model.weigh(W[order])
    )
    for b in range(8):
        expected = late_fine_gray_loss(eta, time, code, entry, 1, W[:, b], strata)
        assert loss[b] == pytest.approx(expected)
        alone = model.evaluate(eta[order][:, None], model.weigh(W[order][:, [b]]))
        np.testing.assert_allclose(gradient[:, b], alone[1][:, 0], atol=1e-13)


@pytest.mark.parametrize("tied", [False, True])
def test_without_covariates_the_product_limit_is_aalen_and_johansen_s(tied):
    """Geskus (2011, §3): the weights make the one estimate of the other, to the last digit."""
    time, code, entry, _, w, _ = _data(14, 60, tied, stratified=False)
    model = _model(time, code, entry)
    bound = model.weigh(w[model.order][:, None])
    S = model.sums(w[model.order][:, None], bound)[0]
    steps = (bound.share / S)[::-1, 0]  # from early to late
    at = model.risk.group_time[::-1]
    y = Surv(time, code, entry)
    theirs = aalen_johansen(y[w > 0], sample_weight=w[w > 0]).at(at)[1]
    np.testing.assert_allclose(1 - np.cumprod(1 - steps), theirs, rtol=1e-11)


@pytest.mark.parametrize("entry", [-np.inf, 0.0, 0.15])
def test_entry_before_anyone_leaves_changes_nothing(entry):
    time, code, _, strata, w, eta = _data(10, tied=False)
    late = _model(time, code, np.full(30, entry), strata)
    never = FineGrayLikelihood(time, code, get_backend("cpu"), 1, strata)
    order = late.order
    Z = np.random.default_rng(0).normal(size=(30, 2))
    results = []
    for model in (late, never):
        bound, e = model.weigh(w[order][:, None]), eta[order][:, None]
        H = _hessians(model, eta[order], bound)[0]
        influence = model.hazard_influence(e, bound, np.ones((model.risk.m, 1)))
        results.append(
            [*model.evaluate(e, bound), H, model.score_residuals(e, bound, Z), influence]
        )
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_without_competing_events_it_is_cox():
    time, code, entry, strata, w, eta = _data(11)
    code = np.minimum(code, 1)
    one = _model(time, code, entry, strata)
    two = CoxLikelihood(time, code, get_backend("cpu"), entry, strata, "breslow")
    e, w = eta[one.order][:, None], w[one.order][:, None]
    a, b = one.evaluate(e, one.weigh(w)), two.evaluate(e, two.weigh(w))
    np.testing.assert_allclose(a[0], b[0], rtol=1e-14)
    np.testing.assert_allclose(a[1], b[1], atol=1e-14)


def test_a_row_cut_in_two_is_the_row():
    """A censoring and an entry of the same person at the same time: nobody came or went."""
    time, code, entry, strata, w, eta = _data(12)
    cut = (time + entry) / 2
    whole = _model(time, code, entry, strata)
    pieces = _model(
        np.concatenate([cut, time]), np.concatenate([0 * code, code]),
        np.concatenate([entry, cut]), np.tile(strata, 2),
    )  # fmt: skip
    values = []
    for model, k in ((whole, 1), (pieces, 2)):
        e, v = np.tile(eta, k)[model.order], np.tile(w, k)[model.order]
        loss, gradient = model.evaluate(e[:, None], model.weigh(v[:, None]))
        person = np.bincount(model.order % 30, weights=gradient[:, 0])
        values.append(np.append(loss, person))
    np.testing.assert_allclose(*values, rtol=1e-11, atol=1e-12)


def test_a_late_crowd_does_not_cost_digits_of_those_before():
    """Early risk sets are 1e-9 of those that leave: sums of theirs are not differences."""
    time, code, entry, _, w, eta = _data(13, stratified=False)
    eta = np.where(entry > 5, eta + 20, eta)
    model = _model(time, code, entry)
    bound = model.weigh(w[model.order][:, None])
    loss = model.loss(eta[model.order][:, None], bound)
    assert loss[0] == pytest.approx(late_fine_gray_loss(eta, time, code, entry, 1, w), rel=1e-13)
    rows = as_design(np.eye(30)).by_rows(np.arange(30), None, model.backend)
    H = hessian(rows, model.curvature(eta[model.order][:, None], bound, exact=True))
    early = np.flatnonzero((time <= 5)[model.order])
    assert np.linalg.eigvalsh(H[np.ix_(early, early)]).min() > -1e-13


def test_interrupted_observation():
    """Nobody is there between 3 and 5: what the competing event at 2 weighs later is unknown."""
    time = np.array([1.0, 2, 3, 6, 7, 8, 9])
    entry = np.array([0.0, 0, 0, 5, 5, 5, 6])
    code = np.array([1, 2, 1, 2, 1, 0, 1])
    model = _model(time, code, entry)
    w = np.ones(7)
    assert model.cut_off(w) == (0, 2.0)
    assert model.cut_off(w * (code != 2)) is None  # no competing event
    assert model.cut_off(w * (time < 5)) is None  # nothing follows
    assert model.cut_off(w * (time > 2)) is None  # the remedy
    eta = np.linspace(-1, 1, 7)
    # Among replicates those with such an event are at risk until then.
    loss = model.loss(eta[model.order][:, None], model.weigh(np.ones((7, 1))))[0]
    censored = np.where(time == 2, 0, code)
    parts = [
        late_fine_gray_loss(eta[at], time[at], censored[at], entry[at])
        for at in (time < 5, time > 5)
    ]
    assert loss == pytest.approx(sum(parts), rel=1e-12)


def test_all_leave_at_the_time_that_others_enter():
    """Censorings and entries at one time: as many are there as before, and no spell ends."""
    time, entry = np.array([1.0, 2, 4, 4, 6, 7, 8]), np.array([0.0, 0, 0, 0, 4, 4, 4])
    code = np.array([1, 2, 0, 0, 1, 2, 1])
    model = _model(time, code, entry)
    assert model.cut_off(np.ones(7)) is None
    bound = model.weigh(np.ones((7, 1)))
    G = model.censoring.before(np.ones((7, 1)))[model.censoring.moment][:, 0]
    assert G[model.time == 6] / G[model.time == 2] == pytest.approx(
        3 / 2
    )  # three under observation where two were
    S = model.sums(np.ones((7, 1)), bound)[0][:, 0]
    np.testing.assert_allclose(S[::-1], [4, 3 + 3 / 2, 1 + 1 + 3 / 2])
