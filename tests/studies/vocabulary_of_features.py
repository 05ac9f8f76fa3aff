"""A small vocabulary, and covariates of a tiny database with it."""

import duckdb
import numpy as np
import pandas as pd
from tests.studies.conftest import START

from steropes.studies import OmopDatabase
from steropes.studies.covariates import FeatureRules, extract_features

TABLES = {
    "condition_era": "person_id BIGINT, condition_concept_id BIGINT, condition_era_start_date DATE,"
    " condition_era_end_date DATE",
    "visit_occurrence": "person_id BIGINT, visit_concept_id BIGINT, visit_start_date DATE,"
    " visit_end_date DATE",
    "concept_relationship": "concept_id_1 BIGINT, concept_id_2 BIGINT, relationship_id VARCHAR",
}


CONCEPT = (
    "concept_id BIGINT, concept_name VARCHAR, domain_id VARCHAR, vocabulary_id VARCHAR, "
    "concept_class_id VARCHAR, standard_concept VARCHAR, concept_code VARCHAR"
)


ANCESTOR = (
    "ancestor_concept_id BIGINT, descendant_concept_id BIGINT, min_levels_of_separation BIGINT"
)


VALUES = (
    "person_id BIGINT, measurement_concept_id BIGINT, measurement_date DATE, "
    "value_as_number DOUBLE, range_low DOUBLE, range_high DOUBLE, value_as_concept_id BIGINT, "
    "unit_concept_id BIGINT"
)


CONCEPTS = [
    (441840, "Clinical finding", "Condition", "SNOMED", "Clinical Finding", "S", "0"),
    (201820, "Diabetes mellitus", "Condition", "SNOMED", "Clinical Finding", "S", "1"),
    (201826, "Type 2 diabetes", "Condition", "SNOMED", "Clinical Finding", "S", "2"),
    (77, "Disorder of glucose", "Condition", "SNOMED", "Clinical Finding", "S", "3"),
    (4030518, "Renal impairment", "Condition", "SNOMED", "Clinical Finding", "S", "4"),
    (21600001, "A", "Drug", "ATC", "ATC 1st", "C", "A"),
    (21600002, "A10BA02", "Drug", "ATC", "ATC 5th", "C", "A10BA02"),
    (503, "metformin", "Drug", "RxNorm", "Ingredient", "S", "503"),
    (600, "Glucose", "Measurement", "LOINC", "Lab Test", "S", "600"),
    (9202, "Outpatient", "Visit", "Visit", "Visit", "S", "OP"),
    (45, "ICD", "Condition", "ICD9CM", "code", None, "250.50"),
]


ANCESTORS = [
    (441840, 201820, 3),
    (441840, 201826, 4),
    (441840, 77, 5),
    (441840, 4030518, 3),
    (201820, 201820, 0),
    (201820, 201826, 1),
    (201826, 201826, 0),
    (77, 201826, 1),
    (4030518, 4030518, 0),
    (21600001, 503, 4),
    (21600002, 503, 1),
    (503, 503, 0),
]


def vocabulary_tables(omop, **rows):
    """Write the database with a small vocabulary and the tables of the catalogue."""
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        for table, columns in TABLES.items():
            con.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        for table, columns in (
            ("concept", CONCEPT),
            ("concept_ancestor", ANCESTOR),
            ("measurement", VALUES),
        ):
            con.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        rows = {"concept": CONCEPTS, "concept_ancestor": ANCESTORS, **rows}
        for table, values in rows.items():
            marks = ", ".join("?" * len(values[0]))
            con.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    return path


def extract(path, n, *analyses, **rules):
    entries = pd.DataFrame({"person_id": np.arange(1, n + 1), "start": pd.Timestamp(START)})
    with OmopDatabase(path) as db:
        return extract_features(db, entries, FeatureRules(analyses=analyses, **rules))


def values(features):
    """{covariate: {row: value}}"""
    x = features.matrix().tocoo()
    ids = features.columns["covariate_id"].to_numpy()
    found = {int(i): {} for i in ids}
    for row, column, value in zip(x.coords[0], x.coords[1], x.data, strict=True):
        found[int(ids[column])][int(row)] = float(value)
    return found
