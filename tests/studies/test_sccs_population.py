"""Who is a case: each rule on a database made by hand; and what is refused, by name."""

import datetime as dt

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, TARGET, day

from steropes import DataError
from steropes.studies import OmopDatabase, case_series, case_series_settings
from steropes.studies.cohorts import CohortTable
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.specification.case_series_settings import CaseRules, Spline


def found(path, cohorts=None, **rules):
    rules = CaseRules(OUTCOME, **rules)
    with OmopDatabase(path) as db, db.workspace() as work:
        return find_cases(db, work, rules, EraSources(db, work, rules, cohorts))


def counts(population):
    return population.attrition[["subjects", "events", "periods", "days"]].to_numpy().tolist()


def test_a_case_is_an_observation_period_with_an_outcome(omop):
    omop.person(outcome=5, observed=(0, 9))
    omop.person(outcome=50, observed=(0, 9))  # outside
    omop.person(observed=(0, 9))  # no outcome
    both = omop.person(outcome=3, observed=(0, 9))
    omop.observed(both, 20, 24)
    omop.condition(both, OUTCOME, 22)
    omop.condition(both, OUTCOME, 22)  # twice on a day is once
    p = found(omop.write())
    assert p.person.tolist() == [1, 4, 4]
    assert p.end.tolist() == [9, 9, 4]
    assert (p.outcome_case.tolist(), p.outcome_day.tolist()) == ([0, 1, 2], [5, 3, 2])
    assert counts(p) == [[2, 3, 3, 25]]
    assert p.prevalence == 2 / 5
    assert p.end_known.tolist() == [False, False, True]
    assert not p.first_only


def test_a_naive_period_drops_days_and_the_outcomes_in_them(omop):
    omop.person(outcome=5, observed=(0, 99))
    omop.person(outcome=40, observed=(0, 99))
    omop.person(outcome=8, observed=(0, 10))  # ends with the naive period
    p = found(omop.write(), naive_days=10)
    assert p.person.tolist() == [2]
    assert p.start.tolist() == [10]
    assert counts(p)[-1] == [1, 1, 1, 90]


def test_only_a_persons_first_outcome_counts_wherever_it_is(omop):
    a = omop.person(outcome=5, observed=(0, 9))
    omop.condition(a, OUTCOME, 8)
    b = omop.person(outcome=-5, observed=(0, 9))  # the first is not observed
    omop.condition(b, OUTCOME, 3)
    p = found(omop.write(), first_outcome_only=True)
    assert p.person.tolist() == [a]
    assert p.outcome_day.tolist() == [5]
    assert p.first_only


def test_age_limits_cut_time_at_birthdays(omop):
    omop.person(outcome=300, observed=(0, 900), born=1980)
    first = (day(0) - dt.date(1980, 1, 1)).days
    p = found(omop.write(), min_age=31, max_age=31)
    assert p.start.tolist() == [round(31 * 365.25) - first]
    assert p.end.tolist() == [round(32 * 365.25) - 1 - first]
    assert p.end_known.tolist() == [True]
    assert len(found(omop.write(), min_age=33)) == 0


def test_a_day_of_birth_that_there_is_not_stops_nobody(omop):
    omop.person(outcome=5, observed=(0, 9), born=1980)
    omop.person(outcome=5, observed=(0, 9), born=1980)
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE person ADD COLUMN month_of_birth BIGINT")
        con.execute("ALTER TABLE person ADD COLUMN day_of_birth BIGINT")
        con.execute("UPDATE person SET month_of_birth = 2, day_of_birth = 30 * (person_id - 1)")
    assert found(path).age.tolist() == [(day(0) - dt.date(1980, 2, 1)).days] * 2


def test_of_a_person_with_two_rows_the_order_has_no_say(omop):
    omop.person(outcome=5, observed=(0, 9), born=1980, sex=8532)
    omop.rows["person"].append((1, 8507, 1970))
    ages = []
    for _ in range(2):
        omop.rows["person"].reverse()
        p = found(omop.write(), sexes=(8507,))
        ages.append(p.age.tolist())
    assert ages == [[(day(0) - dt.date(1970, 1, 1)).days]] * 2


