"""The rules of a comparison and of a time at risk, each by people made for it."""

import datetime as dt

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import day

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import (
    CohortTable,
    ComparisonRules,
    TimeAtRisk,
    compare_cohorts,
    study_population,
)
from steropes.studies.cohorts.two_cohort_entry_rules import PersonData

T, C, OUT, NEST = 1, 2, 3, 4
OPEN = {"both": "keep all", "first_only": False, "washout_days": 0, "common_period": False}


class Study:
    """People with entries in cohorts, observed from day -1000 through day 1000."""

    def __init__(self, omop):
        self.omop, self.rows = omop, []

    def person(self, *entries, **of_person):
        person = self.omop.person(**of_person)
        self.rows += [(c, person, day(a), day(b)) for c, a, b in entries]
        return person

    def cohorts(self, rows=None):
        columns = list(zip(*(self.rows if rows is None else rows), strict=True))
        return CohortTable(*columns)

    def compare(self, shuffle=False, nesting=None, **rules):
        rows = self.rows[::-1] if shuffle else self.rows
        with OmopDatabase(self.omop.write()) as db:
            rules = ComparisonRules(**(OPEN | rules))
            return compare_cohorts(db, self.cohorts(rows), T, C, rules, nesting=nesting)

    def population(self, at_risk, **rules):
        return study_population(self.compare(**rules), self.cohorts(), OUT, at_risk)


@pytest.fixture
def study(omop):
    return Study(omop)


def kept(comparison):
    e = comparison.entries
    return list(zip(e["person_id"], e["treated"], strict=True))


def test_the_four_ways_to_treat_people_in_both_cohorts(study):
    only = study.person((T, 0, 50))
    target_first = study.person((T, 0, 50), (C, 30, 60))
    comparator_first = study.person((C, 0, 20), (T, 30, 60))
    same_day = study.person((T, 0, 20), (C, 0, 20))
    plain = study.person((C, 0, 50))
    everybody = sorted(
        [
            (only, 1),
            (target_first, 1),
            (target_first, 0),
            (comparator_first, 0),
            (comparator_first, 1),
            (same_day, 1),
            (same_day, 0),
            (plain, 0),
        ]
    )
    assert sorted(kept(study.compare(both="keep all"))) == everybody
    assert kept(study.compare(both="remove all")) == [(only, 1), (plain, 0)]
    first = study.compare(both="keep first")
    assert kept(first) == [(only, 1), (target_first, 1), (comparator_first, 0), (plain, 0)]
    assert first.entries["to_end"].tolist() == [50, 50, 20, 50]
    assert first.entries["to_switch"].tolist()[1:3] == [30, 30]
    cut = study.compare(both="keep first, truncate to second")
    assert kept(cut) == kept(first)
    assert cut.entries["to_end"].tolist() == [50, 29, 20, 50]
    assert cut.attrition["target_people"].tolist()[:2] == [4, 2]


def test_entries_of_the_first_cohort_after_the_switch_go_with_truncation(study):
    study.person((T, 0, 5), (C, 10, 20), (T, 30, 40))
    study.person((C, 0, 5))
    assert len(study.compare(both="keep first").entries) == 3
    assert len(study.compare(both="keep first, truncate to second").entries) == 2


def test_only_the_first_entry_in_each_cohort_counts(study):
    person = study.person((T, 40, 50), (T, 0, 5), (C, 100, 110), (C, 60, 70))
    found = study.compare(first_only=True)
    assert kept(found) == [(person, 1), (person, 0)]
    assert found.entries["to_end"].tolist() == [5, 10]
    assert found.attrition.iloc[-2][["target_people", "target_entries"]].tolist() == [1, 1]


def test_washout_counts_days_in_the_period_that_holds_the_start(study):
    long = study.person((T, 0, 5), observed=(-100, 100))
    study.person((T, 0, 5), observed=(-99, 100))
    apart = study.person((T, 0, 5), observed=(-500, -90))
    study.omop.observed(apart, -50, 50)
    study.person((T, 0, 5), observed=None)
    study.person((C, 0, 5))
    found = study.compare(washout_days=100)
    assert kept(found)[0] == (long, 1)
    assert found.attrition["rule"].tolist()[-1] == "100 days of prior observation"
    assert found.attrition["target_people"].tolist() == [4, 1]
    assert found.entries["observed_before"].tolist() == [100, 1000]
    assert len(study.compare().entries) == 4


