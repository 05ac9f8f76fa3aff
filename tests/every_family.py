"""Every family with data of its own: for facts that must hold in all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulators import mixed_matrix, outcome
from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    FineGrayRegression,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    NegativeBinomialRegression,
    PoissonRegression,
    PooledLogisticRegression,
    SelfControlledCaseSeries,
    Surv,
)

__all__ = ["EVERY", "Case", "case"]

SET = 5  # rows of a matched set or person


@dataclass
class Case:
    """A model's class and settings, X dense, y, and what else ``fit`` takes."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    settings: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

    def make(self, **settings: Any) -> Any:
        """An estimator that was not fitted."""
        return self.model(**self.settings, **settings)

    def fit(self, X: Any = None, **settings: Any) -> Any:
        """Fit a new estimator, to another form of X where given."""
        return self.make(**settings).fit(self.X if X is None else X, self.y, **self.extras)


EVERY = (
    "linear", "logistic", "poisson", "gamma", "negative binomial", "cox", "cox by step",
    "cox strata", "fine gray",
    "conditional exact", "conditional efron", "conditional breslow", "conditional poisson",
    "case series", "pooled", "pooled change", "fine gray late", "cumulative",
)  # fmt: skip


def case(name: str, rng: Any, n: int = 200, p: int = 5, X: np.ndarray | None = None) -> Case:
    """Data of a family, drawn with X or on the X given."""
    X = mixed_matrix(rng, n, p) if X is None else X
    n, p = X.shape
    eta = X[:, : p // 2 + 1].sum(axis=1) * 0.5
    eta = (eta - eta.mean()) / max(1.0, eta.std())
    sets = np.repeat(np.arange(-(-n // SET)), SET)[:n]
    if name == "linear":
        return Case(LinearRegression, X, outcome("linear", eta, rng))
    if name == "logistic":
        return Case(LogisticRegression, X, np.array(["no", "yes"])[outcome("logistic", eta, rng)])
    if name == "multinomial":
        y = (eta + rng.logistic(size=n) > 0.3) + (rng.random(n) < 0.3)
        return Case(MultinomialLogisticRegression, X, np.array(["a", "b", "c"])[y * 1])
    if name == "poisson":
        t = rng.uniform(0.5, 2.0, n)
        return Case(
            PoissonRegression, X, outcome("poisson", eta + np.log(t), rng),
            extras={"exposure": t, "offset": rng.normal(size=n) * 0.1},
        )  # fmt: skip
    if name == "gamma":
        return Case(
            GammaRegression, X, rng.gamma(2.0, np.exp(eta) / 2.0),
            extras={"offset": rng.normal(size=n) * 0.1},
        )  # fmt: skip
    if name == "negative binomial":
        t = rng.uniform(0.5, 2.0, n)
        y = rng.poisson(rng.gamma(2.0, np.exp(eta) * t / 2.0)).astype(float)
        return Case(NegativeBinomialRegression, X, y, extras={"exposure": t})
    if name.startswith("conditional ") and name != "conditional poisson":
        y = (eta + rng.logistic(size=n) > 0.5).astype(float)
        method = name.removeprefix("conditional ")
        return Case(ConditionalLogisticRegression, X, y, {"method": method}, {"strata": sets})
    if name in ("conditional poisson", "case series"):
        t = rng.uniform(0.5, 2.0, n)
        y = rng.poisson(np.exp(eta) * t).astype(float)
        series = name == "case series"
        model = SelfControlledCaseSeries if series else ConditionalPoissonRegression
        return Case(model, X, y, extras={"strata": sets, "exposure": t})
    if name == "cumulative":
        return Case(CumulativeProbabilityModel, X, np.round(outcome("linear", eta, rng), 1))
    time, event = outcome("cox", eta, rng)
    if name == "cox":
        return Case(CoxRegression, X, Surv(time, event))
    if name == "cox by step":
        return Case(CoxRegression, X, Surv(time, event), {"time_varying": {1: [3.0]}})
    if name == "cox strata":
        strata = np.array(["a", "b", "c"])[sets % 3]
        return Case(CoxRegression, X, Surv(time, event), extras={"strata": strata})
    if name.startswith("fine gray"):
        code = np.where(event == 1, 1 + (rng.random(n) < 0.3), 0)
        entry = np.where(np.arange(n) % 4, time * rng.random(n), 0.0) if "late" in name else None
        return Case(FineGrayRegression, X, Surv(time, code, entry))
    settings = {"interval": 2.0, "baseline": 1}
    if name == "pooled change":
        settings["time_varying"] = {0: 1}
    return Case(PooledLogisticRegression, X, Surv(time, event), settings)
