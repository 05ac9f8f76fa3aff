"""Eras that end before they start, and people, visits and entries that are there twice."""

import json

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import COMPARATOR, FEW, OUTCOME, TARGET, day
from tests.studies.new_users import covariates, new_users

from steropes.studies import (
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
)
from steropes.studies.cohorts import (
    CohortTable,
    ComparisonRules,
    circe_cohorts,
    compare_cohorts,
    drug_era_cohorts,
)
from steropes.studies.cohorts.cohort_builders import condition_cohorts
from steropes.studies.covariates import FeatureRules, extract_features
from steropes.studies.report.study_report import study_page

OTHER = 51
REVERSED = "that end before they start count as one day, their first"
REPEATED = "People with several rows in table person count once"


def notes(found):
    return {n.topic: n.count for n in found}


@pytest.fixture
def people(omop):
    """Sixty people, fifty with OTHER; the first twelve of its eras end before they start."""
    omop.concept(OTHER, "other")
    for k in range(60):
        person = omop.person(
            **{"target" if k % 2 else "comparator": k}, outcome=200 + k, observed=(-500, 900)
        )
        if k < 50:
            omop.drug(person, OTHER, -10, -30 if k < 12 else 20)
    return omop


def repeat(path, table, people, **changed):
    """Repeat the rows of some people, with other values in some columns."""
    values = ", ".join(f"{value} AS {column}" for column, value in changed.items())
    with duckdb.connect(str(path)) as con:
        con.execute(
            f"INSERT INTO {table} SELECT * {f'REPLACE ({values})' if values else ''} "
            f"FROM {table} WHERE person_id <= {people}"
        )
    return path


def test_an_era_that_ends_before_it_starts_is_one_day(omop):
    person = omop.person()
    omop.drug(person, TARGET, 50, 20)
    omop.drug(person, TARGET, 100, 120)
    omop.rows["condition_era"] = [
        (person, OUTCOME, day(9), day(2)),
        (person, OUTCOME, day(30), None),
    ]
    with OmopDatabase(omop.write()) as db:
        eras = drug_era_cohorts(db, {7: TARGET})
        conditions = condition_cohorts(db, {8: OUTCOME}, table="condition_era")
    assert list(zip(eras.start, eras.end, strict=True)) == [
        (np.datetime64(day(a)), np.datetime64(day(b))) for a, b in ((50, 50), (100, 120))
    ]
    assert conditions.start.tolist() == conditions.end.tolist() == [day(9), day(30)]
    assert notes(eras.notes) == {"reversed_eras": 1}
    assert notes(conditions.notes) == {"reversed_eras": 1, "open_eras": 1}
    assert "cohort 7" in eras.notes[0].text
    assert "condition_era, cohort 8, without a last day count" in conditions.notes[1].text


def test_covariates_see_the_first_day_of_such_an_era(people):
    path = people.write()
    with OmopDatabase(path) as db:
        cohort = new_users(db)
        assert cohort.notes == ()  # of the study drugs there are none
        found = covariates(db, window_days=15)
        # of the first twelve those who start by day 5, of the others those who start by day 35
        assert found.columns.set_index("concept_id").loc[OTHER, "people"] == 6 + 24
        assert notes(found.features.notes) == {"reversed_eras": 12}
        entries = pd.DataFrame({"person_id": range(1, 13), "start": [pd.Timestamp(day(12))] * 12})
        rules = FeatureRules(analyses=(403, 404), medium_days=25, short_days=20)
        features = extract_features(db, entries, rules)
    # day -10 is 22 days before day 12: in the medium window and not in the short one
    ids = [i for i in features.columns["covariate_id"] if i // 1000 == OTHER]
    assert ids == [OTHER * 1000 + 403]
    assert notes(features.notes) == {"reversed_eras": 12}


def test_a_study_and_a_case_series_count_them(people):
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute(
            "UPDATE drug_era SET drug_era_end_date = drug_era_start_date - 5 "
            f"WHERE drug_concept_id = {TARGET} AND person_id <= 20"
        )
    study = comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME, **FEW))
    assert sorted(n.count for n in study.data_notes) == [10, 22]  # of the study drugs, of all
    assert REVERSED in study_page(study.release)
    told = json.loads(json.dumps(study.to_dict()))["data_notes"]
    assert {n["count"] for n in told} == {10, 20}
    with duckdb.connect(str(path)) as con:
        con.execute(
            "UPDATE drug_era SET drug_era_end_date = NULL "
            f"WHERE drug_concept_id = {OTHER} AND person_id IN (20, 21)"
        )
    series = case_series(path, case_series_settings(OUTCOME, OTHER))
    assert notes(series.data_notes) == {"reversed_eras": 12, "open_eras": 2}
    assert "Records of drug_era without a last day count as one day" in series.page()
    assert f"Records of drug_era {REVERSED} (records: 10)." in series.page()
    assert sorted(series.tables()["data_note"]["count"]) == [-5, 10]  # two are few


