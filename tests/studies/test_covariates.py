"""Which records become columns, who is in them, and which columns are dropped."""

import dataclasses
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from steropes.errors import DataError
from steropes.studies import (
    CohortRules,
    CovariateRules,
    OmopDatabase,
    extract_covariates,
    new_user_cohort,
)

TARGET, COMPARATOR, OUTCOME = 1, 2, 3
EVERY = {"min_people": 1, "min_share": 0.0}


def extract(omop, **rules):
    """(cohort, covariates) of the database; by default no column is rare."""
    with OmopDatabase(omop.write()) as db:
        cohort = new_user_cohort(db, CohortRules(TARGET, COMPARATOR, OUTCOME))
        return cohort, extract_covariates(db, cohort, CovariateRules(**(EVERY | rules)))


def columns(covariates):
    """Rows of the design in each column, by name."""
    (block,) = covariates.design.blocks
    return {
        name: set(block.indices[block.indptr[j] : block.indptr[j + 1]].tolist())
        for j, name in enumerate(covariates.design.names)
    }


@pytest.fixture
def four(omop):
    """Two people in each arm, ids 1 to 4, rows 0 to 3."""
    for arm in ("target", "comparator", "target", "comparator"):
        omop.person(**{arm: 0})
    return omop


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
    _, covariates = extract(four)
    assert columns(covariates)[f"{domain}: thing (70)"] == {1, 2}


def test_a_drug_era_counts_if_any_day_of_it_lies_in_the_window(four):
    four.concept(70, "aspirin")
    for person, first, last in ((1, -500, -366), (2, -500, -365), (3, 0, 30), (4, 1, 30)):
        four.drug(person, 70, first, last)
    _, covariates = extract(four)
    assert columns(covariates)["drug: aspirin (70)"] == {1, 2}


def test_a_drug_era_without_an_end_counts_on_its_first_day(four):
    four.concept(70, "aspirin")
    for person, first in ((1, -366), (2, -365)):
        four.drug(person, 70, first)
        *row, _ = four.rows["drug_era"].pop()
        four.rows["drug_era"].append((*row, None))
    _, covariates = extract(four)
    assert columns(covariates)["drug: aspirin (70)"] == {1}


def test_the_window_can_be_changed(four):
    four.record("measurement", 1, 70, -31)
    four.record("measurement", 2, 70, -30)
    _, covariates = extract(four, window_days=30)
    assert columns(covariates)["measurement: unnamed concept (70)"] == {1}


def test_repeated_records_are_one_entry(four):
    for on in (-5, -5, -4):
        four.record("observation", 1, 70, on)
    _, covariates = extract(four)
    assert columns(covariates)["observation: unnamed concept (70)"] == {0}
    assert covariates.entries == covariates.columns["people"].sum()


def test_study_drugs_and_their_descendants_are_no_covariates(four):
    four.ancestor(TARGET, 11)
    four.ancestor(COMPARATOR, 21)
    for person, concept in ((1, 11), (2, 21), (3, 70)):
        four.drug(person, concept, 0)
    four.record("procedure_occurrence", 1, 11, 0)  # wherever they are recorded
    _, covariates = extract(four)
    assert list(covariates.columns["name"]) == ["drug: unnamed concept (70)"]


def test_excluded_concepts_go_with_their_descendants(four):
    four.concept(70, "thing")
    four.ancestor(70, 71)
    for concept in (70, 71, 72):
        four.condition(1, concept, -1)
    _, covariates = extract(four, exclude=(70,))
    assert list(covariates.columns["concept_id"].dropna()) == [72]


def test_an_unknown_excluded_concept_is_refused(four):
    with pytest.raises(DataError, match="concept 70 is unknown"):
        extract(four, exclude=(70,))


def test_concepts_without_a_name_are_said_to_have_none(four):
    four.concept(70, None)
    four.concept(71, "  ")
    four.concept(8507, None)
    four.condition(1, 70, -1)
    four.condition(1, 71, -1)
    _, covariates = extract(four)
    assert list(covariates.columns["name"]) == [
        "condition: unnamed concept (70)",
        "condition: unnamed concept (71)",
    ]


def test_concept_zero_is_no_covariate(four):
    four.condition(1, 0, -1)
    four.condition(1, 70, -1)
    _, covariates = extract(four)
    assert list(covariates.columns["concept_id"].dropna()) == [70]


