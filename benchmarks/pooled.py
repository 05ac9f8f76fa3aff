"""Pooled logistic regression on many people and intervals: seconds and peak memory.

    python benchmarks/pooled.py [--scale 0.1] [--time-varying] [--baseline interval] [--variance V]

At scale 1: 407,828 people, 9,667 binary columns with 3 % ones and a skewed prevalence,
12.2 million person-intervals. The peak is the kernel's count of resident memory (VmHWM, reset
before the fit) above what the process held before X was made; X counts as its int32 row numbers.
"""

from __future__ import annotations

import argparse
import gc
import re
import time
import tracemalloc
from pathlib import Path

import numpy as np

import steropes
from steropes.design_matrix.column_storage import SparseBlock

N, P, SHARE, INTERVALS = 407_828, 9_667, 0.03, 30


def simulate(n: int, p: int, seed: int = 1):
    """Binary columns (prevalences from a beta distribution) and times in intervals of one."""
    rng = np.random.default_rng(seed)
    q = rng.beta(0.4, 8.0, p)
    q = np.clip(q * SHARE / q.mean(), 30.0 / n, 0.6)
    beta = np.zeros(p)
    active = rng.choice(p, min(200, p // 5), replace=False)
    beta[active] = rng.normal(0.0, 0.3, len(active))
    eta = np.zeros(n)
    indices = np.empty(int(1.1 * n * q.sum()) + 10_000, np.int32)
    indptr = np.zeros(p + 1, np.int64)
    for j in range(p):
        gaps = rng.geometric(q[j], int(n * q[j] + 8 * np.sqrt(n * q[j]) + 20))
        rows = np.cumsum(gaps) - 1
        rows = rows[: np.searchsorted(rows, n)]
        a = indptr[j]
        indices[a : a + len(rows)] = rows
        indptr[j + 1] = a + len(rows)
        if beta[j]:
            eta[rows] += beta[j] * (1 - q[j])
            eta -= beta[j] * q[j]
    indices = indices[: indptr[-1]]
    design = steropes.Design([SparseBlock.indicator(n, indptr, indices)])
    hazard = 1.0 / (1.0 + np.exp(6.4 - eta))
    censored = rng.integers(1, 2 * INTERVALS, n).astype(np.float64)
    happens = np.ceil(np.log(rng.random(n)) / np.log1p(-hazard))
    y = steropes.Surv(np.minimum(happens, censored), happens <= censored)
    return design, y


def resident(what: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (at the peak)."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=0.1, help="share of the people")
    parser.add_argument("--variance", type=float, default=0.002)
    parser.add_argument("--baseline", default="2")
    parser.add_argument("--time-varying", action="store_true", help="an x:t for every column")
    parser.add_argument("--traced", action="store_true", help="count NumPy's own peak as well")
    args = parser.parse_args()
    warm, y = simulate(500, 20)
    settings = {
        "interval": 1,
        "baseline": args.baseline if args.baseline == "interval" else int(args.baseline),
        "time_varying": 1 if args.time_varying else None,
        "prior": steropes.Laplace(args.variance),
    }
    if args.baseline != "interval":
        steropes.PooledLogisticRegression(**settings).fit(warm, y)  # compiles, or loads
    gc.collect()
    before = resident("VmRSS")
    design, y = simulate(round(N * args.scale), P)
    gc.collect()
    size = design.nnz * 4
    held = resident("VmRSS") - before
    Path("/proc/self/clear_refs").write_text("5")
    if args.traced:
        tracemalloc.start()
    start = time.perf_counter()
    model = steropes.PooledLogisticRegression(verbose=1, **settings).fit(design, y)
    seconds = time.perf_counter() - start
    peak = resident("VmHWM") - before
    nonzero = int((model.coef_ != 0).sum())
    print(
        f"n {design.n:,}, p {design.p:,}, entries {design.nnz:,}, person-intervals "
        f"{model.n_person_intervals_:,}, events {int(y['event'].sum()):,}"
    )
    print(
        f"seconds {seconds:.1f}, Newton steps {model.n_iter_}, nonzero {nonzero}, optimality "
        f"{model.optimality_:.1e}, log-likelihood {model.log_likelihood_:.6f}"
    )
    print(
        f"X {size / 1e6:.0f} MB, resident with X {held / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB "
        f"= {peak / size:.2f} X"
    )
    rows = model.n_person_intervals_ * (design.nnz / design.n)
    print(f"expanded person-interval rows: {rows * 4 / 1e9:.1f} GB = {rows * 4 / peak:.0f} peaks")
    if args.traced:
        print(f"traced peak of the fit alone {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