def test_records_without_a_first_day_are_left_out_and_counted(people):
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE drug_era SET drug_era_start_date = NULL WHERE person_id IN (3, 5, 6)")
        con.execute(
            "UPDATE condition_occurrence SET condition_start_date = NULL WHERE person_id < 8"
        )
    study = comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME, **FEW))
    undated = {n.text: n.count for n in study.data_notes if n.topic == "undated_records"}
    lost = "without a first day are left out"
    assert undated[f"Records of condition_occurrence, the outcome, {lost}"] == 7
    assert f"{lost} (records: 5)." in study_page(study.release)
    series = case_series(path, case_series_settings(OUTCOME, OTHER))
    found = {n.text: n.count for n in series.data_notes if n.topic == "undated_records"}
    assert found == {f"Records of condition_occurrence with the outcome {lost}": 7}
    with OmopDatabase(path) as db:
        entries = pd.DataFrame({"person_id": range(1, 61), "start": [pd.Timestamp(day(99))] * 60})
        features = extract_features(db, entries, FeatureRules(analyses=(101, 402, 406)))
    assert {n.text: n.count for n in features.notes if n.topic == "undated_records"} == {
        f"Records of condition_occurrence {lost}": 7, f"Records of drug_era {lost}": 6,
    }  # fmt: skip


@pytest.mark.parametrize("rule", ["birthdays", "year of birth"])
def test_people_born_after_their_start_are_counted(omop, rule):
    for k in range(12):
        omop.person(born=2050 if k < 7 else 2010)
    entries = pd.DataFrame({"person_id": range(1, 13), "start": [pd.Timestamp(day(0))] * 12})
    with OmopDatabase(omop.write()) as db:
        features = extract_features(db, entries, FeatureRules(analyses=(1, 3), age_rule=rule))
    assert notes(features.notes) == {"born_after_start": 7}
    groups = features.columns.set_index("covariate_id")["people"]
    assert groups.loc[3] == 5  # aged 0 to 4


@pytest.mark.parametrize(("analyses", "age"), [((1, 3), ""), ((2,), "with the age 0")])
def test_people_without_a_year_of_birth_are_counted(omop, analyses, age):
    for _ in range(12):
        omop.person(born=2010)
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE person SET year_of_birth = NULL WHERE person_id <= 7")
    entries = pd.DataFrame({"person_id": range(1, 13), "start": [pd.Timestamp(day(0))] * 12})
    with OmopDatabase(path) as db:
        [note] = extract_features(db, entries, FeatureRules(analyses=analyses)).notes
    assert (note.topic, note.count) == ("no_year_of_birth", 7)
    assert age in note.text


def test_people_without_a_sex_are_counted(omop):
    for _ in range(12):
        omop.person()
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE person SET gender_concept_id = 0 WHERE person_id <= 7")
    entries = pd.DataFrame({"person_id": range(1, 13), "start": [pd.Timestamp(day(0))] * 12})
    with OmopDatabase(path) as db:
        [note] = extract_features(db, entries, FeatureRules(analyses=(1, 3))).notes
        assert not extract_features(db, entries, FeatureRules(analyses=(3,))).notes
    assert (note.topic, note.count) == ("no_sex", 7)


@pytest.mark.parametrize("kind", ["eras", "definition"])
def test_eras_that_end_in_the_distant_future_have_a_warning(omop, kind):
    for _ in range(3):
        omop.drug(omop.person(), TARGET, 0, 20)
    path = with_circe_columns(omop.write())
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE drug_era SET drug_era_end_date = DATE '2300-01-01' WHERE person_id = 3")
    with OmopDatabase(path) as db:
        if kind == "eras":
            found = drug_era_cohorts(db, {5: TARGET})
        else:
            pytest.importorskip("duckcdm")
            found = circe_cohorts(db, {5: target_eras()})
    [note] = found.notes
    assert (note.topic, note.count, note.warning) == ("future_eras", 1, True)
    assert note.text.startswith("Records of drug_era")


