"""Calibration tables: by definition, for classes and for survival outcomes."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from steropes import DataError, Surv, aalen_johansen, calibration_table, kaplan_meier


def test_shares_by_groups_with_wilson_s_limits(rng):
    risk = rng.random(500)
    y = rng.random(500) < risk
    table = calibration_table(risk, y, bins=5, level=0.9)
    assert list(table.columns) == ["people", "predicted", "observed", "lower", "upper"]
    by = np.argsort(risk)
    for k, at in enumerate(np.split(by, 5)):
        row = table.loc[k + 1]
        assert row["people"] == 100
        assert row["predicted"] == pytest.approx(risk[at].mean())
        assert row["observed"] == pytest.approx(y[at].mean())
        limits = proportion_confint(y[at].sum(), 100, 0.1, "wilson")
        assert (row["lower"], row["upper"]) == pytest.approx(limits, rel=1e-9)


def test_weights_are_repeats_and_equal_risks_stay_together(rng):
    risk, w = rng.integers(0, 7, 200) / 10, rng.integers(0, 4, 200)
    y = np.where(rng.random(200) < risk, "yes", "no")
    at = rng.permutation(np.repeat(np.arange(200), w))
    one = calibration_table(risk, y, sample_weight=w)
    many = calibration_table(risk[at], y[at])
    pd.testing.assert_frame_equal(one, many)
    assert len(one) <= 7
    tenths = one["predicted"] * 10
    np.testing.assert_allclose(tenths, np.round(tenths), atol=1e-9)


def test_survival_outcomes_by_their_curves(rng):
    risk = rng.random(400)
    start = rng.uniform(0, 0.5, 400)
    y = Surv(start + rng.exponential(1 / (0.2 + risk)), rng.random(400) < 0.7, start)
    table = calibration_table(risk, y, time=1.5, bins=4)
    for k, at in enumerate(np.split(np.argsort(risk), 4)):
        curve = kaplan_meier(y[at])
        assert table["observed"].iloc[k] == pytest.approx(1 - curve.at([1.5])[0])
    assert (table["lower"] < table["observed"]).all()
    assert (table["observed"] < table["upper"]).all()
    competing = Surv(y["time"], np.where(rng.random(400) < 0.4, 2, y["event"]), start)
    table = calibration_table(risk, competing, time=1.5, cause=2, bins=4)
    for k, at in enumerate(np.split(np.argsort(risk), 4)):
        expected = aalen_johansen(competing[at]).at([1.5])[2].iloc[0]
        assert table["observed"].iloc[k] == pytest.approx(expected)
    assert (table["lower"] < table["observed"]).all()


@pytest.mark.parametrize(
    ("risk", "y", "more", "words"),
    [
        ([0.1, 1.2], [0, 1], {}, "row 1 is 1.2"),
        ([0.1, 0.2], [0, 1], {"time": 3}, "time is required for survival outcomes"),
        ([0.1, 0.2], Surv([1, 2], [0, 1]), {}, "time is required for survival outcomes"),
        ([0.1, 0.2], [0, 0], {}, "two classes"),
        ([0.1, 0.2], [0, 1], {"bins": 0}, "bins must be"),
        ([0.1, 0.2], Surv([1, 2], [0, 0]), {"time": 3}, "was observed until 3"),
    ],
)
def test_refusals(risk, y, more, words):
    with pytest.raises(DataError, match=words):
        calibration_table(risk, y, **more)


def test_a_group_without_events_has_an_upper_limit():
    y = Surv([5.0, 6.0, 7.0, 1.0, 2.0, 3.0], [0, 0, 0, 1, 1, 1])
    table = calibration_table([0.1, 0.1, 0.1, 0.9, 0.9, 0.9], y, time=4, bins=2)
    assert table["observed"].tolist() == [0, 1]
    limit = 0.025 ** (1 / 3)
    np.testing.assert_allclose(table[["lower", "upper"]], [[0, 1 - limit], [limit, 1]])


def test_people_with_a_competing_event_are_known_to_have_no_event():
    y = Surv([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 2, 2, 1, 2, 1])
    table = calibration_table([0.1, 0.1, 0.1, 0.9, 0.9, 0.9], y, time=5, bins=2)
    first = table.loc[1, ["observed", "lower", "upper"]].tolist()
    assert first == pytest.approx([0, 0, 1 - 0.025 ** (1 / 3)])


def test_risks_that_differ_by_rounding_are_in_one_group():
    risk = np.where(np.arange(40) % 2, 0.3, np.nextafter(0.3, 1))
    assert list(calibration_table(risk, np.arange(40) % 4 == 0, bins=2)["people"]) == [40]
