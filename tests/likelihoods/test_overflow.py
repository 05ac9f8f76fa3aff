"""Losses at the ends of floating point: no overflow, no NaN, no cancellation."""

import numpy as np
import pytest
from builders import build, evaluate
from hypothesis import given
from hypothesis import strategies as st


def test_cox_takes_its_exponentials_with_a_shift():
    """DESIGN: an exp(η) without a shift is one of the predecessors' mistakes."""
    time, event = np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0])
    likelihood = build("cox", (time, event))
    eta = np.array([0.3, -0.2, 0.1])
    a = evaluate(likelihood, eta, np.ones(3))
    for shift in (1e3, -1e3, 1e5):
        b = evaluate(likelihood, eta + shift, np.ones(3))
        assert b[0] == pytest.approx(a[0], rel=1e-10)
        np.testing.assert_allclose(b[1], a[1], atol=1e-10)


def test_risk_set_sums_are_not_differences_of_large_sums():
    """A row with e^40 that left the risk set before leaves no rounding behind."""
    time = np.array([1.0, 2.0, 3.0, 4.0])
    entry = np.array([0.0, 1.5, 1.5, 1.5])
    event = np.array([1, 1, 1, 1])
    eta = np.array([40.0, 0.1, -0.3, 0.2])
    value, g = evaluate(build("cox", (time, event), entry=entry), eta, np.ones(4))
    late, g_late = evaluate(
        build("cox", (time[1:], event[1:]), entry=entry[1:]), eta[1:], np.ones(3)
    )
    assert value == pytest.approx(late, rel=1e-14)
    np.testing.assert_allclose(g[1:], g_late, rtol=1e-14)
    assert g[0] == 0.0


def test_a_stratum_far_below_another_keeps_its_digits():
    time, event = np.array([1.0, 2.0, 1.0, 2.0]), np.array([1, 0, 1, 0])
    strata = np.array([0, 0, 1, 1])
    eta = np.array([900.0, 901.0, -900.0, -899.0])
    value, g = evaluate(build("cox", (time, event), strata), eta, np.ones(4))
    assert value == pytest.approx(2 * np.log(1 + np.e), rel=1e-12)
    np.testing.assert_allclose(g[:2], g[2:], rtol=1e-12)


@given(st.floats(-1e300, 1e300))
def test_logistic_loss_is_finite_and_exact_at_any_linear_predictor(eta):
    likelihood = build("logistic", np.array([0.0, 1.0]))
    value, g = evaluate(likelihood, np.array([eta, eta]), np.ones(2))
    # log(1+e^η) + log(1+e^−η) = |η| + 2 log(1 + e^−|η|)
    assert value == pytest.approx(abs(eta) + 2 * np.log1p(np.exp(-abs(eta))), rel=1e-14)
    assert np.isfinite(g).all()
    assert g[0] >= 0
    assert g[1] <= 0


def test_poisson_overflow_is_an_infinite_loss_not_an_error():
    likelihood = build("poisson", np.array([1.0, 2.0]))
    value, _ = evaluate(likelihood, np.array([1e4, 0.0]), np.ones(2))
    assert value == np.inf


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_rows_without_weight_count_nothing_whatever_their_predictor(family):
    y = np.array([1.0, 0.0, 1.0])
    value, g = evaluate(build(family, y), np.array([0.2, -0.4, 800.0]), np.array([1.0, 2.0, 0.0]))
    less = evaluate(build(family, y[:2]), np.array([0.2, -0.4]), np.array([1.0, 2.0]))
    assert value == less[0]
    np.testing.assert_array_equal(g, np.append(less[1], 0.0))


def test_squares_that_overflow_are_an_infinite_loss_not_a_warning():
    likelihood = build("linear", np.array([1.0, 2.0]))
    value, g = evaluate(likelihood, np.array([1e160, 0.0]), np.ones(2))
    assert value == np.inf
    assert np.isfinite(g).all()
    assert likelihood.loss(np.array([[1e160], [0.0]]), np.ones((2, 1))) == np.inf
