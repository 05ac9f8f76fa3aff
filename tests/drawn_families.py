"""Each likelihood with its estimator and a small data set, drawn with a seed."""

from __future__ import annotations

import numpy as np

import steropes

N = 240
FAMILIES = ["logistic", "poisson", "pooled", "cox", "fine_gray", "conditional", "case_series"]
WITH_OFFSET = FAMILIES[:3]


def drawn(family, rng):
    """A model's class, settings and data; ``event`` says which rows count as outcomes."""
    X = np.column_stack([rng.normal(size=N), rng.random(N) < 0.3, rng.normal(size=(N, 2))])
    event = (rng.random(N) < 0.35).astype(int)
    time = np.ceil(8 * rng.random(N))
    fit = {}
    if family == "logistic":
        return steropes.LogisticRegression, {}, X, event, fit, event == 1
    if family == "poisson":
        y = event * (1 + rng.poisson(1.0, N))
        return steropes.PoissonRegression, {}, X, y, fit, y > 0
    if family == "pooled":
        y = steropes.Surv(time, event)
        return steropes.PooledLogisticRegression, {"interval": 1}, X, y, fit, event == 1
    if family == "cox":
        y = steropes.Surv(rng.exponential(size=N), event)
        return steropes.CoxRegression, {}, X, y, fit, event == 1
    if family == "fine_gray":
        code = np.where(event == 1, 1, 2 * (rng.random(N) < 0.3))
        y = steropes.Surv(rng.exponential(size=N), code)
        return steropes.FineGrayRegression, {}, X, y, fit, code == 1
    fit = {"strata": np.arange(N) // 6}
    if family == "conditional":
        return steropes.ConditionalLogisticRegression, {}, X, event, fit, event == 1
    y = event * (1 + rng.poisson(1.0, N))
    return steropes.ConditionalPoissonRegression, {}, X, y, fit, y > 0
