"""The gradient is the derivative of the loss, the curvature that of the gradient."""

import numpy as np
import pytest
from builders import build, dense_curvature, evaluate
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from simulators import FAMILIES, outcome

COX = [
    {"ties": ties, "strata": s, "entry": e}
    for ties in ("efron", "breslow")
    for s in (False, True)
    for e in (False, True)
]
CASES = [(f, {}) for f in FAMILIES if f != "cox"] + [("cox", c) for c in COX]


def ids(case):
    family, options = case
    return family + "".join(f"-{v if k == 'ties' else k}" for k, v in options.items() if v)


def draw(family, options, seed, n=40):
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=n)
    y = outcome(family, eta, rng)
    w = rng.integers(0, 4, n).astype(float)
    w[rng.random(n) < 0.3] *= 0.37
    keep = {}
    if family == "cox":
        keep["ties"] = options["ties"]
        if options["strata"]:
            keep["strata"] = rng.integers(0, 4, n)
        if options["entry"]:
            keep["entry"] = np.floor(y[0] * rng.random(n)) - 0.5 * (rng.random(n) < 0.5)
            keep["entry"] = np.minimum(keep["entry"], y[0] - 0.5)
        w[np.argmax(y[1])] = 1.0
    return eta, y, w, keep


@pytest.mark.parametrize("case", CASES, ids=ids)
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_equal_brute_force(case, seed):
    eta, y, w, keep = draw(*case, seed)
    value, g = evaluate(build(case[0], y, **keep), eta, w)
    expected, g0 = reference.loss(case[0], eta, y, w, **keep)
    if case[0] == "poisson":  # the factorial is kept apart
        expected -= reference.poisson(np.zeros_like(eta), y, w)[0] - w.sum()
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(g, g0, rtol=0, atol=1e-11)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_gradient_is_the_derivative_of_the_loss(case):
    eta, y, w, keep = draw(*case, 7)
    likelihood = build(case[0], y, **keep)
    g = evaluate(likelihood, eta, w)[1]
    h = 1e-5
    for i in range(0, len(eta), 3):
        e = np.zeros_like(eta)
        e[i] = h
        up, down = evaluate(likelihood, eta + e, w)[0], evaluate(likelihood, eta - e, w)[0]
        assert g[i] == pytest.approx((up - down) / (2 * h), abs=2e-6)


