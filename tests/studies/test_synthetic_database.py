"""The simulated database has the structure and the effect that its documentation states."""

import numpy as np
import pytest

from steropes import DataError
from steropes.studies import DEMO, StudySettings, comparative_study, synthetic_database

EVENTS = """
    SELECT count(*) FILTER (condition_start_date BETWEEN drug_era_start_date + 1
                            AND drug_era_end_date), count(*)
    FROM condition_occurrence JOIN drug_era USING (person_id)
    WHERE condition_concept_id = ? AND drug_concept_id = ?
"""
DAYS = """
    SELECT sum(drug_era_end_date - drug_era_start_date),
           sum(observation_period_end_date - observation_period_start_date + 1)
    FROM drug_era JOIN observation_period USING (person_id) WHERE drug_concept_id = ?
"""


def rate_ratio(db, condition, drug):
    """Ratio of the rates in and outside of eras."""
    (inside, events), (days, total) = (
        db.rows(EVENTS, [condition, drug])[0],
        db.rows(DAYS, [drug])[0],
    )
    return (inside / days) / ((events - inside) / (total - days))


def test_the_same_seed_gives_the_same_records():
    first, second, other = (
        synthetic_database(50, seed=seed).rows("SELECT * FROM condition_occurrence ORDER BY ALL")
        for seed in (3, 3, 4)
    )
    assert first == second != other


def test_the_target_alone_multiplies_the_rate_of_the_outcome():
    db = synthetic_database(40_000, rate_ratio=2.0)
    assert rate_ratio(db, DEMO["outcome"], DEMO["target"]) == pytest.approx(2.0, rel=0.1)
    assert rate_ratio(db, DEMO["outcome"], DEMO["comparator"]) == pytest.approx(1.0, rel=0.1)
    assert rate_ratio(db, 4113008, DEMO["target"]) == pytest.approx(1.0, rel=0.1)


def test_a_protective_effect_lowers_the_rate():
    db = synthetic_database(40_000, rate_ratio=0.5)
    assert rate_ratio(db, DEMO["outcome"], DEMO["target"]) == pytest.approx(0.5, rel=0.15)


def test_a_comparative_study_runs_on_it():
    study = comparative_study(synthetic_database(600), StudySettings(**DEMO, folds=5, tie_orders=0))
    assert study.matching_done
    assert np.isfinite(study.hazard_ratios.loc["matched", "hr"])


@pytest.mark.parametrize("wrong", [{"people": 0}, {"seed": -1}, {"rate_ratio": 0.0}])
def test_invalid_arguments_are_refused(wrong):
    with pytest.raises(DataError):
        synthetic_database(**{"people": 10, **wrong})
