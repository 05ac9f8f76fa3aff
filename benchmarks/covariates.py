"""Covariates of FeatureExtraction's default set, from a simulated OMOP database into the design.

    python -m benchmarks.covariates --people 100000 --concepts 17000

Prints the covariates, ones, seconds, seconds of CPU and memory of each step: the extraction (with
DuckDB's part), the tidying, and the design. ``--fit`` fits a propensity model to it too. Nothing is
as large as people × covariates.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from steropes.designs.covariates import TidyRules, tidy
from steropes.studies import OmopDatabase
from steropes.studies.covariates import FeatureRules, extract_features

# domain: table, columns, share of the concepts, records a person; by what the default set reads
DOMAINS = {
    "Condition": (
        "condition_era",
        "condition_era_id, person_id, condition_concept_id, condition_era_start_date, "
        "condition_era_end_date",
        0.40,
        60,
    ),
    "Drug": (
        "drug_era",
        "drug_era_id, person_id, drug_concept_id, drug_era_start_date, drug_era_end_date",
        0.08,
        25,
    ),
    "Procedure": (
        "procedure_occurrence",
        "procedure_occurrence_id, person_id, procedure_concept_id, procedure_date",
        0.30,
        50,
    ),
    "Measurement": (
        "measurement",
        "measurement_id, person_id, measurement_concept_id, measurement_date, value_as_number, "
        "range_low, range_high, value_as_concept_id",
        0.12,
        60,
    ),
    "Observation": (
        "observation",
        "observation_id, person_id, observation_concept_id, observation_date, value_as_concept_id",
        0.10,
        20,
    ),
}
FINDING, FIRST = 441840, 1_000_000


def simulate(path: Path, people: int, concepts: int) -> None:
    """Write the database: records by hashes of person and number, the same each time."""
    import duckdb

    with duckdb.connect(str(path)) as db:
        db.execute(f"""
        CREATE TABLE person AS SELECT i AS person_id, 8507 + 25 * (i % 2) AS gender_concept_id,
            (1930 + hash(i) % 60)::INT AS year_of_birth, 0 AS race_concept_id,
            0 AS ethnicity_concept_id FROM range({people}) t(i);
        CREATE TABLE observation_period AS SELECT person_id,
            DATE '2000-01-01' AS observation_period_start_date,
            DATE '2020-12-31' AS observation_period_end_date FROM person;
        CREATE TABLE starts AS SELECT person_id,
            DATE '2010-01-01' + (hash(person_id, 8) % 1000)::INT AS start FROM person;
        CREATE TABLE condition_occurrence (person_id BIGINT, condition_concept_id BIGINT,
            condition_start_date DATE);
        CREATE TABLE concept (concept_id BIGINT, concept_name VARCHAR, domain_id VARCHAR,
            vocabulary_id VARCHAR, concept_class_id VARCHAR, standard_concept VARCHAR,
            concept_code VARCHAR);
        CREATE TABLE concept_ancestor (ancestor_concept_id BIGINT, descendant_concept_id BIGINT,
            min_levels_of_separation INT);
        """)
        base = FIRST
        for number, (domain, (table, columns, share, records)) in enumerate(DOMAINS.items()):
            size = int(share * concepts)
            kind = "Ingredient" if domain == "Drug" else "Clinical Finding"
            db.execute(f"""
            INSERT INTO concept SELECT {base} + i, '{domain} ' || i, '{domain}', 'SNOMED', '{kind}',
                'S', i::VARCHAR FROM range({size}) t(i)""")
            names = columns.split(", ")
            more = {
                "value_as_number": "(hash(h, 4) % 100)::DOUBLE",
                "range_low": "10.0",
                "range_high": "80.0",
                "value_as_concept_id": "45877994 + hash(h, 5) % 3",
            }
            rest = "".join(
                f", {more.get(n, 'day')}::{'DATE' if n.endswith('_date') else 'DOUBLE'} AS {n}"
                if n != "value_as_concept_id"
                else f", ({more[n]})::BIGINT AS {n}"
                for n in names[4:]
            )
            db.execute(f"""
            CREATE TABLE {table} AS
            SELECT row_number() OVER () AS {names[0]}, person_id, {names[2]},
                day AS {names[3]}{rest}
            FROM (SELECT person_id, hash(person_id, k, {number}) AS h,
                    {base} + ((h % 1000000 / 1e6) ** 3 * {size})::BIGINT AS {names[2]},
                    start - (hash(h, 3) % 540)::INT AS day
                  FROM starts, range({records}) t(k))""")
            if domain in ("Condition", "Drug"):
                _hierarchy(db, base, size, domain)
            base += size + 10_000
        db.execute("DROP TABLE starts")


def _hierarchy(db, base: int, size: int, domain: str) -> None:
    """Each concept under itself and under three groups, one for every four concepts in all."""
    groups = max(size // 4, 1)
    first = base + size + 1
    kind = "'SNOMED'" if domain == "Condition" else "'ATC'"
    code = "i::VARCHAR" if domain == "Condition" else "lpad(i::VARCHAR, 5, 'A')"
    db.execute(f"""
    INSERT INTO concept SELECT {first} + i, 'group {domain} ' || i, '{domain}', {kind}, 'Group',
        'C', {code} FROM range({groups}) t(i);
    INSERT INTO concept_ancestor SELECT {base} + i, {base} + i, 0 FROM range({size}) t(i);
    INSERT INTO concept_ancestor
        SELECT DISTINCT {first} + hash(i, k) % {groups}, {base} + i, 1
        FROM range({size}) t(i), range(3) u(k);
    """)
    if domain == "Condition":
        db.execute(f"""
        INSERT INTO concept_ancestor SELECT {FINDING}, {base} + i, 4 FROM range({size}) t(i);
        INSERT INTO concept_ancestor SELECT {FINDING}, {first} + i, 3 FROM range({groups}) t(i);
        """)


class Clock:
    """Seconds, seconds of CPU and the most memory so far, step by step."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def tell(self, what: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{what}: {wall - self.wall:.1f} s, {cpu - self.cpu:.1f} s of CPU, "
              f"at most {peak:.2f} GiB so far", flush=True)  # fmt: skip
        self.wall, self.cpu = time.perf_counter(), time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--concepts", type=int, default=17_000)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep the database here, and use it if there")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        path = given.keep or folder / "omop.duckdb"
        if not path.exists():
            simulate(path, given.people, given.concepts)
        clock = Clock()
        with OmopDatabase(path) as db:
            with db.workspace() as work:
                entries = work.run(
                    "SELECT person_id, DATE '2010-01-01' + (hash(person_id, 8) % 1000)::INT "
                    f"AS start FROM {db.table('person')} ORDER BY 1"
                ).df()
            clock.tell("people")
            features = extract_features(db, entries, FeatureRules())
            clock.tell(f"extracted {features!r}, {len(features.rows):,} values")
        tidied = tidy(features, TidyRules())
        clock.tell(f"tidied: {tidied!r}")
        everything = tidy(features, TidyRules(min_share=0)).design
        clock.tell(f"design of all: {everything.shape[1]:,} columns")
        if given.fit:
            del everything
            _fit(features, len(entries), clock)
    finally:
        shutil.rmtree(folder)


def _fit(features, n: int, clock: Clock) -> None:
    """A propensity score of a treatment that some of the covariates lead to."""
    from steropes.designs import PropensityRules, fit_scores

    rng = np.random.default_rng(1)
    frequent = np.argsort(-features.columns["people"].to_numpy(), kind="stable")[20:60]
    effect = np.zeros(len(features.columns))
    effect[frequent] = rng.normal(0, 0.5, len(frequent))
    eta = features.matrix() @ effect
    treated = rng.random(n) < 1 / (1 + np.exp(-(eta - eta.mean())))
    scores = fit_scores(features, treated, PropensityRules(variance=0.01))
    clock.tell(f"propensity model: {scores!r}")


if __name__ == "__main__":
    main()
