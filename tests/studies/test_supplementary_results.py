"""Results that supplement the hazard ratio: other ways to adjust, E-values, follow-up."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import steropes as st
from steropes.designs import estimate_effect
from steropes.designs.effects.outcome_summaries import follow_up
from steropes.designs.propensity.score_strata import Stratify, score_strata
from steropes.designs.propensity.weights_by_estimand import propensity_weights
from steropes.studies import StudySettings
from steropes.studies.comparative.adjustment import adjust
from steropes.studies.comparative.supplementary_results import e_values
from steropes.studies.specifications.one_question_specification import (
    ALTERNATIVES,
    study_specification,
)


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
            "score": score,
            "set": np.where(np.arange(n) < 200, np.arange(n) // 2, -1),
        }
    )


PEOPLE = people()


def alternative(number):
    """The result of one of the other ways to adjust, of people who all have their scores."""
    settings = StudySettings(1, 2, 3)
    spec = study_specification(settings, ["person", "condition_occurrence"])
    analysis = next(a for a in spec.analyses if a.id == number)
    scores = SimpleNamespace(score=PEOPLE["score"].to_numpy())
    people = PEOPLE.assign(
        row=np.arange(len(PEOPLE)), outcomes=PEOPLE["event"], days_at_risk=PEOPLE["time"]
    )
    adjusted = adjust(people, pd.DataFrame(), scores, people["row"].to_numpy(), None, analysis)
    compared = people.iloc[adjusted.kept]
    found = estimate_effect(
        compared, analysis.outcome_model, weights=adjusted.weights, sets=adjusted.sets
    )
    return adjusted.estimand, found


def test_other_adjustments_are_the_librarys_models():
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    x, score = PEOPLE[["treated"]].astype(float), PEOPLE["score"]
    strata = score_strata(score, PEOPLE["treated"], Stratify(5))
    within = st.CoxRegression().fit(x, y, strata=strata)
    estimand, found = alternative(5)
    assert estimand == "ate"
    assert found.log_rr == pytest.approx(within.coef_[0], rel=1e-7)
    for number, estimand in ((6, "att"), (7, "ate")):
        weights = np.minimum(propensity_weights(score, PEOPLE["treated"], estimand), 10)
        cox = st.CoxRegression().fit(x, y, sample_weight=weights)
        robust = cox.summary(kind="robust", cluster=PEOPLE["person_id"].to_numpy())
        of, found = alternative(number)
        assert of == estimand
        assert found.log_rr == pytest.approx(cox.coef_[0], rel=1e-7)
        assert found.lower == pytest.approx(robust["lower"].iloc[0], rel=1e-6)
    assert [alternative(n)[0] for n in ALTERNATIVES] == ["att", "ate", "att", "ate", "ato"]


def test_e_values_of_vanderweele_and_ding():
    value, of_limit = e_values(2.0, 1.25, 3.2)
    assert value == pytest.approx(2 + math.sqrt(2))
    assert of_limit == pytest.approx(1.25 + math.sqrt(1.25 * 0.25))
    assert e_values(0.5, 0.3, 0.8)[0] == pytest.approx(value)
    assert e_values(1.2, 0.9, 1.5)[1] == 1.0
    assert np.isnan(e_values(math.nan, math.nan, math.nan)).all()


def test_follow_up_is_that_of_each_arm():
    dated = PEOPLE.assign(start=pd.Timestamp("2010-06-15"))
    found = follow_up(dated[dated["set"] >= 0])
    of = PEOPLE.loc[(PEOPLE["treated"] == 0) & (PEOPLE["set"] >= 0), "time"]
    assert found["comparator_p_25_days"] == np.quantile(of, 0.25)
    assert math.isnan(follow_up(dated.iloc[:0])["target_median_days"])
