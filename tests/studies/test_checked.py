"""Scores, weights and tables of people with values that no estimate can use are refused by name."""

import math

import numpy as np
import pandas as pd
import pytest

from steropes.designs import OutcomeModel, Stratify, Trim, estimate_effect
from steropes.designs.effects import absolute_effect, curve_table, detectable_ratio, incidence_rates
from steropes.designs.propensity import auc, preference_score, score_strata, trim
from steropes.errors import DataError

N = 60
NOT_FINITE = (math.nan, math.inf, -math.inf)


@pytest.fixture
def people():
    rng = np.random.default_rng(1)
    event = (rng.random(N) < 0.5).astype(float)
    return pd.DataFrame(
        {
            "person_id": np.arange(N),
            "treated": (np.arange(N) % 2).astype(float),
            "time": rng.integers(1, 50, N).astype(float),
            "event": event,
            "outcomes": event,
            "days_at_risk": 50.0,
        }
    )


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("column", ["treated", "time", "event"])
@pytest.mark.parametrize(
    "estimate",
    [
        estimate_effect,
        lambda p: estimate_effect(p, OutcomeModel(kind="logistic")),
        absolute_effect,
        curve_table,
        incidence_rates,
    ],
)
def test_no_estimate_is_made_of_a_value_that_is_not_finite(people, estimate, column, value):
    people.loc[5, column] = value
    with pytest.raises(DataError, match=rf"column '{column}': row 5 .counted from 0"):
        estimate(people)


def test_no_ratio_is_detectable_with_an_event_that_is_not_known(people):
    people.loc[5, "event"] = math.nan
    with pytest.raises(DataError, match="column 'event': row 5"):
        detectable_ratio(people)


def test_an_arm_or_an_event_that_there_is_not_is_refused(people):
    for column, value, wanted in (("treated", 2, "0 or 1"), ("time", -1, "0 or more")):
        with pytest.raises(DataError, match=f"row 7 .* must be {wanted}"):
            estimate_effect(
                people.assign(**{column: people[column].where(people.index != 7, value)})
            )


@pytest.mark.parametrize("value", [*NOT_FINITE, -1.0])
def test_weights_that_are_not_finite_numbers_of_0_or_more_are_refused(people, value):
    weights = np.ones(N)
    weights[3] = value
    for estimate in (
        lambda: estimate_effect(people, OutcomeModel(weighted=True), weights=weights),
        lambda: absolute_effect(people, weights=weights),
        lambda: curve_table(people, weights),
        lambda: trim(np.full(N, 0.5), people["treated"], Trim(max_weight=5.0), weights),
    ):
        with pytest.raises(DataError, match="weights: row 3"):
            estimate()


@pytest.mark.parametrize("value", NOT_FINITE)
def test_scores_that_are_not_finite_are_refused(people, value):
    score = np.linspace(0.1, 0.9, N)
    score[4] = value
    for use in (
        lambda t: trim(score, t, Trim(0.05)),
        lambda t: score_strata(score, t, Stratify(5)),
        lambda t: auc(score, t),
        lambda t: preference_score(score, t),
    ):
        with pytest.raises(DataError, match=r"row 4 .counted from 0. is missing, infinite"):
            use(people["treated"])
