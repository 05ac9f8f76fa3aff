"""Ages are in completed years, from birthday to birthday, unless R's rule is asked for."""

import datetime as dt

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, day
from tests.studies.new_users import covariates

from steropes.designs.values.dates_and_ages import birthday
from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable, ComparisonRules, compare_cohorts
from steropes.studies.comparative.cohort_method_presets import cohort_method
from steropes.studies.database.age_sql import age_sql, birthday_sql
from steropes.studies.sccs import CaseRules
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_sources import EraSources

OPEN = {"washout_days": 0, "common_period": False}


def completed(born, on):
    """The age by the definition: a year less where the birthday is still to come."""
    return on.year - born.year - ((on.month, on.day) < (born.month, born.day))


def born_on(path, births):
    """Give people their dates of birth; None is a month or day that is not recorded."""
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE person ADD COLUMN month_of_birth BIGINT")
        con.execute("ALTER TABLE person ADD COLUMN day_of_birth BIGINT")
        for person, (year, month, day_) in births.items():
            con.execute(
                "UPDATE person SET year_of_birth = $1, month_of_birth = $2, day_of_birth = $3 "
                "WHERE person_id = $4",
                [year, month, day_, person],
            )
    return path


def kept(path, people, start, **rules):
    """Which of the people may start on a day of the calendar, by the rules of ages."""
    with OmopDatabase(path) as db:
        return kept_in(db, people, start, **rules)


def kept_in(db, people, start, **rules):
    """The same in a database that is open."""
    day_ = np.datetime64(start)
    arms = [1 if k else 2 for k in range(len(people))]
    cohorts = CohortTable(arms, people, [day_] * len(people), [day_] * len(people))
    found = compare_cohorts(db, cohorts, 1, 2, ComparisonRules(**OPEN, **rules))
    return sorted(found.entries["person_id"])


def always_observed(omop, n):
    people = [omop.person(observed=None) for _ in range(n)]
    for person in people:
        omop.rows["observation_period"].append((person, dt.date(1950, 1, 1), dt.date(2030, 1, 1)))
    return people


@pytest.mark.slow
def test_people_are_18_on_their_18th_birthday_and_not_before(omop):
    people = always_observed(omop, 28)
    births = {p: (1985 + k % 20, 1 + k % 12, 1 + k) for k, p in enumerate(people)}
    path = born_on(omop.write(), births)
    with OmopDatabase(path) as db:
        for year, month, on in births.values():
            birth = dt.date(year, month, on)
            for start in (birth.replace(year=year + 18), birth.replace(year=year + 18, day=1)):
                expected = [p for p in people if completed(dt.date(*births[p]), start) >= 18]
                assert kept_in(db, people, start, min_age=18) == expected
                older = [p for p in people if 0 <= completed(dt.date(*births[p]), start) <= 17]
                assert kept_in(db, people, start, max_age=17) == older


def test_who_was_born_on_a_29th_of_february_is_a_year_older_on_the_1st_of_march(omop):
    people = always_observed(omop, 2)
    path = born_on(omop.write(), {people[0]: (1992, 2, 29), people[1]: (1992, 2, 28)})
    assert kept(path, people, dt.date(2010, 2, 28), min_age=18) == people[1:]
    assert kept(path, people, dt.date(2010, 3, 1), min_age=18) == people
    assert kept(path, people, dt.date(2012, 2, 28), min_age=20) == people[1:]
    assert kept(path, people, dt.date(2012, 2, 29), min_age=20) == people


def test_who_has_only_a_year_of_birth_is_born_on_the_1st_of_january(omop):
    people = always_observed(omop, 2)
    path = born_on(omop.write(), {people[0]: (1992, None, None), people[1]: (1992, 6, None)})
    assert kept(path, people, dt.date(2009, 12, 31), min_age=18) == []
    assert kept(path, people, dt.date(2010, 1, 1), min_age=18) == people[:1]
    assert kept(path, people, dt.date(2010, 6, 1), min_age=18) == people


