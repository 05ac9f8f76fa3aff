"""Coverage of intervals of effects that are weighted by an estimated propensity score.

    python -m benchmarks.interval_coverage.estimated_weights [--repeats 300 --sizes 400 2000]

Four covariates confound a treatment with a conditional log ratio of log 2. Its marginal log ratio,
in everybody (ATE) or in the treated (ATT), is that of a million people who are given both
treatments.
Each interval is at 95%; "jackknife" leaves out rows up to 400 of them, and 100 random groups of
rows beyond. Repeat i of a size and family is drawn from the seed (size, family, i) for both
estimands.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from steropes import CoxRegression, DataError, LogisticRegression, Surv
from steropes.designs.propensity import EstimatedWeights

EFFECT = float(np.log(2.0))
CONFOUND = np.array([0.5, -0.5, 0.5, 0.3])  # of the covariates on the outcome
PROPENSITY = np.array([0.8, -0.6, 0.4, 0.5])  # and on the treatment
ESTIMANDS = ("ate", "att")
FAMILIES = ("logistic", "Cox")
PEOPLE = 1_000_000  # from whom the marginal ratios are computed
GROUPS = 100  # of a jackknife of more than ROWS rows
ROWS = 400


def covariates(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariates, two continuous and two binary, and the treatment."""
    X = np.column_stack([rng.normal(size=(n, 2)), rng.random((n, 2)) < 0.4])
    return X, (rng.random(n) < expit(X @ PROPENSITY - 0.9)).astype(int)


def outcome(rng: np.random.Generator, family: str, X: np.ndarray, treated: np.ndarray) -> Any:
    """Outcomes: a fifth to a third have the event, or fewer than half before the end."""
    eta = EFFECT * treated + X @ CONFOUND
    if family == "logistic":
        return (rng.random(len(X)) < expit(eta - 1.6)).astype(int)
    event, end = rng.exponential(np.exp(-eta)), rng.uniform(0.1, 1.0, len(X))
    return Surv(np.minimum(event, end), event <= end)


def estimator(family: str) -> Any:
    """A model of the outcome given the treatment alone."""
    return LogisticRegression(n_jobs=1) if family == "logistic" else CoxRegression(n_jobs=1)


def truth(family: str, estimand: str) -> float:
    """The marginal log ratio, from people who are given both treatments."""
    rng = np.random.default_rng(20)
    X, treated = covariates(rng, PEOPLE)
    X = X[treated == 1] if estimand == "att" else X
    both = np.repeat([1, 0], len(X))
    y = outcome(rng, family, np.concatenate([X, X]), both)
    return float(estimator(family).fit(both[:, None], y).coef_[0])


def intervals(rng: np.random.Generator, family: str, size: int, estimand: str) -> dict[str, Any]:
    """The limits of each method for one data set."""
    X, treated = covariates(rng, size)
    y = outcome(rng, family, X, treated)
    propensity = LogisticRegression(n_jobs=1).fit(X, treated)
    weights = EstimatedWeights(propensity, "ate" if estimand == "ate" else "att")
    model = estimator(family).fit(treated[:, None], y, sample_weight=weights.values)
    groups = {} if size <= ROWS else {"cluster": rng.permutation(size) % GROUPS}
    found = {
        "model": model.confint("x0", method="model"),
        "robust": model.confint("x0"),
        "HC1": model.confint("x0", method="HC1"),
        "jackknife": model.confint("x0", method="jackknife", **groups),
        "M-estimation": model.confint("x0", weight_model=weights),
    }
    if family == "logistic":
        found["HC3"] = model.confint("x0", method="HC3")
    return {name: table.loc["x0"].to_numpy() for name, table in found.items()}


def main() -> None:
    """Simulate, and print a row for each family, estimand and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs="+", default=[400, 2000])
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=FAMILIES)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for size in a.sizes:
        for number, family in enumerate(FAMILIES):
            if family not in a.only:
                continue
            for estimand in ESTIMANDS:
                value, since = truth(family, estimand), time.process_time()
                for i in range(a.repeats):
                    rng = np.random.default_rng([size, number, i])
                    try:
                        limits = intervals(rng, family, size, estimand)
                    except DataError:
                        limits = {"refused": np.array([-np.inf, np.inf])}
                    for name, (low, high) in limits.items():
                        rows.append(
                            (family, estimand, size, name, low <= value <= high, high - low)
                        )
                took = time.process_time() - since
                print(f"{family} {estimand} {size}: truth {value:.4f}, {took:.0f} s", flush=True)
    table = pd.DataFrame(rows, columns=["family", "estimand", "size", "method", "covers", "width"])
    by = table.groupby(["family", "estimand", "size", "method"], sort=False)
    share = by["covers"].agg(["mean", "size"])
    print((100 * share["mean"]).round(1).unstack("method").to_string())
    print(share["size"].unstack("method").to_string())
    print(by["width"].median().round(3).unstack("method").to_string())


if __name__ == "__main__":
    main()
