"""Incidence rates agree with a count of single days, and their release reveals no small number."""

import datetime as dt
import itertools
import json

import duckdb
import numpy as np
import pandas as pd
import pytest

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.strategus_release import released_rates
from steropes.studies.strategus.incidence_rates import incidence_tables
from steropes.studies.strategus_plans.incidence_plan import incidence_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

ORIGIN = dt.date(2010, 1, 1)
KNOWN = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3, 4)))
STRATA = ("age_group_id", "gender_id", "start_year")


def design(**changes):
    return {
        "irDesign": {
            "targetDefs": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
            "outcomeDefs": [
                {"id": 1, "name": "event", "cohortId": 3, "cleanWindow": 20},
                {"id": 2, "name": "other", "cohortId": 3, "cleanWindow": 0, "excludeCohortId": 4},
            ],
            "timeAtRiskDefs": [
                {"id": 1, "start": {"dateField": "start", "offset": 1},
                 "end": {"dateField": "end", "offset": 0}},
                {"id": 2, "start": {"dateField": "start", "offset": 0},
                 "end": {"dateField": "start", "offset": 90}},
            ],
            "analysisList": [{"targets": [1, 2], "outcomes": [1, 2], "tars": [1, 2]}],
            "strataSettings": {
                "byAge": True, "byGender": True, "byYear": True, "ageBreaks": [20, 40],
            },
            **changes,
        }
    }  # fmt: skip


@pytest.fixture(scope="module")
def world():
    """A database of 60 people with one or two observation periods, and random cohorts."""
    rng = np.random.default_rng(4)
    people = pd.DataFrame(
        {
            "person_id": np.arange(1, 61),
            "gender_concept_id": rng.choice([8507, 8532], 60),
            "year_of_birth": rng.integers(1950, 2000, 60),
        }
    )
    periods = []
    for person in people["person_id"]:
        edges = np.sort(rng.choice(1500, 4, replace=False))
        periods += [(person, *edges[:2]), (person, *edges[2:])]
    periods = pd.DataFrame(periods, columns=["person_id", "first", "last"])
    entries = []
    for cohort, length, many in ((1, 150, 3), (2, 60, 2), (3, 5, 3), (4, 40, 1)):
        for person in people["person_id"]:
            for first in rng.choice(1500, rng.integers(0, many + 1), replace=False):
                entries.append((cohort, person, first, first + rng.integers(0, length)))
    entries = pd.DataFrame(entries, columns=["cohort", "person", "first", "last"])
    con = duckdb.connect()
    con.register("brought", periods)
    con.execute("CREATE TABLE person AS FROM people")
    con.execute(
        "CREATE TABLE observation_period AS SELECT row_number() OVER () AS observation_period_id, "
        f"person_id, DATE '{ORIGIN}' + first::INTEGER AS observation_period_start_date, "
        f"DATE '{ORIGIN}' + last::INTEGER AS observation_period_end_date FROM brought"
    )
    con.execute("CREATE TABLE concept AS SELECT 8507 AS concept_id, 'MALE' AS concept_name")
    for table, concept in (("condition_occurrence", "condition"), ("drug_era", "drug")):
        con.execute(
            f"CREATE TABLE {table} (person_id BIGINT, {concept}_concept_id BIGINT, "
            f"{'condition_start_date' if concept == 'condition' else 'drug_era_start_date'} DATE, "
            "drug_era_end_date DATE)"
        )
    with OmopDatabase(con) as db:
        yield db, cohort_table(db, entries), people, periods, entries


def cohort_table(db, entries):
    """Return entries in days from the origin as cohorts."""
    start = np.datetime64(ORIGIN)
    return CohortTable(
        entries["cohort"].to_numpy(),
        entries["person"].to_numpy(),
        start + entries["first"].to_numpy(),
        start + entries["last"].to_numpy(),
        db.identity,
    )