def test_a_period_without_a_start_holds_no_day_and_hides_no_other(study):
    person = study.person((T, 0, 5), observed=(-100, 100))
    study.omop.rows["observation_period"].append((person, None, day(200)))
    study.person((C, 0, 5))
    assert study.compare(washout_days=100).entries["observed_before"].tolist() == [100, 1000]


def test_the_common_period_is_that_of_all_entries(study):
    study.person((T, 0, 5))
    inside = study.person((T, 20, 25))
    last = study.person((C, 60, 65))
    study.person((C, 10, 15), observed=(10, 100))  # defines the period, though washed out
    study.person((T, 60, 65))
    found = study.compare(common_period=True, washout_days=30)
    assert kept(found) == [(inside, 1), (last, 0), (last + 2, 1)]
    assert found.attrition["target_people"].tolist() == [3, 3, 2]


def test_age_counts_completed_years_and_both_limits(study):
    young, old, older = (study.person((T, 0, 5), born=2010 - n) for n in (17, 40, 41))
    study.person((C, 0, 5), born=1990)
    found = study.compare(min_age=18, max_age=40)
    assert kept(found)[0] == (old, 1)
    assert found.attrition["rule"].iloc[-1] == "From 18 to 40 years old"
    assert {young, older}.isdisjoint(found.entries["person_id"])


def test_a_month_or_day_of_birth_that_there_is_not_is_the_first(study):
    # 0 for unknown, the 30th of February, and a 29th that this year has not
    births = ((0, 0), (2, 30), (2, 29), (13, 40), (None, 7), (6, 16), (6, 15))
    people = [study.person((T, 0, 5), born=1950) for _ in births]
    study.person((C, 0, 5), born=1950)
    path = study.omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE person ADD COLUMN month_of_birth BIGINT")
        con.execute("ALTER TABLE person ADD COLUMN day_of_birth BIGINT")
        for person, (month, on) in zip(people, births, strict=True):
            con.execute(
                "UPDATE person SET month_of_birth = $1, day_of_birth = $2 WHERE person_id = $3",
                [month, on, person],
            )
    with OmopDatabase(path) as db:
        born, _ = PersonData(db, np.array(people)).birth(np.array(people))
        found = compare_cohorts(db, study.cohorts(), T, C, ComparisonRules(**OPEN, min_age=60))
    dates = born.astype(int).astype("datetime64[D]").astype(str).tolist()
    assert [d[5:] for d in dates] == [
        *("01-01", "02-01", "02-01", "01-01", "01-07", "06-16", "06-15")
    ]
    assert people[5] not in set(found.entries["person_id"])
    assert {*people[:5], people[6]} <= set(found.entries["person_id"])


def test_sexes_study_dates_and_nesting_restrict(study):
    man = study.person((T, 0, 5), (NEST, 0, 0), sex=8507)
    woman = study.person((T, 10, 15), (NEST, -5, 9))
    late = study.person((T, 60, 90), (NEST, 0, 100))
    study.person((C, 0, 5), (NEST, -5, 0))
    assert kept(study.compare(sexes=(8532,)))[0] == (woman, 1)
    assert kept(study.compare(nesting=NEST)) == [(man, 1), (late, 1), (late + 1, 0)]
    dates = study.compare(study_start=day(1), study_end=day(70))
    assert kept(dates) == [(woman, 1), (late, 1)]
    assert dates.entries["to_end"].tolist() == [5, 10]
    assert dates.entries["to_observation_end"].tolist() == [60, 10]
    with pytest.raises(DataError, match="nesting cohort: cohort 9 has no entries"):
        study.compare(nesting=9)


def test_a_sample_is_of_people_not_of_rows(study):
    for _ in range(30):
        study.person((T, 0, 5))
        study.person((C, 0, 5))
    found = study.compare(max_people=7)
    assert found.attrition.iloc[-1].tolist() == ["Random sample", 7, 7, 7, 7]
    assert kept(study.compare(max_people=7, shuffle=True)) == kept(found)
    assert kept(study.compare(max_people=7, seed=2)) != kept(found)


