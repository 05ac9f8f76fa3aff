"""A grid of comparative studies on a simulated OMOP database.

    python -m benchmarks.grid --people 20000 --covariates 2000 --outcomes 100

One comparison, half of the outcomes negative controls, and four analyses: crude, matched 1:1,
stratified and weighted; ``--adjusted`` adds two with all covariates in the outcome model. Prints
the seconds of the whole.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from steropes.designs import Match, OutcomeModel, PropensityRules, Stratify
from steropes.studies import GridSpec, run_grid
from steropes.studies.cohorts import CohortSources, ConceptSet, TimeAtRisk
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.covariates import FeatureRules
from steropes.studies.specifications import ControlSet

TARGET, COMPARATOR, FIRST = 1, 2, 1000  # concepts; FIRST and on are conditions


def simulate(path: Path, people: int, covariates: int, outcomes: int) -> None:
    """Write the database: records by hashes of person and concept, the same each time."""
    import duckdb

    with duckdb.connect(str(path)) as db:
        db.execute(f"""
        CREATE TABLE person AS SELECT i AS person_id, 8507 + 25 * (i % 2) AS gender_concept_id,
            1930 + hash(i) % 60 AS year_of_birth FROM range({people}) t(i);
        CREATE TABLE observation_period AS SELECT person_id,
            DATE '2005-01-01' AS observation_period_start_date,
            DATE '2020-12-31' AS observation_period_end_date FROM person;
        CREATE TABLE drug_era AS SELECT person_id,
            CASE WHEN hash(person_id, 7) % 100 < 30 + 30 * (year_of_birth < 1960)::INT
                 THEN {TARGET} ELSE {COMPARATOR} END AS drug_concept_id,
            DATE '2010-01-01' + (hash(person_id, 8) % 1000)::INT AS drug_era_start_date,
            DATE '2010-02-01' + (hash(person_id, 8) % 1000)::INT AS drug_era_end_date FROM person;
        CREATE TABLE condition_occurrence AS
        SELECT person_id, {FIRST + outcomes}
                + (hash(person_id, k) % 1000000 / 1e6) ** 3 * {covariates} AS condition_concept_id,
            drug_era_start_date - (hash(person_id, k, 3) % 365)::INT AS condition_start_date
        FROM drug_era, range(60) t(k)
        UNION ALL
        SELECT person_id, {FIRST} + (hash(person_id, k, 5) % {outcomes}),
            drug_era_start_date + 1 + (hash(person_id, k, 6) % 1500)::INT
        FROM drug_era, range(3) t(k);
        ALTER TABLE condition_occurrence ALTER condition_concept_id TYPE BIGINT;
        CREATE TABLE concept AS
        SELECT i AS concept_id, 'concept ' || i AS concept_name
        FROM range({FIRST + outcomes + covariates + 1}) t(i);
        """)


def specification(outcomes: int, adjusted: bool = False) -> GridSpec:
    """One comparison, four analyses; ``adjusted`` adds two with covariates in the outcome model."""
    common = {
        "at_risk": TimeAtRisk(start=1, end=1000, end_anchor="cohort start"),
        "features": FeatureRules(analyses=(1, 3, 6, 102)),
        "propensity": PropensityRules(variance=0.05),
    }
    half = outcomes // 2
    plain = common | {"propensity": None, "features": None}
    in_model = common | {"propensity": None}
    more = (
        StudyAnalysis(5, "covariates", outcome_model=OutcomeModel(covariates=True), **in_model),
        StudyAnalysis(
            6,
            "covariates, fixed prior",
            outcome_model=OutcomeModel(covariates=True, variance=0.05),
            **in_model,
        ),
    )
    return GridSpec(
        CohortSources(
            drugs={1: ConceptSet((TARGET,)), 2: ConceptSet((COMPARATOR,))},
            conditions={FIRST + k: ConceptSet((FIRST + k,)) for k in range(half)},
        ),
        (Question(1, 2, tuple(FIRST + k for k in range(half))),),
        (
            StudyAnalysis(1, "crude", **plain),
            StudyAnalysis(2, "matched", match=Match(), **common),
            StudyAnalysis(
                3,
                "strata",
                stratify=Stratify(5),
                outcome_model=OutcomeModel(stratified=True),
                **common,
            ),
            StudyAnalysis(4, "weighted", outcome_model=OutcomeModel(weighted=True), **common),
            *(more if adjusted else ()),
        ),
        ControlSet(concepts=tuple(FIRST + k for k in range(half, outcomes))),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("people", 20_000), ("covariates", 2_000), ("outcomes", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--adjusted", action="store_true", help="covariates in the outcome model")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        database = folder / "omop.duckdb"
        simulate(database, given.people, given.covariates, given.outcomes)
        began, used = time.perf_counter(), time.process_time()
        results = run_grid(
            database,
            specification(given.outcomes, given.adjusted),
            folder / "out",
            jobs=given.jobs,
            progress=print,
        )
        columns = len(results.tables["cm_covariate"]["covariate_id"].unique())
        print(f"{results}, {columns:,} covariates: {time.perf_counter() - began:.1f} s, "
              f"{time.process_time() - used:.1f} s of CPU in this process")  # fmt: skip
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
