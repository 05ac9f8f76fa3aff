"""From a database to the rows of a case series of all drugs, at the sizes of Suchard and others.

    python benchmarks/case_series.py                  # the smallest: 115,000 cases, 3.8 M rows
    python benchmarks/case_series.py --size 4         # the largest: 3.6 M cases, 75 M rows
    python benchmarks/case_series.py --cases 20000    # smaller
    python benchmarks/case_series.py --memory 500MB   # what the database may use
    python benchmarks/case_series.py --fit            # and one fit, Laplace prior of variance 0.1
    python benchmarks/case_series.py --folds 10       # and the variance by cross-validation

makes an OMOP database of random drug eras in a temporary folder (not timed, by a process of its
own), then finds the cases, cuts their time and builds X; it prints seconds (and those of the
processors), and memory above what was resident before, also as a multiple of X (row numbers and
pointers). The paper says the smallest and the largest of its four outcomes (section 4); the two in
between are put at equal ratios.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

from steropes import CrossValidation, Laplace, SelfControlledCaseSeries
from steropes.designs.case_series.interval_rows import Intervals, make_intervals
from steropes.studies import OmopDatabase, case_series_settings
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_covariates import era_columns
from steropes.studies.sccs.cases.era_sources import Sources
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.cases.risk_windows import stream_spans

OUTCOME = 9_000_000
DAYS = 1_500
HARMFUL, SHARE = 10, 0.2  # every tenth drug; in a fifth of one era of each of its users
SIZES = {  # cases, drugs, eras a case, which become 3.8, 10, 28 and 75 million rows
    1: (115_000, 1_224, 22.5),
    2: (362_000, 1_288, 19.5),
    3: (1_143_000, 1_357, 16.9),
    4: (3_600_000, 1_428, 14.6),
}


def make_database(path: Path, cases: int, drugs: int, eras: float) -> None:
    """Cases observed for 1,500 days, with eras of drugs of any use; some drugs do harm."""
    with duckdb.connect(str(path)) as con:
        con.execute("SET enable_progress_bar = false")
        con.execute("SELECT setseed(0.5)")
        con.execute(f"""
        CREATE TABLE person AS SELECT i::BIGINT AS person_id, 8507::BIGINT AS gender_concept_id,
            (1930 + i % 70)::BIGINT AS year_of_birth FROM range({cases}) t(i)""")
        con.execute(f"""
        CREATE TABLE observation_period AS SELECT person_id,
            DATE '2008-01-01' AS observation_period_start_date,
            DATE '2008-01-01' + {DAYS} AS observation_period_end_date FROM person""")
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
        CREATE TABLE condition_occurrence AS
        WITH one AS (
            SELECT person_id, any_value(drug_concept_id) AS drug, any_value(drug_era_start_date)
                AS first, random() AS u, random() AS v FROM drug_era GROUP BY 1)
        SELECT person_id, {OUTCOME}::BIGINT AS condition_concept_id,
            CASE WHEN drug % {HARMFUL} = 0 AND u < {SHARE} THEN first + (30 * v)::INTEGER
                 ELSE DATE '2008-01-01' + (v * {DAYS})::INTEGER END AS condition_start_date
        FROM one""")
        con.execute(f"""
        CREATE TABLE concept AS SELECT i::BIGINT AS concept_id, 'drug ' || i AS concept_name
        FROM range({drugs} + 2) t(i) UNION ALL SELECT {OUTCOME}, 'outcome'""")


def resident() -> int:
    """Peak resident memory in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def build(path: Path, memory: str | None, fit: bool, folds: int) -> None:
    """Time the steps from the database to X, and fits."""
    settings = case_series_settings(OUTCOME, end_of_observation_days=30)
    with OmopDatabase(path, memory=memory) as db, db.workspace() as work:
        before, began, used = resident(), time.perf_counter(), time.process_time()
        sources = Sources(db, work, settings.cases, None)
        population = find_cases(db, work, settings.cases, sources)
        found = time.perf_counter()
        eras = Eras(work, sources, settings)
        columns, windows = era_columns(eras, settings)
        made = make_intervals(stream_spans(eras, windows), population, settings, columns)
        cut = time.perf_counter()
        design = made.design()
        done, busy = time.perf_counter(), time.process_time() - used
    beyond = resident() - before
    X = made.X.indices.nbytes + made.X.indptr.nbytes
    rows = sum(np.asarray(v).nbytes for v in (made.events, made.days, made.case))
    print(f"{len(population):,} cases, {len(made):,} intervals, {design.p:,} covariates, "
          f"{design.nnz:,} ones")  # fmt: skip
    print(f"cases {found - began:.1f} s, intervals {cut - found:.1f} s, design {done - cut:.1f} s: "
          f"{done - began:.1f} s, processors {busy:.1f} s")  # fmt: skip
    print(f"X {X / 1e6:,.0f} MB, its rows {rows / 1e6:,.0f} MB; beyond what was resident "
          f"{beyond / 1e6:,.0f} MB, {beyond / (X + rows):.2f} times both", flush=True)  # fmt: skip
    del population, eras, columns, windows
    if fit:
        estimate(SelfControlledCaseSeries(prior=Laplace(variance=0.1)), made, "fit")
    if folds:
        model = SelfControlledCaseSeries(prior=Laplace(), cv=CrossValidation(folds, random_state=1))
        estimate(model, made, f"{folds} folds")


def estimate(model: SelfControlledCaseSeries, made: Intervals, what: str) -> None:
    """Time a fit."""
    began, used = time.perf_counter(), time.process_time()
    model.fit(made.design(), made.events, strata=made.case, exposure=made.days)
    variance = model.variance_ if model.cv is not None else 0.1
    print(f"{what} {time.perf_counter() - began:.1f} s, processors "
          f"{time.process_time() - used:.1f} s: {np.count_nonzero(model.coef_)} drugs, "
          f"variance {variance:.3g}, certificate {model.optimality_:.1e}; "
          f"peak {resident() / 1e6:,.0f} MB", flush=True)  # fmt: skip


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, choices=SIZES, default=1)
    parser.add_argument("--cases", type=int, help="instead of the size's")
    parser.add_argument("--drugs", type=int, help="instead of the size's")
    parser.add_argument("--eras", type=float, help="a case, instead of the size's")
    parser.add_argument("--fit", action="store_true", help="fit the model too")
    parser.add_argument("--folds", type=int, default=0, help="choose the variance too")
    parser.add_argument("--memory", help="of the database, such as 500MB")
    given = parser.parse_args()
    cases, drugs, eras = (
        own or usual
        for own, usual in zip(
            (given.cases, given.drugs, given.eras), SIZES[given.size], strict=True
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "omop.duckdb"
        making = multiprocessing.get_context("spawn").Process(
            target=make_database, args=(path, cases, drugs, eras)
        )
        making.start()
        making.join()
        build(path, given.memory, given.fit, given.folds)


if __name__ == "__main__":
    main()
