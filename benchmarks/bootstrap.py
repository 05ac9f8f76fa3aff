"""Bootstrap draws of the claims-size Cox model beside one fit, in processor seconds.

    python -m benchmarks.bootstrap [--n 434866 --p 9811 --draws 10]

simulates the data of `cox-claims-cv`, fits at a given variance, and draws; the time of the fit is
that of `fit` from X with its certificate, and of the draws that of `bootstrap`.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from steropes import CoxRegression, Laplace, LogisticRegression, Surv

from .simulate import simulate
from .tasks import TASKS


def main() -> None:
    """Simulate, fit, draw and print."""
    task = TASKS["cox-claims-cv"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=("cox", "logistic"), default="cox")
    parser.add_argument("--n", type=int, default=task.n)
    parser.add_argument("--p", type=int, default=task.p)
    parser.add_argument("--density", type=float, default=task.density)
    parser.add_argument("--rate", type=float, default=task.rate)
    parser.add_argument("--variance", type=float, default=0.01)
    parser.add_argument("--draws", type=int, nargs="+", default=[10])
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    made = simulate(a.family, "claims", a.n, a.p, a.density, a.rate, a.seed)
    X = made["X"]
    if a.family == "cox":
        kind, y = CoxRegression, Surv(made["time"], made["y"].astype(int))
    else:
        kind, y = LogisticRegression, made["y"]
    events = int(made["y"].sum())
    print(f"n = {a.n:,}, p = {a.p:,}, {X.nnz:,} ones, {events:,} events", flush=True)
    kind(prior=Laplace(0.1)).fit(X[:2000, :50], y[:2000]).inference.bootstrap(
        3
    )  # kernels are compiled
    model = kind(prior=Laplace(a.variance), tol=a.tol, n_jobs=a.threads)
    start = time.process_time()
    model.fit(X, y)
    one = time.process_time() - start
    nonzero = int(np.count_nonzero(model.coef_))
    print(f"one fit {one:.1f} s, {model.n_iter_} steps, {nonzero} nonzero", flush=True)
    for draws in a.draws:
        start = time.process_time()
        model.inference.bootstrap(draws, random_state=1)
        took = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{draws} draws {took:.1f} s = {took / one:.2f} fits, peak {peak:.1f} GiB", flush=True
        )


if __name__ == "__main__":
    main()
