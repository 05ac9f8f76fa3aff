"""TMLE with lasso models in ten folds beside the lasso propensity model with ten folds alone.

    python -m benchmarks.targeted_lasso [--n 100000 --p 20000 --dense --plain]

draws claims-like covariates, or normal and binary ones with ``--dense``, a treatment and a number
as outcome, fits the lasso propensity model whose variance ten folds choose, and `DoublyRobust` with
this model and such models of the outcome in both groups, cross-fitted in ten folds. With
``--plain`` all models are by maximum likelihood. It prints processor seconds of one process.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from steropes import LinearRegression, LogisticRegression
from steropes.designs import DoublyRobust

from .comparison_peers import lassos, people
from .simulate import simulate


def drawn(n: int, p: int, dense: bool) -> tuple:
    """Draw covariates, treatment and outcome."""
    if dense:
        table = people(n, p)
        return table[[f"x{j}" for j in range(p)]], table["drug"], table["y"]
    found = simulate("logistic", "claims", n, p, None, 0.3, 1)
    X, treated = found["X"], found["y"].astype(int)
    rng = np.random.default_rng(2)
    effects = np.where(rng.random(p) < 0.02, rng.normal(0, 0.3, p), 0.0)
    return X, treated, treated + X @ effects + rng.normal(size=n)


def main() -> None:
    """Print the seconds of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--p", type=int, default=20_000)
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--plain", action="store_true", help="models by maximum likelihood")
    given = parser.parse_args()
    score, outcome = (LogisticRegression(), LinearRegression()) if given.plain else lassos()
    model = DoublyRobust(treatment_model=score, outcome_model=outcome, folds=10)
    for n, p in ((2_000, min(given.p, 200)), (given.n, given.p)):  # the first one compiles
        X, treated, y = drawn(n, p, given.dense)
        start = time.process_time()
        score.fit(X, treated)
        folds = time.process_time() - start
        if n == given.n:
            print(f"n = {n:,}, p = {p:,}; propensity model: {folds:.1f} s", flush=True)
        start = time.process_time()
        model.fit(X, treated, y)
        spent = time.process_time() - start
    row = model.effects_.iloc[0]
    print(f"TMLE: {spent:.1f} s, {spent / folds:.1f} times; {row.estimate:.4f} ({row.se:.4f})")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
