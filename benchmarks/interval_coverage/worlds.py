"""Data of known truth for each family: a treatment, and thirty covariates of which six confound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    FineGrayRegression,
    LogisticRegression,
    SelfControlledCaseSeries,
    Surv,
)

__all__ = ["CONFOUND", "EFFECT", "WORLDS", "World", "covariates"]

EFFECT = float(np.log(2.0))  # of the treatment, where it has one
CONFOUND = 0.3  # effect of each confounder on the outcome, and on the treatment
CONFOUNDERS = 6


@dataclass(frozen=True)
class World:
    """A family's data.

    Attributes
    ----------
    estimator : type
    draw : callable
        From a generator, a size, the number of covariates and the treatment's effect to X, y and
        what else ``fit`` takes. Column 0 is the treatment.
    small, large : int
        Sizes: rows, sets or people.
    """

    estimator: Any
    draw: Callable[[np.random.Generator, int, int, float], tuple[np.ndarray, Any, dict[str, Any]]]
    small: int
    large: int


def covariates(
    rng: np.random.Generator, n: int, k: int, effect: float
) -> tuple[np.ndarray, np.ndarray]:
    """A treatment with k covariates, (n, 1 + k), and the linear predictor of the outcome."""
    Z = (rng.random((n, k)) < 0.3).astype(float)
    some = min(CONFOUNDERS, k)
    lean = CONFOUND * (Z[:, :some] - 0.3).sum(axis=1)
    x = (rng.random(n) < 1 / (1 + np.exp(0.4 - 2 * lean))).astype(float)
    return np.column_stack([x, Z]), effect * x + lean


def _logistic(rng: np.random.Generator, n: int, k: int, effect: float) -> Any:
    X, eta = covariates(rng, n, k, effect)
    return X, (rng.random(n) < 1 / (1 + np.exp(1.0 - eta))).astype(int), {}


def _cox(rng: np.random.Generator, n: int, k: int, effect: float) -> Any:
    X, eta = covariates(rng, n, k, effect)
    time, end = rng.exponential(np.exp(-eta)), rng.uniform(0.2, 1.2, n)
    return X, Surv(np.minimum(time, end), time <= end), {}


def _conditional(rng: np.random.Generator, sets: int, k: int, effect: float) -> Any:
    X, eta = covariates(rng, 4 * sets, k, effect)
    w = np.exp(eta).reshape(sets, 4)
    chosen = (w.cumsum(axis=1) < rng.random((sets, 1)) * w.sum(axis=1, keepdims=True)).sum(axis=1)
    y = np.zeros((sets, 4), int)
    y[np.arange(sets), chosen] = 1
    return X, y.ravel(), {"strata": np.repeat(np.arange(sets), 4)}


def _series(rng: np.random.Generator, people: int, k: int, effect: float) -> Any:
    X, eta = covariates(rng, 5 * people, k, effect)
    days = rng.uniform(20, 200, 5 * people)
    rate = (days * np.exp(eta)).reshape(people, 5)
    events = 1 + rng.poisson(0.4, people)
    y = np.stack([rng.multinomial(m, r / r.sum()) for m, r in zip(events, rate, strict=True)])
    return X, y.ravel(), {"strata": np.repeat(np.arange(people), 5), "exposure": days}


def _competing(rng: np.random.Generator, n: int, k: int, effect: float) -> Any:
    """Fine and Gray (1999, §5): F₁(t | x) = 1 − [1 − p (1 − e^{−t})]^{exp η}, p = 0.5."""
    X, eta = covariates(rng, n, k, effect)
    ever = 1 - 0.5 ** np.exp(eta)
    u = rng.random(n)
    first = u < ever
    inside = 1 - (1 - np.where(first, u, 0.0)) ** np.exp(-eta)
    own = -np.log1p(-np.minimum(inside / 0.5, 1 - 1e-12))
    time = np.where(first, own, rng.exponential(1.0, n))
    end = rng.uniform(0.5, 3.0, n)
    cause = np.where(time <= end, np.where(first, 1, 2), 0)
    return X, Surv(np.minimum(time, end), cause), {}


WORLDS = {
    "logistic": World(LogisticRegression, _logistic, 100, 1000),
    "Cox": World(CoxRegression, _cox, 80, 800),
    "conditional": World(ConditionalLogisticRegression, _conditional, 50, 500),
    "case series": World(SelfControlledCaseSeries, _series, 40, 400),
    "Fine-Gray": World(FineGrayRegression, _competing, 100, 1000),
}