def test_age_is_in_five_year_groups_at_the_start(omop):
    # the start is in 2010
    for born, arm in ((1970, "target"), (1966, "comparator"), (1965, "target"), (1971, "target")):
        omop.person(born=born, **{arm: 0})
    _, covariates = extract(omop)
    found = {k: v for k, v in columns(covariates).items() if k.startswith("age")}
    assert found == {"age: 35-39": {3}, "age: 40-44": {0, 1}, "age: 45-49": {2}}


def test_sex_and_index_year(omop):
    omop.person(target=0, sex=8507)
    omop.person(comparator=0, sex=8532)
    omop.person(comparator=-200, sex=0)  # unknown: no column
    _, covariates = extract(omop)
    found = columns(covariates)
    assert found["sex: Male"] == {0}  # one person has neither, so both columns stay
    assert found["sex: Female"] == {1}
    assert found["index year: 2009"] == {2}
    assert "index year: 2010" not in found  # the complement of 2009


def test_of_two_levels_of_everybody_the_more_common_goes(omop):
    for arm, sex in (("target", 8507), ("comparator", 8507), ("target", 8532)):
        omop.person(**{arm: 0}, sex=sex)
    _, covariates = extract(omop)
    assert [k for k in columns(covariates) if k.startswith("sex")] == ["sex: Female"]
    assert covariates.dropped.set_index("domain").loc["sex", "redundant"] == 1


def test_complements_among_concepts_stay(four):
    for person, concept in ((1, 70), (2, 70), (3, 71), (4, 71)):
        four.condition(person, concept, -1)
    _, covariates = extract(four)
    assert covariates.columns["concept_id"].dropna().tolist() == [70, 71]


def test_rare_columns_are_dropped_and_counted(omop):
    for i in range(12):
        omop.person(**{("target", "comparator")[i % 2]: 0})
        if i < 10:
            omop.condition(i + 1, 70, -1)
        if i < 9:
            omop.condition(i + 1, 71, -1)
    _, covariates = extract(omop, min_people=10)
    assert list(covariates.columns["concept_id"].dropna()) == [70]
    counts = covariates.dropped.set_index("domain")
    assert counts.loc["condition", ["kept", "rare", "redundant"]].tolist() == [1, 1, 0]


def test_rare_is_also_a_share(omop):
    for i in range(20):
        omop.person(**{("target", "comparator")[i % 2]: 0})
        if i < 5:
            omop.condition(i + 1, 70, -1)
        if i < 4:
            omop.condition(i + 1, 71, -1)
    _, covariates = extract(omop, min_share=0.25)
    assert list(covariates.columns["concept_id"].dropna()) == [70]


def test_columns_of_everybody_are_dropped_and_counted(four):
    for person in (1, 2, 3, 4):
        four.condition(person, 70, -1)
    four.condition(1, 71, -1)
    _, covariates = extract(four)
    assert list(covariates.columns["name"]) == ["condition: unnamed concept (71)"]
    assert covariates.dropped["redundant"].sum() == 4  # age, sex, year, condition 70


def test_people_outside_the_cohort_leave_no_trace(four):
    four.person(target=0, outcome=-5)
    four.condition(5, 70, -1)
    four.condition(1, 71, -1)
    _, covariates = extract(four)
    assert list(covariates.columns["concept_id"].dropna()) == [71]


def test_without_any_covariate_the_study_is_refused(four):
    with pytest.raises(DataError, match="no covariate is left"):
        extract(four, min_people=10)


def test_optional_tables_may_be_missing(four):
    four.condition(1, 70, -1)
    path = four.write(without=("measurement", "observation", "procedure_occurrence"))
    with OmopDatabase(path) as db:
        cohort = new_user_cohort(db, CohortRules(TARGET, COMPARATOR, OUTCOME))
        covariates = extract_covariates(db, cohort, CovariateRules(**EVERY))
    assert list(covariates.columns["concept_id"].dropna()) == [70]


def test_columns_are_numbered_by_domain_and_concept(four):
    for person, concept in ((1, 90), (2, 80), (3, 70)):
        four.condition(person, concept, -1)
    four.drug(1, 60, -1)
    _, covariates = extract(four)
    table = covariates.columns
    assert table["concept_id"].tolist() == [70, 80, 90, 60]
    assert covariates.design.names == table["name"].tolist()
    assert covariates.design.shape == (4, 4)
    assert np.array_equal(table["people"], [1, 1, 1, 1])


