"""Compare `design.estimate()` with fits: processor seconds, and memory at the peak.

`python -m benchmarks.estimates [--only NAME]`. Each case is a process of its own with one thread,
whose peak is set back before the fit. ``told`` is for the working set that nobody knows before
(the default), ``told k`` for the columns that were nonzero at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import steropes
from steropes import CrossValidation, Laplace, Normal, Surv
from steropes.design_matrix.memory_estimate import estimate

SEED = 11


@dataclass(frozen=True)
class Case:
    """A model of a design: rows, columns, entries a row (0: dense), and what is asked of it."""

    model: str
    n: int
    p: int
    a_row: int
    prior: str
    variance: float = 0.01
    folds: int = 0
    draws: int = 0


CASES = {
    "logistic, lasso": Case("logistic", 100_000, 2_000, 30, "laplace", 3e-3),
    "logistic, lasso, larger": Case("logistic", 300_000, 5_000, 40, "laplace", 3e-3),
    "logistic, lasso, dense": Case("logistic", 30_000, 300, 0, "laplace", 1e-4),
    "logistic, ridge": Case("logistic", 100_000, 500, 20, "normal"),
    "logistic, none": Case("logistic", 100_000, 60, 10, "none"),
    "logistic, none, dense": Case("logistic", 50_000, 60, 0, "none"),
    "poisson, lasso": Case("poisson", 100_000, 2_000, 30, "laplace", 3e-3),
    "linear, lasso, dense": Case("linear", 30_000, 300, 0, "laplace", 1e-4),
    "cox, lasso": Case("cox", 100_000, 2_000, 30, "laplace", 3e-3),
    "cox, none, dense": Case("cox", 50_000, 40, 0, "none"),
    "fine-gray, lasso": Case("fine_gray", 50_000, 1_000, 20, "laplace", 3e-3),
    "logistic, 10 folds": Case("logistic", 50_000, 1_000, 30, "laplace", folds=10),
    "logistic, 10 folds, dense": Case("logistic", 10_000, 200, 0, "laplace", folds=10),
    "logistic, ridge, 10 folds": Case("logistic", 50_000, 300, 20, "normal", folds=10),
    "cox, 10 folds": Case("cox", 50_000, 1_000, 30, "laplace", folds=10),
    "logistic, 100 draws": Case("logistic", 50_000, 60, 10, "none", draws=100),
    "logistic, lasso, 100 draws": Case("logistic", 50_000, 1_000, 30, "laplace", 3e-3, draws=100),
    "cox, 100 draws": Case("cox", 50_000, 60, 10, "none", draws=100),
}


def matrix(case: Case) -> Any:
    """Columns of unequal frequency, or standard normal ones."""
    rng = np.random.default_rng(SEED)
    if not case.a_row:
        return rng.normal(size=(case.n, case.p))
    share = 1 / np.sqrt(np.arange(1, case.p + 1))
    share *= case.a_row / share.sum()
    columns = [np.flatnonzero(rng.random(case.n, np.float32) < min(f, 0.9)) for f in share]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    ones = np.ones(indptr[-1], np.int8)
    return sparse.csc_array((ones, np.concatenate(columns), indptr), shape=(case.n, case.p))


def outcome(case: Case, X: Any) -> Any:
    """Of 30 of the columns."""
    rng, beta = np.random.default_rng(SEED + 1), np.zeros(case.p)
    beta[: min(30, case.p)] = np.linspace(-0.7, 0.7, min(30, case.p))
    eta = X @ beta * (0.3 if not case.a_row else 1.0)
    if case.model == "linear":
        return eta + rng.normal(size=case.n)
    if case.model == "poisson":
        return rng.poisson(np.exp(eta - 2))
    if case.model == "logistic":
        return (rng.random(case.n) < 1 / (1 + np.exp(2 - eta))).astype(int)
    time_, end = rng.exponential(np.exp(-eta)), rng.exponential(0.5, case.n)
    event = (time_ < end).astype(int)
    if case.model == "fine_gray":
        event *= rng.integers(1, 3, case.n)
    return Surv(np.ceil(1000 * np.minimum(time_, end)), event)


def estimator(case: Case, chosen: bool) -> Any:
    """The model of a case, with a variance that is given or chosen."""
    kinds = {
        "linear": steropes.LinearRegression, "poisson": steropes.PoissonRegression,
        "logistic": steropes.LogisticRegression, "cox": steropes.CoxRegression,
        "fine_gray": steropes.FineGrayRegression,
    }  # fmt: skip
    prior = {"laplace": Laplace, "normal": Normal}.get(case.prior)
    cv = CrossValidation(case.folds, random_state=1) if chosen and case.folds else None
    given = None if prior is None else prior() if cv else prior(case.variance)
    return kinds[case.model](prior=given, cv=cv, n_jobs=1)


def _peak() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024.0 * float(line.split()[1])
    raise RuntimeError("no VmHWM")


def _now() -> float:
    return 4096.0 * float(Path("/proc/self/statm").read_text().split()[1])


def run(case: Case) -> dict[str, float]:
    """One case, in this process."""
    small = Case(case.model, 2_000, 30, case.a_row and 5, case.prior, 0.01, case.folds, case.draws)
    for c in (small, case):
        made = matrix(c)
        X, y = steropes.as_design(made), outcome(c, made)
        del made
        model = estimator(c, True)
        if c.draws:
            model.fit(X, y)
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before, start = _now(), time.process_time()
        if c.draws:
            estimator(c, True).fit(X, y).inference.bootstrap(c.draws, random_state=1)
        else:
            model.fit(X, y)
        took, most = time.process_time() - start, _peak() - before
    k = int((model.coef_ != 0).sum())
    out = {"measured s": took, "measured MB": most / 1e6, "k": k}
    for name, working in (("told", None), ("told k", k)):
        told = estimate(
            X.stored(), case.folds, case.draws, case.prior == "laplace", working, 1,
            time.process_time,
        )  # fmt: skip
        out |= {f"{name} s": told.seconds, f"{name} MB": told.memory / 1e6}
    return out


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    parser.add_argument("--case")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(run(CASES[given.case])))
        return
    for name in CASES:
        if given.only and given.only not in name:
            continue
        command = [sys.executable, "-m", "benchmarks.estimates", "--case", name]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        r = json.loads(found.stdout.splitlines()[-1])
        print(
            f"| {name} | {r['k']:.0f} | {r['measured s']:.1f} | {r['told s']:.1f} | "
            f"{r['told k s']:.1f} | {r['measured MB']:.0f} | {r['told MB']:.0f} | "
            f"{r['told k MB']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
