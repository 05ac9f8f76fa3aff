"""Which records become columns, who is in them, and which columns are dropped."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.studies.new_users import columns, covariates, key, new_users

from steropes.errors import DataError
from steropes.studies import OmopDatabase, StudySettings

TARGET, COMPARATOR = 1, 2


def extract(omop, **rules):
    """The covariates of the database; by default no column is rare."""
    with OmopDatabase(omop.write()) as db:
        return covariates(db, **rules)


@pytest.fixture
def four(omop):
    """Two people in each arm, ids 1 to 4, rows 0 to 3."""
    for arm in ("target", "comparator", "target", "comparator"):
        omop.person(**{arm: 0})
    return omop


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("table", "domain"),
    [
        ("condition_occurrence", "condition"),
        ("procedure_occurrence", "procedure"),
        ("measurement", "measurement"),
        ("observation", "observation"),
    ],
)
def test_a_record_counts_from_365_days_before_through_the_start(four, table, domain):
    four.concept(70, "thing")
    for person, on in ((1, -366), (2, -365), (3, 0), (4, 1)):
        four.record(table, person, 70, on)
    found = extract(four)
    assert columns(found)[f"{domain}: 70"] == {1, 2}


def test_a_drug_era_counts_if_any_day_of_it_lies_in_the_window(four):
    four.concept(70, "aspirin")
    for person, first, last in ((1, -500, -366), (2, -500, -365), (3, 0, 30), (4, 1, 30)):
        four.drug(person, 70, first, last)
    found = extract(four)
    assert columns(found)["drug: 70"] == {1, 2}


def test_a_drug_era_without_an_end_counts_on_its_first_day(four):
    four.concept(70, "aspirin")
    for person, first in ((1, -366), (2, -365)):
        four.drug(person, 70, first)
        *row, _ = four.rows["drug_era"].pop()
        four.rows["drug_era"].append((*row, None))
    found = extract(four)
    assert columns(found)["drug: 70"] == {1}


def test_the_window_can_be_changed(four):
    four.record("measurement", 1, 70, -31)
    four.record("measurement", 2, 70, -30)
    found = extract(four, window_days=30)
    assert columns(found)["measurement: 70"] == {1}


def test_repeated_records_are_one_entry(four):
    for on in (-5, -5, -4):
        four.record("observation", 1, 70, on)
    found = extract(four)
    assert columns(found)["observation: 70"] == {0}
    assert found.entries == found.columns["people"].sum()


def test_study_drugs_and_their_descendants_are_no_covariates(four):
    four.ancestor(TARGET, 11)
    four.ancestor(COMPARATOR, 21)
    for person, concept in ((1, 11), (2, 21), (3, 70)):
        four.drug(person, concept, 0)
    four.record("procedure_occurrence", 1, 11, 0)  # wherever they are recorded
    found = extract(four)
    assert [*columns(found)] == ["drug: 70"]


def test_excluded_concepts_go_with_their_descendants(four):
    four.concept(70, "thing")
    four.ancestor(70, 71)
    for concept in (70, 71, 72):
        four.condition(1, concept, -1)
    found = extract(four, exclude=(70,))
    assert list(found.columns["concept_id"].dropna()) == [72]


def test_an_unknown_excluded_concept_is_refused(four):
    with pytest.raises(DataError, match="concept 70 is unknown"):
        extract(four, exclude=(70,))


def test_concepts_without_a_name_are_said_to_have_none(four):
    four.concept(70, None)
    four.concept(71, "  ")
    four.concept(8507, None)
    four.condition(1, 70, -1)
    four.condition(1, 71, -1)
    found = extract(four)
    assert [*found.columns["name"]] == ["condition, long term: unnamed concept"] * 2


def test_concept_zero_is_no_covariate(four):
    four.condition(1, 0, -1)
    four.condition(1, 70, -1)
    found = extract(four)
    assert list(found.columns["concept_id"].dropna()) == [70]


def test_age_is_in_five_year_groups_at_the_start(omop):
    # the start is in 2010
    for born, arm in ((1970, "target"), (1966, "comparator"), (1965, "target"), (1971, "target")):
        omop.person(born=born, **{arm: 0})
    found = extract(omop)
    found = {k: v for k, v in columns(found).items() if k.startswith("age group")}
    # the most common of the groups, 40-44, follows from the others
    assert found == {"age group: 35-39": {3}, "age group: 45-49": {2}}


def test_sex_and_index_year(omop):
    omop.person(target=0, sex=8507)
    omop.person(comparator=0, sex=8532)
    omop.person(comparator=-200, sex=0)  # unknown: no column
    found = extract(omop)
    found = columns(found)
    assert found["gender: Male"] == {0}  # one person has neither, so both columns stay
    assert found["gender: Female"] == {1}
    assert found["index year: 2009"] == {2}
    assert "index year: 2010" not in found  # the complement of 2009


def test_of_two_levels_of_everybody_the_more_common_goes(omop):
    for arm, sex in (("target", 8507), ("comparator", 8507), ("target", 8532)):
        omop.person(**{arm: 0}, sex=sex)
    found = extract(omop)
    assert [k for k in columns(found) if k.startswith("gender")] == ["gender: Female"]
    assert found.dropped.set_index("domain").loc["sex", "redundant"] == 1


def test_of_concepts_that_divide_everybody_one_goes(four):
    for person, concept in ((1, 70), (2, 70), (3, 71), (4, 71)):
        four.condition(person, concept, -1)
    found = extract(four)
    assert found.columns["concept_id"].dropna().tolist() == [71]


def test_rare_columns_are_dropped_and_counted(omop):
    for i in range(12):
        omop.person(**{("target", "comparator")[i % 2]: 0})
        if i < 10:
            omop.condition(i + 1, 70, -1)
        if i < 9:
            omop.condition(i + 1, 71, -1)
    found = extract(omop, min_people=10)
    assert list(found.columns["concept_id"].dropna()) == [70]
    counts = found.dropped.set_index("domain")
    assert counts.loc["condition", ["kept", "rare", "redundant"]].tolist() == [1, 1, 0]


def test_rare_is_also_a_share(omop):
    for i in range(20):
        omop.person(**{("target", "comparator")[i % 2]: 0})
        if i < 5:
            omop.condition(i + 1, 70, -1)
        if i < 4:
            omop.condition(i + 1, 71, -1)
    found = extract(omop, min_share=0.25)
    assert list(found.columns["concept_id"].dropna()) == [70]


def test_columns_of_everybody_are_dropped_and_counted(four):
    for person in (1, 2, 3, 4):
        four.condition(person, 70, -1)
    four.condition(1, 71, -1)
    found = extract(four)
    assert [*columns(found)] == ["condition: 71"]
    assert found.dropped["redundant"].sum() == 4  # age, sex, year, condition 70


def test_people_outside_the_cohort_leave_no_trace(four):
    four.person(target=0, outcome=-5)
    four.condition(5, 70, -1)
    four.condition(1, 71, -1)
    found = extract(four)
    assert list(found.columns["concept_id"].dropna()) == [71]


def test_without_any_covariate_the_study_is_refused(four):
    with pytest.raises(DataError, match="no covariate is left"):
        extract(four, min_people=10)


def test_optional_tables_may_be_missing(four):
    four.condition(1, 70, -1)
    path = four.write(without=("measurement", "observation", "procedure_occurrence"))
    with OmopDatabase(path) as db:
        found = covariates(db)
    assert list(found.columns["concept_id"].dropna()) == [70]


def test_columns_are_ordered_by_their_ids(four):
    for person, concept in ((1, 90), (2, 80), (3, 70)):
        four.condition(person, concept, -1)
    four.drug(1, 60, -1)
    table = extract(four).columns
    assert table["covariate_id"].tolist() == [60402, 70102, 80102, 90102]
    assert np.array_equal(table["people"], [1, 1, 1, 1])


def test_extracting_twice_gives_the_same(four):
    four.condition(1, 70, -1)
    with OmopDatabase(four.write()) as db:
        assert columns(covariates(db)) == columns(covariates(db))


@pytest.fixture
def several(omop):
    """Ten people with a condition each that nobody else has, starts on different days."""
    for i in range(10):
        person = omop.person(**{("target", "comparator")[i % 2]: 10 * i}, outcome=300 - 30 * i)
        omop.condition(person, 100 + person, 10 * i - 1)
    return omop


@pytest.mark.slow
def test_cohorts_built_in_threads_do_not_mix(several):
    def work(washout):
        return len(new_users(db, washout_days=washout)), columns(
            covariates(db, washout_days=washout)
        )

    days = [0, 1020, 1040, 1060] * 3
    with OmopDatabase(several.write()) as db:
        alone = [work(d) for d in days[:4]]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(work, days))
    assert len({len(c) for _, c in alone}) > 1
    assert together == alone * 3


def test_rows_are_those_of_the_people_who_are_taken(several):
    with OmopDatabase(several.write()) as db:
        who = new_users(db).people["person_id"].tolist()
        found = covariates(db, rows=[2, 3, 7])
    chosen = [who[i] for i in (2, 3, 7)]
    for line in found.columns.itertuples():
        if line.domain == "condition":
            assert columns(found)[key(line)] == {chosen.index(line.concept_id - 100)}


@pytest.mark.parametrize(
    "change",
    [{"window_days": 10**12}, {"window_days": -1}, {"min_people": -1}, {"min_people": 1.5},
     {"min_share": 2}, {"min_share": float("nan")}, {"exclude": 70}, {"exclude": ("a",)},
     {"exclude": (2**70,)}],
)  # fmt: skip
def test_impossible_rules_are_refused(change):
    with pytest.raises(DataError, match=next(iter(change))):
        StudySettings(1, 2, 3, **change)
