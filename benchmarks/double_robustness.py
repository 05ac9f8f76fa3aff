"""Bias and coverage of doubly robust estimates when one model, or both, are misspecified.

    python -W ignore -m benchmarks.double_robustness [--n 1000 --covariates 5 --repeats 300 --refit]

draws covariates, a treatment and an outcome that depend on the first two covariates and on the
square of the second. A right model has this square as a column, and a wrong one has not. With more
than five covariates the models are lassos whose variance is chosen by five folds, or with
``--refit`` the columns of a lasso chosen by BIC are fitted again without a prior. Beside AIPW and
TMLE with five folds are the estimates that rely on one model alone: weights of the score, and
means of the outcome models. Repeat i is drawn from the seed i; all cases of a repeat share fits.
With ``--store FILE``, whose lines are repeats, a run continues where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, clone, is_classifier

import steropes
from steropes.designs import DoublyRobust
from steropes.models.repeated_fits.cross_fitting import cross_fit
from steropes.select.folds import make_folds

FEW = 5  # Covariates up to which models are fitted by maximum likelihood.
FOLDS = 5
PEOPLE = 400_000  # for the true risk difference
CASES = {"both right": (), "score wrong": ("score",), "outcome wrong": ("outcome",),
         "both wrong": ("score", "outcome")}  # fmt: skip


def draw(
    rng: np.random.Generator, n: int, kind: str, p: int
) -> tuple[NDArray, NDArray, NDArray, float]:
    """Draw covariates with the square last, treatment and outcome; return also the true effect."""
    X = rng.standard_normal((n, p))
    curve = X[:, 1] ** 2 - 1
    a = (rng.random(n) < expit(0.5 * X[:, 0] + 0.6 * curve)).astype(int)
    eta = X[:, 0] + curve
    X = np.column_stack([X, curve])
    if kind == "number":
        return X, a, a + eta + rng.standard_normal(n), 1.0
    both = [expit(-1.0 + 0.7 * t + 0.8 * eta) for t in (0, 1)]
    y = (rng.random(n) < np.where(a == 1, both[1], both[0])).astype(float)
    return X, a, y, float((both[1] - both[0]).mean())


class Refitted(BaseEstimator):
    """A model without a prior of the columns that a lasso selects by BIC."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: NDArray, y: NDArray) -> Refitted:
        """Select the columns and fit them."""
        by_bic = steropes.InformationCriterion("bic")
        lasso = clone(self.model).set_params(prior=steropes.Laplace(), cv=by_bic).fit(X, y)
        self.selected_ = np.flatnonzero(lasso.coef_)
        self.fitted_ = clone(self.model).fit(X[:, self.selected_], y)
        return self

    def predict(self, X: NDArray) -> NDArray:
        """Predict means, which are probabilities of a logistic model."""
        if is_classifier(self.model):
            return np.asarray(self.fitted_.predict_proba(X[:, self.selected_])[:, 1])
        return np.asarray(self.fitted_.predict(X[:, self.selected_]))


def model_of(kind: str, p: int, refit: bool = False) -> Any:
    """Return a model by maximum likelihood, or a lasso for many covariates."""
    if refit:
        plain = steropes.LinearRegression if kind == "number" else steropes.LogisticRegression
        return Refitted(plain())
    lasso = {} if p <= FEW else {"prior": steropes.Laplace(), "cv": FOLDS, "random_state": 0}
    own = steropes.LinearRegression if kind == "number" else steropes.LogisticRegression
    return own(**lasso)


def nuisances(
    X: NDArray, a: NDArray, y: NDArray, kind: str, fold: NDArray, refit: bool
) -> tuple[NDArray, NDArray]:
    """Cross-fit scores and means of both treatments."""
    p, n = X.shape[1] - 1, len(a)
    everybody = np.ones(n, dtype=bool)
    model = model_of("event", p, refit)
    score = cross_fit(model, X, a * 1.0, everybody, fold, "score").means[:, 0]
    model = model_of(kind, p, refit)
    means = [cross_fit(model, X, y, a == t, fold, "outcome").means[:, 0] for t in (1, 0)]
    return score, np.column_stack(means)


def estimates(
    rng: np.random.Generator, n: int, kind: str, p: int, refit: bool = False
) -> Iterator[tuple[str, str, float, float]]:
    """Yield the case, the method, its estimate and its error for one draw."""
    X, a, y, _ = draw(rng, n, kind, p)
    fold = make_folds(FOLDS, 1, a, None, n, 0)
    right = nuisances(X, a, y, kind, fold, refit)
    wrong = nuisances(X[:, :-1], a, y, kind, fold, refit)
    for case, parts in CASES.items():
        score = (wrong if "score" in parts else right)[0]
        means = (wrong if "outcome" in parts else right)[1]
        for name in ("tmle", "aipw"):
            found = DoublyRobust(method=name).fit(X[:, :2], a, y, score=score, means=means)
            row = found.effects_.iloc[0]
            yield case, name.upper(), row["estimate"], row["se"]
        w = found.weights_
        own = [float(np.average(y[a == t], weights=w[a == t])) for t in (1, 0)]
        yield case, "weights alone", own[0] - own[1], np.nan
        yield case, "outcome model alone", float((means[:, 0] - means[:, 1]).mean()), np.nan


def main() -> None:
    """Draw the repeats, and print bias, spread, mean error and coverage of 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--covariates", type=int, default=FEW)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--refit", action="store_true", help="refit the columns of a lasso")
    parser.add_argument("--outcomes", default="number,event")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop earlier after these")
    parser.add_argument("--store", type=Path, help="file of the repeats, which is continued")
    settings = parser.parse_args()
    start, lines = time.monotonic(), []
    if settings.store and settings.store.exists():
        lines = [json.loads(line) for line in settings.store.read_text().splitlines()]
    for k in range(len(lines), settings.repeats):
        if time.monotonic() - start > 60 * settings.minutes:
            break
        line: dict[str, list] = {}
        for kind in settings.outcomes.split(","):
            rng = np.random.default_rng(k)
            drawn = estimates(rng, settings.n, kind, settings.covariates, settings.refit)
            line[kind] = list(drawn)
        lines.append(line)
        if settings.store:
            with settings.store.open("a") as file:
                file.write(json.dumps(line) + "\n")
    report(lines)


def report(lines: list[dict[str, list]]) -> None:
    """Print a row per outcome, misspecification and method."""
    for kind in lines[0]:
        truth = draw(np.random.default_rng(2**32), PEOPLE, kind, 2)[3]
        rows = [row for line in lines for row in line[kind]]
        found = pd.DataFrame(rows, columns=["models", "method", "estimate", "se"])
        table = []
        for (case, method), own in found.groupby(["models", "method"], sort=False):
            value, se = own["estimate"], own["se"]
            inside = (value - truth).abs() <= 1.959964 * se
            table.append({
                "outcome": kind, "models": case, "method": method, "repeats": len(own),
                "bias": value.mean() - truth, "sd": value.std(), "mean se": se.mean(),
                "coverage": inside.mean() if se.notna().any() else np.nan,
            })  # fmt: skip
        print(pd.DataFrame(table).round(4).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
