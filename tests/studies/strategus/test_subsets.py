"""Operators of subsets keep the entries that CohortGenerator's SQL keeps."""

import datetime as dt
import json

import duckdb
import numpy as np
import pytest

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.strategus.cohort_generation import generate_cohorts
from steropes.studies.strategus.subset_queries import ENTRIES, make_subset
from steropes.studies.strategus_plans.shared_cohorts import (
    ControlOutcome,
    ControlRules,
    SharedCohorts,
    SubsetCohort,
)
from steropes.studies.strategus_plans.subset_definitions import subset_definition

ORIGIN = dt.date(2010, 1, 1)


@pytest.fixture(scope="module")
def db():
    """Three people: 1 is a woman born 1990, 2 a man born 1940, 3 is observed from day 0."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE person AS SELECT * FROM (VALUES (1, 8532, 1990, 0, 0), "
        "(2, 8507, 1940, 8527, 0), (3, 8507, 1980, 0, 38003564)) "
        "t(person_id, gender_concept_id, year_of_birth, "
        "race_concept_id, ethnicity_concept_id)"
    )
    con.execute(
        "CREATE TABLE observation_period AS SELECT * FROM (VALUES "
        "(1, 1, DATE '2009-01-01', DATE '2012-12-31'), "
        "(2, 2, DATE '2009-01-01', DATE '2010-01-31'), "
        "(3, 3, DATE '2010-01-01', DATE '2012-12-31')) "
        "t(observation_period_id, person_id, "
        "observation_period_start_date, observation_period_end_date)"
    )
    con.execute(
        "CREATE TABLE concept AS SELECT * FROM (VALUES (7, 'seven'), (8, 'eight')) "
        "t(concept_id, concept_name)"
    )
    con.execute(
        "CREATE TABLE concept_ancestor AS SELECT * FROM (VALUES (7, 7), (7, 8), (8, 8)) "
        "t(ancestor_concept_id, descendant_concept_id)"
    )
    for table, concept, day in (
        ("condition_occurrence", "condition_concept_id", "condition_start_date"),
        ("observation", "observation_concept_id", "observation_date"),
        ("drug_era", "drug_concept_id", "drug_era_start_date"),
    ):
        rows = {
            "condition_occurrence": "(1, 7, DATE '2010-03-01'), (1, 8, DATE '2010-02-01')",
            "observation": "(1, 7, DATE '2010-01-15'), (2, 8, DATE '2010-01-20')",
            "drug_era": "(1, 1, DATE '2010-03-01')",
        }[table]
        con.execute(
            f"CREATE TABLE {table} AS SELECT *, {day} AS drug_era_end_date FROM (VALUES {rows}) "
            f"t(person_id, {concept}, {day})"
        )
    with OmopDatabase(con) as found:
        yield found


def kept(db, operators, *entries):
    """Return the entries (cohort, person, first, last) of cohort 1 that the operators keep."""
    cohorts = np.array(entries)
    start, end = (np.datetime64(ORIGIN) + cohorts[:, k] for k in (2, 3))
    table = CohortTable(cohorts[:, 0], cohorts[:, 1], start, end, db.identity)
    listed = operators if isinstance(operators, list) else [operators]
    text = json.dumps({"name": "subset", "definitionId": 9, "subsetOperators": listed})
    subset = SubsetCohort(1009, 1, subset_definition(text, ("subsetDefs", 0)), text)
    with db.workspace() as work:
        table.place(work, ENTRIES)
        make_subset(db, work, subset)
        rows = work.rows(
            f"SELECT subject_id, cohort_start_date - DATE '{ORIGIN}', "
            f"cohort_end_date - DATE '{ORIGIN}' FROM {ENTRIES} "
            "WHERE cohort_definition_id = 1009 ORDER BY ALL"
        )
    return [tuple(row) for row in rows]


def limit(**settings):
    return {"subsetType": "LimitSubsetOperator", "limitTo": "all", **settings}


def test_first_ever_is_chosen_before_observation_is_required(db):
    entries = [(1, 3, 100, 110), (1, 3, 400, 410), (1, 1, 0, 5), (1, 1, 20, 30)]
    assert kept(db, limit(limitTo="firstEver", priorTime=365), *entries) == [(1, 0, 5)]
    assert kept(db, limit(limitTo="earliestRemaining", priorTime=365), *entries) == [
        (1, 0, 5),
        (3, 400, 410),
    ]
    assert kept(db, limit(limitTo="lastEver"), *entries) == [(1, 20, 30), (3, 400, 410)]
    assert kept(db, limit(limitTo="latestRemaining", followUpTime=700), *entries) == [
        (1, 20, 30),
        (3, 100, 110),
    ]


def test_limits_of_length_and_calendar_time(db):
    entries = [(1, 1, 0, 5), (1, 1, 20, 30), (1, 1, 60, 70)]
    assert kept(db, limit(minimumCohortDuration=10), *entries) == [(1, 20, 30), (1, 60, 70)]
    dates = limit(calendarStartDate="2010-01-10", calendarEndDate="2010-02-01")
    assert kept(db, dates, *entries) == [(1, 20, 30)]
    # Follow-up of person 2 ends on day 30.
    assert kept(db, limit(followUpTime=20), (1, 2, 5, 6), (1, 2, 15, 16)) == [(2, 5, 6)]


def test_ages_are_of_the_year_of_birth(db):
    entries = [(1, 1, 0, 5), (1, 2, 0, 5), (1, 3, 0, 5)]

    def of(**settings):
        operator = {"subsetType": "DemographicSubsetOperator", **settings}
        return [person for person, _, _ in kept(db, operator, *entries)]

    assert of(ageMin=20, ageMax=30) == [1, 3]
    assert of(ageMin=21) == [2, 3]
    assert of(gender=[8507]) == of(gender="male") == [2, 3]
    assert of(race=8527) == [2]
    assert of(ethnicity=[38003564], ageMax=40) == [3]
    with pytest.raises(DataError, match="'martian' is no id"):
        of(gender="martian")


def window(first, last, target="cohortStart", subset="cohortStart", negate=False):
    return {
        "startDay": first, "endDay": last, "targetAnchor": target, "subsetAnchor": subset,
        "negate": negate,
    }  # fmt: skip


def test_cohorts_intersect_within_windows(db):
    def of(*entries, **settings):
        operator = {"subsetType": "CohortSubsetOperator", "cohortIds": 2, **settings}
        return kept(db, operator, *entries)

    before = window(-30, 0)
    entries = [(1, 1, 50, 60), (2, 1, 30, 35), (1, 2, 50, 60), (2, 2, 5, 9)]
    assert of(*entries, windows=[before]) == [(1, 50, 60)]
    assert of(*entries, windows=[before], negate=True) == [(2, 50, 60)]
    # The same entry of cohort 2 must start before the index date and end on it or later.
    ongoing = [before, window(0, 9999, subset="cohortEnd")]
    assert of(*entries, windows=ongoing) == []
    assert of((1, 1, 50, 60), (2, 1, 30, 55), windows=ongoing) == [(1, 50, 60)]
    # An indication that ended before the index date counts without the second window.
    assert of((1, 1, 50, 60), (2, 1, 30, 35), windows=[before]) == [(1, 50, 60)]
    assert of(*entries, windows=[window(-30, 0, negate=True)]) == [(2, 50, 60)]


def test_all_or_any_of_several_cohorts(db):
    entries = [(1, 1, 50, 60), (2, 1, 30, 35), (3, 1, 40, 41), (1, 2, 50, 60), (3, 2, 49, 49)]

    def of(how):
        operator = {
            "subsetType": "CohortSubsetOperator", "cohortIds": [2, 3], "windows": [window(-30, 0)],
            "cohortCombinationOperator": how, "negate": False,
        }  # fmt: skip
        return [person for person, _, _ in kept(db, operator, *entries)]

    assert of("any") == [1, 2]
    assert of("all") == [1]


def test_old_windows_have_their_anchors(db):
    """Windows of CohortGenerator up to 0.11: for the start and for the end of the other cohort."""
    operator = {
        "subsetType": "CohortSubsetOperator", "cohortIds": 2, "negate": False,
        "cohortCombinationOperator": "any",
        "startWindow": {"startDay": -99, "endDay": 0, "targetAnchor": "cohortStart"},
        "endWindow": {"startDay": 0, "endDay": 999, "targetAnchor": "cohortStart"},
    }  # fmt: skip
    assert kept(db, operator, (1, 1, 50, 60), (2, 1, 30, 55)) == [(1, 50, 60)]
    assert kept(db, operator, (1, 1, 50, 60), (2, 1, 30, 45)) == []


def test_operators_apply_in_order(db):
    first, long = limit(limitTo="firstEver"), limit(minimumCohortDuration=10)
    entries = [(1, 1, 0, 5), (1, 1, 20, 30)]
    assert kept(db, [first, long], *entries) == []
    assert kept(db, [long, first], *entries) == [(1, 20, 30)]
    assert kept(db, [], *entries) == [(1, 0, 5), (1, 20, 30)]


@pytest.mark.parametrize(
    ("occurrence", "descendants", "expected"),
    [
        ("first", True, [(1, 14), (2, 19)]),
        ("all", True, [(1, 14), (1, 31), (1, 59), (2, 19)]),
        ("first", False, [(1, 14)]),
        ("all", False, [(1, 14), (1, 59)]),
    ],
)
def test_negative_controls_are_conditions_and_observations(db, occurrence, descendants, expected):
    control = ControlOutcome.model_validate(
        {"cohortId": 10001, "cohortName": "seven", "outcomeConceptId": " 7"}
    )
    rules = ControlRules.model_validate(
        {"occurrenceType": occurrence, "detectOnDescendants": descendants}
    )
    made, _ = generate_cohorts(db, SharedCohorts((), (), (control,), rules), lambda _: None)
    frame = made.table.frame()
    days = (frame["cohort_start_date"] - np.datetime64(ORIGIN)).dt.days
    assert list(zip(frame["subject_id"], days, strict=True)) == expected
    assert (frame["cohort_start_date"] == frame["cohort_end_date"]).all()
    assert made.table.name(10001) == "seven"
