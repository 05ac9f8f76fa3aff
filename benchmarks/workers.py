"""A lasso fit in blocks on 1, 2 and 4 Dask workers: processor time of the parts, bytes, calls.

`python -m benchmarks.workers [--rows 25000] [--times 365]`, of each of 8 blocks; with times, a Cox
model with so many distinct event times, whose risk sets go across all blocks. Processor seconds are
what this machine can tell whatever else it does: of the busiest worker (the time of a step where
each has a core of its own) and of the driver.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
from scipy import sparse

import steropes

BLOCKS, COLUMNS, A_ROW = 8, 2_000, 60


def block(k: int, rows: int) -> sparse.csc_array:
    """Zeros and ones in columns of unequal frequency."""
    rng = np.random.default_rng(k)
    share = 1 / np.sqrt(np.arange(1, COLUMNS + 1))
    share *= A_ROW / share.sum()
    columns = [np.flatnonzero(rng.random(rows, np.float32) < min(f, 0.9)) for f in share]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    ones = np.ones(indptr[-1], np.int8)
    return sparse.csc_array((ones, np.concatenate(columns), indptr), shape=(rows, COLUMNS))


def outcome(rows: int) -> np.ndarray:
    """Of 20 of the columns."""
    beta = np.zeros(COLUMNS)
    beta[:20] = np.linspace(-1, 1, 20)
    rng, parts = np.random.default_rng(99), []
    for k in range(BLOCKS):
        parts.append(rng.random(rows) < 1 / (1 + np.exp(1 - block(k, rows) @ beta)))
    return np.concatenate(parts).astype(int)


def main() -> None:
    """Print a line for each number of workers."""
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--times", type=int, default=0)
    given = parser.parse_args()
    rows, first = given.rows, None
    y, model = outcome(rows), steropes.LogisticRegression(prior=steropes.Laplace(0.003))
    if given.times:
        days = np.random.default_rng(1).integers(1, given.times + 1, len(y))
        y = steropes.Surv(np.where(y == 1, days, given.times), y)
        model = steropes.CoxRegression(prior=steropes.Laplace(0.003))
    for workers in (1, 2, 4):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as those,
            Client(those) as client,
        ):
            makers = [partial(block, k, rows) for k in range(BLOCKS)]
            design = steropes.ShardedDesign.from_blocks(makers, client=client)
            model.fit(design, y)  # blocks are made, kernels compiled
            traffic = model._problem.design.blocks.traffic
            before = traffic.calls, traffic.sent, traffic.received
            busy = client.run(time.process_time)
            here, wall = time.process_time(), time.perf_counter()
            model.fit(design, y)
            here, wall = time.process_time() - here, time.perf_counter() - wall
            after = client.run(time.process_time)
            most = max(after[w] - busy[w] for w in busy)
            calls = traffic.calls - before[0]
            sent, received = traffic.sent - before[1], traffic.received - before[2]
            first = model.coef_ if first is None else first
            print(
                f"{workers} workers: busiest worker {most:.1f} s, driver {here:.1f} s of processor "
                f"time, {wall:.0f} s by the clock; {model.n_iter_} steps, {calls} calls, "
                f"{sent / 1e6:.2f} MB sent, {received / 1e6:.1f} MB received, "
                f"{np.count_nonzero(model.coef_)} coefficients, same bits: "
                f"{np.array_equal(model.coef_, first)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
