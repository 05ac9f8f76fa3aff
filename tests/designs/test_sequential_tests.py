"""Sequential tests agree with R's Sequential and EmpiricalCalibration, and keep their error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.special import roots_legendre
from scipy.stats import binom, gamma, multivariate_normal, norm, poisson

from steropes import DataError
from steropes.designs.controls import SystematicError
from steropes.designs.evidence import Profile
from steropes.designs.evidence.profile_interpolation import NormalProfile
from steropes.designs.surveillance import (
    binomial_bound,
    calibrated_statistic,
    conditional_poisson_bound,
    continuous_poisson_bound,
    continuous_sequential_bounds,
    estimate_bound,
    monitor_estimates,
    poisson_bound,
    signed_root,
)
from steropes.designs.surveillance.accruing_counts import PoissonLooks
from steropes.designs.surveillance.no_signal_probabilities import CountsWithoutSignal

ERROR = SystematicError(mean=0.2, sd=0.2, controls=50)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        ({"planned": 1}, 2.853937149),
        ({"planned": 2}, 3.046977463),
        ({"planned": 5}, 3.297182797),
        ({"planned": 10}, 3.467951580),
        ({"planned": 20}, 3.628123016),
        ({"planned": 50}, 3.819902694),
        ({"planned": 100}, 3.952320906),
        ({"planned": 10, "min_events": 3}, 3.064247967),
        ({"planned": 10, "min_events": 4}, 2.92156133),
        ({"planned": 10, "alpha": 0.01}, 5.260512829),
    ],
)
def test_continuous_bounds_are_those_of_sequential(settings, bound):
    # R's Sequential 4.5.1, CV.Poisson, whose own tolerance is 1e-6.
    assert continuous_poisson_bound(**settings).bound == pytest.approx(bound, abs=5e-7)


def test_continuous_power_is_that_of_sequential():
    found = continuous_poisson_bound(10).power(2)  # Performance.Poisson
    assert found["power"] == pytest.approx(0.6850632956, abs=1e-6)
    assert found["size_at_signal"] == pytest.approx(4.130985765, abs=1e-6)
    assert found["expected_size"] == pytest.approx(5.979353766, abs=1e-6)


@pytest.mark.parametrize(
    ("looks", "control_ratio", "error", "bound", "alpha"),
    [
        ([1] * 10, None, None, 2.5451774445, 0.0441447053),
        ([1] * 10, None, ERROR, 4.9701539244, 0.0477157247),
        ([5, 6, 6, 5, 8], None, None, 2.1318339381, 0.0462233790),
        ([5, 6, 6, 5, 8], None, ERROR, 8.3374691964, 0.0488575621),
        ([1] * 10, 4, None, 3.0649537426, 0.0491512832),
        ([5] * 5, 3.5, None, 1.9851987167, 0.0477599528),
        ([5] * 5, 3.5, ERROR, 3.6909746394, 0.0438241852),
        ([10] * 10, 4, None, 2.3017233446, None),
        ([10] * 10, 4, ERROR, 5.4838889186, None),
        ([1] * 100, 1, None, 3.46574, 0.04817253704),  # Sequential: N = 100, z = 1
    ],
)
def test_group_bounds_are_exact(looks, control_ratio, error, bound, alpha):
    if control_ratio is None:
        found = poisson_bound(looks, systematic_error=error)
    else:
        found = binomial_bound(looks, control_ratio, systematic_error=error)
    # Sequential gives six digits, and a bound that lies a little above an attainable statistic.
    tolerance = 1e-5 if bound == 3.46574 else 5.1e-11
    assert found.bound == pytest.approx(bound, abs=tolerance)
    if alpha is not None:
        assert found.alpha == pytest.approx(alpha, abs=6e-11)


def test_many_events_are_counted_as_exactly_as_few():
    # The error of one look is the mean of tail probabilities, here by dense sums.
    x = np.linspace(-7.5, 7.5, 2001)
    mass = norm.pdf(x) / norm.pdf(x).sum()
    for error in (None, ERROR):
        found = poisson_bound([500], systematic_error=error)
        rates = 500 * np.exp(0 * x if error is None else error.mean + error.sd * x)
        alpha = mass @ poisson.sf(found.table["events"].iloc[0] - 1, rates)
        assert found.alpha == pytest.approx(alpha, abs=1e-9)
    # Looks that are too early for a signal change nothing.
    late = poisson_bound([1e-3, 500 - 1e-3], min_events=400, systematic_error=ERROR)
    assert late.bound == pytest.approx(found.bound, abs=1e-10)
    assert late.alpha == pytest.approx(found.alpha, abs=1e-10)
    many = binomial_bound([20_000], 0.01)
    least = many.table["events"].iloc[0]
    assert many.alpha == pytest.approx(binom.sf(least - 1, 20_000, 1 / 1.01), abs=1e-10)


def test_a_statistic_that_equals_the_bound_is_no_signal():
    # With ≥ instead of >, the bound of [1] × 10 would have an error of .0539.
    found = poisson_bound([1] * 10)
    assert found.bound == pytest.approx(4 * np.log(4) - 3, abs=1e-12)
    lower = found.table["events"].to_numpy() - np.isclose(
        [float(k) for k in found.monitor(found.table["events"] - 1)["statistic"]], found.bound
    )
    spent, state = 0.0, {0: 1.0}
    for least in lower:
        after = {}
        for seen, mass in state.items():
            for new in range(60):
                own = mass * poisson.pmf(new, 1)
                if seen + new >= least:
                    spent += own
                else:
                    after[seen + new] = after.get(seen + new, 0) + own
        state = after
    assert spent == pytest.approx(0.0539, abs=5e-5)


def conditional_signals(bound, ratio=1.0, error=None, n=60_000):
    """Simulate at which of 20 events a test against 20 historical events signals; 0 for never."""
    rng = np.random.default_rng(3)
    c, k = 20, np.arange(1, 21)
    V = rng.gamma(c, 1, n) + rng.random(n) * rng.exponential(1, n)
    rate = ratio * np.exp(np.zeros(n) if error is None else rng.normal(error.mean, error.sd, n))
    r = rng.exponential(1, (n, 20)).cumsum(axis=1) / (V * rate)[:, None]
    statistic = c * np.log(c * (1 + r) / (c + k)) + k * np.log(k * (1 + r) / (r * (c + k)))
    signal = (k / r > c) & (statistic >= bound)
    signal[:, 0] = False  # at least two events
    return np.where(signal.any(axis=1), signal.argmax(axis=1) + 1, 0)


@pytest.mark.parametrize("error", [None, ERROR, SystematicError(-0.1, 0.5, 50)])
def test_conditional_bound_keeps_its_error(error):
    found = conditional_poisson_bound(20, 20, min_events=2, systematic_error=error)
    at = conditional_signals(found.bound, error=error)
    assert (at > 0).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.0475 / len(at)))
    at = conditional_signals(found.bound, 2.5, error)
    own = found.power(2.5)
    assert own["power"] == pytest.approx((at > 0).mean(), abs=0.007)
    assert own["size_at_signal"] == pytest.approx(at[at > 0].mean(), abs=0.07)
    assert own["expected_size"] == pytest.approx(np.where(at > 0, at, 20).mean(), abs=0.09)


def test_sequentials_conditional_bound_has_another_historical_period():
    # Sequential 4.5.1: 3.149114773. Its last term takes the period to end with its last event, all
    # others at any moment between two events. By the multinomial sums of Silva, Li and Kulldorff
    # (2019) with 30 digits the bound is 3.1513358309277, and 3.149114773 has an error of 0.0500989.
    counts, times = np.arange(2, 21), {}
    t, w = roots_legendre(100)
    x = gamma.ppf(1e-15, 20) * (1 - t) / 2 + gamma.isf(1e-15, 20) * (1 + t) / 2
    mass = gamma.pdf(x, 20) * w
    times["last event"] = x, mass / mass.sum()
    times["any moment"] = continuous_sequential_bounds._historical_time(20, None)

    def signals(bound, period):
        x, weights = times[period]
        ratio = [continuous_sequential_bounds._time_ratio(int(k), 20, bound) for k in counts]
        without = CountsWithoutSignal(PoissonLooks(np.array(ratio)), np.log(x), weights)
        quiet = [1.0]
        for k in counts:
            without.advance(int(k))
            quiet.append(without.mass.sum())
        return -np.diff(quiet)

    def error(bound):
        return signals(bound, "any moment")[:-1].sum() + signals(bound, "last event")[-1] - 0.05

    assert brentq(error, 2.5, 4) == pytest.approx(3.149114773, abs=5e-8)
    found = conditional_poisson_bound(20, 20, min_events=2).bound
    assert found == pytest.approx(3.1513358309277, abs=1e-10)
    assert signals(3.149114773, "any moment").sum() == pytest.approx(0.0500989315, abs=1e-10)


def test_a_calibrated_continuous_bound_keeps_its_error():
    found = continuous_poisson_bound(6, min_events=3, systematic_error=ERROR)
    rng = np.random.default_rng(2)
    n, k = 50_000, np.arange(1, 51)
    rate = np.exp(rng.normal(ERROR.mean, ERROR.sd, n))
    times = rng.exponential(1, (n, 50)).cumsum(axis=1) / rate[:, None]
    ratio = np.where(times < k, times - k + k * np.log(k / times), 0.0)
    signal = (ratio >= found.bound) & (k >= 3) & (times <= 6)
    assert signal.any(axis=1).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.0475 / n))
    exact = SystematicError(0.0, 0.0, 50)
    plain = continuous_poisson_bound(6, systematic_error=exact)
    assert plain.bound == pytest.approx(continuous_poisson_bound(6).bound, abs=1e-11)


def test_many_historical_events_give_the_unconditional_bound():
    known = conditional_poisson_bound(5, 5000, min_events=1).bound
    # Surveillance that ends with the fifth event, against a known rate.
    rng = np.random.default_rng(0)
    times = rng.exponential(1, (100_000, 5)).cumsum(axis=1)
    c = np.arange(1, 6)
    statistic = np.where(times < c, times - c + c * np.log(c / times), 0).max(axis=1)
    assert (statistic >= known).mean() == pytest.approx(0.05, abs=0.003)


def test_delayed_first_test_keeps_its_error():
    found = continuous_poisson_bound(6, delay=2.5)
    rng = np.random.default_rng(1)
    n, grid = 20_000, np.linspace(2.5, 6, 400)
    times = rng.exponential(1, (n, 40)).cumsum(axis=1)
    signal = np.zeros(n, dtype=bool)
    for t in grid:
        seen = (times <= t).sum(axis=1)
        ratio = t - seen + seen * np.log(np.maximum(seen, 1) / t)
        signal |= (seen > t) & (ratio >= found.bound)
    assert signal.mean() == pytest.approx(0.05, abs=0.006)


def test_spent_error_is_never_exceeded_and_follows_the_shares():
    expected = np.array([2.0, 1.0, 4.0, 3.0])
    share = (np.cumsum(expected) / 20) ** 0.5
    found = poisson_bound(expected, spending=share, systematic_error=ERROR)
    assert (found.table["alpha"].to_numpy() <= 0.05 * share + 1e-12).all()
    assert np.isnan(found.bound)
    # The bounds of the first looks do not depend on later ones.
    first = poisson_bound(expected[:2], spending=share[:2], systematic_error=ERROR)
    pd.testing.assert_frame_equal(first.table, found.table.iloc[:2])


def test_group_power_agrees_with_simulation():
    found = binomial_bound([8, 8, 8], 2.0)
    least = found.table["events"].to_numpy()
    rng = np.random.default_rng(5)
    p = 1 / (1 + 2.0)
    odds = 2.5 * p / (1 - p)
    seen = rng.binomial(8, odds / (1 + odds), (100_000, 3)).cumsum(axis=1)
    signal = seen >= least
    first = np.where(signal.any(axis=1), signal.argmax(axis=1), -1)
    own = found.power(2.5)
    assert own["power"] == pytest.approx((first >= 0).mean(), abs=0.006)
    assert own["size_at_signal"] == pytest.approx(8 * (first[first >= 0] + 1).mean(), abs=0.1)


def test_monitored_counts_signal_from_the_first_time_on():
    found = poisson_bound([5, 6, 6]).monitor([11, 12, 20])
    assert found["signal"].tolist() == [True, True, True]
    assert found["statistic"].iloc[0] == pytest.approx(5 - 11 + 11 * np.log(11 / 5))


def test_flat_bound_of_estimates_is_pococks():
    # Jennison and Turnbull (2000), table 2.1, C_P(5, 0.05): one-sided 0.025 is the same here.
    assert estimate_bound(np.arange(1, 6), alpha=0.025)["z"].iloc[0] == pytest.approx(
        2.413, abs=5e-4
    )


@pytest.mark.parametrize("spending", [None, [0.1, 0.4, 1.0]])
def test_bounds_of_estimates_keep_their_error_under_systematic_error(spending):
    information = np.array([4.0, 30.0, 70.0])
    found = estimate_bound(information, spending=spending, systematic_error=ERROR)
    covariance = np.minimum.outer(information, information)
    covariance += np.outer(information, information) * ERROR.sd**2
    scale = 1 / np.sqrt(information)
    quiet = multivariate_normal.cdf(
        found["z"].to_numpy(), information * ERROR.mean * scale,
        covariance * np.outer(scale, scale), abseps=1e-7, maxpts=300_000, rng=0,
    )  # fmt: skip
    assert 1 - quiet == pytest.approx(0.05, abs=2e-5)
    assert found["alpha"].iloc[-1] == pytest.approx(0.05, abs=1e-9)


def test_calibrated_statistic_is_that_of_empirical_calibration():
    # calibrateLlr of EmpiricalCalibration 3.1.4 in its own tests: the data "sccs", in which the row
    # of sertraline is read as parameters of three likelihoods, and fitNull's error.
    error = SystematicError(mean=0.7921580519, sd=0.2834363458, controls=45)
    shape, scale = 0.732623537, 0.0737170848974771
    assert calibrated_statistic(NormalProfile(shape, scale), error) == 0
    x = np.linspace(-1.7, 4, 3001)
    skew = norm.logpdf(x, 1, scale) + norm.logcdf(shape * (x - 1) / scale)
    # R's integral is 0.3439654912; an adaptive one to twelve digits is 0.3439657766.
    found = calibrated_statistic(Profile(x, skew), error)
    assert found == pytest.approx(0.3439657766, abs=1e-10)
    assert found == pytest.approx(0.3439654912, abs=3e-7)
    custom = -np.exp(shape * (x - 1)) * (x - 1) ** 2 / (2 * scale**2)
    found = calibrated_statistic(Profile(x, custom), error)
    assert found == pytest.approx(0.2470385185, abs=1e-10)


def test_normal_estimates_have_the_closed_form():
    error = SystematicError(mean=0.1, sd=0.15, controls=50)
    for se in (0.2, 0.0002):
        z = (0.7 - 0.1) / np.hypot(se, 0.15)
        found = calibrated_statistic(NormalProfile(0.7, se), error)
        assert found == pytest.approx(z**2 / 2, rel=1e-11)
    assert calibrated_statistic(NormalProfile(-0.5, 0.2), error) == 0
    assert signed_root(NormalProfile(0.7, 0.2)) == pytest.approx(3.5)


def test_profiles_that_end_before_their_maximum_are_refused():
    x = np.linspace(-1, 1, 41)
    with pytest.raises(DataError, match="store it over a wider range"):
        signed_root(Profile(x, -((x - 1.5) ** 2)))
    with pytest.raises(DataError, match="unknown"):
        calibrated_statistic(Profile(x, -(x**2) * 50), SystematicError(2.0, 0.1, 50))


def test_false_signals_are_as_rare_as_planned_with_calibration():
    # 2,000 outcomes without an effect, whose estimates share the systematic error of 200 controls.
    rng = np.random.default_rng(11)
    n, controls, information = 2000, 200, np.array([10.0, 25.0, 40.0])
    bias = rng.normal(0.3, 0.15, n + controls)
    increments = np.diff(information, prepend=0)
    score = bias[:, None] * increments + rng.normal(size=(n + controls, 3)) * np.sqrt(increments)
    estimate = score.cumsum(axis=1) / information
    rows = pd.DataFrame(
        {
            "outcome": np.repeat(np.arange(n + controls), 3),
            "look": np.tile([1, 2, 3], n + controls),
            "log_rr": estimate.ravel(),
            "se": np.tile(1 / np.sqrt(information), n + controls),
            "control": np.repeat(np.arange(n + controls) >= n, 3),
        }
    )
    few = rows[(rows["outcome"] < 3) | rows["control"]]
    found = monitor_estimates(few, looks=3, by=["outcome"])
    bound = found[found["outcome"] == 0]["bound"].to_numpy()
    z = estimate[:n] * np.sqrt(information)
    assert (z >= bound).any(axis=1).mean() == pytest.approx(0.05, abs=0.02)
    naive = estimate_bound(information, spending=[1 / 3, 2 / 3, 1])["z"].to_numpy()
    assert (z >= naive).any(axis=1).mean() > 0.3


def test_looks_without_new_information_are_not_tested():
    rows = pd.DataFrame(
        {"look": [1, 2, 3], "log_rr": [0.1, np.nan, 0.2], "se": [0.2, np.nan, 0.25]}
    )
    found = monitor_estimates(rows, looks=3)
    assert found["note"].tolist() == ["", "no estimate", "no new information"]
    assert found["bound"].isna().tolist() == [False, True, True]
    assert not found["signal"].any()


def test_the_order_of_rows_does_not_matter():
    rows = pd.DataFrame({"look": [1, 2, 1, 2], "log_rr": [0.5, 0.9, 0.1, 0.2],
                         "se": [0.4, 0.3, 0.4, 0.2], "name": ["a", "a", "b", "b"]})  # fmt: skip
    own = monitor_estimates(rows, looks=2, by=["name"]).sort_values(["name", "look"])
    other = monitor_estimates(rows.iloc[::-1], looks=2, by=["name"]).sort_values(["name", "look"])
    pd.testing.assert_frame_equal(own.reset_index(drop=True), other.reset_index(drop=True))


def monitored(by=(), **columns):
    rows = pd.DataFrame({"look": [1, 2], "log_rr": [0.5, 0.9], "se": [0.4, 0.3]})
    return monitor_estimates(rows.assign(**columns), looks=2, by=by)


def test_tables_of_other_libraries_and_categories_are_read():
    rows = pd.DataFrame({"look": [1, 2], "log_rr": [0.5, 0.9], "se": [0.4, 0.3], "name": "a"})
    plain = monitor_estimates(rows, looks=2, by=["name"])
    other = monitor_estimates(pl.from_pandas(rows), looks=2, by=["name"])
    pd.testing.assert_frame_equal(plain, other)
    other = monitor_estimates(rows.astype({"name": "category"}), looks=2, by=["name"])
    assert other["bound"].tolist() == plain["bound"].tolist()


def test_looks_without_error_have_no_bound_and_large_errors_have_one():
    found = estimate_bound([1, 2, 3], spending=[0, 0.5, 0.5])
    assert np.isinf(found["z"]).tolist() == [True, False, True]
    assert found["alpha"].tolist() == pytest.approx([0, 0.025, 0.025])
    assert estimate_bound([1, 2], alpha=0.9)["alpha"].iloc[-1] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: poisson_bound([1, 0, 2]), "positive at every look"),
        (lambda: poisson_bound([]), "positive at every look"),
        (lambda: poisson_bound([1], alpha=1), "alpha must be between"),
        (lambda: poisson_bound([1], min_events=0), "min_events must be"),
        (lambda: poisson_bound([1, 1], spending=[1]), "2 looks"),
        (lambda: poisson_bound([1, 1], spending=[0.5, 1.2]), "between 0 and 1"),
        (lambda: binomial_bound([1.5], 1), "whole numbers"),
        (lambda: binomial_bound([2], -1), "control_ratio must be positive"),
        (lambda: binomial_bound([2], 1), "plan more events"),
        (lambda: binomial_bound([20], 1).monitor([21]), "more events in time at risk"),
        (lambda: poisson_bound([5]).monitor([3, 4]), "2 looks"),
        (lambda: poisson_bound([5, 5]).monitor([4, 3]), "never fall"),
        (lambda: poisson_bound([5]).power(0), "ratio must be positive"),
        (lambda: poisson_bound([5], systematic_error=(0.1, 0.2)), "must be a SystematicError"),
        (lambda: monitored(by="name"), "by must be a list"),
        (lambda: monitored(name=None, by=["name"]), "'name'. is missing in .*row 0"),
        (lambda: monitored(control="False"), "must be true or false"),
        (lambda: monitored(control=np.nan), "must be true or false"),
        (lambda: monitored(se="wide"), "'se'. is not a number in row 0"),
        (lambda: monitored(se=-1.0), "se is negative in row 0"),
        (lambda: continuous_poisson_bound(0), "planned must be"),
        (lambda: continuous_poisson_bound(5, delay=5), "delay must be"),
        (lambda: continuous_poisson_bound(0.5, min_events=4), "plan more events"),
        (
            lambda: continuous_poisson_bound(
                5, systematic_error=SystematicError(3.0, 1.0, 9)
            ),
            "so large a systematic error",
        ),
        (lambda: continuous_poisson_bound(5).power(-1), "ratio must be positive"),
        (lambda: conditional_poisson_bound(3, 2.5), "historical_events must be"),
        (lambda: conditional_poisson_bound(3, 2, min_events=4), "more than events"),
        (lambda: estimate_bound([2, 2]), "increase from look to look"),
        (lambda: monitor_estimates(pd.DataFrame({"look": [1]}), looks=1), "log_rr"),
        (
            lambda: monitor_estimates(
                pd.DataFrame({"look": [1, 1], "log_rr": [0, 0], "se": [1, 1]}), looks=1
            ),
            "two rows",
        ),
        (
            lambda: monitor_estimates(
                pd.DataFrame({"look": [2], "log_rr": [0], "se": [1]}), looks=1
            ),
            "from 1 to looks=1",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(DataError, match=message):
        call()
