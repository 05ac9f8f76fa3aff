"""Systematic error that changes with the true effect, leave-one-out, and metrics on controls."""

import numpy as np
import pytest

from steropes.designs.controls import (
    ControlEstimates,
    calibrate,
    calibrate_interval,
    control_performance,
    fit_error_model,
    fit_systematic_error,
    leave_one_group_out,
)
from steropes.designs.controls.performance_metrics import performance_by_ratio
from steropes.designs.controls.systematic_error_model import _line_through
from steropes.errors import DataError

RNG = np.random.default_rng(7)
T = np.log(np.tile([1.0, 1.5, 2.0, 4.0], 30))
S = RNG.uniform(0.05, 0.3, 120)
Y = RNG.normal(0.1 + 0.9 * T, np.hypot(0.1 + 0.15 * T, S))
GROUP = np.repeat(np.arange(30), 4)


def minus_log_likelihood(a, b, c, d):
    v = (c + d * T) ** 2 + S**2
    return 0.5 * (np.log(v) + (Y - a - b * T) ** 2 / v).sum()


def test_the_fit_is_the_maximum_and_near_the_truth():
    m = fit_error_model(Y, S, T)
    at = np.array([m.intercept, m.slope, m.sd, m.sd_slope])
    best = minus_log_likelihood(*at)
    for step in np.vstack([np.eye(4), -np.eye(4)]) * 1e-3:
        assert minus_log_likelihood(*(at + step)) > best
    assert best < minus_log_likelihood(0.1, 0.9, 0.1, 0.15)
    np.testing.assert_allclose(at, [0.1, 0.9, 0.1, 0.15], atol=0.12)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_no_pair_of_spreads_is_better_than_those_that_are_found(seed):
    """The likelihood may have several maxima, and is flat where a spread is zero."""
    rng = np.random.default_rng(seed)
    for _ in range(15):
        n = int(rng.integers(5, 20))
        t = np.repeat(np.log([1.0, 1.5, 2.0, 4.0]), n)
        s = rng.uniform(0.05, 0.5, 4 * n)
        spread = np.clip(rng.choice([0, 0.1, 0.3]) + rng.choice([-0.1, -0.03, 0.2]) * t, 0, None)
        y = 0.1 + t + rng.normal(0, np.hypot(s, spread))
        m = fit_error_model(y, s, t)

        def value(low, high, y=y, s=s, t=t):
            v = (low + (high - low) * t / t.max()) ** 2 + s**2
            a, b = _line_through(y, t, 1 / v)
            return 0.5 * (np.log(v) + (y - a - b * t) ** 2 / v).sum()

        found = value(m.sd, m.sd_at(t.max()))
        sds = [0, *np.geomspace(0.01, 1, 15)]
        assert found <= min(value(low, high) for low in sds for high in sds) + 1e-6


def test_the_order_of_controls_changes_no_digit():
    order = RNG.permutation(120)
    assert fit_error_model(Y, S, T) == fit_error_model(Y[order], S[order], T[order])


def test_without_positive_controls_it_is_the_model_of_the_negative_ones():
    null = T == 0
    m = fit_error_model(Y[null], S[null], T[null])
    error = fit_systematic_error(Y[null], S[null])
    assert (m.intercept, m.slope, m.sd, m.sd_slope) == (error.mean, 1.0, error.sd, 0.0)
    assert calibrate_interval(0.7, 0.2, m) == calibrate(0.7, 0.2, error)
    with pytest.raises(DataError, match="no control has an estimate"):
        fit_error_model([np.nan], [0.1], [0.0])


def test_limits_are_where_the_estimate_is_just_so_far_from_its_mean():
    m = fit_error_model(Y, S, T)
    for y in (-1.2, 0.0, 0.3, 1.9):
        c = calibrate_interval(y, 0.15, m)
        for t, z in ((c.lower, 1.959963984540054), (c.upper, -1.959963984540054)):
            sd = np.hypot(m.sd_at(t), 0.15)
            assert (y - m.mean_at(t)) / sd == pytest.approx(z, abs=1e-9)
        assert m.mean_at(c.log_rr) == pytest.approx(y)
        assert c.lower < c.log_rr < c.upper
    assert np.isnan(calibrate_interval(np.nan, 0.1, m).p)


def test_a_spread_that_outgrows_the_mean_leaves_a_side_open():
    t = np.log(np.tile([1.0, 4.0], 20))
    rng = np.random.default_rng(2)
    y = rng.normal(0.6 * t, 0.02 + 1.2 * t)
    c = calibrate_interval(1.0, 0.1, fit_error_model(y, np.full(40, 0.05), t))
    assert np.isinf(c.upper)
    assert np.isnan(c.se)


def test_left_out_groups_are_covered_as_often_as_they_should_be():
    found = leave_one_group_out(Y, S, T, GROUP)
    assert found["covers"].mean() < 0.8
    assert 0.88 < found["calibrated_covers"].mean() <= 1
    others = GROUP != 3
    model = fit_error_model(Y[others], S[others], T[others])
    one = calibrate_interval(Y[13], S[13], model)
    assert found.loc[13, "calibrated_upper"] == one.upper


def test_metrics_are_what_they_say():
    y = np.array([0.0, 0.5, 1.0, np.nan, 0.4])
    s = np.array([0.1, 0.1, 0.2, np.nan, 0.4])
    t = np.log([1, 1, 2, 2, 2])
    found = ControlEstimates(y, s, y - 2 * s, y + 2 * s, t, np.exp(t), np.arange(5))
    m = control_performance(found)
    assert m["controls"] == 5
    assert m["without"] == pytest.approx(0.2)
    assert m["type_1"] == pytest.approx(0.5)
    assert m["type_2"] == pytest.approx(0.5)
    assert m["auc"] == pytest.approx(3 / 4)
    assert m["coverage"] == pytest.approx(3 / 4)
    errors = np.array([0, 0.5, 1 - np.log(2), 0.4 - np.log(2)])
    assert m["mse"] == pytest.approx((errors**2).mean())
    assert m["precision"] == pytest.approx(np.exp(np.log(1 / s[[0, 1, 2, 4]] ** 2).mean()))
    table = performance_by_ratio(found)
    assert table["ratio"].tolist()[:2] == [1.0, 2.0]
    assert np.isnan(table["auc"].iloc[0])
    assert table["auc"].iloc[1] == m["auc"]