@pytest.mark.parametrize("changed", [{}, {"gender_concept_id": 8540, "year_of_birth": 1990}])
def test_people_that_are_there_twice_count_once(people, changed):
    path = people.write()
    once = comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME, **FEW))
    repeat(path, "person", 14, **changed)
    twice = comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME, **FEW))
    assert notes(once.data_notes).get("repeated_people") is None
    assert notes(twice.data_notes)["repeated_people"] == 14
    pd.testing.assert_frame_equal(twice.people, once.people)
    pd.testing.assert_frame_equal(twice.attrition, once.attrition)
    pd.testing.assert_frame_equal(twice.covariates.columns, once.covariates.columns)
    assert f"{REPEATED}, with the smallest value of each column (people: 15)." in study_page(
        twice.release
    )
    series = case_series(path, case_series_settings(OUTCOME, OTHER))
    assert notes(series.data_notes)["repeated_people"] == 14
    assert len(series.population) == 60


def test_demographic_covariates_of_a_repeated_person_are_one_of_each_kind(people):
    entries = pd.DataFrame({"person_id": [1, 2], "start": [pd.Timestamp(day(0))] * 2})
    path = people.write()
    rules = FeatureRules(analyses=(1, 2, 3, 904))
    with OmopDatabase(path) as db:
        once = extract_features(db, entries, rules)
    repeat(path, "person", 1, gender_concept_id=8540, year_of_birth=1990)
    with OmopDatabase(path) as db:
        twice = extract_features(db, entries, rules)
    assert twice.columns["covariate_id"].tolist() == once.columns["covariate_id"].tolist()
    assert (twice.matrix() != once.matrix()).nnz == 0
    assert notes(twice.notes) == {"repeated_people": 1}


def test_a_visit_that_is_there_twice_counts_once(people):
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE visit_occurrence (visit_occurrence_id BIGINT, person_id BIGINT, "
            "visit_concept_id BIGINT, visit_start_date DATE, visit_end_date DATE)"
        )
        rows = [(5, 1, 9201, 3, 1), (5, 1, 9201, 3, 1), (6, 1, 9201, 4, 4), (None, 1, 9202, 4, 4)]
        for number, person, concept, first, last in rows:
            con.execute(
                "INSERT INTO visit_occurrence VALUES (?, ?, ?, ?, ?)",
                [number, person, concept, day(first), day(last)],
            )
    entries = pd.DataFrame({"person_id": [1], "start": [pd.Timestamp(day(9))]})
    with OmopDatabase(path) as db:
        found = extract_features(db, entries, FeatureRules(analyses=(920, 923)))
    values = dict(zip(found.columns["covariate_id"], found.values, strict=True))
    assert values == {1920: 3, 9201923: 2, 9202923: 1}
    assert notes(found.notes) == {"repeated_visits": 1, "reversed_eras": 2}


def test_an_entry_that_is_in_a_cohort_twice_counts_once(people):
    entries = [(1, 1, 0, 30), (1, 1, 0, 30), (1, 1, 60, 90), (1, 2, 5, 9), (2, 3, 0, 9)]
    entries += [(2, 3, 0, 9)] * 2 + [(2, 4, 0, 9), (2, 4, 0, 12)]
    cohorts = CohortTable(*zip(*((c, p, day(a), day(b)) for c, p, a, b in entries), strict=True))
    rules = ComparisonRules(first_only=False, washout_days=0, both="keep all", common_period=False)
    with OmopDatabase(people.write()) as db:
        found = compare_cohorts(db, cohorts, 1, 2, rules)
    assert found.entries["person_id"].tolist() == [1, 1, 2, 3, 4, 4]
    assert found.attrition["target_entries"].tolist() == [3, 3]
    assert notes(found.notes) == {"repeated_entries": 3}


def with_circe_columns(path):
    """Add the columns that Circe's SQL names."""
    with duckdb.connect(str(path)) as con:
        for column in ("domain_id", "invalid_reason", "standard_concept"):
            con.execute(f"ALTER TABLE concept ADD {column} VARCHAR")
        for column in ("drug_era_id", "drug_exposure_count", "gap_days"):
            con.execute(f"ALTER TABLE drug_era ADD {column} BIGINT")
        con.execute("UPDATE drug_era SET drug_era_id = person_id")
    return path