def test_r_completes_a_year_after_365_25_days_and_only_its_preset_does_so(omop):
    people = always_observed(omop, 2)
    path = born_on(omop.write(), {people[0]: (1991, 6, 15), people[1]: (1992, 6, 15)})
    on = dt.date(2009, 6, 15)  # 6575 days, of which 18 years of R have 6574.5
    assert kept(path, people, on, min_age=18) == people[:1]
    assert kept(path, people, on, min_age=18, age_rule="365.25 days") == people[:1]
    on = dt.date(2010, 6, 15)  # 6574 days
    assert kept(path, people, on, min_age=18) == people
    assert kept(path, people, on, min_age=18, age_rule="365.25 days") == people[:1]
    assert ComparisonRules().age_rule == CaseRules(1).age_rule == "birthdays"
    assert cohort_method().cohorts.age_rule == "365.25 days"
    given = ComparisonRules(min_age=18)
    assert cohort_method(cohorts=given).cohorts == ComparisonRules(
        min_age=18, age_rule="365.25 days"
    )
    for made in (ComparisonRules, lambda **k: CaseRules(1, **k)):
        with pytest.raises(DataError, match="age_rule must be"):
            made(age_rule="days")


def cases(path, **rules):
    with OmopDatabase(path) as db, db.workspace() as work:
        asked = CaseRules(OUTCOME, **rules)
        found = find_cases(db, work, asked, EraSources(db, work, asked, None))
    first = found.observed.astype("datetime64[D]")
    return list(zip((first + found.start).tolist(), (first + found.end).tolist(), strict=True))


def test_time_of_a_case_series_begins_and_ends_on_birthdays(omop):
    person = omop.person(observed=(-3000, 3000))
    for offset in range(-2900, 3000, 50):
        omop.condition(person, OUTCOME, offset)
    path = omop.write()
    for birth in ((1992, 2, 29), (1990, 12, 31), (1991, 6, 15), (1992, None, None)):
        born_on(path, {person: birth}) if birth == (1992, 2, 29) else reborn(path, person, birth)
        born = dt.date(birth[0], birth[1] or 1, birth[2] or 1)
        [(start, end)] = cases(path, min_age=17, max_age=18)
        assert (completed(born, start), completed(born, start - dt.timedelta(1))) == (17, 16)
        assert (completed(born, end), completed(born, end + dt.timedelta(1))) == (18, 19)
    [(start, end)] = cases(path, min_age=17, max_age=18, age_rule="365.25 days")
    assert start == dt.date(1992, 1, 1) + dt.timedelta(round(17 * 365.25))
    assert end == dt.date(1992, 1, 1) + dt.timedelta(round(19 * 365.25) - 1)


def reborn(path, person, birth):
    with duckdb.connect(str(path)) as con:
        con.execute(
            "UPDATE person SET year_of_birth = $1, month_of_birth = $2, day_of_birth = $3 "
            "WHERE person_id = $4",
            [*birth, person],
        )


@pytest.mark.parametrize("year", [0, -5, 10_000, 99_999_999])
def test_a_year_of_birth_that_there_is_not_is_refused(omop, year):
    [person] = always_observed(omop, 1)
    path = born_on(omop.write(), {person: (year, None, None)})
    with pytest.raises(DataError, match="person: year_of_birth lies outside the years 1 to 9999"):
        kept(path, [person], dt.date(2010, 1, 1), min_age=18)


def test_birthdays_and_ages_are_the_same_in_sql_and_in_arrays():
    born = np.arange("1991-12-25", "1993-01-05", dtype="datetime64[D]")
    on = np.arange("2009-12-20", "2013-01-10", 7, dtype="datetime64[D]")
    with duckdb.connect() as con:
        for years in (0, 1, 18, 100):
            sql = birthday_sql("born", years)
            [days] = zip(
                *con.execute(
                    f"SELECT {sql} FROM unnest($1::DATE[]) t(born)", [born.tolist()]
                ).fetchall(),
                strict=True,
            )
            assert birthday(born, years).tolist() == list(days)
        of = "unnest($1::DATE[]) t(born), unnest($2::DATE[]) s(d)"
        sql = f"SELECT born, d, {age_sql('born', 'd')} FROM {of}"
        for birth, day_, age in con.execute(sql, [born.tolist(), on.tolist()]).fetchall():
            assert age == completed(birth, day_)


def test_covariates_count_completed_years_on_the_birthday(omop):
    start = np.datetime64(day(0)).astype(object)  # the index date of everybody
    eve = start + dt.timedelta(1)
    births = {}
    for k, arm in enumerate(("target", "comparator", "target", "comparator")):
        born = (start, eve, start, eve)[k]
        births[omop.person(**{arm: 0})] = (born.year - 40, born.month, born.day)
    with OmopDatabase(born_on(omop.write(), births)) as db:
        found = covariates(db)
    counts = found.columns.set_index("name")["people"].filter(like="age group: ").to_dict()
    assert counts in ({"age group: 35-39": 2}, {"age group: 40-44": 2})
    dropped = found.dropped.set_index("domain").loc["age"]
    assert (dropped["kept"], dropped["redundant"]) == (1, 1)
