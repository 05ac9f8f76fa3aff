"""One test for each rule of the new-user cohort, each on a database of a few people."""

import numpy as np
import pytest
from tests.studies.new_users import new_users

from steropes.errors import DataError
from steropes.studies import OmopDatabase

TARGET, COMPARATOR, OUTCOME = 1, 2, 3


def build(omop, *, others=True, **rules):
    """The cohort; two people who pass every rule keep both arms alive (ids after the test's)."""
    if others:
        omop.person(target=0)
        omop.person(comparator=0)
    with OmopDatabase(omop.write()) as db:
        return new_users(db, **rules)


def kept(cohort, person_id):
    return person_id in set(cohort.people["person_id"])


def row_of(cohort, person_id):
    return cohort.people.set_index("person_id").loc[person_id]


def dropped(cohort, arm, rule):
    """People dropped in an arm by the rule whose text holds the words."""
    line = cohort.attrition[cohort.attrition["rule"].str.contains(rule)]
    assert len(line) == 1
    return int(line[f"{arm}_dropped"].iloc[0])


def test_the_arm_is_the_drug_begun_first(omop):
    switcher = omop.person(target=0, comparator=40)
    other = omop.person(comparator=0, target=40)
    cohort = build(omop)
    assert row_of(cohort, switcher)["treated"] == 1
    assert row_of(cohort, other)["treated"] == 0
    assert (cohort.people["person_id"] == switcher).sum() == 1
    assert dropped(cohort, "target", "Keep first") == 1
    assert dropped(cohort, "comparator", "Keep first") == 1


def test_the_start_is_the_first_era(omop):
    person = omop.person(target=0)
    omop.drug(person, TARGET, 100)
    omop.drug(person, TARGET, -50)
    cohort = build(omop)
    assert str(row_of(cohort, person)["start"].date()) == "2010-04-26"  # day -50


def test_both_drugs_on_one_day_is_neither_arm(omop):
    both = omop.person(target=0, comparator=0)
    cohort = build(omop)
    assert not kept(cohort, both)
    assert dropped(cohort, "target", "Keep first") == 1
    assert dropped(cohort, "comparator", "Keep first") == 1


def test_start_must_be_observed(omop):
    never = omop.person(target=0, observed=None)
    later = omop.person(target=0, observed=(1, 900))
    earlier = omop.person(comparator=0, observed=(-900, -1))
    cohort = build(omop)
    assert not any(kept(cohort, p) for p in (never, later, earlier))
    assert dropped(cohort, "target", "observation") == 2
    assert dropped(cohort, "comparator", "observation") == 1


def test_washout_of_365_days_is_enough_and_364_is_not(omop):
    enough = omop.person(target=0, observed=(-365, 500))
    short = omop.person(target=0, observed=(-364, 500))
    cohort = build(omop)
    assert kept(cohort, enough)
    assert not kept(cohort, short)
    assert dropped(cohort, "target", "365 days of prior observation") == 1


def test_washout_counts_only_the_period_that_holds_the_start(omop):
    person = omop.person(target=0, observed=(-100, 500))
    omop.observed(person, -2000, -102)
    assert not kept(build(omop), person)


def test_washout_can_be_changed(omop):
    person = omop.person(target=0, observed=(0, 500))
    cohort = build(omop, washout_days=0)
    assert kept(cohort, person)
    assert cohort.attrition["rule"].str.contains("prior observation").any() == 0


@pytest.mark.parametrize("on", [-5000, -1, 0])
def test_an_outcome_up_to_and_on_the_start_excludes(omop, on):
    person = omop.person(target=0, outcome=on)
    cohort = build(omop)
    assert not kept(cohort, person)
    assert dropped(cohort, "target", "No prior outcome") == 1


def test_an_outcome_the_day_after_the_start_is_an_event_at_time_1(omop):
    person = omop.person(target=0, outcome=1)
    row = row_of(build(omop), person)
    assert (row["event"], row["time"]) == (1, 1)


def test_the_first_outcome_counts(omop):
    person = omop.person(target=0, outcome=300)
    omop.condition(person, OUTCOME, 20)
    row = row_of(build(omop), person)
    assert (row["event"], row["time"]) == (1, 20)


def test_time_at_risk_ends_with_observation(omop):
    on_last_day = omop.person(target=0, outcome=80, observed=(-400, 80))
    after = omop.person(target=0, outcome=81, observed=(-400, 80))
    cohort = build(omop)
    assert (row_of(cohort, on_last_day)["event"], row_of(cohort, on_last_day)["time"]) == (1, 80)
    assert (row_of(cohort, after)["event"], row_of(cohort, after)["time"]) == (0, 80)


