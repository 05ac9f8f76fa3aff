"""The likelihood over channels: its value, derivatives and independence of how it is summed."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.design_matrix.time_basis import baseline_basis, channels
from steropes.design_matrix.time_channel_design import ChannelDesign
from steropes.likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood
from steropes.solve.hessian import hessian

K = 7


def model(
    baseline=2, time_varying=None, n=200, n_jobs=2, kind="dense", K=K, seed=0, device="cpu",
    center=False,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, 5)) < 0.4, 1.0, 0.0)
    X[:, 0] = rng.normal(size=n)
    design = as_design(X if kind == "dense" else sparse.csc_array(X))
    basis, _, _ = baseline_basis(baseline, K)
    functions, pairs = channels(time_varying, design.names, K)
    F = np.column_stack([np.zeros((K, 0)), *(f.values for f in functions)])
    p = basis.shape[1] + 5 + len(pairs)
    whole = ChannelDesign(design, basis, F, pairs, [str(j) for j in range(p)])
    whole = whole.centered() if center else whole
    first = rng.integers(0, 3, n)
    last = np.minimum(first + rng.integers(0, K, n), K)
    event = (rng.random(n) < 0.5) & (last > first)
    likelihood = PooledLogisticLikelihood(
        first, last, event, whole.scaled, get_backend(device, n_jobs)
    )
    return whole, likelihood, rng


CASES = [
    (2, None),
    (0, {0: 1, 3: 2}),
    ("interval", None),
    ("interval", {1: np.sqrt, 0: 1}),
    (np.log, 1),
]


def log_odds(design, likelihood, eta):
    """(n, K) by the definition."""
    h, base = likelihood.split(eta[:, None])
    out = h[0] + base[:, 0]
    for q in range(likelihood.Q):
        out = out + h[q + 1] * likelihood.F[:, q]
    return out


@pytest.mark.parametrize(("baseline", "changing"), CASES)
def test_loss_is_the_sum_over_person_intervals(baseline, changing):
    design, likelihood, rng = model(baseline, changing)
    eta = rng.normal(size=likelihood.n_eta)
    w = rng.random(likelihood.n)
    x = log_odds(design, likelihood, eta)
    total = 0.0
    for i in range(likelihood.n):
        for k in range(likelihood.first[i], likelihood.last[i]):
            y = likelihood.event[i] and k == likelihood.last[i] - 1
            total += w[i] * (np.logaddexp(0, x[i, k]) - y * x[i, k])
    loss, _ = likelihood.evaluate(eta[:, None], w[:, None])
    assert loss[0] == pytest.approx(total, rel=1e-13)
    assert likelihood.loss(eta[:, None], w[:, None])[0] == pytest.approx(total, rel=1e-13)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("baseline", "changing"), CASES)
def test_gradient_and_hessian_are_derivatives(baseline, changing, kind):
    design, likelihood, rng = model(baseline, changing, kind=kind)
    rows = design.by_rows(rng.permutation(design.p), None, likelihood.backend)
    w = rng.random((likelihood.n, 1))
    b = 0.3 * rng.normal(size=(design.p, 1))

    def gradient(b):
        return rows.rmatmul(likelihood.evaluate(rows.matmul(b), w)[1])[:, 0]

    step = 1e-5 * np.eye(design.p)[:, :, None]
    g = gradient(b)
    numeric = [
        (likelihood.loss(rows.matmul(b + s), w) - likelihood.loss(rows.matmul(b - s), w))[0] / 2e-5
        for s in step
    ]
    np.testing.assert_allclose(g, numeric, atol=2e-7)
    curvature = likelihood.curvature(rows.matmul(b), w)
    H = hessian(rows, curvature)
    numeric = [(gradient(b + s) - gradient(b - s)) / 2e-5 for s in step]
    np.testing.assert_allclose(H, numeric, atol=1e-7)
    np.testing.assert_allclose(np.diag(H), rows.diagonal(curvature.v), rtol=1e-12)
    for first in (2, design.p - 1):  # the part that grows when columns join
        part = hessian(rows, curvature, first)
        np.testing.assert_allclose(part[first:], H[first:], rtol=1e-12)
        np.testing.assert_allclose(part[:, first:], H[:, first:], rtol=1e-12)


@pytest.mark.parametrize("B", [1, 4])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("baseline", "changing"), [*CASES, (1, {0: np.sqrt, 3: 2})])
def test_a_device_computes_the_same(baseline, changing, kind, B):
    """A centred column whose effect is outside the baseline's span has entries in its rows."""
    pytest.importorskip("torch")
    found = []
    for device in ("cpu", "torch-cpu"):
        design, likelihood, rng = model(baseline, changing, kind=kind, device=device, center=True)
        backend = likelihood.backend
        rows = design.by_rows(rng.permutation(design.p)[:-2], None, backend)
        b, R = rng.normal(size=(rows.k, B)), rng.normal(size=(rows.n, B))
        w, Z = rng.integers(0, 3, (likelihood.n, B)) * 0.5, rng.normal(size=(design.p, 4))
        Z, w = design.matmul(Z, backend), backend.asarray(w)
        eta = rows.matmul(backend.asarray(b))
        curvature = likelihood.curvature(eta, w[:, :1])
        found.append([backend.to_host(x) for x in (
            *likelihood.evaluate(eta, w), likelihood.loss(eta, w), curvature.v,
            likelihood.score_residuals(eta[:, :1], w[:, :1], Z), likelihood.deviances(eta[:, :1]),
            hessian(rows, curvature), hessian(rows, curvature, 3)[3:], rows.diagonal(curvature.v),
            design.rmatmul(backend.asarray(R), backend), rows.rmatmul(backend.asarray(R)),
        )])  # fmt: skip
        found[-1].append(likelihood.extent(eta[:, :1], np.arange(likelihood.n) % 2))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


