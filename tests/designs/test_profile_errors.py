"""Systematic error from profiles, its posterior, and comparisons of analyses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t
from tests.designs.test_bias_correction import PUBLISHED, extended

from steropes import DataError
from steropes.designs.controls import (
    SystematicError,
    calibrate,
    calibrate_profile,
    compare_errors,
    error_posterior,
    fit_profile_error,
    fit_systematic_error,
)
from steropes.designs.controls.systematic_error_comparison import errors_of_draws
from steropes.designs.controls.systematic_error_posterior import expected_absolute
from steropes.designs.evidence import Profile, combine_normal, combine_profiles

# The 45 negative controls of the data "sccs" of R's EmpiricalCalibration 3.1.4.
CONTROLS = Path(__file__).parent / "published" / "sccs_controls.csv"


@pytest.fixture(scope="module")
def controls():
    return pd.read_csv(CONTROLS)


def normal_profile(y, s):
    x = np.linspace(y - 9 * s, y + 9 * s, 61)
    return Profile(x, -(((x - y) / s) ** 2) / 2)


def events_profile(exposed, total, reach=7.0):
    """The log-likelihood of a rate ratio with equal times, flat on a side without events."""
    x = np.linspace(-reach, reach, 281) if 0 < exposed < total else np.linspace(-38, 38, 1521)
    return Profile(x, exposed * x - total * np.logaddexp(0, x), exposed - total / (1 + np.exp(-x)))


def test_normal_profiles_have_the_error_of_their_estimates(controls):
    profiles = [normal_profile(y, s) for y, s in controls[["log_rr", "se"]].to_numpy()]
    found = fit_profile_error(profiles)
    plain = fit_systematic_error(controls["log_rr"], controls["se"])
    assert found.mean == pytest.approx(plain.mean, abs=1e-6)
    assert found.sd == pytest.approx(plain.sd, abs=1e-6)
    shifted = fit_profile_error(profiles, np.full(len(profiles), 0.3))
    assert shifted.mean == pytest.approx(plain.mean - 0.3, abs=1e-6)


@pytest.mark.parametrize(
    ("look", "mean", "sd"),
    [(5, 0.57514407, 0.68649345), (12, 0.41842026, 0.62039237)],
)
def test_the_likelihood_is_higher_than_where_empirical_calibration_stops(look, mean, sd):
    # fitNullNonNormalLl of EmpiricalCalibration 3.1.4 stops early, .0006 and .002 below.
    table = pd.read_csv(PUBLISHED / "control_profiles.csv.gz")
    table = table[(table["look"] == look) & (table["set"] == "nc")]
    profiles = [extended(own) for _, own in table.groupby("outcome")]
    found = fit_profile_error(profiles)
    assert (found.mean, found.sd) == pytest.approx((mean, sd), abs=0.004)

    def value(mean, sd):
        x = np.linspace(mean - 10 * sd, mean + 10 * sd, 4001)
        logs = np.array([f(x) for f in profiles])
        top = logs.max(axis=1)
        share = np.exp(logs - top[:, None]) @ (norm.pdf(x, mean, sd) * (x[1] - x[0]))
        return float((np.log(share) + top).sum())

    assert 0 < value(found.mean, found.sd) - value(mean, sd) < 0.003


def test_few_events_are_averaged_by_quadrature():
    rng = np.random.default_rng(3)
    total = rng.integers(1, 8, 40)
    ratio = np.exp(rng.normal(0.3, 0.4, 40))
    exposed = rng.binomial(total, ratio / (1 + ratio))
    found = fit_profile_error([events_profile(k, n) for k, n in zip(exposed, total, strict=True)])
    kinds, often = np.unique(np.column_stack([exposed, total]), axis=0, return_counts=True)

    def value(mean, sd):
        x = np.linspace(mean - 12 * sd, mean + 12 * sd, 3001)
        k, n = kinds.T[:, :, None]
        share = np.exp(k * x - n * np.logaddexp(0, x)) @ norm.pdf(x, mean, sd) * (x[1] - x[0])
        return often @ np.log(share)

    best = value(found.mean, found.sd)
    for step in ((0.02, 0), (-0.02, 0), (0, 0.02), (0, -0.02)):
        assert value(found.mean + step[0], found.sd + step[1]) < best


def test_short_profiles_are_refused():
    near = np.linspace(-0.35, 0.35, 15)
    short = [Profile(y + near, -((near / 0.3) ** 2) / 2) for y in (-1.0, -0.4, 0.1, 0.3, 0.9, 1.2)]
    with pytest.raises(DataError, match="depends on profiles beyond the points"):
        fit_profile_error(short)
    flat = [events_profile(0, 1) for _ in range(6)]
    with pytest.raises(DataError, match="do not determine the systematic error"):
        fit_profile_error(flat)
    with pytest.raises(DataError, match="No control has a profile"):
        fit_profile_error([])
    with pytest.raises(DataError, match="true_log_rr must have one finite value"):
        fit_profile_error(short, [0.0])
    with pytest.raises(DataError, match="too narrow for a systematic error"):
        calibrate_profile(short[0], SystematicError(0.0, 5.0, 10))


@pytest.mark.parametrize("sd", [0.0, 0.01, 0.3])
def test_a_calibrated_normal_profile_is_the_calibrated_estimate(sd):
    error = SystematicError(0.1, sd, 30)
    found = combine_profiles([calibrate_profile(normal_profile(0.5, 0.2), error)])
    wanted = calibrate(0.5, 0.2, error)
    np.testing.assert_allclose(
        [found.log_rr, found.lower, found.upper],
        [wanted.log_rr, wanted.lower, wanted.upper],
        atol=2e-5,
    )


def test_a_profile_without_events_in_one_arm_keeps_an_open_side():
    found = combine_profiles(
        [calibrate_profile(events_profile(6, 6), SystematicError(0.2, 0.3, 9))]
    )
    assert np.isposinf(found.log_rr)
    assert np.isfinite(found.lower)


def test_the_posterior_is_that_of_empirical_calibration(controls):
    # fitMcmcNull: mean .79244 (.67334–.9068), precision 11.941, within its Monte Carlo error.
    found = error_posterior(controls["log_rr"], controls["se"])
    assert found.mean == pytest.approx(0.79244, abs=2e-3)
    assert found.mean_lower == pytest.approx(0.67334, abs=2e-3)
    assert found.mean_upper == pytest.approx(0.9068, abs=2e-3)
    assert found.sd**-2 == pytest.approx(11.941, abs=0.05)
    assert found.ease_lower < found.ease < found.ease_upper
    assert found.ease == pytest.approx(0.7926, abs=2e-3)


def test_the_posterior_agrees_with_draws():
    rng = np.random.default_rng(0)
    y, s = rng.normal(0.1, 0.3, 8), rng.uniform(0.1, 0.3, 8)
    found = error_posterior(y, s, level=0.9)
    sd = np.geomspace(1e-3, 30, 4000)
    w = 1 / (s**2 + sd[:, None] ** 2)
    centre = (w * y).sum(1) / w.sum(1)
    log_mass = 0.5 * (np.log(w) - w * (y - centre[:, None]) ** 2).sum(1) - 0.5 * np.log(w.sum(1))
    log_mass += -2e-4 * np.log(sd) - 1e-4 * sd**-2.0
    mass = np.exp(log_mass - log_mass.max())
    at = rng.choice(len(sd), 200_000, p=mass / mass.sum())
    mean = rng.normal(centre[at], 1 / np.sqrt(w.sum(1)[at]))
    drawn = np.quantile(expected_absolute(mean, sd[at]), [0.05, 0.5, 0.95])
    np.testing.assert_allclose([found.ease_lower, found.ease, found.ease_upper], drawn, rtol=0.01)
    np.testing.assert_allclose(
        [found.mean_lower, found.mean_upper], np.quantile(mean, [0.05, 0.95]), atol=0.003
    )


def test_fits_of_draws_are_those_of_single_fits(controls):
    y, s = controls["log_rr"].to_numpy(), controls["se"].to_numpy()
    counts = np.random.default_rng(0).multinomial(len(y), np.full(len(y), 1 / len(y)), size=20)
    mean, sd = errors_of_draws(counts, y, s)
    for k, own in enumerate(counts):
        rows = np.repeat(np.arange(len(y)), own)
        fit = fit_systematic_error(y[rows], s[rows])
        assert (mean[k], sd[k]) == pytest.approx((fit.mean, fit.sd), abs=1e-6)
    small = np.random.default_rng(1).normal(0, 0.05, 20)
    _, none = errors_of_draws(np.ones((1, 20)), small, np.full(20, 0.2))
    assert none == 0


def analyses(n=60, seed=0):
    rng = np.random.default_rng(seed)
    bias, noise = rng.normal(0.3, 0.2, n), rng.normal(0, 0.1, (3, n))
    parts = {"crude": bias + noise[0], "same": bias + noise[1], "adjusted": noise[2]}
    tables = [
        pd.DataFrame({"analysis": name, "control": range(n), "log_rr": y, "se": 0.1})
        for name, y in parts.items()
    ]
    return pd.concat(tables, ignore_index=True)


def test_analyses_are_compared_by_paired_draws():
    table = analyses()
    found = compare_errors(table, reference="crude")
    own = table[table["analysis"] == "crude"]
    ease = fit_systematic_error(own["log_rr"], own["se"]).expected_absolute
    assert found.loc["crude", "ease"] == pytest.approx(ease, abs=1e-7)
    assert found.loc["crude"].isna()[["difference", "p"]].all()
    assert found.loc["adjusted", "difference_upper"] < 0
    assert found.loc["adjusted", "p"] == 0
    # The same controls are drawn for both, so that the error they share cancels.
    width = found["difference_upper"] - found["difference_lower"]
    assert width["same"] < 0.8 * (found["upper"] - found["lower"])["same"]
    assert found.loc["same", "difference_lower"] < 0 < found.loc["same", "difference_upper"]
    assert compare_errors(table)["p"].isna()["adjusted"]  # the smallest is the default reference
    shuffled = compare_errors(table.sample(frac=1, random_state=0), reference="crude")
    pd.testing.assert_frame_equal(pd.DataFrame(shuffled), pd.DataFrame(found))


def test_wrong_tables_of_analyses():
    table = analyses(n=6)
    wrong = [
        (table.drop(columns="se"), {}, "estimates has no column 'se'"),
        (pd.concat([table, table[:1]]), {}, "a control twice in one analysis, in row 18"),
        (table.assign(se=table["se"].where(table["analysis"] != "same")), {}, "'same' has fewer"),
        (table, {"reference": "best"}, "reference is 'best'; analyses are"),
        (table, {"draws": 5}, "draws must be a whole number of 100 or more"),
    ]
    for given, settings, message in wrong:
        with pytest.raises(DataError, match=message):
            compare_errors(given, **settings)
    with pytest.raises(DataError, match="Fewer than two controls"):
        error_posterior([0.1], [0.1])
    with pytest.raises(DataError, match="shapes must agree"):
        error_posterior([0.1, 0.2], [0.1])


def test_prediction_intervals_of_random_effects():
    y, s = np.array([0.1, 0.5, 0.3, 0.9]), np.array([0.1, 0.12, 0.2, 0.15])
    found = combine_normal(y, s, random=True)
    reach = t.ppf(0.975, 2) * np.hypot(found.tau, found.se)
    assert found.predicted_upper == pytest.approx(found.log_rr + reach)
    assert found.predicted_lower == pytest.approx(found.log_rr - reach)
    assert np.isnan(combine_normal(y, s).predicted_lower)
    assert np.isnan(combine_normal(y[:2], s[:2], random=True).predicted_upper)
