"""Rates, hazard ratios and detectable ratios of two arms."""

import math

import numpy as np
import pandas as pd
import pytest

from steropes.studies.outcomes.arm_summaries import (
    arm_curves,
    hazard_ratio,
    incidence_rates,
    minimum_detectable_ratio,
    why_no_estimate,
)


def people(treated, time, event):
    return pd.DataFrame({"treated": treated, "time": np.array(time, float), "event": event})


@pytest.fixture(scope="module")
def cohort():
    random = np.random.default_rng(8)
    treated = random.integers(0, 2, 400)
    time = np.ceil(random.exponential(100 / (1 + treated)))
    return people(treated, np.minimum(time, 120), (time <= 120).astype(int))


def test_rates_by_hand():
    rates = incidence_rates(people([1, 1, 0], [365.25, 365.25, 730.5], [1, 1, 0]))
    assert rates.loc["target", ["people", "person_years", "events"]].tolist() == [2, 2, 2]
    assert rates.loc["target", "rate"] == 1000
    # exact Poisson limits of 2 and 0 events: 0.2422 to 7.2247, and up to 3.6889
    assert rates.loc["target", "rate_lower"] == pytest.approx(0.2422093 / 2 * 1000, rel=1e-6)
    assert rates.loc["target", "rate_upper"] == pytest.approx(7.224688 / 2 * 1000, rel=1e-6)
    assert rates.loc["comparator", "rate_lower"] == 0
    assert rates.loc["comparator", "rate_upper"] == pytest.approx(3.688879 / 2 * 1000, rel=1e-6)


def test_detectable_ratio_by_hand():
    # Schoenfeld: 247 events in equal arms detect a hazard ratio of about 1.43
    table = people([1, 0] * 247, [1.0] * 494, [1] * 247 + [0] * 247)
    expected = math.exp((1.959964 + 0.841621) / math.sqrt(247 / 4))
    assert minimum_detectable_ratio(table) == pytest.approx(expected, rel=1e-6)
    assert minimum_detectable_ratio(people([1, 0], [1, 1], [0, 0])) == math.inf


@pytest.mark.filterwarnings("ignore")
def test_hazard_ratio_agrees_with_statsmodels(cohort):
    from statsmodels.duration.hazard_regression import PHReg

    strata = np.arange(len(cohort)) // 40
    for groups in (None, strata):
        ours = hazard_ratio(cohort, strata=groups)
        theirs = PHReg(
            cohort["time"],
            cohort[["treated"]].astype(float),
            status=cohort["event"],
            strata=groups,
            ties="efron",
        ).fit()
        assert ours["log_hr"] == pytest.approx(theirs.params[0], abs=1e-6)
        assert ours["se"] == pytest.approx(theirs.bse[0], abs=1e-6)
        low, high = theirs.conf_int()[0]
        assert ours["lower"] == pytest.approx(math.exp(low), rel=1e-6)
        assert ours["upper"] == pytest.approx(math.exp(high), rel=1e-6)
        assert ours["p"] == pytest.approx(theirs.pvalues[0], abs=1e-6)
        assert ours["note"] == ""


def test_a_hazard_ratio_that_does_not_exist_says_why():
    # in every pair the treated person has the event first
    table = people([1, 0] * 5, [1.0, 2.0] * 5, [1, 1] * 5)
    result = hazard_ratio(table, strata=np.arange(10) // 2)
    assert math.isnan(result["hr"])
    assert "treatment" in result["note"]


def test_curves_are_those_of_each_arm(cohort):
    curves = arm_curves(cohort)
    assert curves["target"].at_risk[0] == cohort["treated"].sum()
    assert curves["comparator"].events.sum() == cohort["event"][cohort["treated"] == 0].sum()


@pytest.mark.parametrize(
    ("treated", "events", "words"),
    [
        ([1, 0], [1, 0], "nobody in the comparator arm had the outcome"),
        ([1, 0], [0, 1], "nobody in the target arm had the outcome"),
        ([1, 0], [0, 0], "nobody had the outcome"),
        ([1, 1], [1, 1], "nobody is left in the comparator arm"),
        ([], [], "nobody is left"),
    ],
)
def test_without_events_or_people_there_is_a_reason_and_no_estimate(treated, events, words):
    table = people(treated, [5.0] * len(treated), np.array(events, dtype=int))
    assert words in why_no_estimate(table)
    result = hazard_ratio(table)
    assert words in result["note"]
    assert math.isnan(result["hr"])
    assert minimum_detectable_ratio(table) == math.inf or any(events)
