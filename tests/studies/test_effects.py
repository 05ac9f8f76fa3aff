"""Rates, hazard ratios and detectable ratios of two arms."""

import math

import numpy as np
import pandas as pd
import pytest

from steropes.designs import OutcomeModel, estimate_effect
from steropes.designs.effects import detectable_ratio
from steropes.designs.effects.effect_estimate import reason_without_estimate
from steropes.designs.effects.events_and_curves_by_arm import arm_curves, incidence_rates


def people(treated, time, event):
    return pd.DataFrame(
        {
            "person_id": np.arange(len(treated)),
            "treated": treated,
            "time": np.array(time, float),
            "event": event,
            "outcomes": event,
            "days_at_risk": np.array(time, float),
        }
    )


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
    assert detectable_ratio(table) == pytest.approx(expected, rel=1e-6)
    assert detectable_ratio(people([1, 0], [1, 1], [0, 0])) == math.inf


@pytest.mark.filterwarnings("ignore")
def test_hazard_ratio_agrees_with_statsmodels(cohort):
    from statsmodels.duration.hazard_regression import PHReg

    strata = np.arange(len(cohort)) // 40
    for groups in (None, strata):
        model = OutcomeModel(stratified=groups is not None)
        ours = estimate_effect(cohort, model, sets=groups)
        theirs = PHReg(
            cohort["time"],
            cohort[["treated"]].astype(float),
            status=cohort["event"],
            strata=groups,
            ties="efron",
        ).fit()
        assert ours.log_rr == pytest.approx(theirs.params[0], abs=1e-6)
        assert ours.note == ""


def test_curves_are_those_of_each_arm(cohort):
    curves = arm_curves(cohort)
    assert curves["target"].at_risk[0] == cohort["treated"].sum()
    assert curves["comparator"].events.sum() == cohort["event"][cohort["treated"] == 0].sum()


@pytest.mark.parametrize(
    ("treated", "events", "words"),
    [
        ([1, 0], [0, 0], "nobody had the outcome"),
        ([1, 1], [1, 1], "nobody is left in the comparator arm"),
        ([], [], "nobody is left"),
    ],
)
def test_without_events_or_people_there_is_a_reason(treated, events, words):
    table = people(treated, [5.0] * len(treated), np.array(events, dtype=int))
    assert words in reason_without_estimate(table)
    assert detectable_ratio(table) == math.inf
