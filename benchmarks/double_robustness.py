"""Bias and coverage of doubly robust estimates when one model, or both, are misspecified.

    python -W ignore -m benchmarks.double_robustness [--n 1000 --repeats 300]

draws five covariates, a treatment and an outcome that depend on the first two and on the square of
the second. A right model has this square as a column, and a wrong one has not. Beside AIPW and
TMLE with five folds are the estimates that rely on one model alone: weights of the score, and
means of the outcome models. Repeat i is drawn from the seed i.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import steropes
from steropes.designs import DoublyRobust

COVARIATES = 5
PEOPLE = 400_000  # for the true risk difference
CASES = {"both right": (), "score wrong": ("score",), "outcome wrong": ("outcome",),
         "both wrong": ("score", "outcome")}  # fmt: skip


def draw(rng: np.random.Generator, n: int, kind: str) -> tuple[NDArray, NDArray, NDArray, float]:
    """Draw covariates with the square last, treatment and outcome; return also the true effect."""
    X = rng.standard_normal((n, COVARIATES))
    curve = X[:, 1] ** 2 - 1
    a = (rng.random(n) < expit(0.5 * X[:, 0] + 0.6 * curve)).astype(int)
    eta = X[:, 0] + curve
    X = np.column_stack([X, curve])
    if kind == "number":
        return X, a, a + eta + rng.standard_normal(n), 1.0
    both = [expit(-1.0 + 0.7 * t + 0.8 * eta) for t in (0, 1)]
    y = (rng.random(n) < np.where(a == 1, both[1], both[0])).astype(float)
    return X, a, y, float((both[1] - both[0]).mean())


def without_square(X: NDArray) -> NDArray:
    """Leave out the square."""
    return X[:, :-1]


def model_of(kind: str, wrong: bool) -> object:
    """Return a model by maximum likelihood, with the square or without."""
    own = steropes.LinearRegression() if kind == "number" else steropes.LogisticRegression()
    return make_pipeline(FunctionTransformer(without_square), own) if wrong else own


def estimates(
    rng: np.random.Generator, n: int, kind: str, wrong: tuple[str, ...]
) -> Iterator[tuple[str, float, float]]:
    """Yield the method, its estimate and its error for one draw."""
    X, a, y, _ = draw(rng, n, kind)
    tmle = DoublyRobust(
        treatment_model=model_of("event", "score" in wrong),
        outcome_model=model_of(kind, "outcome" in wrong),
    ).fit(X, a, y)
    given = {"score": tmle.score_, "means": tmle.means_}
    aipw = DoublyRobust(method="aipw").fit(X, a, y, **given)
    for name, found in (("TMLE", tmle), ("AIPW", aipw)):
        row = found.effects_.iloc[0]
        yield name, row["estimate"], row["se"]
    w, both = tmle.weights_, tmle.means_
    own = [float(np.average(y[a == t], weights=w[a == t])) for t in (1, 0)]
    yield "weights alone", own[0] - own[1], np.nan
    yield "outcome model alone", float((both[:, 0] - both[:, 1]).mean()), np.nan


def main() -> None:
    """Print bias in standard deviations, and coverage of 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=300)
    settings = parser.parse_args()
    rows = []
    for kind in ("number", "event"):
        truth = draw(np.random.default_rng(2**32), PEOPLE, kind)[3]
        for case, wrong in CASES.items():
            one = partial(estimates, n=settings.n, kind=kind, wrong=wrong)
            found = pd.DataFrame(
                [row for k in range(settings.repeats) for row in one(np.random.default_rng(k))],
                columns=["method", "estimate", "se"],
            )
            for method, own in found.groupby("method", sort=False):
                value, se = own["estimate"], own["se"]
                inside = (value - truth).abs() <= 1.959964 * se
                rows.append({
                    "outcome": kind, "models": case, "method": method,
                    "bias": value.mean() - truth, "sd": value.std(), "mean se": se.mean(),
                    "coverage": inside.mean() if se.notna().any() else np.nan,
                })  # fmt: skip
            print(pd.DataFrame(rows[-4:]).round(4).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