def test_time_at_risk_ends_after_risk_days(omop):
    in_time = omop.person(target=0, outcome=30)
    late = omop.person(target=0, outcome=31)
    leaves = omop.person(target=0, observed=(-400, 12))
    cohort = build(omop, risk_days=30)
    assert (row_of(cohort, in_time)["event"], row_of(cohort, in_time)["time"]) == (1, 30)
    assert (row_of(cohort, late)["event"], row_of(cohort, late)["time"]) == (0, 30)
    assert (row_of(cohort, leaves)["event"], row_of(cohort, leaves)["time"]) == (0, 12)


def test_no_time_at_risk_is_dropped_and_shown(omop):
    person = omop.person(comparator=0, observed=(-400, 0))
    cohort = build(omop)
    assert not kept(cohort, person)
    assert dropped(cohort, "comparator", "at least 1 day at risk") == 1
    assert (cohort.people["time"] > 0).all()


def test_an_era_without_a_start_is_no_exposure(omop):
    person = omop.person()
    omop.rows["drug_era"].append((person, TARGET, None, None))
    assert not kept(build(omop), person)


def test_attrition_adds_up(omop):
    for arm in ("target", "comparator"):
        omop.person(**{arm: 0}, observed=None)
        omop.person(**{arm: 0}, observed=(-10, 100))
        omop.person(**{arm: 0}, outcome=-3)
    omop.person(target=0, comparator=0)
    cohort = build(omop)
    table = cohort.attrition
    for arm, treated in (("target", 1), ("comparator", 0)):
        left, lost = table[arm].to_numpy(), table[f"{arm}_dropped"].to_numpy()
        assert (left[:-1] - lost[1:] == left[1:]).all()
        assert left[-1] == (cohort.people["treated"] == treated).sum()
        assert left[0] == 5


def test_descendants_count_as_the_concept(omop):
    omop.ancestor(OUTCOME, 33)
    omop.ancestor(TARGET, 11)
    bleeds = omop.person(target=0)
    omop.condition(bleeds, 33, 5)
    class_member = omop.person()
    omop.drug(class_member, 11, 0)
    cohort = build(omop)
    assert row_of(cohort, bleeds)["event"] == 1
    assert row_of(cohort, class_member)["treated"] == 1


def test_descendants_can_be_left_out(omop):
    omop.ancestor(OUTCOME, 33)
    bleeds = omop.person(target=0)
    omop.condition(bleeds, 33, 5)
    assert row_of(build(omop, descendants=False), bleeds)["event"] == 0


def test_people_come_ordered_by_id(omop):
    for i in range(20):
        omop.person(**{("target", "comparator")[i % 2]: 0})
    people = build(omop).people
    assert np.array_equal(people["person_id"], np.sort(people["person_id"]))


def test_overlapping_drugs_are_refused(omop):
    omop.ancestor(TARGET, COMPARATOR)
    with pytest.raises(DataError, match="overlap: both hold concept 2"):
        build(omop)


def test_an_unknown_concept_is_refused(omop):
    path = omop.write()
    with OmopDatabase(path) as db, pytest.raises(DataError, match="concept 99 is unknown"):
        new_users(db, TARGET, 99)


def test_a_drug_nobody_took_is_refused(omop):
    omop.person(target=0)
    with pytest.raises(DataError, match=r"nobody has a drug era of the comparator 2 \(olddrug\)"):
        build(omop, others=False)


def test_an_empty_arm_is_refused_with_the_rule_that_emptied_it(omop):
    omop.person(target=0)
    omop.person(comparator=0, outcome=-1)
    with pytest.raises(DataError, match=r"comparator arm.*No prior outcome"):
        build(omop, others=False)


@pytest.mark.parametrize(
    ("rules", "words"), [({"washout_days": -1}, "washout_days"), ({"risk_days": 0}, "risk_days")]
)
def test_impossible_rules_are_refused(omop, rules, words):
    with pytest.raises(DataError, match=words):
        build(omop, **rules)


def test_upper_case_columns_and_another_schema_work(omop):
    omop.person(target=0)
    omop.person(comparator=0)
    path = omop.write(upper=True, schema="cdm_2020")
    with OmopDatabase(path, schema="CDM_2020") as db:
        assert len(new_users(db)) == 2


def test_a_database_without_concept_ancestor_works_with_concepts_alone(omop):
    omop.person(target=0)
    omop.person(comparator=0)
    with OmopDatabase(omop.write(without=("concept_ancestor",))) as db:
        assert len(new_users(db, descendants=False)) == 2


def test_two_cohorts_in_one_session_do_not_mix(omop):
    omop.person(target=0, outcome=50)
    omop.person(comparator=0)
    with OmopDatabase(omop.write()) as db:
        first = new_users(db)
        swapped = new_users(db, COMPARATOR, TARGET, risk_days=10)
    assert first.people["treated"].tolist() == [1, 0]
    assert first.people["event"].tolist() == [1, 0]
    assert swapped.people["treated"].tolist() == [0, 1]
    assert swapped.people["event"].tolist() == [0, 0]