def on_treatment(**settings):
    """The time in the cohort, from the first day on, as in R's CohortMethod."""
    return TimeAtRisk(**{"start": 0, "end_anchor": "cohort end", **settings})


def test_by_default_people_are_at_risk_from_the_day_after_to_the_end_of_observation(study):
    study.person((T, 0, 20), (OUT, 40, 40))
    study.person((T, 0, 20), (OUT, 0, 0))
    study.person((C, 0, 20), (OUT, 1, 1))
    people = study.population(TimeAtRisk()).people
    assert people[["risk_start", "risk_end"]].to_numpy().tolist() == [[1, 1000]] * 2
    assert people[["time", "event"]].to_numpy().tolist() == [[40, 1], [1, 1]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("at_risk", "risk"),
    [
        ({}, (0, 20)),
        ({"day_zero": False}, (1, 20)),
        ({"end": 30}, (0, 50)),
        ({"start": 1, "end": 99, "end_anchor": "cohort start"}, (1, 99)),
        ({"start": 1, "start_anchor": "cohort end", "end": 9}, (21, 29)),
        ({"start": 1, "end_anchor": "observation end"}, (1, 1000)),
        ({"start": 1, "end": -9, "end_anchor": "observation end"}, (1, 991)),
        ({"end": 5000}, (0, 1000)),
        ({"end": 30, "max_days": 7}, (0, 6)),
    ],
)
def test_time_at_risk_runs_between_its_anchors_and_ends_with_observation(study, at_risk, risk):
    study.person((T, 0, 20))
    study.person((C, 0, 20))
    people = study.population(on_treatment(**at_risk)).people
    assert people[["risk_start", "risk_end"]].to_numpy().tolist() == [list(risk)] * 2
    assert people["days_at_risk"].tolist() == people["time"].tolist() == [risk[1] - risk[0] + 1] * 2


def test_the_first_outcome_at_risk_is_the_event_and_each_day_counts_once(study):
    study.person((T, 0, 20), (OUT, 3, 3), (OUT, 3, 9), (OUT, 8, 8), (OUT, 21, 21))
    study.person((C, 0, 20), (OUT, 0, 0))
    study.person((C, 0, 20), (OUT, 20, 20))
    study.person((C, 0, 20), (OUT, 21, 21))
    people = study.population(on_treatment()).people
    assert people["time"].tolist() == [4, 1, 21, 21]
    assert people["event"].tolist() == [1, 1, 1, 0]
    assert people["outcomes"].tolist() == [2, 1, 1, 0]


def test_prior_outcomes_within_the_look_back_and_the_observation_period(study):
    early = study.person((T, 0, 20), (OUT, -30, -30))
    study.person((T, 0, 20), (OUT, -29, -29))
    before = study.person((T, 0, 20), (OUT, -200, -200), observed=(-100, 100))
    on_day_zero = study.person((T, 0, 20), (OUT, 0, 0))
    study.person((C, 0, 20))
    population = study.population(on_treatment(look_back=30))
    assert population.people["person_id"].tolist()[:3] == [early, before, on_day_zero]
    assert population.attrition["rule"].tolist()[-2:] == [
        "No prior outcome",
        "Have at least 1 day at risk",
    ]
    within_the_period = on_treatment(look_back=99_999)
    assert before in study.population(within_the_period).people["person_id"].tolist()
    assert len(study.population(within_the_period).people) == 3
    ever = study.population(on_treatment())
    assert ever.people["person_id"].tolist()[0] == on_day_zero
    assert len(ever.people) == 2
    assert len(study.population(on_treatment(remove_prior=False)).people) == 5
    without_zero = study.population(on_treatment(look_back=30, day_zero=False))
    assert on_day_zero not in without_zero.people["person_id"].tolist()


def test_censoring_at_the_next_window_and_at_a_switch(study):
    study.person((T, 0, 10), (T, 20, 30), (C, 25, 40))
    study.person((C, 0, 10))
    to_end = {"end": 15}
    free = study.population(on_treatment(**to_end)).people
    assert free["risk_end"].tolist() == [25, 25, 30, 25]
    window = study.population(on_treatment(**to_end, censor_at_new_window=True)).people
    assert window["risk_end"].tolist() == [19, 4, 30, 25]
    switch = study.population(on_treatment(**to_end, censor_at_switch=True)).people
    assert switch["risk_end"].tolist() == [24, 4, 30, 25]