def by_days(world, given, plan):
    """Count everything from sets of days, person by person."""
    _, _, people, periods, entries = world
    tars = {t["id"]: t for t in given["timeAtRiskDefs"]}
    outcomes = {o["id"]: o for o in given["outcomeDefs"]}
    window = given.get("studyWindow", {})
    low, high = (
        None if window.get(k) is None else (dt.date.fromisoformat(window[k]) - ORIGIN).days
        for k in ("startDate", "endDate")
    )
    rows = []
    for asked in plan.combinations:
        tar, outcome = tars[asked.tar], outcomes[asked.outcome]
        for person in people.itertuples():
            own = entries[entries["person"] == person.person_id]
            at_risk = []
            for e in own[own["cohort"] == asked.target].itertuples():
                edge = {"start": e.first, "end": e.last}
                first = edge[tar["start"]["dateField"]] + tar["start"]["offset"]
                last = edge[tar["end"]["dateField"]] + tar["end"]["offset"]
                for p in periods[periods["person_id"] == person.person_id].itertuples():
                    if (
                        p.first <= e.first <= p.last
                        and p.first <= first <= p.last
                        and first <= last
                    ):
                        at_risk.append((first, min(last, p.last)))
            joined = []
            for first, last in sorted(at_risk):
                if joined and first <= joined[-1][1]:
                    joined[-1][1] = max(joined[-1][1], last)
                else:
                    joined.append([first, last])
            excluded = set()
            for e in own[own["cohort"] == outcome["cohortId"]].itertuples():
                excluded |= {*range(e.first + 1, e.last + outcome["cleanWindow"] + 1)}
            for e in own[own["cohort"] == outcome.get("excludeCohortId", -1)].itertuples():
                excluded |= {*range(e.first, e.last + 1)}
            events = own[own["cohort"] == outcome["cohortId"]]["first"].tolist()
            for first, last in joined:
                if (low is not None and first < low) or (high is not None and first > high):
                    continue
                last = last if high is None else min(last, high)
                days = {*range(first, last + 1)}
                inside = [d for d in events if d in days]
                rows.append(
                    {
                        "target_cohort_definition_id": asked.target, "tar_id": asked.tar,
                        "outcome_id": asked.outcome, "person": person.person_id,
                        "start_year": (ORIGIN + dt.timedelta(int(first))).year,
                        "gender_id": person.gender_concept_id,
                        "age": (ORIGIN + dt.timedelta(int(first))).year - person.year_of_birth,
                        "days": len(days), "excluded": len(days & excluded),
                        "pe": len(inside), "n": sum(d not in excluded for d in inside),
                    }
                )  # fmt: skip
    found = pd.DataFrame(rows)
    found["age_group_id"] = np.digitize(found["age"], [20, 40]) + 1
    return found


KEYS = ["target_cohort_definition_id", "tar_id", "outcome_id"]
NUMBERS = [
    "persons_at_risk_pe", "persons_at_risk", "person_days_pe", "person_days", "person_outcomes_pe",
    "person_outcomes", "outcomes_pe", "outcomes",
]  # fmt: skip


def summed(rows, by):
    """Return the counts of each stratum."""
    made = []
    for key, g in rows.groupby([*KEYS, *by]):
        at_risk = g.groupby("person").apply(
            lambda p: bool((p["days"] > p["excluded"]).any()), include_groups=False
        )
        made.append(
            (
                *key, len(at_risk), int(at_risk.sum()), g["days"].sum(),
                (g["days"] - g["excluded"]).sum(), g.loc[g["pe"] > 0, "person"].nunique(),
                g.loc[g["n"] > 0, "person"].nunique(), g["pe"].sum(), g["n"].sum(),
            )
        )  # fmt: skip
    return pd.DataFrame(made, columns=[*KEYS, *by, *NUMBERS]).astype("int64")


