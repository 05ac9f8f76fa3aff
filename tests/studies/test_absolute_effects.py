"""Differences of risks and restricted means, against Greenwood, R, the bootstrap and themselves."""

import math

import numpy as np
import pandas as pd
import pytest
from tests.studies.test_outcome_models import PEOPLE, WEIGHTS

import steropes as st
from steropes.designs.effects import absolute_effect

TREATED = PEOPLE["treated"] == 1


def curves(weights=None):
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    w = np.ones(len(PEOPLE)) if weights is None else weights
    return [st.kaplan_meier(y[a], sample_weight=w[a]) for a in (TREATED, ~TREATED)]


def test_without_weights_they_are_kaplan_meiers_and_greenwoods():
    found = absolute_effect(PEOPLE, horizon=40)
    a, b = curves()
    at = [int(np.searchsorted(c.times, 40, side="right")) - 1 for c in (a, b)]
    assert found.target_risk == pytest.approx(1 - a.at(40), abs=1e-12)
    assert found.risk_difference == pytest.approx(float(b.at(40) - a.at(40)), abs=1e-12)
    variance = a.variance[at[0]] + b.variance[at[1]]
    assert found.risk_se == pytest.approx(math.sqrt(variance), rel=1e-10)
    means = [c.restricted_mean(40) for c in (a, b)]
    assert found.days_difference == pytest.approx(means[0].value - means[1].value, abs=1e-10)
    # Klein and Moeschberger's sum has n (n - d) where the influences have the same
    assert found.days_se == pytest.approx(math.hypot(means[0].se, means[1].se), rel=1e-3)


def test_weights_and_clusters_are_robust():
    found = absolute_effect(PEOPLE, weights=WEIGHTS, horizon=40)
    # R 4.2.2: survfit(Surv(time, event) ~ treated, weights = w, robust = TRUE, id = person_id)
    assert found.risk_se == pytest.approx(0.0566884395449, rel=1e-10)
    a, b = curves(WEIGHTS)
    assert found.risk_difference == pytest.approx(float(b.at(40) - a.at(40)), abs=1e-12)
    scaled = absolute_effect(PEOPLE, weights=7 * WEIGHTS, horizon=40)
    assert scaled.risk_se == pytest.approx(found.risk_se, rel=1e-10)
    twice = pd.concat([PEOPLE, PEOPLE], ignore_index=True)
    again = absolute_effect(
        twice, weights=np.tile(WEIGHTS, 2), clusters=np.tile(np.arange(len(PEOPLE)), 2), horizon=40
    )
    assert again.risk_se == pytest.approx(found.risk_se, rel=1e-10)
    assert again.days_se == pytest.approx(found.days_se, rel=1e-10)


def test_influences_are_derivatives_in_the_weights():
    people = PEOPLE.assign(event=np.where(PEOPLE.index % 7 == 0, 2, PEOPLE["event"]))
    base = np.asarray(WEIGHTS)
    wanted = absolute_effect(people, weights=base, horizon=40)
    total = np.zeros(2)
    for i in range(len(people)):
        ends = []
        for step in (-1e-5, 1e-5):
            w = base.copy()
            w[i] *= 1 + step
            found = absolute_effect(people, weights=w, horizon=40)
            ends.append([found.risk_difference, found.days_difference])
        total += (np.subtract(*ends[::-1]) / 2e-5) ** 2
    np.testing.assert_allclose([wanted.risk_se, wanted.days_se], np.sqrt(total), rtol=1e-5)


def test_a_competing_outcome_is_not_censoring():
    event = np.where((PEOPLE["event"] == 0) & (PEOPLE.index % 3 == 0), 2, PEOPLE["event"])
    people = PEOPLE.assign(event=event)
    found = absolute_effect(people, horizon=40)
    y = st.Surv(people["time"].to_numpy(), event)
    for risk, arm in ((found.target_risk, TREATED), (found.comparator_risk, ~TREATED)):
        incidence = st.aalen_johansen(y[arm.to_numpy()]).at([40.0])
        assert risk == pytest.approx(float(np.asarray(incidence[1]).ravel()[0]), abs=1e-12)


def test_where_there_is_nothing_they_are_missing():
    assert math.isnan(absolute_effect(PEOPLE[TREATED]).risk_difference)
    assert math.isnan(absolute_effect(PEOPLE, horizon=1e6).risk_difference)
    none = absolute_effect(PEOPLE.assign(event=0))
    assert (none.risk_difference, none.risk_se, none.days_difference) == (0, 0, 0)
    row = absolute_effect(PEOPLE).row()
    assert row["risk_difference_lb"] < row["risk_difference"] < row["risk_difference_ub"]
    shuffled = PEOPLE.sample(frac=1, random_state=1)
    assert absolute_effect(shuffled).row() == pytest.approx(row)