def test_people_born_and_treated_before_1970_are_people_too(study):
    study.person((T, -20000, -19990), (T, -19980, -19970), observed=(-21000, 0), born=1940)
    study.person((C, -20000, -19990), observed=(-21000, 0), born=1940)
    people = study.population(on_treatment(end=30, censor_at_new_window=True)).people
    assert people["risk_end"].tolist() == [19, 40, 40]


def test_the_minimum_of_days_counts_both_ends(study):
    study.person((T, 0, 4))
    study.person((C, 0, 5))
    people = study.population(on_treatment(min_days=6)).people
    assert people["treated"].tolist() == [0]


def test_without_a_minimum_of_days_those_who_have_none_are_counted_too(study):
    study.person((T, 0, 0))
    study.person((T, 0, 9))
    study.person((C, 0, 9))
    population = study.population(on_treatment(start=1, min_days=0))
    last = population.attrition.iloc[-1]
    assert last["rule"] == "Have a day at risk"
    assert last["target_entries"] == int((population.people["treated"] == 1).sum()) == 1


def test_the_order_of_rows_does_not_matter(study):
    rng = np.random.default_rng(1)
    for _ in range(40):
        study.person(
            *[
                (int(c), int(a), int(a + b))
                for c, a, b in zip(
                    rng.integers(1, 3, 3),
                    rng.integers(0, 300, 3),
                    rng.integers(0, 50, 3),
                    strict=True,
                )
            ]
        )
    for both in ("keep first, truncate to second", "keep first", "remove all", "keep all"):
        one, two = (study.compare(shuffle=s, both=both) for s in (False, True))
        assert one.entries.equals(two.entries)
        assert one.attrition.equals(two.attrition)


def test_an_arm_that_a_rule_empties_is_counted_and_nothing_fails(study):
    study.person((T, 0, 5))
    study.person((C, 0, 5), observed=(0, 100))
    population = study.population(TimeAtRisk(), washout_days=365)
    assert population.attrition["comparator_people"].tolist() == [1, 0, 0, 0]
    assert "people" not in repr(population)
    assert "<5" in repr(population)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"both": "keep second"}, "both must be one of 'keep first, truncate"),
        ({"study_start": dt.date(2010, 1, 2), "study_end": dt.date(2010, 1, 1)}, "lies before"),
        ({"min_age": -1}, "min_age must be a whole number from 0"),
        ({"study_start": "2010-01-01"}, "study_start must be a date"),
    ],
)
def test_rules_that_cannot_be_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        ComparisonRules(**settings)


def test_a_window_that_ends_before_it_begins_is_refused():
    with pytest.raises(DataError, match="ends on day 3, before it begins on day 5"):
        TimeAtRisk(start=5, end=3, end_anchor="cohort start")
    with pytest.raises(DataError, match="nobody is at risk 30 days after the end of observation"):
        TimeAtRisk(end=30)
    with pytest.raises(DataError, match="start_anchor must be one of 'cohort start', 'cohort end'"):
        TimeAtRisk(start_anchor="observation end")


def test_cohorts_of_another_database_are_refused(study):
    study.person((T, 0, 5))
    paths = [study.omop.write(), study.omop.write()]
    with OmopDatabase(paths[0]) as db:
        rows = study.cohorts()
        other = CohortTable(rows.definition, rows.subject, rows.start, rows.end, "elsewhere")
        with pytest.raises(DataError, match="are of the database elsewhere, not of"):
            compare_cohorts(db, other, T, C)
        with pytest.raises(DataError, match="the same cohort, 1"):
            compare_cohorts(db, rows, T, T)


def test_two_cohorts_of_one_connection_do_not_mix(study):
    study.person((T, 0, 5))
    study.person((C, 0, 5))
    rules, path = ComparisonRules(**OPEN), str(study.omop.write())
    with duckdb.connect(path) as con, OmopDatabase(con) as one, OmopDatabase(con) as two:
        first = compare_cohorts(one, study.cohorts(), T, C, rules)
        second = compare_cohorts(two, study.cohorts(), C, T, rules)
    assert first.entries["treated"].tolist() == [1, 0]
    assert second.entries["treated"].tolist() == [0, 1]
