"""Time-conditional propensity scores and matching within exposure sets."""

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes.designs import prevalent_new_users
from steropes.errors import DataError


@pytest.fixture(scope="module")
def visits():
    """Visits of 800 users of a comparator, some of whom start another drug; severity changes."""
    rng, rows = np.random.default_rng(1), []
    for person in range(800):
        severe, old = rng.normal(), int(rng.random() < 0.4)
        for visit in range(1, 6):
            severe = 0.7 * severe + 0.7 * rng.normal()
            starts = int(rng.random() < 1 / (1 + np.exp(2.5 - severe - 0.5 * old)))
            rows.append(
                (person, visit, 2010 + person % 2, severe, "old" if old else "young", starts)
            )
            if starts or rng.random() < 0.1:
                break
    return pd.DataFrame(rows, columns=["id", "visit", "year", "severe", "age", "starts"])


ROLES = {"id": "id", "time": "visit", "started": "starts", "covariates": ["severe", "age"]}


def test_scores_are_those_of_a_cox_model_of_the_start_in_time_since_the_comparator(visits):
    """Breslow's risk set of a visit is the exposure set."""
    found = prevalent_new_users(visits, **ROLES)
    y = steropes.Surv(visits["visit"], visits["starts"], entry=visits["visit"] - 1)
    cox = steropes.CoxRegression(ties="breslow").fit(visits[["severe", "age"]], y)
    np.testing.assert_allclose(found.model.coef_, cox.coef_, rtol=1e-6)
    within = pd.Series(found.score).groupby(visits["visit"]).sum()
    np.testing.assert_allclose(within, 1)


@pytest.mark.parametrize("within", [(), ("year",)])
def test_each_comparator_is_matched_once_within_its_exposure_set(visits, within):
    found = prevalent_new_users(visits, **ROLES, within=within, caliper=0.2, ratio=2)
    matched = found.matched.merge(
        visits.assign(row=np.arange(len(visits)))[["row", "year", "starts", "severe"]], on="row"
    )
    assert (matched["treated"] == matched["starts"]).all()
    assert matched.loc[matched["treated"] == 0, "id"].is_unique
    sets = matched.groupby("set")
    assert (sets["time"].nunique() == 1).all()
    assert (sets["treated"].sum() == 1).all()
    assert sets.size().between(2, 3).all()
    if within:
        assert (sets["year"].nunique() == 1).all()
    eta = found.model.linear_predictor(visits[["severe", "age"]])
    spread = eta[~np.isnan(found.score)].std(ddof=1)
    of_rows = pd.Series(eta[matched["row"]]).groupby(matched["set"])
    starter = of_rows.transform("first")
    assert (np.abs(eta[matched["row"]] - starter) <= 0.2 * spread + 1e-9).all()
    after = found.balance["smd_after"].abs().max()
    assert after < 0.1 < found.balance["smd_before"].abs().max()
    assert found.attrition["starters"].is_monotonic_decreasing
    assert found.sets["starters"].sum() == visits["starts"].sum()
    assert found.sets["matched"].sum() == found.attrition["starters"].iloc[-1]


def test_short_histories_are_matched_first_and_starters_beyond_all_comparators_are_left_out():
    rows = [
        (1, 1, 0.5, 1), (2, 1, 0.4, 0), (3, 1, 0.6, 0), (2, 2, 0.5, 0), (3, 2, 0.6, 0),
        (4, 2, 0.55, 1), (5, 2, 0.4, 0), (6, 2, 0.5, 0), (7, 2, 9.0, 1), (8, 3, 0.5, 1),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["id", "visit", "x", "starts"])
    prior = steropes.Normal(variance=0.01)
    model = steropes.ConditionalLogisticRegression(prior=prior, method="breslow")
    found = prevalent_new_users(
        table, id="id", time="visit", started="starts", covariates=["x"], model=model
    )
    assert found.attrition["starters"].tolist() == [4, 3, 2, 2]
    pairs = found.matched.groupby("set")["id"].apply(list).tolist()
    assert pairs[0][0] == 1
    assert pairs[0][1] in (2, 3)
    assert pairs[1][0] == 4
    assert pairs[1][1] != pairs[0][1]
    assert np.isnan(found.score[-1])


def test_the_order_of_rows_does_not_matter(visits):
    shuffled = visits.sample(frac=1, random_state=1)
    one, two = (prevalent_new_users(t, **ROLES, ratio=1) for t in (visits, shuffled))
    pairs = [
        {tuple(sorted(ids)) for ids in x.matched.groupby("set")["id"].apply(list)}
        for x in (one, two)
    ]
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariates": []}, "covariates is empty"),
        ({"ratio": 0}, "ratio must be a whole number of 1 or more"),
        ({"caliper": -1.0}, "caliper must be a number above 0"),
        ({"within": "year"}, "within must be a list of names"),
        ({"within": ["id"]}, "No exposure set has starters and comparators"),
        ({"started": "visit"}, "must have 0 and 1"),
        ({"model": steropes.LogisticRegression()}, "must be a ConditionalLogisticRegression"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(visits, change, message):
    with pytest.raises(DataError, match=message):
        prevalent_new_users(visits, **{**ROLES, **change})


def test_faults_of_the_table_are_named(visits):
    late = pd.concat([visits, visits[visits["starts"] == 1].assign(visit=9, starts=0)])
    with pytest.raises(DataError, match="follows the start of its person"):
        prevalent_new_users(late, **ROLES)
    with pytest.raises(DataError, match="is the second of its person at the same 'visit'"):
        prevalent_new_users(pd.concat([visits, visits[:1]]), **ROLES)
    with pytest.raises(DataError, match="Column 'visit' is missing in row 0"):
        prevalent_new_users(visits.assign(visit=visits["visit"].where(visits.index > 0)), **ROLES)
    perfect = visits.assign(same=visits["starts"])
    with pytest.raises(DataError, match="has no finite maximum: give the model a prior"):
        prevalent_new_users(perfect, **{**ROLES, "covariates": ["same"]})
