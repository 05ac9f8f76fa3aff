"""Dechallenges and rechallenges, against eras by hand and an enumeration of all pairs."""

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop

from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.strategus_release import released_challenges
from steropes.studies.strategus.dechallenge_rechallenge import challenge_counts
from steropes.studies.strategus_plans.characterization_plan import Challenge, characterization_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

TARGET, OUTCOME = 1, 3
KNOWN = 500  # Modules leave out people whom the database does not know.
COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3)))
PEOPLE = [
    "dechallenge_attempt", "dechallenge_success", "dechallenge_fail", "rechallenge_attempt",
    "rechallenge_success", "rechallenge_fail",
]  # fmt: skip


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for _ in range(KNOWN):
        omop.person(observed=(0, 3000))
    with OmopDatabase(omop.write()) as found:
        yield found


def table(people):
    """Make cohorts of the eras and outcomes, in days, of each person."""
    numbered = [*enumerate(people, 1)]
    rows = [(TARGET, k, *era) for k, (eras, _) in numbered for era in eras]
    rows += [(OUTCOME, k, day, day) for k, (_, days) in numbered for day in days]
    cohort, person, first, last = zip(*rows, strict=True)
    dates = [[np.datetime64(START) + d for d in days] for days in (first, last)]
    return CohortTable(cohort, person, *dates)


def counted(db, people, stop=30, span=30):
    found = challenge_counts(db, [Challenge(TARGET, OUTCOME, stop, span)], table(people))
    assert len(found) == 1
    return found.iloc[0]


@pytest.mark.parametrize(
    ("eras", "outcomes", "cases", "expected"),
    [
        ([(10, 50)], [10], 0, (0, 0, 0, 0, 0, 0)),  # On the first day, not during the era.
        ([(10, 50)], [11], 1, (0, 0, 0, 0, 0, 0)),  # The era goes on for 39 days.
        ([(10, 50)], [19], 1, (0, 0, 0, 0, 0, 0)),
        ([(10, 50)], [20], 1, (1, 1, 0, 0, 0, 0)),  # It ends 30 days later, just soon enough.
        ([(10, 50)], [50], 1, (1, 1, 0, 0, 0, 0)),  # On the last day.
        ([(10, 50)], [51], 0, (0, 0, 0, 0, 0, 0)),
        ([(10, 50)], [40, 45], 2, (1, 1, 0, 0, 0, 0)),  # Two cases of one person.
        ([(10, 50)], [40, 51], 1, (1, 0, 1, 0, 0, 0)),
        ([(10, 50)], [40, 80], 1, (1, 0, 1, 0, 0, 0)),  # On the last day of the window.
        ([(10, 50)], [40, 81], 1, (1, 1, 0, 0, 0, 0)),
        ([(10, 50), (80, 90)], [40], 1, (1, 1, 0, 0, 0, 0)),  # Within the window.
        ([(10, 50), (81, 90)], [40], 1, (1, 1, 0, 1, 1, 0)),
        ([(10, 50), (81, 90)], [40, 81], 1, (1, 1, 0, 1, 1, 0)),  # On its first day.
        ([(10, 50), (81, 90)], [40, 82], 2, (1, 1, 0, 1, 0, 1)),
        ([(10, 50), (81, 90)], [40, 90], 2, (1, 1, 0, 1, 0, 1)),
        ([(10, 50), (81, 90)], [40, 91], 1, (1, 1, 0, 1, 1, 0)),
        ([(10, 50), (90, 99)], [40, 60, 95], 2, (1, 0, 1, 0, 0, 0)),  # None after a failure.
        # The second rechallenge fails.
        ([(10, 50), (90, 99), (200, 210)], [40, 205], 2, (1, 1, 0, 1, 0, 1)),
        # One dechallenge fails and another does not: the person counts as a failure only.
        ([(10, 50), (200, 210)], [40, 60, 205], 2, (1, 0, 1, 0, 0, 0)),
        # The one that does not fail is followed by a rechallenge, of the same person.
        ([(10, 50), (200, 210), (300, 310)], [40, 60, 205], 2, (1, 0, 1, 1, 1, 0)),
        ([(10, 50)], [5, 500], 0, (0, 0, 0, 0, 0, 0)),
    ],
)
def test_eras_and_outcomes_of_one_person(db, eras, outcomes, cases, expected):
    found = counted(db, [(eras, outcomes)])
    assert found["num_exposure_eras"] == len(eras)
    assert found["num_persons_exposed"] == 1
    assert found["num_cases"] == cases
    assert tuple(found[PEOPLE]) == expected


def test_days_of_zero(db):
    people = [([(10, 50), (51, 60)], [50])]
    assert tuple(counted(db, people, 0, 0)[PEOPLE]) == (1, 1, 0, 1, 1, 0)
    assert tuple(counted(db, people, 0, 1)[PEOPLE]) == (1, 1, 0, 0, 0, 0)
    assert counted(db, [([(10, 50)], [49])], 0, 0)["dechallenge_attempt"] == 0


