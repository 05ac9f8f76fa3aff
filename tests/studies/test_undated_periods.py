"""People who are lost because an observation period lacks a date have a line in the attrition."""

import datetime as dt

import pytest
from tests.studies.conftest import COMPARATOR, OUTCOME, TARGET, day
from tests.studies.new_users import new_users

from steropes.studies import OmopDatabase
from steropes.studies.cohorts import ComparisonRules, compare_cohorts, drug_era_cohorts
from steropes.studies.database.observation_periods import DATED
from steropes.studies.sccs import CaseRules
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_sources import EraSources

LOST = {
    "no end": (day(-500), None),
    "no start": (None, day(500)),
    "neither": (None, None),
    "reversed": (day(500), day(-500)),
    "reversed by centuries": (day(0), dt.date(1, 1, 1)),
}


def filled(omop, period, others=()):
    """Six people with usable periods, and one whose period (and others) are these."""
    for _ in range(3):
        omop.person(target=0, outcome=50)
        omop.person(comparator=0, outcome=50)
    person = omop.person(target=0, outcome=50, observed=None)
    for first, last in (period, *others):
        omop.rows["observation_period"].append((person, first, last))
    return omop.write()


def lines(path):
    """The attrition of a study of one question, of a grid's comparison and of a case series."""
    with OmopDatabase(path) as db:
        one = new_users(db).attrition[["rule", "target"]]
        cohorts = drug_era_cohorts(db, {1: TARGET, 2: COMPARATOR})
        asked = ComparisonRules(common_period=False)
        grid = compare_cohorts(db, cohorts, 1, 2, asked).attrition[["rule", "target_people"]]
        with db.workspace() as work:
            cases = CaseRules(OUTCOME)
            found = find_cases(db, work, cases, EraSources(db, work, cases, None))
    series = found.attrition[["rule", "subjects"]]
    return [list(t.itertuples(index=False, name=None)) for t in (one, grid, series)]


@pytest.mark.sampled
@pytest.mark.parametrize("period", LOST.values(), ids=LOST)
def test_a_person_whose_period_lacks_a_date_is_lost_in_a_line_of_its_own(omop, period):
    one, grid, series = lines(filled(omop, period))
    for table, before, after in ((one, 4, 3), (grid, 4, 3), (series, 7, 6)):
        at = [rule for rule, _ in table].index(DATED)
        assert table[at - 1][1] == before
        assert {n for _, n in table[at:]} == {after}


@pytest.mark.parametrize(
    ("period", "others"),
    [
        ((day(-500), None), [(day(-500), day(500))]),  # observed all the same
        ((day(20), None), []),  # begins after the start: nothing but the outcome is lost
        ((None, day(-20)), []),
    ],
)
def test_who_is_lost_for_another_reason_is_in_no_such_line(omop, period, others):
    one, grid, series = lines(filled(omop, period, others))
    assert DATED not in [rule for rule, _ in (*one, *grid)]
    in_series = DATED in [rule for rule, _ in series]
    assert in_series == (period[0] == day(20))  # the outcome would be in it


def test_a_database_without_such_periods_has_no_such_line(omop):
    for table in lines(filled(omop, (day(-500), day(500)))):
        assert DATED not in [rule for rule, _ in table]
