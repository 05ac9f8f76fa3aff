"""What stands beside the hazard ratio: other ways to adjust, E-values, follow-up."""

import math

import numpy as np
import pandas as pd
import pytest

import steropes as st
from steropes.studies.comparative.propensity_weights import propensity_weights
from steropes.studies.comparative.score_strata import Stratify, score_strata
from steropes.studies.comparative.sensitivity_analyses import beside, e_values


def people(n=400, seed=1):
    rng = np.random.default_rng(seed)
    score = rng.uniform(0.2, 0.8, n)
    treated = (rng.random(n) < score).astype(int)
    event_time, end = np.ceil(rng.exponential(60 / (0.5 + score))), rng.integers(20, 90, n)
    return pd.DataFrame(
        {
            "person_id": np.arange(n) + 7,
            "treated": treated,
            "time": np.minimum(event_time, end).astype(float),
            "event": (event_time <= end).astype(int),
            "propensity": score,
            "matched_set": np.where(np.arange(n) < 200, np.arange(n) // 2, -1),
        }
    )


PEOPLE = people()


def test_other_adjustments_are_the_librarys_models():
    found = beside(PEOPLE, {}, 1).adjustments.set_index("analysis")
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    x, score = PEOPLE[["treated"]].astype(float), PEOPLE["propensity"]
    strata = score_strata(score, PEOPLE["treated"], Stratify(5))
    within = st.CoxRegression(ties="breslow").fit(x, y, strata=strata)
    assert found.loc["within five strata of the score", "hr"] == pytest.approx(
        math.exp(within.coef_[0]), rel=1e-7
    )
    for name, estimand in (("the target", "att"), ("everybody", "ate")):
        weights = np.minimum(propensity_weights(score, PEOPLE["treated"], estimand), 10)
        cox = st.CoxRegression(ties="breslow").fit(x, y, sample_weight=weights)
        robust = cox.summary(kind="robust", cluster=PEOPLE["person_id"].to_numpy())
        line = found.loc[f"weighted as {name}"]
        assert line["estimand"] == estimand
        assert line["hr"] == pytest.approx(math.exp(cox.coef_[0]), rel=1e-7)
        assert line["lower"] == pytest.approx(math.exp(robust["lower"].iloc[0]), rel=1e-6)
    assert (found["note"] == "").all()


def test_without_scores_or_events_there_is_a_reason_or_nothing():
    assert beside(PEOPLE.assign(propensity=np.nan), {}, 1).adjustments.empty
    none = beside(PEOPLE.assign(event=0), {}, 1).adjustments
    assert none["hr"].isna().all()
    assert none["note"].ne("").all()
    nobody = beside(PEOPLE.iloc[:0], {}, 1)
    assert math.isnan(nobody.proportional_p)
    assert nobody.follow_up["p50"].isna().all()


def test_e_values_of_vanderweele_and_ding():
    value, of_limit = e_values(2.0, 1.25, 3.2)
    assert value == pytest.approx(2 + math.sqrt(2))
    assert of_limit == pytest.approx(1.25 + math.sqrt(1.25 * 0.25))
    assert e_values(0.5, 0.3, 0.8)[0] == pytest.approx(value)
    assert e_values(1.2, 0.9, 1.5)[1] == 1.0
    assert np.isnan(e_values(math.nan, math.nan, math.nan)).all()


def test_follow_up_is_that_of_each_arm():
    found = beside(PEOPLE, {}, 1).follow_up.set_index(["analysis", "arm"])
    of = PEOPLE.loc[(PEOPLE["treated"] == 0) & (PEOPLE["matched_set"] >= 0), "time"]
    assert found.loc[("matched", "comparator"), "p25"] == np.quantile(of, 0.25)
