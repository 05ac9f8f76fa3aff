"""Observation periods that overlap or touch count as their union, in every kind of study."""

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import OUTCOME, day
from tests.studies.new_users import new_users
from tests.studies.sccs_by_day import runs

from steropes.designs.case_series.risk_window_days import join_eras
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import (
    CohortTable,
    ComparisonRules,
    TimeAtRisk,
    compare_cohorts,
    study_population,
)
from steropes.studies.covariates import FeatureRules, extract_features
from steropes.studies.database.observation_periods import joined_spells
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.specification.case_series_settings import CaseRules
from steropes.studies.strategus.incidence_rates import _joined

PERIODS = {
    "overlap": [(-400, 50), (-10, 300)],
    "nested": [(-400, 300), (-10, 50)],
    "identical": [(-400, 300), (-400, 300)],
    "share a day": [(-400, 20), (20, 300)],
    "touch": [(-400, 20), (21, 300)],
    "touch before the start": [(-400, -6), (-5, 300)],
    "three in a chain": [(-400, -50), (-60, 120), (121, 300)],
    "a short one inside hides no bridge": [(-400, 100), (-390, -380), (90, 300)],
    "a day between": [(-400, -1), (1, 50), (52, 300)],
    "apart": [(-400, -100), (-90, 300)],
}
OUTCOMES = (15, 110, 200)


def write(omop, periods, *, hours=False):
    """One person of each arm with these periods, and one of the comparator without an outcome."""
    for drug in ("target", "comparator"):
        person = omop.person(**{drug: 0}, observed=None)
        for first, last in periods:
            omop.observed(person, first, last)
        for on in OUTCOMES:
            omop.condition(person, OUTCOME, on)
    omop.person(comparator=0)
    path = omop.write()
    if hours:
        with duckdb.connect(str(path)) as con:
            for end, hour in (("start", 18), ("end", 6)):
                column = f"observation_period_{end}_date"
                con.execute(
                    f"ALTER TABLE observation_period ALTER {column} TYPE TIMESTAMP "
                    f"USING {column} + INTERVAL {hour} HOUR"
                )
    return path


def union(periods):
    return runs({d for first, last in periods for d in range(first, last + 1)})


def holding(periods, on):
    """The unbroken run of observed days that holds a day."""
    return next(((a, b) for a, b in union(periods) if a <= on <= b), None)


@pytest.mark.sampled
@pytest.mark.parametrize("hours", [False, True])
@pytest.mark.parametrize("name", PERIODS)
def test_a_new_user_is_followed_through_the_union_of_the_periods(omop, name, hours):
    periods = PERIODS[name]
    with OmopDatabase(write(omop, periods, hours=hours)) as db:
        try:
            cohort = new_users(db, washout_days=90)
        except ValueError:  # nobody is left in the target arm
            cohort = None
    run = holding(periods, 0)
    if run is None or run[0] > -90:
        assert cohort is None
        return
    first = next((d for d in OUTCOMES if d <= run[1]), None)
    row = cohort.people.iloc[0]
    assert row["time"] == (run[1] if first is None else first)
    assert row["event"] == (first is not None)
    joined = len(union(periods)) < len(periods)
    assert [(n.topic, n.count) for n in cohort.notes] == [("joined_periods", 2)] * joined


@pytest.mark.sampled
@pytest.mark.parametrize("name", PERIODS)
def test_entries_of_a_comparison_are_at_risk_through_the_union(omop, name):
    periods, path = PERIODS[name], None
    path = write(omop, periods)
    entries = [(1, 1, day(0), day(0)), (2, 2, day(0), day(0))]
    entries += [(3, p, day(d), day(d)) for p in (1, 2) for d in OUTCOMES]
    cohorts = CohortTable(*zip(*entries, strict=True))
    rules = ComparisonRules(washout_days=90, common_period=False)
    with OmopDatabase(path) as db:
        comparison = compare_cohorts(db, cohorts, 1, 2, rules)
        features = extract_features(
            db, pd.DataFrame({"person_id": [1], "start": [pd.Timestamp(day(0))]}),
            FeatureRules(analyses=(8,)),
        )  # fmt: skip
    run = holding(periods, 0)
    joined = len(union(periods)) < len(periods)
    assert [(n.topic, n.count) for n in comparison.notes] == [("joined_periods", 2)] * joined
    before = features.columns["largest"].tolist()
    assert before == ([] if run is None else [-run[0]])
    if run is None or run[0] > -90:
        assert len(comparison.entries) == 0
        return
    at_risk = TimeAtRisk(start=1, end=9999, end_anchor="cohort start")
    people = study_population(comparison, cohorts, 3, at_risk).people
    assert people["days_at_risk"].tolist() == [run[1]] * 2
    assert people["outcomes"].tolist() == [sum(d <= run[1] for d in OUTCOMES)] * 2
    assert comparison.entries["observed_before"].tolist() == [-run[0]] * 2