def test_products_by_rows_and_by_columns_agree():
    design, likelihood, rng = model(2, 2, kind="sparse")
    bk = likelihood.backend
    chosen = rng.permutation(design.p)[: design.p - 3]
    rows = design.by_rows(chosen, None, bk)
    D = np.zeros((design.p, 8))
    D[chosen] = rng.normal(size=(len(chosen), 8))
    np.testing.assert_allclose(rows.matmul(D[chosen]), design.matmul(D, bk), rtol=1e-12)
    R = rng.normal(size=(design.n_eta, 8))
    np.testing.assert_allclose(rows.rmatmul(R), design.rmatmul(R, bk, chosen), rtol=1e-12)


def test_replicates_together_equal_one_by_one():
    _, likelihood, rng = model(2, {0: 1})
    eta = rng.normal(size=(likelihood.n_eta, 8))
    w = rng.integers(0, 3, (likelihood.n, 8)).astype(float)
    loss, r = likelihood.evaluate(eta, w)
    for b in range(8):
        one, r_one = likelihood.evaluate(eta[:, b : b + 1], w[:, b : b + 1])
        assert one[0] == pytest.approx(loss[b], rel=1e-14)
        np.testing.assert_allclose(r_one[:, 0], r[:, b], rtol=1e-13, atol=1e-14)


@pytest.mark.usefixtures("eager_threads")
def test_nothing_depends_on_the_number_of_threads():
    results = []
    for n_jobs in (1, 4):
        design, likelihood, rng = model("interval", {0: 1}, n=3000, n_jobs=n_jobs, kind="sparse")
        rows = design.by_rows(np.arange(design.p), None, likelihood.backend)
        eta = rng.normal(size=(likelihood.n_eta, 1))
        w = rng.random((likelihood.n, 1))
        results.append((*likelihood.evaluate(eta, w), hessian(rows, likelihood.curvature(eta, w))))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_follow_up_neither_overflows_nor_loses_digits():
    """Two thousand intervals, log odds from −800 to 800: the product of 1 + e^−|η| is renewed."""
    _, likelihood, rng = model(0, None, n=40, K=2000)
    for spread in (1.0, 800.0):
        eta = np.linspace(-spread, spread, likelihood.n_eta)
        rng.shuffle(eta)
        x = log_odds(None, likelihood, eta)
        total = 0.0
        for i in range(likelihood.n):
            a, z = likelihood.first[i], likelihood.last[i]
            total += np.logaddexp(0, x[i, a:z]).sum() - likelihood.event[i] * x[i, z - 1]
        loss, r = likelihood.evaluate(eta[:, None], np.ones((40, 1)))
        assert loss[0] == pytest.approx(total, rel=1e-13)
        assert np.isfinite(r).all()


def test_rare_events_keep_their_digits():
    """Σ log(1 + e^−40) is not lost in 1 + e^−40."""
    _, likelihood, _ = model(0, None, n=50)
    likelihood.event[:] = 0
    eta = np.full((likelihood.n_eta, 1), -20.0)
    intervals = (likelihood.last - likelihood.first).sum()
    loss = likelihood.loss(eta, np.ones((50, 1)))[0]
    assert loss == pytest.approx(intervals * np.exp(-40.0), rel=1e-13)


@pytest.mark.parametrize("B", [1, 8])
def test_effects_that_do_not_change_take_a_shorter_way_to_the_same_numbers(B):
    """exp(h + a) as a product, against the general kernel with a function of time that is zero."""
    _, short, rng = model(2, None, n=300, K=40)
    zero = np.zeros((40, 1))
    args = short.first, short.last, short.event
    general = PooledLogisticLikelihood(*args, zero, short.backend)
    w = rng.integers(0, 3, (300, B)).astype(float)
    for spread in (1.0, 30.0, 300.0):  # the last is beyond the shorter way's reach
        eta = spread * rng.uniform(-0.6, 0.6, size=(short.n_eta, B))
        wide = np.concatenate([eta[:300], np.zeros((300, B)), eta[300:]])
        loss, r = short.evaluate(eta, w)
        expected, r_wide = general.evaluate(wide, w)
        np.testing.assert_allclose(loss, expected, rtol=1e-13)
        np.testing.assert_allclose(short.loss(eta, w), expected, rtol=1e-13)
        np.testing.assert_allclose(r[:300], r_wide[:300], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(r[300:], r_wide[600:], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
@pytest.mark.parametrize("Q", [0, 1])
def test_nearly_certain_events_keep_the_digits_of_their_slopes(device, Q):
    """One interval each, so that the slope of an event is −1 / (1 + exp η)."""
    if device != "cpu":
        pytest.importorskip("torch")
    n, eta = 20, np.linspace(25.0, 60.0, 20)[:, None]
    event = np.arange(n) % 2
    args = np.arange(n), np.arange(n) + 1, event, np.zeros((n, Q))
    likelihood = PooledLogisticLikelihood(*args, get_backend(device))
    whole = likelihood.backend.asarray(
        np.concatenate([eta, np.zeros((n * Q, 1)), np.zeros((n, 1))])
    )
    ones = likelihood.backend.asarray(np.ones((n, 1)))
    slope = likelihood.backend.to_host(likelihood.evaluate(whole, ones)[1])
    expected = np.where(event == 1, -expit(-eta[:, 0]), expit(eta[:, 0]))
    for found in (slope[:n, 0], slope[-n:, 0]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    residuals = likelihood.backend.to_host(likelihood.martingale_residuals(whole, ones))
    np.testing.assert_allclose(residuals.ravel(), -expected, rtol=1e-12)
