"""Time and memory of a sequence of monthly trials: 60 months, 20 covariates.

    python -m benchmarks.sequential_trials [--people 50000 --effect per-protocol --draws 0]

draws person-time in which a covariate changes with time and treatment lowers it, emulates a trial
that starts in every month, and prints processor seconds and the peak of memory, of the process and
beyond what the table and the libraries take. With draws a second line has the cost of all draws as
a multiple of the estimate without them.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from steropes.designs.target_trials import sequential_trials

MONTHS, COVARIATES = 60, 20


def draw(people: int, seed: int = 0) -> pd.DataFrame:
    """Draw person-time in order of people and months, with covariates in single precision."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(people, COVARIATES)).astype(np.float32)
    x, a, there = np.zeros(people), np.zeros(people), np.ones(people, bool)
    parts = []
    for month in range(MONTHS):
        x = 0.7 * x - 0.3 * a + rng.normal(size=people)
        start = expit(-3.5 + 0.4 * x + 0.2 * B[:, 0])
        a = (rng.random(people) < np.where(a == 1, 0.95, start)) * 1
        y = rng.random(people) < expit(-6 + 0.3 * x + 0.3 * B[:, 1] - 0.3 * a)
        lost = (rng.random(people) < 0.005) & ~y
        i = np.flatnonzero(there)
        columns = {"id": i.astype(np.int32), "month": np.int16(month), "x": x[i].astype(np.float32),
                   "a": a[i].astype(np.int8), "y": y[i] * np.int8(1)}  # fmt: skip
        parts.append(pd.DataFrame(columns))
        there &= ~(y | lost)
    table = pd.concat(parts).sort_values(["id", "month"], ignore_index=True)
    for j in range(COVARIATES):
        table[f"b{j}"] = B[table["id"], j]
    return table


def main() -> None:
    """Measure one estimate, and one with draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument(
        "--effect", default="intention-to-treat", choices=["intention-to-treat", "per-protocol"]
    )
    parser.add_argument("--draws", type=int, default=0)
    asked = parser.parse_args()
    table = draw(asked.people)
    fixed = [f"b{j}" for j in range(COVARIATES)]
    settings: dict[str, Any] = {
        "id": "id", "period": "month", "treatment": "a", "outcome": "y", "covariates": fixed,
        "effect": asked.effect,
    }  # fmt: skip
    if asked.effect == "per-protocol":
        settings |= {"treatment_weights": (fixed, [*fixed, "x"]), "truncate": 0.99}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds = []
    for draws in sorted({0, asked.draws}):
        since = time.process_time()
        found = sequential_trials(table, **settings, bootstrap=draws)
        seconds.append(time.process_time() - since)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{len(table):,} rows, {draws} draws: {seconds[-1]:.1f} processor s, "
            f"peak {peak:.2f} GB, {peak - before:.2f} beyond the table; "
            f"odds ratio {found.effects['estimate'].iloc[0]:.4f}",
            flush=True,
        )
    if asked.draws:
        print(f"The draws cost {(seconds[1] - seconds[0]) / seconds[0]:.1f} estimates.")


if __name__ == "__main__":
    main()
