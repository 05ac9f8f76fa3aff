"""Posteriors corrected for bias agree with EvidenceSynthesis and with closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from steropes import DataError
from steropes.designs.evidence import Profile
from steropes.designs.surveillance import correct_bias, fit_bias, monitor_posteriors

PUBLISHED = Path(__file__).parent / "published"


def extended(rows):
    """Continue a profile by straight lines, as EvidenceSynthesis does."""
    x, y = rows["log_rr"].to_numpy(), rows["log_likelihood"].to_numpy()
    left, right = max((y[1] - y[0]) / (x[1] - x[0]), 0), min((y[-1] - y[-2]) / (x[-1] - x[-2]), 0)

    def value(b):
        b = np.asarray(b, dtype=float)
        inside = np.interp(b, x, y)
        beyond = np.where(b < x[0], y[0] + (b - x[0]) * left, y[-1] + (b - x[-1]) * right)
        return np.where((b < x[0]) | (b > x[-1]), beyond, inside)

    return value


def normal(y, se):
    return lambda b: -(((np.asarray(b) - y) / se) ** 2) / 2


@pytest.mark.parametrize(
    ("look", "mean", "scale", "raw", "corrected", "probability"),
    [
        pytest.param(12, 0.41317, 0.62431, 0.98216, 0.56899, 0.81692, marks=pytest.mark.slow),
        (5, 0.57266, 0.68726, 1.13882, 0.56616, 0.79022),
    ],
)
def test_corrections_are_those_of_evidence_synthesis(
    look, mean, scale, raw, corrected, probability
):
    table = pd.read_csv(PUBLISHED / "control_profiles.csv.gz")
    table = table[table["look"] == look]
    controls = [extended(own) for _, own in table[table["set"] == "nc"].groupby("outcome")]
    # The numbers are of dense quadrature; the grid of this library has an error of 1e-5.
    bias = fit_bias(controls)
    assert bias.mean == pytest.approx(mean, abs=2e-5)
    assert bias.scale == pytest.approx(scale, abs=2e-5)
    effect = correct_bias(extended(table[table["set"] == "oo"]), bias)
    assert effect.uncorrected_log_rr == pytest.approx(raw, abs=2e-5)
    assert effect.log_rr == pytest.approx(corrected, abs=2e-5)
    assert effect.probability == pytest.approx(probability, abs=2e-5)
    if look == 12:
        assert bias.mean_sd == pytest.approx(0.08738, abs=2e-5)
        assert bias.sd == pytest.approx(0.63407, abs=2e-5)
        assert effect.se == pytest.approx(0.63732, abs=2e-5)


def test_many_precise_controls_give_the_closed_form():
    rng = np.random.default_rng(1)
    errors = 0.2 + 0.1 * rng.standard_normal(20)
    bias = fit_bias([normal(y, 0.02) for y in errors], scale_sd=0.5)
    assert bias.mean == pytest.approx(errors.mean(), abs=0.002)
    effect = correct_bias(normal(0.6, 0.3), bias)
    shrunk, variance = 0.6 / (1 + 0.09), 0.09 / 1.09
    assert effect.uncorrected_log_rr == pytest.approx(shrunk, abs=1e-5)
    assert effect.uncorrected_probability == pytest.approx(
        norm.cdf(shrunk / np.sqrt(variance)), abs=1e-5
    )
    se = np.hypot(np.sqrt(variance), bias.sd)
    assert effect.log_rr == pytest.approx(shrunk - bias.mean, abs=1e-5)
    assert effect.probability == pytest.approx(norm.cdf(effect.log_rr / se), abs=2e-3)
    assert effect.upper - effect.lower == pytest.approx(2 * 1.96 * se, rel=0.01)


def test_heavy_tails_resist_an_outlier():
    errors = [0.0, 0.05, -0.05, 0.1, -0.1, 0.02, -0.03, 3.0]
    controls = [normal(y, 0.05) for y in errors]
    plain, robust = fit_bias(controls), fit_bias(controls, robust=True)
    assert abs(robust.mean) < abs(plain.mean) / 3
    below, _ = robust.probability_below(np.array([-50.0, robust.mean, 50.0]))
    assert below == pytest.approx([0, 0.5, 1], abs=0.03)  # the mean is not quite the median


def test_profiles_that_end_too_early_are_refused():
    grid = np.linspace(-0.5, 0.5, 21)
    controls = [Profile(grid, normal(y, 1.0)(grid)) for y in (-0.1, 0.0, 0.1, 0.2, 0.3)]
    with pytest.raises(DataError, match="store them over a wider range"):
        correct_bias(normal(0.5, 0.5), fit_bias(controls))
    rising = Profile(grid, normal(2.0, 1.0)(grid))
    with pytest.raises(DataError, match="still rises"):
        fit_bias([*controls, rising])
    with pytest.raises(DataError, match="still rises"):
        correct_bias(rising, None)


def looks():
    rows = []
    for look in (1, 2):
        se = 0.4 / look
        for k, y in enumerate([0.3, 0.5, 0.4, 0.45, 0.35]):
            rows.append({"look": look, "outcome": k, "log_rr": y, "se": se, "control": True})
        rows.append({"look": look, "outcome": 9, "log_rr": 0.75, "se": se, "control": False})
    return pd.DataFrame(rows)


def test_effects_are_corrected_at_each_look():
    given = looks()
    before = given.copy()
    found = monitor_posteriors(given, by=["outcome"])
    pd.testing.assert_frame_equal(given, before)
    assert found["look"].tolist() == [1, 2]
    assert found["outcome"].unique().tolist() == [9]
    for row in found.itertuples():
        controls = given[given["control"] & (given["look"] == row.look)]
        bias = fit_bias([normal(y, row.se) for y in controls["log_rr"]])
        effect = correct_bias(normal(row.log_rr, row.se), bias)
        assert row.corrected == pytest.approx(effect.log_rr, abs=1e-6)
        assert row.probability == pytest.approx(effect.probability, abs=1e-6)
    assert not found["signal"].any()  # without a correction there is one
    alone = monitor_posteriors(given[~given["control"]], by=["outcome"])
    assert alone["signal"].all()
    assert alone["note"].tolist() == ["", ""]
    few = monitor_posteriors(given[given["outcome"] != 0], by=["outcome"])
    assert set(few["note"]) == {"not corrected: fewer than 5 controls"}
    assert few["probability"].tolist() == alone["probability"].tolist()


def test_what_cannot_be_computed_has_a_note():
    grid = np.linspace(-0.5, 0.5, 21)
    rising = Profile(grid, normal(2.0, 1.0)(grid))
    own = pd.DataFrame({"look": [1, 2, 3], "log_rr": [np.nan, 0.1, 2.0], "se": [np.nan, 0.3, 1.0],
                        "profile": [None, None, rising]})  # fmt: skip
    found = monitor_posteriors(own)
    early = "a likelihood profile ends too early"
    assert found["note"].tolist() == ["no estimate", "", early]
    assert found["probability"].isna().tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_bias([normal(0, 1)] * 4), "4 controls are too few"),
        (lambda: fit_bias([normal(0, 1)] * 5, mean_sd=0), "mean_sd must be a positive number"),
        (lambda: fit_bias([normal(0, 1)] * 5, scale_sd=-1), "must be a positive number"),
        (lambda: correct_bias(normal(0, 1), None, effect_sd=0), "effect_sd must be"),
        (lambda: monitor_posteriors(looks(), by=["outcome"], threshold=0.3), "threshold must be"),
        (lambda: monitor_posteriors(looks()), "two rows for"),
        (lambda: monitor_posteriors(looks().drop(columns="se")), "lacks the columns 'se'"),
        (lambda: monitor_posteriors(looks().drop(columns="look")), "lacks the columns 'look'"),
        (lambda: monitor_posteriors(looks().assign(look=np.nan)), "whole numbers"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(DataError, match=message):
        call()