@pytest.mark.parametrize("case", CASES, ids=ids)
@pytest.mark.parametrize("seed", [1, 2])
def test_exact_curvature_is_the_derivative_of_the_gradient(case, seed):
    eta, y, w, keep = draw(*case, seed)
    likelihood = build(case[0], y, **keep)
    H = dense_curvature(likelihood, eta, w)
    h = 1e-5
    for i in range(len(eta)):
        e = np.zeros_like(eta)
        e[i] = h
        up, down = evaluate(likelihood, eta + e, w)[1], evaluate(likelihood, eta - e, w)[1]
        np.testing.assert_allclose(H[i], (up - down) / (2 * h), atol=3e-8)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_loss_alone_equals_the_loss_with_its_gradient(case):
    eta, y, w, keep = draw(*case, 3)
    likelihood = build(case[0], y, **keep)
    order = slice(None) if likelihood.order is None else likelihood.order
    bound = likelihood.weigh(np.ascontiguousarray(w[order][:, None]))
    at = np.ascontiguousarray(eta[order][:, None])
    assert float(likelihood.loss(at, bound)[0]) == pytest.approx(
        float(likelihood.evaluate(at, bound)[0][0]), rel=1e-13
    )


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_batch_is_its_replicates_one_by_one(case):
    eta, y, w, keep = draw(*case, 4)
    rng = np.random.default_rng(0)
    W = np.stack([w, *(w * rng.integers(0, 3, len(w)) for _ in range(7))], axis=1)
    E = eta[:, None] + rng.normal(size=(len(eta), 8))
    likelihood = build(case[0], y, **keep)
    order = slice(None) if likelihood.order is None else likelihood.order
    bound = likelihood.weigh(np.ascontiguousarray(W[order]))
    values, R = likelihood.evaluate(np.ascontiguousarray(E[order]), bound)
    for b in range(8):
        value, r = evaluate(likelihood, E[:, b], W[:, b])
        assert values[b] == pytest.approx(value, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(R[:, b], r[order], atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_integer_weights_are_repeated_rows(case):
    eta, y, _, keep = draw(*case, 5)
    w = np.random.default_rng(1).integers(0, 4, len(eta))
    rows = np.repeat(np.arange(len(eta)), w)
    if case[0] == "cox" and keep["ties"] == "efron":
        # Efron's method shares a time among its *rows*, so weights and repeats are the same
        # only where events are not tied.
        y = (y[0] + 1e-3 * np.random.default_rng(2).permutation(len(eta)), y[1])
        w = np.where(y[1] == 1, np.minimum(w, 1), w)
        rows = np.repeat(np.arange(len(eta)), w)
        if "entry" in keep:
            keep["entry"] = keep["entry"] + 0.0
    repeated = {k: v if k == "ties" else v[rows] for k, v in keep.items()}
    y_rows = tuple(x[rows] for x in y) if case[0] == "cox" else y[rows]
    a = evaluate(build(case[0], y, **keep), eta, w.astype(float))
    b = evaluate(build(case[0], y_rows, **repeated), eta[rows], np.ones(len(rows)))
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    np.testing.assert_allclose(a[1], np.bincount(rows, b[1], len(eta)), atol=1e-11)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_order_of_rows_does_not_matter(case):
    eta, y, w, keep = draw(*case, 6)
    by = np.random.default_rng(3).permutation(len(eta))
    moved = {k: v if k == "ties" else v[by] for k, v in keep.items()}
    y_moved = tuple(x[by] for x in y) if case[0] == "cox" else y[by]
    a = evaluate(build(case[0], y, **keep), eta, w)
    b = evaluate(build(case[0], y_moved, **moved), eta[by], w[by])
    assert a[0] == pytest.approx(b[0], rel=1e-13)
    np.testing.assert_allclose(a[1][by], b[1], atol=1e-12)


@pytest.mark.parametrize("options", [c for c in COX if c["strata"]], ids=lambda c: ids(("cox", c)))
def test_the_numbers_of_the_strata_do_not_matter(options):
    eta, y, w, keep = draw("cox", options, 8)
    a = evaluate(build("cox", y, **keep), eta, w)
    b = evaluate(build("cox", y, **{**keep, "strata": 3 - keep["strata"]}), eta, w)
    assert a[0] == pytest.approx(b[0], rel=1e-13)
    np.testing.assert_allclose(a[1], b[1], atol=1e-12)


@pytest.mark.parametrize("entry", [False, True])
def test_breslow_equals_efron_without_ties(entry):
    options = {"ties": "efron", "strata": True, "entry": entry}
    eta, y, w, keep = draw("cox", options, 9)
    y = (y[0] + np.linspace(0.001, 0.4, len(eta)), y[1])
    a = evaluate(build("cox", y, **keep), eta, w)
    b = evaluate(build("cox", y, **{**keep, "ties": "breslow"}), eta, w)
    assert a[0] == b[0]
    np.testing.assert_array_equal(a[1], b[1])


def test_efron_differs_from_breslow_with_ties():
    eta, y, w, keep = draw("cox", {"ties": "efron", "strata": False, "entry": False}, 10)
    a = evaluate(build("cox", y, **keep), eta, w)[0]
    b = evaluate(build("cox", y, **{**keep, "ties": "breslow"}), eta, w)[0]
    assert a < b - 0.1


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    ties=st.sampled_from(["efron", "breslow"]),
    grid=st.integers(1, 40),
    strata=st.integers(1, 6),
    late=st.booleans(),
    shift=st.sampled_from([0.0, 700.0, -1e4]),
)
def test_cox_equals_brute_force_whatever_the_ties_strata_and_entries(
    seed, n, ties, grid, strata, late, shift
):
    rng = np.random.default_rng(seed)
    time = rng.integers(1, grid + 1, n).astype(float)
    event = rng.integers(0, 2, n)
    event[0] = 1
    w = rng.integers(0, 3, n) * rng.choice([1.0, 0.5, 3.25], n)
    w[0] = 1.0
    group = rng.integers(0, strata, n)
    entry = time - rng.integers(1, grid + 1, n) if late else None
    eta = rng.normal(size=n) * 2
    value, g = evaluate(build("cox", (time, event), group, entry, ties), eta + shift, w)
    expected, g0 = reference.cox(eta, (time, event), w, ties, group, entry)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(g, g0, atol=1e-9 * max(1.0, abs(shift) / 100))
