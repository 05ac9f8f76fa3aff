"""Empirical calibration: optima, facts, and the numbers of other software."""

import numpy as np
import pandas as pd
import pytest

from steropes.designs.controls import calibrate, fit_systematic_error, leave_one_out
from steropes.errors import DataError

Y = np.array(
    [-0.091, -0.247, 0.075, 0.276, 0.491, 0.183, -0.016, -0.085, 0.375, 0.64, 0.232, -0.22]
)
S = np.array([0.219, 0.392, 0.367, 0.35, 0.206, 0.238, 0.297, 0.099, 0.258, 0.167, 0.361, 0.101])


def log_likelihood(mean, sd):
    v = S**2 + sd**2
    return -0.5 * (np.log(v) + (Y - mean) ** 2 / v).sum()


def test_the_fit_is_the_maximum():
    found = fit_systematic_error(Y, S)
    best = log_likelihood(found.mean, found.sd)
    for d in (1e-4, -1e-4):
        assert log_likelihood(found.mean + d, found.sd) < best
        assert log_likelihood(found.mean, found.sd + d) < best


def test_numbers_of_empyricalcalibration():
    """empyricalcalibration 0.1.1: fitNull, calibrateP, calibrateConfidenceInterval, EASE.

    It stops at a relative tolerance of 1e-4.
    """
    error = fit_systematic_error(Y, S)
    assert error.mean == pytest.approx(0.127397, abs=1e-4)
    assert error.sd == pytest.approx(0.231004, abs=1e-4)
    assert error.expected_absolute == pytest.approx(0.211654, abs=1e-4)
    found = calibrate(0.5, 0.2, error)
    np.testing.assert_allclose(
        [found.p, found.one_sided_p, found.log_rr, found.lower, found.upper, found.se],
        [0.222679, 0.111339, 0.372603, -0.226271, 0.971476, 0.305553],
        atol=2e-4,
    )


def test_without_error_nothing_changes_and_the_order_does_not_matter():
    exact = fit_systematic_error(np.zeros(9), S[:9])
    assert (exact.mean, exact.sd) == (0, 0)
    assert calibrate(0.5, 0.2, exact).lower == pytest.approx(0.5 - 1.959964 * 0.2)
    order = np.random.default_rng(1).permutation(12)
    one, two = fit_systematic_error(Y, S), fit_systematic_error(Y[order], S[order])
    assert one.mean == pytest.approx(two.mean, abs=1e-12)


def test_positive_controls_tell_the_same_error():
    true = np.log([1, 1.5, 2, 4] * 3)
    one, two = fit_systematic_error(Y, S), fit_systematic_error(Y + true, S, true)
    assert (one.mean, one.sd) == pytest.approx((two.mean, two.sd))


def test_expected_absolute_error_is_that_of_draws():
    error = fit_systematic_error(Y, S)
    draws = np.random.default_rng(1).normal(error.mean, error.sd, 1_000_000)
    assert error.expected_absolute == pytest.approx(np.abs(draws).mean(), abs=1e-3)


def test_left_out_controls_are_covered_as_often_as_they_should_be():
    rng = np.random.default_rng(3)
    s = rng.uniform(0.05, 0.3, 150)
    y = rng.normal(0.2, np.hypot(0.25, s))
    found = leave_one_out(y, s)
    assert found["covers"].mean() < 0.8
    assert 0.9 < found["calibrated_covers"].mean() <= 1


@pytest.mark.parametrize(
    ("y", "s"), [(np.nan, np.nan), (np.nan, 0.1), (0.2, np.inf), (-np.inf, 0.1), (0.2, 0.0)]
)
def test_a_control_without_an_estimate_counts_in_no_coverage(y, s):
    whole, more = leave_one_out(Y, S), leave_one_out([y, *Y], [s, *S])
    assert more.loc[0].isna().all()
    pd.testing.assert_frame_equal(more.loc[1:].reset_index(drop=True), whole)
    for name in ("covers", "calibrated_covers"):
        assert more[name].mean() == whole[name].mean()


def test_a_single_control_is_not_calibrated_and_none_are_an_empty_table():
    found = leave_one_out([0.1, np.nan], [0.2, np.nan])
    assert found["covers"].tolist()[0] == 1
    assert found["calibrated_covers"].isna().all()
    assert leave_one_out([], []).empty
    with pytest.raises(DataError, match="shapes must agree"):
        leave_one_out([0.1, 0.2], [0.1])


def test_what_cannot_be_used_is_left_out_or_refused():
    with_gaps = fit_systematic_error([*Y, np.nan, 1.0], [*S, 0.1, np.inf])
    assert with_gaps == fit_systematic_error(Y, S)
    with pytest.raises(DataError, match="no control has an estimate"):
        fit_systematic_error([np.nan], [1.0])
    assert np.isnan(calibrate(np.nan, 0.1, with_gaps).p)
