"""Covariates of the catalogue: ids, windows, groups, values and scores, and what tidying drops."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.studies.conftest import START, day
from tests.studies.vocabulary_of_features import (
    CONCEPTS,
    extract,
    values,
    vocabulary_tables,
)

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.covariates import FeatureRules, extract_features
from steropes.studies.covariates.sparse_covariate_columns import Columns


def test_demographics_have_the_ids_of_their_analyses(omop):
    omop.person(born=1970, sex=8532)
    omop.person(born=2009, sex=0)
    found = extract(vocabulary_tables(omop), 2, 1, 3, 6, 7)
    assert values(found) == {
        8532001: {0: 1.0},
        3: {1: 1.0},
        8003: {0: 1.0},
        2010006: {0: 1, 1: 1},
        6007: {0: 1, 1: 1},
    }
    assert found.columns["name"].tolist()[0] == "age group: 0-4"


def test_windows_end_on_the_start_and_eras_count_by_overlap(omop):
    for _ in range(5):
        omop.person()
    eras = [
        (1, 201826, day(-400), day(-366)),
        (2, 201826, day(-400), day(-365)),
        (3, 201826, day(-31), day(-30)),
        (4, 201826, day(0), day(0)),
        (5, 201826, day(1), day(9)),
    ]
    found = values(extract(vocabulary_tables(omop, condition_era=eras), 5, 201, 202, 204, 205))
    assert found == {
        201826201: {0: 1, 1: 1, 2: 1, 3: 1},
        201826202: {1: 1, 2: 1, 3: 1},
        201826204: {2: 1, 3: 1},
        201826205: {3: 1},
    }
    before = extract(vocabulary_tables(omop, condition_era=eras), 5, 202, end_day=-1)
    assert values(before) == {201826202: {1: 1, 2: 1}}


def test_eras_that_begin_in_the_window(omop):
    for _ in range(3):
        omop.person()
    eras = [
        (1, 201826, day(-400), day(-1)),
        (2, 201826, day(-365), day(9)),
        (3, 201826, day(-30), day(-30)),
    ]
    found = extract(vocabulary_tables(omop, condition_era=eras), 3, 206, 207, 208, 214, 406)
    assert values(found) == {
        201826206: {1: 1, 2: 1},
        201826207: {2: 1},
        201826208: {2: 1},
        201820214: {1: 1, 2: 1},
        201826214: {1: 1, 2: 1},
    }
    assert found.columns["name"][0] == "condition group, long term, begun then: Diabetes mellitus"


def test_age_and_observation_before_are_values(omop):
    omop.person(born=1970, observed=(-100, 5))
    omop.person(born=2009, observed=None)
    omop.observed(2, -50, -10)
    omop.observed(2, -9, 3)  # touches the period before, and is joined with it
    found = extract(vocabulary_tables(omop), 2, 2, 8, 11)
    assert values(found) == {
        1002: {0: 40, 1: 1},
        1008: {0: 100, 1: 50},
        201006011: {0: 1, 1: 1},
    }
    assert found.columns["name"].tolist() == [
        "age in years",
        "days of observation before",
        "index month: June 2010",
    ]
    assert found.columns["binary"].tolist() == [False, False, True]


def test_the_default_set_is_that_of_feature_extraction():
    """Numbers that its table of prespecified analyses marks as default."""
    assert FeatureRules().analyses == (
        *(1, 3, 4, 5, 6, 7, 210, 212, 410, 412, 413, 502, 504, 602, 604, 702, 704, 710, 712),
        *(714, 716, 802, 804, 806, 808, 901, 902, 903, 904),
    )


def test_conditions_stand_for_their_groups_but_for_vague_ones(omop):
    omop.person()
    path = vocabulary_tables(omop, condition_era=[(1, 201826, day(-9), day(-9))])
    assert set(values(extract(path, 1, 210))) == {201820210, 201826210}
    assert set(values(extract(path, 1, 210, exclude=(201826,)))) == set()
    assert set(values(extract(path, 1, 210, include=(201826,)))) == {201826210}
    below = {"descendants": False, "include_descendants": True}
    assert set(values(extract(path, 1, 210, include=(201826,), **below))) == {201826210}
    kept = extract(path, 1, 210, only=(201826210, 999))
    assert set(values(kept)) == {201826210}


def test_drugs_stand_for_ingredients_and_classes_of_some_lengths(omop):
    omop.drug(omop.person(), 503, -5)
    assert set(values(extract(vocabulary_tables(omop), 1, 410))) == {503410, 21600001410}


def test_descendants_of_a_concept_that_the_vocabulary_does_not_describe_are_excluded(omop):
    """As in R, which looks up links alone; the demonstration database lacks drug classes."""
    omop.drug(omop.person(), 503, -5)
    path = vocabulary_tables(omop)
    with duckdb.connect(path) as database:
        database.execute("INSERT INTO concept_ancestor VALUES (21699999, 503, 4)")
    absent = {"unknown": "note"}
    assert set(values(extract(path, 1, 410, exclude=(21699999,), **absent))) == set()
    assert set(values(extract(path, 1, 410, include=(21699999,), **absent))) == {503410}
    alone = extract(path, 1, 410, exclude=(21699999,), descendants=False, **absent)
    assert set(values(alone)) == {503410, 21600001410}


def test_measurements_by_range_value_and_concept(omop):
    omop.person()
    rows = [
        (1, 600, day(-5), 4.0, 5.0, 9.0, 0, 8753),
        (1, 600, day(-4), 7.0, 5.0, 9.0, 45877985, 8753),
        (1, 600, day(-4), 6.0, 5.0, None, None, 8753),
    ]
    path = vocabulary_tables(omop, measurement=rows)
    assert set(values(extract(path, 1, 710))) == {6001710, 6002710}
    assert values(extract(path, 1, 706)) == {600753706: {0: 6.0}}
    [code] = values(extract(path, 1, 714))
    about, value = 600 * 2654435769 // 4096 & 1048575, 45877985 * 2654435769 // 1024 & 4194303
    assert code == about * 4194304000 + value * 1000 + 714


@pytest.mark.sampled
@pytest.mark.parametrize("analysis", [705, 706, 707, 708, 809, 810, 811, 812])
def test_values_have_a_column_and_a_name_for_each_unit(omop, analysis):
    for _ in range(6):
        omop.person()
    kind = "measurement" if analysis < 800 else "observation"
    rows = [
        (1, 600, day(-5), 90.0, None, None, 0, 8840),
        (1, 600, day(-4), 5.0, None, None, 0, 8753),  # A person has the last value only.
        (2, 600, day(-4), 91.0, None, None, 0, 8840),
        (3, 600, day(-4), 7.0, None, None, 0, 9753),  # 8753 has the same last three digits.
        (4, 600, day(-4), 8.0, None, None, 0, None),
        (5, 600, day(-4), 6.0, None, None, 0, 44778753),
        (6, 600, day(-4), 5.0, None, None, 0, 8840),  # Equal values of a day.
        (6, 600, day(-4), 5.0, None, None, 0, 8753),
    ]
    units = [(8753, "mmol/L"), (8840, "mg/dL"), (9753, "mile"), (44778753, "grain")]
    named = [(c, n, "Unit", "UCUM", "Unit", "S", n) for c, n in units]
    path = vocabulary_tables(omop, concept=[*CONCEPTS, *named], measurement=rows)
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE OR REPLACE TABLE observation AS SELECT * RENAME ("
                    "measurement_concept_id AS observation_concept_id, "
                    "measurement_date AS observation_date) FROM measurement")  # fmt: skip
    features = extract(path, 6, analysis)
    found = {
        name.split(": ")[1]: rows_of(features, k) for k, name in enumerate(features.columns["name"])
    }
    assert found == {
        "Glucose, value (mmol/L)": {1: 5.0, 6: 5.0},
        "Glucose, value (mg/dL)": {1: 90.0, 2: 91.0, 6: 5.0},  # beside the last in another
        "Glucose, value (mile)": {3: 7.0},
        "Glucose, value (unknown unit)": {4: 8.0},
        "Glucose, value (grain)": {5: 6.0},
    }
    assert (features.columns["concept_id"] == 600).all()
    assert (features.columns["analysis_id"] == analysis).all()
    ids = features.columns.assign(name=[*found]).set_index("name")["covariate_id"]
    assert ids["Glucose, value (mmol/L)"] == 600_753_000 + analysis
    assert ids["Glucose, value (mg/dL)"] == 600_840_000 + analysis
    assert features.columns["name"].str.startswith(kind).all()


def rows_of(features, k):
    """The values of a column by person."""
    at = slice(features.indptr[k], features.indptr[k + 1])
    pairs = zip(features.rows[at], features.values[at], strict=True)
    return {int(row) + 1: float(value) for row, value in pairs}


def test_counts_of_visits_and_of_different_concepts(omop):
    person = omop.person()
    for concept in (503, 503, 504):
        omop.drug(person, concept, -5)
    visits = [(1, 9202, day(-5), day(-5)), (1, 9202, day(-4), day(-4)), (1, 9203, day(-3), day(-3))]
    found = values(extract(vocabulary_tables(omop, visit_occurrence=visits), 1, 908, 920, 923))
    assert found == {1908: {0: 2}, 1920: {0: 3}, 9202923: {0: 2}, 9203923: {0: 1}}


def test_scores_count_a_category_once(omop):
    omop.person(born=1930)
    omop.person(born=1990, sex=8507)
    eras = [
        (1, 201826, day(-2000), day(-2000)),
        (1, 201820, day(-9), day(-9)),
        (1, 4030518, day(-9), day(-9)),
        (2, 201826, day(1), day(1)),
    ]
    relations = [(45, 201826, "Maps to")]
    found = values(
        extract(
            vocabulary_tables(omop, condition_era=eras, concept_relationship=relations),
            2,
            901,
            902,
            903,
            904,
        )
    )
    # Charlson: diabetes 1, renal 2. DCSI: retinopathy 1. Diabetes 1, and 80 years old, a woman.
    assert found == {1901: {0: 3}, 1902: {0: 1}, 1903: {0: 2}, 1904: {0: 4}}


def test_a_person_with_two_rows_has_the_points_of_age_and_sex_once(omop):
    omop.person(born=1930)
    omop.rows["person"] *= 2
    path = vocabulary_tables(omop)
    with OmopDatabase(path) as db:
        entries = pd.DataFrame({"person_id": [1], "start": pd.Timestamp(START)})
        found = extract_features(db, entries, FeatureRules(analyses=(903, 904)))
    assert values(found) == {1903: {0: 1}, 1904: {0: 3}}


def test_cohorts_serve_as_covariates(omop):
    omop.person()
    omop.person()
    cohorts = CohortTable([7, 7], [1, 2], [day(-9), day(1)], [day(-2), day(5)], names={7: "frail"})
    entries = pd.DataFrame({"person_id": [1, 2], "start": pd.Timestamp(START)})
    with OmopDatabase(vocabulary_tables(omop)) as db:
        found = extract_features(
            db, entries, FeatureRules(analyses=()), cohorts=cohorts, as_covariates=(7,)
        )
    assert values(found) == {7999: {0: 1}}
    assert found.columns["name"].tolist() == ["frail"]


def test_a_cohort_that_is_open_to_the_end_of_days_is_a_covariate(omop):
    omop.person()
    cohorts = CohortTable([7], [1], [day(-9)], ["9999-12-31"])
    entries = pd.DataFrame({"person_id": [1], "start": pd.Timestamp(START)})
    with OmopDatabase(vocabulary_tables(omop)) as db:
        found = extract_features(
            db, entries, FeatureRules(analyses=()), cohorts=cohorts, as_covariates=(7,)
        )
    assert values(found) == {7999: {0: 1}}
    assert cohorts.frame()["cohort_end_date"].dt.year.tolist() == [9999]


def test_tables_that_are_not_there_make_none_and_missing_columns_are_named(omop):
    omop.drug(omop.person(), 503, -5)
    path = omop.write()
    assert len(extract(path, 1, 602, 920).columns) == 0
    with pytest.raises(
        DataError, match=r"410 \(DrugGroupEraLongTerm\) needs the column vocabulary"
    ):
        extract(path, 1, 410)
    with pytest.raises(DataError, match="unknown covariate analysis 999"):
        FeatureRules(analyses=(999,))
    with pytest.raises(DataError, match="concept 12345 is unknown"):
        extract(path, 1, 1, exclude=(12345,))


def test_columns_that_come_in_batches_and_parts_are_those_that_were_sent(rng):
    sent = {}
    columns = Columns()
    for part in range(3):
        entries = sorted(
            {(1000 * int(rng.integers(12)) + part, int(rng.integers(40))) for _ in range(150)}
        )
        values = np.ones(len(entries)) if part else rng.normal(size=len(entries))
        table = pa.table(
            {
                "id": [i for i, _ in entries],
                "row": pa.array([r for _, r in entries], pa.int32()),
                "value": pa.array(values, pa.float32()),
            }
        )
        columns.add(table.to_batches(max_chunksize=7))
        columns.add([])
        for (i, row), value in zip(entries, values.astype(np.float32), strict=True):
            sent.setdefault(i, []).append((row, value))
    ids, indptr, rows, values = columns.concatenate()
    assert ids.tolist() == sorted(sent)
    assert (rows.dtype, values.dtype) == (np.int32, np.float32)
    for j, i in enumerate(ids):
        at = slice(indptr[j], indptr[j + 1])
        assert list(zip(rows[at], values[at], strict=True)) == sent[i]
    assert columns.concatenate()[1].tolist() == [0]  # it is empty now
