"""Conditional models at the sizes of the published comparisons: seconds and peak memory.

    python benchmarks/conditional.py exact          # 20,000 rows, 1,000 strata, 13 cases of 20
    python benchmarks/conditional.py sccs           # 115,000 people, 3.8 million eras, 1,224 drugs
    python benchmarks/conditional.py sccs --large   # 3.6 million people, 75 million eras

Case series: each person has a few drugs, of which two or three are taken in each era; popularity
follows Zipf's law. The lasso's variance is fixed. Seconds are those of the second fit of a
process (the first compiles or loads the kernels on a small problem); memory is the process's
peak, the input included.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import numpy as np

import steropes
from steropes.design_matrix.column_storage import SparseBlock


def exact(n=20_000, p=100, strata=1_000, cases=13, seed=1):
    """Normal covariates; the cases of a stratum are drawn one after another, by Gumbel noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    size = n // strata
    utility = (X @ rng.normal(0, 0.3, p) + rng.gumbel(size=n)).reshape(strata, size)
    y = np.zeros((strata, size))
    np.put_along_axis(y, np.argsort(-utility, axis=1)[:, :cases], 1.0, axis=1)
    return X, y.ravel(), np.repeat(np.arange(strata), size)


def case_series(people: int, eras: int, drugs: int, seed: int = 1, at_once: int = 200_000):
    """Columns of drugs by era, events, persons and days."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(drugs) + 3.0)
    edges = np.cumsum(popularity / popularity.sum())
    beta = np.where(rng.random(drugs) < 0.1, rng.normal(0, 0.7, drugs), 0.0)
    counts = 2 + rng.poisson(eras / people - 2, people)
    n = int(counts.sum())
    y, days = np.zeros(n), rng.integers(1, 120, n).astype(np.float64)
    start = np.concatenate([[0], np.cumsum(counts)])
    parts = []
    for a in range(0, people, at_once):
        b = min(a + at_once, people)
        lo, hi = start[a], start[b]
        pool = np.searchsorted(edges, rng.random((b - a, 8))).astype(np.int16)
        person = np.repeat(np.arange(b - a), counts[a:b])
        chosen = pool[person[:, None], rng.integers(0, 8, (hi - lo, 3))]
        chosen[rng.random(hi - lo) < 0.5, 2] = -1
        chosen.sort(axis=1)
        chosen[:, 1:][chosen[:, 1:] == chosen[:, :-1]] = -1
        effect = np.where(chosen >= 0, beta[chosen], 0.0).sum(axis=1)
        share = np.cumsum(days[lo:hi] * np.exp(effect))
        before = np.concatenate([[0.0], share])[start[a:b] - lo]
        total = share[start[a + 1 : b + 1] - lo - 1] - before
        for _ in range(2):  # one event each, a second in every fifth person
            at = np.searchsorted(share, before + rng.random(b - a) * total)
            at = np.clip(at, start[a:b] - lo, start[a + 1 : b + 1] - lo - 1)
            who = np.ones(b - a, bool) if _ == 0 else rng.random(b - a) < 0.2
            np.add.at(y, lo + at[who], 1.0)
        row, place = np.nonzero(chosen >= 0)
        column = chosen[row, place]
        by = np.argsort(column, kind="stable")
        parts.append((np.bincount(column, minlength=drugs), (row[by] + lo).astype(np.int32)))
    return _columns(n, drugs, parts), y, np.repeat(np.arange(people, dtype=np.int32), counts), days


def _columns(n, drugs, parts):
    """Merge the batches' entries, each sorted by column and row, into one indicator block."""
    indptr = np.concatenate([[0], np.cumsum(sum(c for c, _ in parts))])
    indices = np.empty(indptr[-1], np.int32)
    cursor = indptr[:-1].copy()
    while parts:
        count, rows = parts.pop(0)
        place = np.concatenate([[0], np.cumsum(count)])
        for j in np.flatnonzero(count):
            indices[cursor[j] : cursor[j] + count[j]] = rows[place[j] : place[j + 1]]
        cursor += count
    return steropes.Design([SparseBlock.indicator(n, indptr, indices)])


def gigabytes(what: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) / 1024**2


def clock() -> np.ndarray:
    """Seconds of the wall and of the processors."""
    return np.array([time.perf_counter(), time.process_time()])


def report(model, seconds: np.ndarray) -> None:
    """One line."""
    print(
        f"{seconds[0]:.2f} s ({seconds[1]:.2f} s of CPU), {model.n_iter_} steps, "
        f"optimality {model.optimality_:.1e}, "
        f"{np.count_nonzero(model.coef_)} nonzero, log-likelihood {model.log_likelihood_:.4f}, "
        f"peak {gigabytes('VmHWM'):.2f} GB"
    )


def main() -> None:
    """Run one benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["exact", "efron", "breslow", "sccs"])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--tol", type=float, default=None)
    parser.add_argument("--variance", type=float, default=0.01)
    given = parser.parse_args()
    if given.what == "sccs":
        sizes = [(2_000, 40_000, 100), (115_000, 3_800_000, 1_224)]
        if given.large:
            sizes[1] = (3_600_000, 75_000_000, 1_428)
        tol = given.tol or 1e-4
        for size in sizes:
            X, y, person, days = case_series(*size)
            print(f"{X}, {int(y.sum())} events, {gigabytes('VmRSS'):.2f} GB before the fit")
            model = steropes.SelfControlledCaseSeries(
                prior=steropes.Laplace(given.variance), tol=tol
            )
            start = clock()
            model.fit(X, y, strata=person, exposure=days)
            report(model, clock() - start)
        return
    X, y, strata = exact()
    model = steropes.ConditionalLogisticRegression(method=given.what, tol=given.tol or 1e-8)
    for _ in range(3):
        start = clock()
        model.fit(X, y, strata=strata)
        report(model, clock() - start)
    start = clock()
    model.summary()
    print(f"standard errors: {(clock() - start)[0]:.2f} s")


if __name__ == "__main__":
    main()
