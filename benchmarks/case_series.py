"""From a database to the rows of a case series of all drugs, at the size of Suchard and others.

    python benchmarks/case_series.py                  # 115,000 cases, about 3.8 million intervals
    python benchmarks/case_series.py --cases 20000    # smaller
    python benchmarks/case_series.py --large          # 3.6 million cases, about 75 million
    python benchmarks/case_series.py --memory 500MB   # what the database may use
    python benchmarks/case_series.py --fit            # and one fit, Laplace prior of variance 0.1

makes an OMOP database of random drug eras in a temporary folder (not timed), then finds the cases,
cuts their time and builds X; it prints seconds (and those of the processors), and memory above
what was resident before, also as a multiple of X (row numbers and pointers).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

from steropes import Laplace, SelfControlledCaseSeries
from steropes.studies import OmopDatabase, case_series_settings
from steropes.studies.sccs.columns import era_columns
from steropes.studies.sccs.eras import Eras
from steropes.studies.sccs.intervals import make_intervals
from steropes.studies.sccs.population import find_cases
from steropes.studies.sccs.sources import Sources

OUTCOME = 9_000_000
DAYS = 1_500


def make_database(path: Path, cases: int, drugs: int, eras: float) -> None:
    """Cases observed for 1,500 days, with a Poisson-like number of eras of drugs of any use."""
    with duckdb.connect(str(path)) as con:
        con.execute("SELECT setseed(0.5)")
        con.execute(f"""
        CREATE TABLE person AS SELECT i::BIGINT AS person_id, 8507::BIGINT AS gender_concept_id,
            (1930 + i % 70)::BIGINT AS year_of_birth FROM range({cases}) t(i)""")
        con.execute(f"""
        CREATE TABLE observation_period AS SELECT person_id,
            DATE '2008-01-01' AS observation_period_start_date,
            DATE '2008-01-01' + {DAYS} AS observation_period_end_date FROM person""")
        con.execute(f"""
        CREATE TABLE condition_occurrence AS SELECT person_id,
            {OUTCOME}::BIGINT AS condition_concept_id,
            DATE '2008-01-01' + (random() * {DAYS})::INTEGER AS condition_start_date
            FROM person""")
        con.execute(f"""
        CREATE TABLE drug_era AS
        WITH drawn AS (
            SELECT (i / {eras})::BIGINT AS person_id, random() AS u, random() AS v, random() AS w
            FROM range(({cases} * {eras})::BIGINT) t(i))
        SELECT person_id, (1 + {drugs} * u * u)::BIGINT AS drug_concept_id,
               DATE '2008-01-01' + ({DAYS} * v)::INTEGER AS drug_era_start_date,
               DATE '2008-01-01' + ({DAYS} * v + 5 + 85 * w)::INTEGER AS drug_era_end_date
        FROM drawn""")
        con.execute(f"""
        CREATE TABLE concept AS SELECT i::BIGINT AS concept_id, 'drug ' || i AS concept_name
        FROM range({drugs} + 2) t(i) UNION ALL SELECT {OUTCOME}, 'outcome'""")


def resident() -> int:
    """Peak resident memory in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def build(path: Path, memory: str | None, fit: bool) -> None:
    """Time the steps from the database to X."""
    settings = case_series_settings(OUTCOME, end_of_observation_days=30)
    with OmopDatabase(path, memory=memory) as db, db.workspace() as work:
        before, began, used = resident(), time.perf_counter(), time.process_time()
        sources = Sources(db, work, settings.cases, None)
        population = find_cases(db, work, settings.cases, sources)
        found = time.perf_counter()
        eras = Eras(work, sources, settings)
        columns, windows = era_columns(eras, settings)
        made = make_intervals(eras, population, settings, columns, windows)
        cut = time.perf_counter()
        design = made.design()
        done, busy = time.perf_counter(), time.process_time() - used
    X = made.X.indices.nbytes + made.X.indptr.nbytes
    rows = sum(np.asarray(v).nbytes for v in (made.events, made.days, made.case))
    print(f"{len(population):,} cases, {len(made):,} intervals, {design.p:,} covariates, "
          f"{design.nnz:,} ones")  # fmt: skip
    print(f"cases {found - began:.1f} s, intervals {cut - found:.1f} s, design {done - cut:.1f} s: "
          f"{done - began:.1f} s, processors {busy:.1f} s")  # fmt: skip
    beyond = resident() - before
    print(f"X {X / 1e6:,.0f} MB, its rows {rows / 1e6:,.0f} MB; beyond what was resident "
          f"{beyond / 1e6:,.0f} MB, {beyond / (X + rows):.1f} times both")  # fmt: skip
    if fit:
        began, used = time.perf_counter(), time.process_time()
        model = SelfControlledCaseSeries(prior=Laplace(variance=0.1))
        model.fit(design, made.events, strata=made.case, exposure=made.days)
        print(f"fit {time.perf_counter() - began:.1f} s, processors "
              f"{time.process_time() - used:.1f} s: {np.count_nonzero(model.coef_)} drugs, "
              f"certificate {model.optimality_:.1e}; peak {resident() / 1e6:,.0f} MB")  # fmt: skip


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=115_000)
    parser.add_argument("--drugs", type=int, default=1_224)
    parser.add_argument("--eras", type=float, default=17.0, help="a case")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--fit", action="store_true", help="fit the model too")
    parser.add_argument("--memory", help="of the database, such as 500MB")
    given = parser.parse_args()
    cases, drugs, eras = given.cases, given.drugs, given.eras
    if given.large:
        cases, drugs, eras = 3_600_000, 1_428, 10.5
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "omop.duckdb"
        make_database(path, cases, drugs, eras)
        build(path, given.memory, given.fit)


if __name__ == "__main__":
    main()