def enumerated(people, stop, span):
    """Count by all pairs of eras and outcomes of each person."""
    found = np.zeros((len(people), 4), bool)
    cases = 0
    for k, (eras, days) in enumerate(people):
        for first, last in eras:
            during = [d for d in days if first < d <= last]
            cases += len(during)
            if not any(last <= d + stop for d in during):
                continue
            found[k, 0] = True
            if any(last < d <= last + span for d in days):
                found[k, 1] = True
                continue
            for start, end in eras:
                if start > last + span:
                    found[k, 2] = True
                    found[k, 3] |= any(start < d <= end for d in days)
    attempt, fail, again, failed = found.sum(0)
    return cases, (attempt, attempt - fail, fail, again, again - failed, failed)


@pytest.mark.parametrize(("stop", "span"), [(30, 30), (10, 45), (60, 5)])
def test_counts_of_many_people_are_those_of_an_enumeration(db, stop, span):
    rng = np.random.default_rng(stop + span)
    people = []
    for _ in range(KNOWN):
        starts = np.unique(rng.integers(0, 400, rng.integers(1, 5)))
        eras = [(int(s), int(s + rng.integers(0, 80))) for s in starts]
        people.append((eras, np.unique(rng.integers(0, 450, rng.integers(0, 15))).tolist()))
    cases, expected = enumerated(people, stop, span)
    found = counted(db, people, stop, span)
    assert found["num_cases"] == cases
    assert tuple(found[PEOPLE]) == expected
    assert min(expected) > 10


def test_pairs_without_cases_have_zeros_and_those_without_entries_no_row(db):
    asked = [Challenge(TARGET, OUTCOME, 30, 30), Challenge(2, OUTCOME, 30, 30)]
    found = challenge_counts(db, asked, table([([(10, 50)], []), ([], [40])]))
    assert found[["target_cohort_definition_id", "num_cases"]].to_numpy().tolist() == [[TARGET, 0]]
    assert (found[PEOPLE] == 0).all(axis=None)


def test_released_counts_are_rounded_and_shares_follow_from_them(db):
    people = [([(10, 50), (90, 99)], [40, 60])] * 3  # Failed dechallenges of three people.
    people += [([(10, 50), (90, 99)], [40, 95])] * 11
    people += [([(10, 50), (90, 99)], [40])] * 9
    exact = challenge_counts(db, [Challenge(TARGET, OUTCOME, 30, 30)], table(people))
    assert exact[PEOPLE].to_numpy().tolist() == [[23, 20, 3, 20, 9, 11]]
    assert exact[["num_cases", "case_persons"]].to_numpy().tolist() == [[34, 23]]
    found = released_challenges(exact, DisclosureRules("ohdsi", 5), "x").iloc[0]
    assert found[PEOPLE].tolist() == [25, 20, -5, 20, 10, 10]
    assert found[["num_exposure_eras", "num_persons_exposed", "num_cases"]].tolist() == [45, 25, 35]
    assert found["pct_dechallenge_attempt"] == 25 / 35
    assert found["pct_rechallenge_success"] == found["pct_rechallenge_fail"] == 0.5
    assert pd.isna(found["pct_dechallenge_fail"])
    assert "case_persons" not in found
    shown = released_challenges(exact, DisclosureRules("none", 0), "x").iloc[0]
    assert shown[PEOPLE].tolist() == exact[PEOPLE].iloc[0].tolist()
    assert shown["pct_dechallenge_fail"] == pytest.approx(3 / 23)


def test_many_cases_of_few_people_are_withheld(db):
    people = [([(10, 50)], [*range(20, 50)])] * 2
    exact = challenge_counts(db, [Challenge(TARGET, OUTCOME, 30, 30)], table(people))
    assert exact["num_cases"].tolist() == [60]
    found = released_challenges(exact, DisclosureRules("ohdsi", 5), "x").iloc[0]
    assert found["num_cases"] == found["num_exposure_eras"] == found["dechallenge_attempt"] == -5
    assert pd.isna(found[[f"pct_{name}" for name in PEOPLE]]).all()


def settings(**changes):
    given = {
        "targetCohortDefinitionIds": [1, 2], "outcomeCohortDefinitionIds": 3,
        "dechallengeStopInterval": 30, "dechallengeEvaluationWindow": 31,
        "attr_class": "dechallengeRechallengeSettings",
    }  # fmt: skip
    return {"analysis": {"dechallengeRechallengeSettings": [{**given, **changes}]}}


def test_settings_are_read_with_a_difference_about_single_people():
    found = characterization_plan(settings(), ("settings",), COHORTS)
    assert found.challenges == (Challenge(1, 3, 30, 31), Challenge(2, 3, 30, 31))
    [line] = [v.line() for v in found.verdicts]
    assert line.startswith("dechallenge and rechallenge 1: runs with a difference: c_rechallenge")
    assert found.without({2: "gone"}).challenges == (Challenge(1, 3, 30, 31),)
    assert found.without({3: "gone"}).challenges == ()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"dechallengeStopInterval": -1}, "dechallengeStopInterval is -1; it must not be negative"),
        ({"another": 1}, "dechallengeRechallengeSettings[0].another is not known"),
    ],
)
def test_invalid_settings_are_named_and_do_not_run(changes, why):
    found = characterization_plan(settings(**changes), ("settings",), COHORTS)
    assert found.challenges == ()
    [verdict] = found.verdicts
    assert why in verdict.line()
    assert "does not run" in verdict.line()