@pytest.mark.sampled
@pytest.mark.parametrize("hours", [False, True])
@pytest.mark.parametrize("name", PERIODS)
def test_a_case_is_an_unbroken_run_of_observed_days(omop, name, hours):
    periods = PERIODS[name]
    rules = CaseRules(OUTCOME)
    path = write(omop, periods, hours=hours)
    with OmopDatabase(path) as db, db.workspace() as work:
        found = find_cases(db, work, rules, EraSources(db, work, rules, None))
    whole = [r for r in union(periods) if any(r[0] <= d <= r[1] for d in OUTCOMES)]
    base = (day(0) - dt.date(1970, 1, 1)).days
    first = (found.observed - base).tolist()
    assert list(zip(first, (found.end + first).tolist(), strict=True)) == whole * 2
    assert found.start.tolist() == [0] * len(first)
    days = sum(b - a + 1 for a, b in whole)
    events = sum(a <= d <= b for d in OUTCOMES for a, b in whole)
    assert found.attrition.iloc[0].tolist()[1:] == [2, 2 * events, 2 * len(whole), 2 * days]
    assert found.prevalence == 2 / (2 * len(union(periods)) + 1)
    joined = len(union(periods)) < len(periods)
    assert [(n.topic, n.count) for n in found.notes] == [("joined_periods", 2)] * joined


def test_spells_of_a_nesting_cohort_that_overlap_count_no_day_twice(omop):
    person = omop.person(observed=(-400, 300))
    for on in OUTCOMES:
        omop.condition(person, OUTCOME, on)
    spells = CohortTable([7] * 3, [person] * 3, [day(0), day(50), day(90)],
                         [day(60), day(80), day(120)])  # fmt: skip
    rules = CaseRules(OUTCOME, nesting_cohort=7)
    with OmopDatabase(omop.write()) as db, db.workspace() as work:
        found = find_cases(db, work, rules, EraSources(db, work, rules, spells))
    assert (found.start - 400).tolist() == [0, 90]
    assert (found.end - 400).tolist() == [80, 120]
    assert found.attrition.iloc[-1].tolist()[1:] == [1, 2, 2, 81 + 31]
    assert np.array_equal(found.outcome_day - 400, [15, 110])


def test_a_period_that_ends_before_it_starts_or_lacks_a_date_joins_nothing(omop):
    person = omop.person(target=0, observed=(-400, 50))
    omop.person(comparator=0)
    omop.observed(person, 300, 40)
    omop.rows["observation_period"] += [(person, day(45), None), (person, None, day(400))]
    with OmopDatabase(omop.write()) as db:
        cohort = new_users(db)
    assert cohort.people["time"].tolist() == [50, 1000]
    assert cohort.notes == ()


def by_person(source):
    return joined_spells(f"SELECT * FROM {source}")


def by_key(source):
    return _joined(f"SELECT * FROM {source}", "person_id")


@pytest.mark.parametrize("join", [by_person, by_key])
def test_equal_rows_are_joined_in_tables_of_some_hundred_people(join):
    """DuckDB orders equal rows differently in two windows if there are some hundred of them."""
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE spells AS SELECT person_id, 0 AS first, 10 AS last "
            "FROM range(600) t(person_id), range(2)"
        )
        found = con.execute(join("spells")).fetchall()
    assert len(found) == 600


def test_equal_eras_of_cases_are_joined():
    case = np.repeat(np.arange(600), 2)
    found = join_eras(case, np.zeros(1200, np.int64), np.full(1200, 10))
    assert np.array_equal(found.group, np.arange(600))