def test_sexes(omop):
    omop.person(outcome=1, sex=8507)
    omop.person(outcome=1, sex=8532)
    assert found(omop.write(), sexes=(8507,)).person.tolist() == [1]


def test_study_periods_split_cases(omop):
    a = omop.person(observed=(0, 99))
    for d in (5, 50, 80):
        omop.condition(a, OUTCOME, d)
    p = found(omop.write(), study_periods=((None, day(9)), (day(70), day(89))))
    assert p.start.tolist() == [0, 70]
    assert p.end.tolist() == [9, 89]
    assert p.outcome_day.tolist() == [5, 80]
    assert p.end_known.all()
    assert p.attrition["rule"].tolist()[1] == "within the study periods"


def test_a_nesting_cohort_keeps_its_spells(omop):
    a = omop.person(observed=(0, 99), outcome=30)
    omop.person(observed=(0, 99), outcome=30)
    spells = CohortTable([7, 7], [a, a], [day(20), day(60)], [day(39), day(69)])
    p = found(omop.write(), spells, nesting_cohort=7)
    assert (p.person.tolist(), p.start.tolist(), p.end.tolist()) == ([a], [20], [39])
    assert p.prevalence == 1 / 2


def test_prevalence_counts_what_study_periods_leave_of_a_nesting_cohort(omop):
    a = omop.person(observed=(0, 99), outcome=30)
    b = omop.person(observed=(0, 99))
    spells = CohortTable(
        [7, 7, 7], [a, b, b], [day(20), day(20), day(60)], [day(39), day(39), day(69)]
    )
    p = found(omop.write(), spells, nesting_cohort=7, study_periods=((None, day(50)),))
    assert p.prevalence == 1 / 2  # the spell from day 60 lies after the study period


def test_time_is_cut_to_when_the_exposure_was_seen_by_anybody(omop):
    omop.person(outcome=30, observed=(0, 99))
    omop.person(target=10, observed=(0, 99))
    other = omop.person(observed=(0, 99))
    omop.drug(other, TARGET, 40, 59)
    p = found(omop.write(), restrict_to_exposure=TARGET)
    assert (p.start.tolist(), p.end.tolist()) == ([10], [59])
    assert p.restricted == (day(10), day(59))


def test_an_end_that_a_rule_sets_has_nothing_to_do_with_the_person(omop):
    """Of all rules alike: it is censored where observation may depend on the event."""
    a = omop.person(observed=(0, 99), outcome=30, born=1970)
    b = omop.person(observed=(0, 40), outcome=30, born=1970)
    omop.drug(omop.person(observed=(0, 200)), TARGET, 0, 59)
    path = omop.write()
    spells = CohortTable([7, 7], [a, b], [day(0)] * 2, [day(59)] * 2)
    for p in (
        found(path, restrict_to_exposure=TARGET),
        found(path, study_periods=((day(0), day(59)),)),
        found(path, spells, nesting_cohort=7),
    ):
        assert (p.end.tolist(), p.end_known.tolist()) == ([59, 40], [True, False])


def test_a_sample_has_the_size_asked_for_and_does_not_follow_the_order(omop):
    for _ in range(40):
        omop.person(outcome=1)
    p, again = found(omop.write(), max_cases=15), found(omop.write(), max_cases=15)
    assert len(p) == 15
    assert p.person.tolist() == again.person.tolist() != list(range(1, 16))
    assert p.person.tolist() != found(omop.write(), max_cases=15, seed=2).person.tolist()


def test_descendants_of_an_outcome_count(omop):
    omop.concept(30, "kind of bleeding")
    omop.ancestor(OUTCOME, 30)
    a = omop.person()
    omop.condition(a, 30, 4)
    path = omop.write()
    assert len(found(path)) == 1
    assert len(found(path, descendants=False)) == 0


# -- refusals --------------------------------------------------------------------------------------


def refused(path, match, **more):
    with pytest.raises(DataError, match=match):
        case_series(path, case_series_settings(OUTCOME, TARGET, **more))


