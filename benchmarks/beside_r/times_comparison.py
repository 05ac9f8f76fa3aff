"""Time Cyclops and this library on the same claims-like problems, with the objectives of both."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.objective import objective
from benchmarks.simulate import simulate

import steropes as st

from .r_programs import run_r

__all__ = ["FAMILIES", "TimedFit", "time_fits"]

TYPES = {"logistic": "lr", "cox": "cox", "conditional-poisson": "cpr"}
FAMILIES = tuple(TYPES)
OF_STRATUM = 10  # rows of a stratum


@dataclass(frozen=True)
class TimedFit:
    """Seconds of both programs, and how far R's objective is above ours under the same prior.

    Attributes
    ----------
    family : str
    folds : int
        Folds of cross-validation; 0 for a fit with a given variance.
    seconds, r_seconds : float
        Elapsed seconds of the fit alone, on one thread.
    excess : float
        R's penalised objective less ours, at R's variance if it was chosen; NaN where both chose
        another.
    """

    family: str
    folds: int
    seconds: float
    r_seconds: float
    excess: float

    def as_row(self) -> str:
        """Return a line of a Markdown table."""
        what = f"{self.family}, {self.folds} folds" if self.folds else f"{self.family}, one fit"
        ratio = self.r_seconds / self.seconds
        numbers = f"{self.r_seconds:.2f} s | {self.seconds:.2f} s | {ratio:.1f} | {self.excess:.1e}"
        return f"| {what} | {numbers} |"


def time_fits(rows: int, columns: int, families: tuple[str, ...], folds: int) -> Iterator[TimedFit]:
    """Fit each family once with a given variance and, if ``folds``, by cross-validation."""
    for family in families:
        kind = "cox" if family == "cox" else "logistic"
        data = simulate(kind, "claims", rows, columns, None, 0.2, 1)
        data["strata"] = np.arange(rows) // OF_STRATUM
        for k in (0, folds) if folds else (0,):
            yield _timed(family, data, 0.01, k)


def _timed(family: str, data: dict[str, Any], variance: float, folds: int) -> TimedFit:
    """Fit both programs and compare their objectives."""
    order = np.arange(len(data["y"]))
    if family == "cox":
        order = np.lexsort((order, data["y"], -data["time"]))
    X = data["X"].tocsr()[order].tocsc()
    X.sort_indices()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        frame = {"rowId": np.arange(len(order)), "y": data["y"][order].astype(int),
                 "time": data.get("time", np.ones(len(order)))[order],
                 "stratumId": data["strata"][order]}  # fmt: skip
        pd.DataFrame(frame).to_csv(folder / "rows.csv", index=False)
        at = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr)) + 1
        entries = pd.DataFrame({"rowId": X.indices, "covariateId": at})
        entries.to_csv(folder / "entries.csv", index=False)
        said = json.loads(
            run_r("times.R", folder, TYPES[family], str(variance), str(folds)).splitlines()[-1]
        )
        found = pd.read_csv(folder / "beta.csv")
    theirs, intercept = np.zeros(X.shape[1]), 0.0
    for i, b in zip(found["id"], found["beta"], strict=True):
        if i:
            theirs[i - 1] = b
        else:
            intercept = b
    some = slice(0, min(2000, len(order)))
    few = {n: v if n == "source" else (v.tocsr()[some, :20].tocsc() if n == "X" else v[some])
           for n, v in data.items()}  # fmt: skip
    _fit(family, few, variance, 2 if folds else 0)  # compiles the kernels, as R's are
    started = time.perf_counter()
    model = _fit(family, data, variance, folds)
    seconds = time.perf_counter() - started
    excess = math.nan
    if not folds:
        lam = math.sqrt(2 / variance)
        own = float(getattr(model, "intercept_", 0.0))
        excess = _objective(family, data, theirs, intercept, lam) - _objective(
            family, data, np.asarray(model.coef_).ravel(), own, lam
        )
    return TimedFit(family, folds, seconds, said["seconds"], excess)


def _fit(family: str, data: dict[str, Any], variance: float, folds: int) -> Any:
    """Fit the model here on one thread, by cross-validation if there are folds."""
    given: dict[str, Any] = {"prior": st.Laplace(variance), "n_jobs": 1}
    if folds:
        given["cv"] = st.CrossValidation(folds, random_state=1)
    if family == "logistic":
        return st.LogisticRegression(**given).fit(data["X"], data["y"].astype(int))
    if family == "cox":
        outcome = st.Surv(data["time"], data["y"])
        return st.CoxRegression(ties="breslow", **given).fit(data["X"], outcome)
    model = st.ConditionalPoissonRegression(**given)
    return model.fit(data["X"], data["y"], strata=data["strata"])


def _objective(
    family: str, data: dict[str, Any], beta: np.ndarray, intercept: float, lam: float
) -> float:
    """Return the negative log-likelihood plus the penalty."""
    if family != "conditional-poisson":
        return objective(family, data, beta, intercept, lam)
    eta, y, strata = data["X"] @ beta, data["y"], data["strata"]
    total = np.bincount(strata, np.exp(eta))
    loss = float(np.bincount(strata, y) @ np.log(total) - y @ eta)
    return loss + lam * float(np.abs(beta).sum())
