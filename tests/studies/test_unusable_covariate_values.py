"""Values that are no finite numbers make no covariates, and are counted."""

import duckdb
import pytest
from tests.studies.conftest import day
from tests.studies.vocabulary_of_features import (
    extract,
    values,
    vocabulary_tables,
)

from steropes.errors import DataError

UNUSABLE = ("'NaN'", "'Infinity'", "'-Infinity'", "1e39", "-1e39")


def measured(path, kind, *values):
    """Replace the measurements by one person's, of the given SQL values, a day after another."""
    with duckdb.connect(str(path)) as con:
        con.execute("DROP TABLE measurement")
        con.execute(
            "CREATE TABLE measurement (person_id BIGINT, measurement_concept_id BIGINT, "
            f"measurement_date DATE, value_as_number {kind}, range_low {kind}, range_high {kind}, "
            "value_as_concept_id BIGINT, unit_concept_id BIGINT)"
        )
        for k, value in enumerate(values):
            con.execute(
                f"INSERT INTO measurement VALUES (1, 600, DATE '{day(k - 20)}', {value}, "
                f"{5 if kind == 'DOUBLE' else chr(39) + '5' + chr(39)}, "
                f"{9 if kind == 'DOUBLE' else chr(39) + '10' + chr(39)}, 0, 8753)"
            )
    return path


@pytest.mark.sampled
@pytest.mark.parametrize("value", UNUSABLE)
def test_a_value_that_is_not_finite_is_no_covariate_and_is_counted(omop, value):
    omop.person()
    path = measured(vocabulary_tables(omop), "DOUBLE", 6.0, value)
    assert values(extract(path, 1, 706)) == {600753706: {0: 6.0}}
    assert values(extract(path, 1, 710)) == {6002710: {0: 1.0}}
    assert extract(path, 1, 704, 706, 708, 710).unusable == {706: 1, 708: 1, 710: 1}
    alone = measured(path, "DOUBLE", value)
    assert values(extract(alone, 1, 706, 710)) == {}


def test_text_that_is_no_number_is_left_out_and_other_text_is_its_number(omop):
    omop.person()
    path = measured(
        vocabulary_tables(omop), "VARCHAR", "' 7.5 '", "'positive'", "'inf'", "''", "NULL"
    )
    found = extract(path, 1, 706, 710)
    assert values(found) == {600753706: {0: 7.5}, 6002710: {0: 1.0}}  # 10 is above 7.5 as a number
    assert found.unusable == {706: 2, 710: 2}


def test_a_record_without_a_value_is_within_no_range_and_not_counted(omop):
    omop.person()
    found = extract(measured(vocabulary_tables(omop), "DOUBLE", "NULL"), 1, 706, 710)
    assert values(found) == {}
    assert found.unusable == {}


@pytest.mark.parametrize("limit", ["'NaN'", "1e39"])
def test_a_limit_of_the_range_that_is_no_finite_number_makes_no_range(omop, limit):
    omop.person()
    path = measured(vocabulary_tables(omop), "DOUBLE", 6.0)
    with duckdb.connect(str(path)) as con:
        con.execute(f"UPDATE measurement SET range_low = {limit}")
    found = extract(path, 1, 706, 710)
    assert values(found) == {600753706: {0: 6.0}}
    assert found.unusable == {710: 1}


def test_values_of_observations_follow_the_same_rule(omop):
    omop.person()
    path = vocabulary_tables(omop)
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE OR REPLACE TABLE observation AS SELECT 1::BIGINT AS person_id, "
            f"700::BIGINT AS observation_concept_id, DATE '{day(-3)}' + i::INTEGER AS "
            "observation_date, CASE WHEN i = 0 THEN 2.5 ELSE 'inf'::DOUBLE END AS value_as_number, "
            "NULL::BIGINT AS unit_concept_id FROM range(2) t(i)"
        )
    found = extract(path, 1, 810, 811)
    assert values(found) == {700000810: {0: 2.5}, 700000811: {0: 2.5}}
    assert found.unusable == {810: 1, 811: 1}


def test_a_missing_year_of_birth_makes_no_age_and_one_that_is_no_number_is_refused(omop):
    omop.person(born=1930)
    path = vocabulary_tables(omop)
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE person ALTER year_of_birth TYPE DOUBLE")
        con.execute("UPDATE person SET year_of_birth = 'NaN'")
    assert values(extract(path, 1, 2, 3)) == {}
    for kind, value in (("DOUBLE", "inf"), ("VARCHAR", "19x0"), ("VARCHAR", "1930.5")):
        with duckdb.connect(str(path)) as con:
            con.execute(f"ALTER TABLE person ALTER year_of_birth TYPE {kind}")
            con.execute(f"UPDATE person SET year_of_birth = '{value}'")
        with pytest.raises(DataError, match="person: year_of_birth has") as refused:
            extract(path, 1, 2, 3)
        assert value not in str(refused.value)
