"""Nested case–control studies: Cox regression on whole risk sets, eligible controls, samples."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from tests.designs.case_only_tables import drawn, exposed

import steropes
from steropes.designs.case_only import (
    case_time_control,
    nested_case_control,
    sample_risk_sets,
    self_controlled_cohort,
    self_controlled_risk_interval,
)
from steropes.designs.case_only.matched_set_sampling import sample_members


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("match", [[], ["sex"]])
def test_the_whole_risk_set_is_cox_regression(ties, match):
    events, exposures, observation = drawn(4, people=150)
    events = events[events["id"] % 3 > 0]
    ever = exposures.groupby("id")["start"].min().reindex(observation["id"]).to_numpy()
    observation["user"] = (ever < 20).astype(int)
    made = nested_case_control(
        events, None, observation, controls_per_case=None, match=match, washout=10, ties=ties,
        covariates=["user", "score"],
    )  # fmt: skip
    first = events.groupby("id")["day"].min().reindex(observation["id"]).to_numpy()
    entry, leave = observation["start"] + 10, observation["end"].to_numpy()
    leave = np.fmin(leave, first)
    event = (first == leave) & (first >= entry)
    at_risk = leave >= entry
    rows = observation[at_risk]
    model = steropes.CoxRegression(ties=ties).fit(
        rows[["user", "score"]],
        steropes.Surv(leave[at_risk], event[at_risk], entry[at_risk] - 1),
        strata=rows["sex"] if match else None,
    )
    np.testing.assert_allclose(made.estimates["log_ratio"], model.coef_, rtol=1e-7)
    np.testing.assert_allclose(made.estimates["se"], model.summary()["se"], rtol=1e-7)


def test_exposure_windows_of_the_whole_risk_set_are_a_time_dependent_covariate():
    events, exposures, observation = drawn(5, people=80)
    made = nested_case_control(
        events, exposures, observation, exposure="drug", controls_per_case=None, washout=20,
        window=(-20, -3), ties="breslow",
    )  # fmt: skip
    for row in made.sets.sample(60, random_state=0).itertuples():
        for drug in "ab":
            wanted = exposed(exposures, row.id, drug, row.day - 20, row.day - 3)
            assert getattr(row, drug) == wanted
    # Everybody at risk is in the set of each event.
    first = events.groupby("id")["day"].min().reindex(observation["id"]).to_numpy()
    for day, rows in made.sets.groupby("day"):
        late = ~(first < day) & (observation["start"] + 20 <= day) & (observation["end"] >= day)
        assert set(rows["id"]) == set(observation["id"][late])


def test_sampled_controls_are_at_risk_match_and_lie_within_calipers():
    events, exposures, observation = drawn(6, people=400)
    made = nested_case_control(
        events, exposures, observation, exposure="drug", controls_per_case=3, match=["sex"],
        calipers={"birth": 2000}, washout=30,
    )  # fmt: skip
    first = events.groupby("id")["day"].min()
    person = observation.set_index("id")
    for _, rows in made.sets.groupby("set"):
        case, controls = rows[rows["case"] == 1].iloc[0], rows[rows["case"] == 0]
        assert rows["id"].is_unique
        assert 1 <= len(controls) <= 3
        own = person.loc[controls["id"]]
        assert (own["sex"] == person.loc[case["id"], "sex"]).all()
        assert ((own["birth"] - person.loc[case["id"], "birth"]).abs() <= 2000).all()
        assert ((own["start"] + 30 <= case["day"]) & (own["end"] >= case["day"])).all()
        assert not (first.reindex(own.index) <= case["day"]).any()


def test_sampled_sets_are_those_of_the_nested_study():
    events, exposures, observation = drawn(6, people=200)
    rules = {"controls_per_case": 2, "match": ["sex"], "washout": 30, "seed": 3}
    made = nested_case_control(events, exposures, observation, exposure="drug", **rules)
    sets = sample_risk_sets(events, observation, **rules)
    pd.testing.assert_frame_equal(sets, made.sets[["set", "id", "case", "day"]])
    controls = sets[sets["case"] == 0]
    found = case_time_control(
        events, controls, exposures, observation, exposure="drug", washout=30,
        window=(-9, 0), references=-20,
    )  # fmt: skip
    assert set(found.estimates["kind"]) == {"cases against controls", "cases", "controls"}


def test_samples_of_risk_sets_estimate_the_hazard_ratio_of_the_cohort():
    rng = np.random.default_rng(7)
    n = 4000
    user = rng.integers(0, 2, n)
    day = (rng.exponential(1500 / np.where(user, 2.0, 1.0)) + 1).astype(int)
    cohort = pd.DataFrame({"id": range(n), "start": 0, "end": np.minimum(day, 1000), "user": user})
    events = pd.DataFrame({"id": range(n), "day": day})[day <= 1000]
    made = nested_case_control(
        events, None, cohort, covariates=["user"], controls_per_case=4, washout=0
    )
    cox = steropes.CoxRegression().fit(cohort[["user"]], steropes.Surv(cohort["end"], day <= 1000))
    line = made.estimates.iloc[0]
    assert abs(line["log_ratio"] - cox.coef_[0]) < 3 * line["se"]
    assert line["se"] / cox.summary()["se"].iloc[0] == pytest.approx(np.sqrt(5 / 4), rel=0.05)


def test_time_since_observation_began_moves_the_index_days_of_controls():
    events, exposures, observation = drawn(8, people=200)
    made = nested_case_control(
        events, exposures, observation, exposure="drug", washout=30, time="observed"
    )
    start = observation.set_index("id")["start"]
    since = made.sets["day"] - start[made.sets["id"]].to_numpy()
    assert (since.groupby(made.sets["set"]).nunique() == 1).all()


def test_every_subset_of_eligible_candidates_is_equally_likely():
    rng = np.random.default_rng(0)
    sets = 6000
    low, high = np.zeros(sets, int), np.full(sets, 60)
    # Draws rarely meet the four candidates, so that most sets are completed from a list.
    found, member = sample_members(low, high, 2, lambda s, m: m % 15 == 0, rng)
    pairs = member.reshape(sets, 2)
    assert (found.reshape(sets, 2) == np.arange(sets)[:, None]).all()
    counts = pd.Series(list(map(tuple, pairs))).value_counts()
    assert len(counts) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < chi2.isf(1e-4, 5)
    found, member = sample_members(low[:9], high[:9], 7, lambda s, m: m % 15 == 0, rng)
    assert member.tolist() == [0, 15, 30, 45] * 9


def test_wrong_arguments_of_nested_case_control():
    events, exposures, observation = drawn(12, people=50)

    def call(**settings):
        return nested_case_control(events, exposures, observation, **{"washout": 30, **settings})

    wrong = [
        ({"washout": 10}, "window starts 30 days before the index day"),
        ({"controls_per_case": 0}, "controls_per_case must be a whole number of 1"),
        ({"time": "age"}, "time must be 'calendar' or 'observed'"),
        ({"match": "sex"}, "match must be a list of names"),
        ({"match": ["town"]}, "observation has no column 'town'"),
        ({"calipers": {"birth": -1}}, r"calipers\['birth'\] must be a number of 0 or more"),
        ({"calipers": ["birth"]}, "calipers must be a dict"),
        ({"covariates": ["exposed"]}, "observation has no column 'exposed'"),
    ]
    for settings, message in wrong:
        with pytest.raises(steropes.DataError, match=message):
            call(**settings)
    text = observation.assign(sex="f", score=np.nan)
    with pytest.raises(steropes.DataError, match=re.escape("observation['sex'] must be numbers")):
        nested_case_control(events, exposures, text, washout=30, covariates=["sex"])
    with pytest.raises(
        steropes.DataError, match=re.escape("observation['score'] is missing in 50 rows")
    ):
        nested_case_control(events, exposures, text, washout=30, covariates=["score"])
    with pytest.raises(steropes.DataError, match="there are no covariates to compare"):
        nested_case_control(events, None, observation)
    with pytest.raises(steropes.DataError, match="overlap; end one before the other starts"):
        self_controlled_risk_interval(
            events, exposures, observation, risk_periods=(0, 20), control_periods=(20, 40)
        )
    with pytest.raises(steropes.DataError, match="control ends on day 3, but risk starts on day 1"):
        self_controlled_cohort(events, exposures, observation, control=(-30, 3))
