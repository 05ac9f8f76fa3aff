"""The data and the fits with which the expressions of the table of equivalents are evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.model_selection import cross_val_predict, cross_val_score
from sksurv.metrics import as_concordance_index_ipcw_scorer
from sksurv.util import Surv

import steropes


def names_of_equivalents() -> dict[str, Any]:
    """Return the names that the expressions of the table may use, with their values."""
    rng = np.random.default_rng(1)
    n = 100
    df = pd.DataFrame({
        "age": rng.normal(60, 10, n) / 10, "sex": rng.integers(0, 2, n),
        "dose": rng.normal(size=n), "site": rng.choice(["a", "b", "c"], n),
        "set": np.arange(n) // 4, "id": np.arange(n) // 2,
    })  # fmt: skip
    eta = 0.3 * (df["age"] - 6) + 0.5 * df["sex"] + 0.3 * df["dose"]
    time = rng.exponential(np.exp(-eta)) + 0.1
    cause = rng.integers(0, 3, n)
    event = (cause > 0) * 1
    df["time"], df["event"] = time, event
    df["dead"] = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1
    df["weight"] = 70 + 5 * eta + rng.normal(size=n)
    df["count"] = rng.poisson(np.exp(eta))
    X, y = df[["age", "sex", "dose"]], steropes.Surv(time, event)
    names = {name: getattr(steropes, name) for name in steropes.__all__}
    formula = "Surv(time, event) ~ rcs(age, 3) + sex"
    return {
        **names,
        "np": np, "sparse": sparse,
        "cross_val_score": cross_val_score,
        "cross_val_predict": cross_val_predict, "y_sksurv": Surv.from_arrays(event == 1, time),
        "as_concordance_index_ipcw_scorer": as_concordance_index_ipcw_scorer,
        "df": df, "X": X, "y": y, "time": time, "event": event, "cause": cause,
        "start": time / 2, "w": np.ones(n), "times": [0.5, 1.0],
        "cox": steropes.CoxRegression().fit(X, y),
        "cox_of_age": steropes.CoxRegression().fit(X[["age"]], y),
        "cox_formula": steropes.CoxRegression.from_formula(formula, df),
        "logistic": steropes.LogisticRegression().fit(X, df["dead"]),
        "linear": steropes.LinearRegression().fit(X, df["weight"]),
        "cumulative": steropes.CumulativeProbabilityModel().fit(X, df["weight"]),
        "km": steropes.kaplan_meier(y),
    }  # fmt: skip
