"""How the time of one fit grows with the columns that are active, on columns as claims have them.

    python -m benchmarks.growth [--n 100000 --p 20000]

fits a logistic lasso anew at each of a row of penalties, prints processor seconds and passes
(`X.T @ r` by one thread), and draws them in `benchmarks/results/growth.svg`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from steropes import Laplace, LogisticRegression

from .simulate import simulate

PENALTIES = (60.0, 30.0, 14.14, 7.0, 4.5, 3.0, 2.0, 1.4)
PICTURE = Path(__file__).parent / "results" / "growth.svg"


def one_pass(X) -> float:
    """Processor seconds of X.T @ r, the least of five."""
    r = np.random.default_rng(0).normal(size=X.shape[0])
    times = []
    for _ in range(5):
        start = time.process_time()
        X.T @ r
        times.append(time.process_time() - start)
    return min(times)


def measure(X, y) -> list[tuple[float, int, float]]:
    """Penalty, nonzero coefficients and processor seconds of each fit."""
    LogisticRegression(prior=Laplace(0.01)).fit(X[:2000, :50], y[:2000])  # kernels are compiled
    rows = []
    for lam in PENALTIES:
        start = time.process_time()
        with warnings.catch_warnings():
            m = LogisticRegression(prior=Laplace(2 / lam**2), tol=1e-4).fit(X, y)
        rows.append((lam, int(np.count_nonzero(m.coef_)), time.process_time() - start))
        print(f"| {lam:g} | {rows[-1][1]:,} | {rows[-1][2]:.2f} |", flush=True)
    return rows


def draw(rows: list[tuple[float, int, float]], unit: float) -> None:
    """Passes against active columns, both on logarithmic scales."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    active, passes = [r[1] for r in rows], [r[2] / unit for r in rows]
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(active, passes, "o-", label="one fit")
    axes.loglog(active, [passes[0] * a / active[0] for a in active], ":", label="in proportion")
    axes.set(xlabel="nonzero coefficients", ylabel="processor time, in passes over X")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Simulate, fit and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--p", type=int, default=20_000)
    parser.add_argument("--density", type=float, default=0.00365)
    parser.add_argument("--seed", type=int, default=5)
    a = parser.parse_args()
    made = simulate("logistic", "correlated", a.n, a.p, a.density, rate=0.3, seed=a.seed)
    X, y = made["X"], made["y"].astype(int)
    unit = one_pass(X)
    print(f"n = {a.n:,}, p = {a.p:,}, {X.nnz:,} ones; one pass = {1e3 * unit:.1f} ms\n")
    print("| λ | nonzero | processor seconds |\n|---|---:|---:|")
    draw(measure(X, y), unit)


if __name__ == "__main__":
    main()
