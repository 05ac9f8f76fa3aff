"""Pathways of events: eras, combinations and counts by hand and by a plain reference."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.small_modules import PATHWAYS

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.strategus.pathway_event_eras import (
    EventCodes,
    changed_eras,
    collapsed_eras,
    combined_eras,
)
from steropes.studies.strategus.pathway_tables import pathway_tables
from steropes.studies.strategus.treatment_pathways import target_pathways
from steropes.studies.strategus_plans.pathway_plan import PathwayPlan, Window, pathway_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

A, B, C = 0, 1, 2
SHARED = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3, 4)))
COHORTS = [
    {"cohortId": 1, "cohortName": "target", "type": "target"},
    {"cohortId": 2, "cohortName": "a", "type": "event"},
    {"cohortId": 3, "cohortName": "b", "type": "event"},
    {"cohortId": 4, "cohortName": "death", "type": "exit"},
]
BOTH = {"includeTreatments": "startDate", "indexDateOffset": 5}


def plan_of(**settings):
    return pathway_plan({"cohorts": COHORTS, **settings}, ("settings",), SHARED)


def eras_of(*rows, group=0):
    """Make eras of one pathway from events with first and last days."""
    event, start, end = zip(*rows, strict=True)
    return pd.DataFrame({"group": group, "event": event, "start": start, "end": end})


def combined(*rows, **rules):
    """Return the combined eras as texts with their days."""
    codes = EventCodes(["a", "b", "c"])
    plan = replace(PathwayPlan(()), **{"combination": 7, "shortest_era": 1, **rules})
    found = combined_eras(eras_of(*rows), codes, plan)
    labels = codes.labels()
    return [(labels[e.event], e.start, e.end) for e in found.itertuples()]


@pytest.mark.parametrize(
    ("eras", "expected"),
    [
        ([(A, 0, 30), (B, 30, 60)], [("a", 0, 30), ("b", 30, 60)]),  # They do not overlap.
        # The later era goes on after a combination, or ends with it or before.
        ([(A, 0, 30), (B, 20, 60)], [("a", 0, 20), ("a+b", 20, 30), ("b", 30, 60)]),
        ([(B, 0, 30), (A, 10, 30)], [("b", 0, 10), ("a+b", 10, 30)]),
        ([(A, 0, 60), (B, 20, 40)], [("a", 0, 20), ("a+b", 20, 40), ("a", 40, 60)]),
        # An overlap of fewer than seven days cuts the earlier era off.
        ([(A, 0, 30), (B, 24, 60)], [("a", 0, 24), ("b", 24, 60)]),
        ([(A, 0, 30), (B, 23, 60)], [("a", 0, 23), ("a+b", 23, 30), ("b", 30, 60)]),
        # A short era that the overlap fills is a combination nevertheless.
        ([(A, 0, 4), (B, 0, 60)], [("a+b", 0, 4), ("b", 4, 60)]),
        # Three events, of which the second and third overlap the first.
        (
            [(A, 0, 40), (B, 10, 60), (C, 20, 90)],
            [
                *(("a", 0, 10), ("a+b", 10, 20), ("a+b+c", 20, 40)),
                *(("b+c", 40, 60), ("c", 60, 90)),
            ],
        ),
    ],
)
def test_overlaps_become_combinations_or_are_cut_off(eras, expected):
    assert combined(*eras) == expected


def test_short_eras_are_left_out_once_eras_overlap():
    assert combined((A, 0, 3), (B, 20, 60), shortest_era=7) == [("a", 0, 3), ("b", 20, 60)]
    assert combined((A, 0, 3), (B, 20, 60), (C, 40, 90), shortest_era=7) == [
        *(("b", 20, 40), ("b+c", 40, 60), ("c", 60, 90))
    ]


def test_short_overlaps_stay_if_they_are_kept():
    eras = (A, 0, 30), (B, 26, 60), (C, 40, 90)
    assert combined(*eras, truncate=False) == [
        *(("a", 0, 30), ("b", 26, 40), ("b+c", 40, 60), ("c", 60, 90))
    ]


def test_no_days_overlap_after_random_eras_were_combined():
    rng = np.random.default_rng(7)
    n = 600
    start = rng.integers(0, 300, n)
    eras = pd.DataFrame(
        {
            "group": rng.integers(0, 60, n), "event": rng.integers(0, 3, n),
            "start": start, "end": start + rng.integers(0, 90, n),
        }
    )  # fmt: skip
    eras = collapsed_eras(eras, 10)
    codes = EventCodes(["a", "b", "c"])
    found = combined_eras(eras, codes, replace(PathwayPlan(()), combination=1, shortest_era=1))
    same = found["group"] == found["group"].shift()
    assert (found["start"] >= found["end"].shift())[same].all()

    def days(table, event):
        """Return the days between the ends of eras with an event, of each pathway."""
        own = [event in codes.members[e] for e in table["event"]]
        rows = table[own].itertuples()
        return {(r.group, d) for r in rows for d in range(r.start, r.end)}

    for event in (A, B, C):
        assert days(found, event) == days(eras, event)


def test_entries_with_short_gaps_are_one_era():
    eras = collapsed_eras(eras_of((A, 40, 50), (A, 0, 9), (A, 20, 30), (B, 31, 35)), 10)
    assert eras[["event", "start", "end"]].to_numpy().tolist() == [
        [A, 0, 9],
        [A, 20, 50],
        [B, 31, 35],
    ]
    assert len(collapsed_eras(eras_of((A, 40, 50), (A, 0, 9), (A, 20, 30)), 11)) == 1


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("All", [(A, 10), (A, 5), (B, 3), (A, 1)]),
        ("First", [(A, 10), (B, 3)]),
        ("Changes", [(A, 15), (B, 3), (A, 1)]),
    ],
)
def test_kept_eras(kept, expected):
    eras = eras_of((A, 0, 10), (A, 20, 25), (B, 30, 33), (A, 40, 41))
    found = changed_eras(eras, kept)
    assert [*zip(found["event"], found["days"], strict=True)] == expected


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for _ in range(40):
        omop.person(observed=(0, 3000))
    with OmopDatabase(omop.write()) as found:
        yield found


def pathways(db, plan, entries):
    """Count the pathways of entries: cohort, person, first and last day."""
    cohort, person, first, last = zip(*entries, strict=True)
    days = [[np.datetime64(START) + d for d in of] for of in (first, last)]
    [found] = target_pathways(db, plan, CohortTable(cohort, person, *days))
    return found


ENTRIES = [
    (1, 1, 100, 500), (2, 1, 90, 95), (2, 1, 120, 160), (3, 1, 140, 300), (4, 1, 400, 400),
    (1, 2, 100, 500), (3, 2, 130, 200), (2, 2, 210, 300), (3, 2, 480, 520), (2, 9, 10, 30),
]  # fmt: skip


def test_pathways_of_two_people(db):
    plan = plan_of(combinationWindow=7, minPostCombinationDuration=7)
    found = pathways(db, plan, ENTRIES)
    assert found.paths["pathway"].tolist() == ["a-a+b-b-death", "b-a"]
    assert found.paths["freq"].tolist() == [1, 1]
    steps = found.attrition.set_index("reason_id")
    assert steps.loc[1, ["number_records", "number_subjects"]].tolist() == [10, 3]
    assert steps.loc[2, ["number_records", "number_subjects"]].tolist() == [9, 2]
    assert steps["number_records"].tolist() == [10, 9, 6, 5, 5, 6, 5, 6]
    days = found.durations.set_index(["event_name", "line"])
    assert days.loc[("a+b", "2"), "duration_average"] == 20
    assert days.loc[("b", "overall"), "event_count"] == 2
    assert days.loc[("combination-event", "overall"), "event_count"] == 1
    people = found.people.groupby("kind")["n"].sum()
    assert people.to_dict() == {"age": 2, "sex": 2, "index_year": 2}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"windowStart": -20}, "a-a+b-b-death"),  # Both entries of a are one era.
        ({"windowStart": 50}, "death"),
        ({"windowEnd": -200}, "a-a+b-b"),
        ({"maxPathLength": 2}, "a-a+b"),
        ({"minEraDuration": 41}, "b"),  # The exit is shorter, too.
        ({"endAnchor": "startDate", "windowEnd": 30}, "a"),
        ({"splitEventCohorts": [2], "splitTime": [40]}, "a (therapy)-a (therapy)+b-b-death"),
        ({"splitEventCohorts": [2], "splitTime": [41]}, "a (acute)-a (acute)+b-b-death"),
        ({"combinationWindow": 21}, "a-b-death"),
        (BOTH, "a-a+b-b-death"),
    ],
)
def test_settings_of_pathways(db, settings, expected):
    given = {"combinationWindow": 7, "minPostCombinationDuration": 7, **settings}
    found = pathways(db, plan_of(**given), [e for e in ENTRIES if e[1] == 1])
    assert found.paths["pathway"].tolist() == [expected]


def test_entries_of_the_target_have_a_pathway_each_unless_they_are_concatenated(db):
    entries = [(1, 1, 0, 100), (2, 1, 10, 60), (1, 1, 300, 400), (3, 1, 310, 390)]
    for together, expected in ((True, ["a-b"]), (False, ["a", "b"])):
        found = pathways(db, plan_of(concatTargets=together), entries)
        assert found.paths["pathway"].tolist() == expected
        assert found.paths["people"].tolist() == [1] * len(expected)


def test_windows_of_older_versions_contain_the_whole_event(db):
    assert plan_of(**BOTH).window == Window(start_offset=5, of_event="both")
    entries = [(1, 1, 0, 100), (2, 1, 4, 20), (3, 1, 30, 90), (2, 1, 60, 101)]
    assert pathways(db, plan_of(**BOTH), entries).paths["pathway"].tolist() == ["b"]
    ending = {**BOTH, "includeTreatments": "endDate", "minPostCombinationDuration": 0}
    found = pathways(db, plan_of(**ending), entries)
    assert found.paths["pathway"].tolist() == ["a-b"]
    assert found.durations["duration_max"].tolist()[:1] == [60]  # Days before the window are cut.


def test_pathways_and_events_of_few_people_are_left_out(db):
    many = [(1, p, 0, 500) for p in range(1, 34)] + [(2, p, 10, 60) for p in range(1, 34)]
    few = [(3, p, 100, 160) for p in range(1, 3)]
    found = pathways(db, plan_of(), many + few)
    source = pd.DataFrame([{"database_id": "x", "cdm_source_name": "x"}])
    tables = pathway_tables([found], plan_of(), source, DisclosureRules())
    assert tables["tp_treatment_pathways"]["pathway"].tolist() == ["a"]
    assert tables["tp_treatment_pathways"]["freq"].tolist() == [30]
    assert {*tables["tp_summary_event_duration"]["event_name"]} == {"mono-event", "a"}
    assert tables["tp_summary_event_duration"]["duration_min"].isna().all()
    assert "<5" not in json.dumps(tables["tp_counts_sex"]["n"].tolist())
    exact = pathway_tables([found], plan_of(), source, DisclosureRules("none", 0))
    assert exact["tp_treatment_pathways"]["freq"].tolist() == [31, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cohorts": COHORTS[1:]}, "settings.cohorts has no cohort of type target"),
        ({"cohorts": [{**COHORTS[0], "type": "aim"}]}, "settings.cohorts.0..type must be one of"),
        ({"cohorts": [*COHORTS, {**COHORTS[2], "cohortName": "a"}]}, "have the same name"),
        ({"maxPathLength": 0}, "settings.maxPathLength must be at least 1, not 0"),
        ({"filterTreatments": "Last"}, "settings.filterTreatments must be one of"),
        ({"splitEventCohorts": 2, "splitTime": [3, 4]}, "has 1 cohorts, but splitTime 2 values"),
        ({"splitEventCohorts": 4, "splitTime": 3}, "cohort 4 is no event"),
        ({"nonsense": 1}, "settings.nonsense is not known"),
    ],
)
def test_settings_that_cannot_be_used(settings, message):
    with pytest.raises(DataError, match=message):
        plan_of(**settings)


def test_a_missing_event_stops_the_module_and_a_missing_target_does_not():
    defined = tuple(DefinedCohort(i, str(i), "{}") for i in (1, 1001, 2, 3))
    plan = pathway_plan(PATHWAYS["settings"], (), SharedCohorts(defined))
    with pytest.raises(DataError, match="no entry events"):
        plan.without({2: "no entry events"})
    with pytest.raises(DataError, match="gone"):
        plan.without({1: "gone"})