def test_extracting_twice_gives_the_same(four):
    four.condition(1, 70, -1)
    with OmopDatabase(four.write()) as db:
        cohort = new_user_cohort(db, CohortRules(TARGET, COMPARATOR, OUTCOME))
        first = extract_covariates(db, cohort, CovariateRules(**EVERY))
        second = extract_covariates(db, cohort, CovariateRules(**EVERY))
    assert columns(first) == columns(second)


@pytest.fixture
def several(omop):
    """Ten people with a condition each that nobody else has, starts on different days."""
    for i in range(10):
        person = omop.person(**{("target", "comparator")[i % 2]: 10 * i}, outcome=300 - 30 * i)
        omop.condition(person, 100 + person, 10 * i - 1)
    return omop


def test_a_second_cohort_on_the_connection_leaves_the_first_alone(several):
    path = several.write()
    rules = CohortRules(TARGET, COMPARATOR, OUTCOME)
    fewer = CohortRules(COMPARATOR, TARGET, OUTCOME, washout_days=1050)
    every = CovariateRules(**EVERY)
    with OmopDatabase(path) as db:
        alone = extract_covariates(db, new_user_cohort(db, rules), every)
    with OmopDatabase(path) as db:
        other = extract_covariates(db, new_user_cohort(db, fewer), every)
    with OmopDatabase(path) as db:
        first, second = new_user_cohort(db, rules), new_user_cohort(db, fewer)
        assert len(second.people) < len(first.people)
        for cohort, expected in ((first, alone), (second, other), (first, alone)):
            assert columns(extract_covariates(db, cohort, every)) == columns(expected)
        del second
        gc.collect()
        assert columns(extract_covariates(db, first, every)) == columns(alone)


def test_cohorts_built_in_threads_do_not_mix(several):
    every = CovariateRules(**EVERY)

    def work(washout):
        rules = CohortRules(TARGET, COMPARATOR, OUTCOME, washout_days=washout)
        cohort = new_user_cohort(db, rules)
        return len(cohort.people), columns(extract_covariates(db, cohort, every))

    days = [0, 1020, 1040, 1060] * 6
    with OmopDatabase(several.write()) as db:
        alone = [work(d) for d in days[:4]]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(work, days))
    assert together == alone * 6


def test_rows_of_the_design_are_rows_of_the_people_whatever_was_done_to_them(several):
    with OmopDatabase(several.write()) as db:
        cohort = new_user_cohort(db, CohortRules(TARGET, COMPARATOR, OUTCOME))
        chosen = dataclasses.replace(cohort, people=cohort.people.iloc[[7, 2, 3]])
        covariates = extract_covariates(db, chosen, CovariateRules(**EVERY))
    who = chosen.people["person_id"].tolist()
    for line, name in zip(covariates.columns.itertuples(), covariates.design.names, strict=True):
        if line.domain == "condition":
            assert columns(covariates)[name] == {who.index(line.concept_id - 100)}


def test_a_cohort_outlives_its_connection(several):
    path, rules = several.write(), CohortRules(TARGET, COMPARATOR, OUTCOME)
    with OmopDatabase(path) as db:
        cohort = pickle.loads(pickle.dumps(new_user_cohort(db, rules)))
        expected = columns(extract_covariates(db, cohort, CovariateRules(**EVERY)))
    with pytest.raises(DataError, match=r"is closed; open it again"):
        extract_covariates(db, cohort)
    with OmopDatabase(path) as again:
        assert columns(extract_covariates(again, cohort, CovariateRules(**EVERY))) == expected


def test_a_cohort_of_another_database_is_refused(several):
    rules = CohortRules(TARGET, COMPARATOR, OUTCOME)
    with OmopDatabase(several.write()) as one, OmopDatabase(several.write()) as other:
        cohort = new_user_cohort(one, rules)
        with pytest.raises(DataError, match="the cohort holds people of the database"):
            extract_covariates(other, cohort)


@pytest.mark.parametrize(
    "change",
    [{"window_days": 10**12}, {"window_days": -1}, {"min_people": -1}, {"min_people": 1.5},
     {"min_share": 2}, {"min_share": float("nan")}, {"exclude": 70}, {"exclude": ("a",)},
     {"exclude": (2**70,)}],
)  # fmt: skip
def test_impossible_rules_are_refused(change):
    with pytest.raises(DataError, match=next(iter(change))):
        CovariateRules(**change)