@pytest.mark.parametrize("window", [None, {"startDate": "2010-06-01", "endDate": "2012-12-31"}])
@pytest.mark.parametrize("once", [False, True])
def test_counts_are_those_of_single_days(world, window, once):
    """People who are at risk once are counted without a set of people."""
    if once:
        db, _, people, periods, entries = world
        entries = entries.drop_duplicates(["cohort", "person"])
        world = (db, cohort_table(db, entries), people, periods, entries)
    given = design(**({} if window is None else {"studyWindow": window}))
    plan = incidence_plan(json.loads(json.dumps(given)), ("settings",), KNOWN)
    assert not any(v.reason for v in plan.verdicts)
    found = incidence_tables(world[0], plan, world[1])["ci_incidence_summary"]
    rows = by_days(world, given["irDesign"], plan)
    for n in range(4):
        for by in itertools.combinations(STRATA, n):
            others = [name for name in STRATA if name not in by]
            own = found[found[list(by)].notna().all(axis=1) & found[others].isna().all(axis=1)]
            own = own[[*KEYS, *by, *NUMBERS]].astype("int64").sort_values([*KEYS, *by])
            pd.testing.assert_frame_equal(own.reset_index(drop=True), summed(rows, list(by)))


def test_release_rounds_counts_and_derives_rates(world):
    plan = incidence_plan(design(), ("settings",), KNOWN)
    whole = exact = incidence_tables(world[0], plan, world[1])["ci_incidence_summary"]
    free = released_rates(exact, DisclosureRules("none", 0), "x")
    np.testing.assert_allclose(
        free["incidence_rate_p100py"],
        (100 * exact["outcomes"] / (exact["person_days"] / 365.25)).where(exact["person_days"] > 0),
    )
    for rules in (DisclosureRules("ohdsi", 5), DisclosureRules("opensafely", 8)):
        safe = released_rates(whole, rules, "x")
        exact = whole.loc[safe.index]
        for name in ("persons_at_risk", "person_outcomes", "outcomes"):
            small = exact[name].between(1, rules.least - 1)
            assert (safe.loc[small, name].fillna(-rules.least) == -rules.least).all()
            assert (
                safe.loc[~small, name].sub(exact.loc[~small, name]).abs().max() <= rules.least / 2
            )
            assert (
                safe.loc[small, "incidence_rate_p100py"].isna()
                | (name == "persons_at_risk")
                | (name == "person_outcomes")
            ).all()
        hidden = exact["persons_at_risk"].between(1, rules.least - 1)
        assert safe.loc[hidden, "person_days"].isna().all()


def test_many_outcomes_of_few_people_are_withheld(world):
    plan = incidence_plan(design(), ("settings",), KNOWN)
    exact = incidence_tables(world[0], plan, world[1])["ci_incidence_summary"].head(1)
    repeated = exact.assign(persons_at_risk=90, person_outcomes=1, outcomes=14, person_days=9000)
    found = released_rates(repeated, DisclosureRules("ohdsi", 5), "x").iloc[0]
    assert (found["person_outcomes"], found["outcomes"]) == (-5, -5)
    assert np.isnan(found["incidence_rate_p100py"])


def test_what_a_design_cannot_have_is_refused():
    with pytest.raises(DataError, match=r"irDesign\.subgroups have no counterpart"):
        incidence_plan(design(subgroups=[{"id": 1}]), ("settings",), KNOWN)
    with pytest.raises(DataError, match="weather is not known"):
        incidence_plan(design(weather=1), ("settings",), KNOWN)
    given = design(analysisList=[{"targets": [1, 9], "outcomes": 1, "tars": 1}])
    plan = incidence_plan(given, ("settings",), KNOWN)
    assert "analysisList[0].targets: 9 is not defined" in plan.verdicts[0].reason
    given = design(targetDefs=[{"id": 1}, {"id": 8}], analysisList=[
        {"targets": [1, 8], "outcomes": [1], "tars": [1]}])  # fmt: skip
    plan = incidence_plan(given, ("settings",), KNOWN)
    assert len(plan.combinations) == 1
    assert "1 rates are not computed (cohort 8 is not defined" in plan.verdicts[0].differences[0]


def test_ages_between_breaks():
    plan = incidence_plan(design(), ("settings",), KNOWN)
    assert [(g.name, g.low, g.high) for g in plan.age_groups] == [
        ("<20", None, 20),
        ("20 - 39", 20, 40),
        (">=40", 40, None),
    ]
