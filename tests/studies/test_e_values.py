"""E-values by the published forms: rare and common outcomes, odds, rates, limits."""

import math
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from steropes.designs import OutcomeModel, estimate_effect
from steropes.designs.effects import detectable_ratio
from steropes.designs.effects.e_values import e_value, e_value_of_limit, is_common, risk_ratio
from steropes.designs.effects.outcome_families import FAMILIES, Kind, kind_of_ratio
from steropes.errors import DataError
from steropes.studies.comparative.supplementary_results import e_values


def test_a_hazard_ratio_of_a_common_outcome_becomes_a_risk_ratio():
    """Their example of a hazard ratio of 1.96 is (1 − 0.5^1.4) / (1 − 0.5^(1/1.4))."""
    wanted = (1 - 0.5**1.4) / (1 - 0.5 ** (1 / 1.4))
    for kind in ("cox", "fine-gray"):
        assert risk_ratio(math.log(1.96), kind, common=True) == pytest.approx(wanted)
        assert risk_ratio(-math.log(1.96), kind, common=True) == pytest.approx(1 / wanted)
        assert risk_ratio(math.log(1.96), kind) == pytest.approx(1.96)
    found = e_value(math.log(1.96), common=True)
    assert found == pytest.approx(wanted + math.sqrt(wanted * (wanted - 1)))


def test_odds_of_a_common_outcome_are_taken_by_their_root_and_rates_as_they_are():
    assert risk_ratio(math.log(4.0), "logistic", common=True) == pytest.approx(2.0)
    assert risk_ratio(math.log(4.0), "logistic") == pytest.approx(4.0)
    assert risk_ratio(math.log(4.0), "poisson", common=True) == pytest.approx(4.0)


def test_each_kind_of_outcome_model_has_a_family_and_others_are_refused():
    people = pd.DataFrame({"treated": [0, 1], "event": [1, 1]})
    assert tuple(FAMILIES) == get_args(Kind)
    with pytest.raises(DataError, match=r"kind must be one of cox, fine-gray, .* not 'weibull'"):
        detectable_ratio(people, "weibull")
    for kind, family in FAMILIES.items():
        refused = family.name if not family.has_sets else None
        if refused:
            with pytest.raises(DataError, match=f"a {refused} model within matched sets"):
                OutcomeModel(kind, stratified=True)
        else:
            assert OutcomeModel(kind, stratified=True).family is family


@pytest.mark.parametrize("common", [False, True])
def test_the_limit_nearer_to_no_effect_counts_and_one_that_holds_it_is_1(common):
    low, high = math.log(1.25), math.log(3.2)
    assert e_value_of_limit(low, high, common=common) == e_value(low, common=common)
    assert e_value_of_limit(-high, -low, common=common) == e_value(low, common=common)
    assert e_value_of_limit(-0.1, 0.4, common=common) == 1
    assert math.isnan(e_value_of_limit(math.nan, 0.1, common=common))
    assert e_value(0.0, common=common) == 1
    assert math.isfinite(e_value(600.0, common=common))
    assert e_values(2.0, 1.25, 3.2, common)[0] == e_value(math.log(2.0), common=common)


def test_15_percent_is_common_and_less_is_not():
    def people(n, events):
        return pd.DataFrame({"time": 10.0, "event": (np.arange(n) < events).astype(int)})

    assert is_common(people(100, 15))
    assert not is_common(people(1000, 149))
    assert not is_common(people(0, 0))


@pytest.mark.parametrize("kind", ["cox", "logistic", "poisson"])
@pytest.mark.parametrize(("events", "common"), [(40, False), (80, True)])
def test_an_estimate_takes_the_form_of_its_model_and_its_outcome(kind, events, common):
    n = 400
    rng = np.random.default_rng(3)
    happened = np.zeros(n)
    happened[rng.choice(n, events, replace=False)] = 1
    time = rng.integers(1, 400, n).astype(float)
    people = pd.DataFrame(
        {
            "person_id": np.arange(n), "treated": np.arange(n) % 3 == 0, "time": time,
            "event": happened.astype(int), "outcomes": happened, "days_at_risk": time,
        }
    )  # fmt: skip
    found = estimate_effect(people, OutcomeModel(kind=kind))
    assert found.common is common
    assert found.e_value == e_value(found.log_rr, kind, common)
    assert found.e_value_limit == e_value_of_limit(found.lower, found.upper, kind, common)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_ratio_has_the_kind_of_the_model_that_estimates_it(kind):
    found = kind_of_ratio(FAMILIES[kind].ratio)
    assert FAMILIES[found].ratio == FAMILIES[kind].ratio
    assert risk_ratio(0.8, found, common=True) == risk_ratio(0.8, kind, common=True)


def test_risk_ratios_are_not_converted_and_differences_have_no_e_value():
    assert risk_ratio(0.8, kind_of_ratio("risk ratio"), common=True) == pytest.approx(np.exp(0.8))
    assert kind_of_ratio("risk difference") is None