def target_eras(criterion=None, **more):
    """Return a definition of the eras of the target after a year of observation."""
    concept = {"concept": {"CONCEPT_ID": TARGET}}
    return {
        "ConceptSets": [{"id": 0, "name": "s", "expression": {"items": [concept]}}],
        "PrimaryCriteria": {
            "CriteriaList": [{"DrugEra": {"CodesetId": 0, **(criterion or {})}}],
            "ObservationWindow": {"PriorDays": 365, "PostDays": 0},
            "PrimaryCriteriaLimit": {"Type": "All"},
        },
        "QualifiedLimit": {"Type": "All"},
        "ExpressionLimit": {"Type": "All"},
        "InclusionRules": [],
        "CensoringCriteria": [],
        "CollapseSettings": {"CollapseType": "ERA", "EraPad": 0},
        "CensorWindow": {},
        **more,
    }


def test_a_definition_reads_people_and_observed_days_once(omop):
    pytest.importorskip("duckcdm")
    for _ in range(2):
        person = omop.person(target=0, observed=(-200, 50))
        omop.observed(person, -500, -150)
    path = with_circe_columns(repeat(omop.write(), "person", 1))
    with OmopDatabase(path) as db:
        found = circe_cohorts(db, {5: target_eras({"AgeAtStart": {"Value": 1, "Op": "gt"}})})
    assert found.subject.tolist() == [1, 2]
    assert found.end.tolist() == [day(50)] * 2
    assert notes(found.notes) == {"joined_periods": 2, "repeated_people": 1}


def test_a_definition_reads_reversed_and_open_eras_as_one_day(omop):
    pytest.importorskip("duckcdm")
    for last in (20, -20, 0):
        omop.drug(omop.person(), TARGET, 0, last)
    path = with_circe_columns(omop.write())
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE drug_era SET drug_era_end_date = NULL WHERE person_id = 3")
    to_end = {"DateOffset": {"DateField": "EndDate", "Offset": 0}}
    with OmopDatabase(path) as db:
        found = circe_cohorts(db, {5: target_eras(EndStrategy=to_end)})
    assert found.subject.tolist() == [1, 2, 3]
    assert found.end.tolist() == [day(20), day(0), day(0)]
    assert notes(found.notes) == {"reversed_eras": 1, "open_eras": 1}


def test_a_definition_reads_an_exposure_with_a_negative_supply_as_one_day(omop):
    pytest.importorskip("duckcdm")
    for _ in range(4):
        omop.person()
    path = with_circe_columns(omop.write())
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE drug_exposure (drug_exposure_id BIGINT, person_id BIGINT, "
            "drug_concept_id BIGINT, drug_exposure_start_date DATE, drug_exposure_end_date DATE, "
            "days_supply BIGINT)"
        )
        for k, (last, supply) in enumerate(((None, -30), (None, 9), (20, -30), (None, None)), 1):
            end = None if last is None else day(last)
            row = [k, k, TARGET, day(0), end, supply]
            con.execute("INSERT INTO drug_exposure VALUES (?, ?, ?, ?, ?, ?)", row)
    definition = target_eras(EndStrategy={"DateOffset": {"DateField": "EndDate", "Offset": 0}})
    definition["PrimaryCriteria"]["CriteriaList"] = [{"DrugExposure": {"CodesetId": 0}}]
    with OmopDatabase(path) as db:
        found = circe_cohorts(db, {5: definition})
    assert found.end.tolist() == [day(0), day(9), day(20), day(1)]
    assert notes(found.notes)["reversed_eras"] == 1


def test_eras_of_a_class_go_on_with_another_drug_of_the_class_on_the_next_day(omop):
    omop.concept(9, "class")
    for drug in (TARGET, COMPARATOR):
        omop.ancestor(9, drug)
    person = omop.person(outcome=500)
    for drug, first, last in ((TARGET, 0, 9), (COMPARATOR, 10, 19), (TARGET, 21, 30)):
        omop.drug(person, drug, first, last)
    path = omop.write()
    with OmopDatabase(path) as db:
        for gap, ends in ((0, [19, 30]), (1, [19, 30]), (2, [30])):
            found = drug_era_cohorts(db, {1: 9}, gap=gap)
            assert found.end.tolist() == [day(end) for end in ends]
    # A case series joins them as well: the days 0 to 19 and 21 to 30 are exposed.
    asked = case_series_settings(OUTCOME, 9, pre_exposure_days=0, end_of_observation_days=0)
    study = case_series(path, asked)
    assert study.intervals.statistics.loc["exposure", "eras"] == 2
    assert study.intervals.statistics.loc["exposure", "days"] == 30
