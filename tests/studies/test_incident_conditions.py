"""Conditions for a tree scan are the first ones of a person in a window."""

from __future__ import annotations

import pandas as pd
import pytest
from tests.studies.conftest import OUTCOME, day

from steropes import DataError
from steropes.designs.surveillance import tree_scan_people
from steropes.studies import OmopDatabase, concept_hierarchy
from steropes.studies.cohorts import incident_conditions

CHILD, OTHER = 30, 40


@pytest.fixture
def given(omop):
    """Five people with the days of their conditions, and the people as a table."""
    omop.concept(CHILD, "child")
    omop.concept(OTHER, "other")
    omop.ancestor(OUTCOME, CHILD)
    records = [
        [(CHILD, 5), (CHILD, 9), (OUTCOME, 7)],  # two concepts in the window
        [(CHILD, -10), (CHILD, 5)],  # had it before
        [(CHILD, -500), (CHILD, 20)],  # before the washout
        [(OTHER, 0), (OTHER, 400), (0, 3)],  # on the first day, after the window, no concept
        [(OUTCOME, 30)],
    ]
    ids = []
    for own in records:
        ids.append(omop.person())
        for concept, on in own:
            omop.condition(ids[-1], concept, on)
    people = pd.DataFrame(
        {"person_id": ids, "start": [day(0)] * 5, "treated": [1, 1, 0, 0, 1],
         "probability": [0.4, 0.4, 0.5, 0.5, 0.6]}
    )  # fmt: skip
    with OmopDatabase(omop.write()) as db:
        yield db, people


def test_first_records_in_the_window_count(given):
    db, people = given
    before = people.copy()
    found = incident_conditions(db, people)
    pd.testing.assert_frame_equal(people, before)
    a, _, c, _, e = people["person_id"]
    assert set(found.itertuples(index=False, name=None)) == {
        (a, CHILD, 1, 5, 0.4), (a, OUTCOME, 1, 7, 0.4), (c, CHILD, 0, 20, 0.5),
        (e, OUTCOME, 1, 30, 0.6),
    }  # fmt: skip
    assert "rows of people are not printed" in repr(found)
    scan = tree_scan_people(found, concept_hierarchy(db, found["node"]), replicates=9)
    own = scan.table.set_index("node")
    # The first person counts once, with a child and with the outcome itself.
    assert own.loc[OUTCOME, ["cases", "events"]].tolist() == [2, 3]
    assert own.loc[OUTCOME, "expected"] == pytest.approx(0.4 + 0.5 + 0.6)
    all_time = incident_conditions(db, people, washout_days=600, days=(0, 400))
    assert OTHER in all_time["node"].tolist()
    assert (CHILD, 20) not in zip(all_time["node"], all_time["time"], strict=True)


def test_self_controlled_windows_compare_days(given):
    db, people = given
    found = incident_conditions(
        db, people[["person_id", "start"]], days=(1, 10), control_days=(15, 34), washout_days=100
    )
    a, _, c, _, e = people["person_id"]
    assert set(found.itertuples(index=False, name=None)) == {
        (a, CHILD, 1, 5, 1 / 3), (a, OUTCOME, 1, 7, 1 / 3), (c, CHILD, 0, 20, 1 / 3),
        (e, OUTCOME, 0, 30, 1 / 3),
    }  # fmt: skip
    tree = concept_hierarchy(db, found["node"])
    own = tree_scan_people(found, tree, unit="event", replicates=9).table.set_index("node")
    assert own.loc[OUTCOME, ["cases", "events"]].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"days": (5, 1)}, "days must be the first and the last day"),
        ({}, {"control_days": (100, 500)}, "overlap"),
        ({}, {"washout_days": -1}, "washout_days must be"),
        ({}, {"control_days": (400, 500)}, "probability follows"),
        ({"person_id": 1}, {}, "further entries of a person"),
        ({"start": pd.NaT}, {}, "is missing"),
    ],
)
def test_bad_input_is_refused(given, change, options, message):
    db, people = given
    with pytest.raises(DataError, match=message):
        incident_conditions(db, people.assign(**change), **options)


def test_missing_columns_are_named(given):
    db, people = given
    with pytest.raises(DataError, match="lacks the columns 'treated'"):
        incident_conditions(db, people.drop(columns="treated"))