def test_no_cases_are_refused_with_the_rule(omop):
    omop.person(target=3)
    path = omop.write()
    refused(path, r"nobody has the outcome 3 \(bleeding\)")
    omop.person(outcome=3, target=4, observed=(0, 50))
    refused(omop.write(), "after the rule: after 40 days", naive_days=40)


def test_no_exposure_is_refused(omop):
    omop.person(outcome=3)
    refused(omop.write(), r"no case has an era of the exposure 1 \(newdrug\).*nor has anybody else")
    omop.person(target=3)
    refused(omop.write(), "people without the outcome")


def test_eras_outside_of_observation_are_refused(omop):
    omop.person(outcome=3, target=-50, observed=(0, 99))
    refused(omop.write(), "lie outside of the cases' observation")


def test_exposure_that_covers_all_time_is_refused(omop):
    for _ in range(3):
        a = omop.person(outcome=20, observed=(0, 99))
        omop.drug(a, TARGET, -5, 200)
    path = omop.write()
    for probe in (0, 30):  # whose days differ from the others for everybody
        refused(path, "exposure covers all of everybody's time", end_of_observation_days=probe)


def test_exposure_that_changes_within_nobody_is_refused(omop):
    for k in range(12):
        a = omop.person(outcome=20, observed=(0, 99))
        if k < 7:
            omop.drug(a, TARGET, -5, 200)
    omop.drug(a, 2, 20, 40)  # another drug does change
    path = omop.write()
    why = "nobody's exposure changes over time: exposure covers all days that count of 7 cases"
    for more in (
        {"end_of_observation_days": 0}, {}, {"others": True}, {"season": Spline(5)},
        {"control": (-20, -1)},
    ):  # fmt: skip
        refused(path, why + " and none of the other 5", **more)
    study = case_series(path, case_series_settings(OUTCOME, variance=1.0))
    assert study.estimates.loc["drug: newdrug", "log_rr"] == 0  # among drugs that do change


def test_unknown_births_are_refused_where_ages_count(omop):
    omop.person(outcome=3, target=4, born=None)
    refused(omop.write(), "no year_of_birth", min_age=20)


def test_an_unknown_concept_is_refused(omop):
    omop.person(outcome=3, target=4)
    with pytest.raises(DataError, match="concept 987 is unknown"):
        case_series(omop.write(), case_series_settings(OUTCOME, 987))


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"naive_days": -1}, "naive_days"),
        ({"min_age": 40, "max_age": 30}, "below min_age"),
        ({"study_periods": (("2012-01-01", "2011-01-01"),)}, "before it starts"),
        ({"study_periods": ((None, None), ("2012-01-01", None))}, "overlap"),
        ({"risk_end_at": "middle"}, "end_at must be one of"),
        ({"risk_start": 5, "risk_end": 2, "risk_end_at": "start"}, "before it starts"),
        ({"prior": "cauchy"}, "prior must be one of"),
        ({"colour": "red"}, "unknown setting 'colour'"),
        ({"outcomes_from": "cohort"}, "pass cohorts="),
    ],
)
def test_settings_are_refused_by_name(omop, more, match):
    omop.person(outcome=3, target=4)
    path = omop.write()
    with pytest.raises(DataError, match=match):
        case_series(path, case_series_settings(OUTCOME, TARGET, **more))


def test_nobody_shows_in_a_repr(omop):
    omop.person(outcome=3)
    p = found(omop.write())
    assert repr(p) == "Population(<5 cases)"
    assert np.array_equal(p.person, [1])


def test_the_start_of_a_drug_may_be_the_outcome_and_is_then_no_exposure(omop):
    for k in range(6):
        person = omop.person(observed=(0, 300))
        omop.drug(person, TARGET, 40 + k, 70 + k)
        omop.drug(person, 2, 100 + 10 * k, 120 + 10 * k)
    settings = case_series_settings(2, outcomes_from="drug_era", variance=1.0)
    study = case_series(omop.write(), settings)
    assert study.population.outcome_day.tolist() == [100 + 10 * k for k in range(6)]
    assert study.intervals.names == ["drug: newdrug", "end of observation"]
