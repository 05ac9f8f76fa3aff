"""Time Cyclops and this library on the same claims-like problems, with the objectives of both."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.objective import objective
from benchmarks.simulate import simulate

import steropes as st

from .r_programs import RTooSlow, run_r
from .timed_task import REPEATS, TimedTask, fastest, keep_time, read_times

__all__ = ["FAMILIES", "time_fits"]

TYPES = {"logistic": "lr", "cox": "cox", "conditional-poisson": "cpr", "fine-gray": "fgr"}
FAMILIES = tuple(TYPES)
OF_STRATUM = 10  # rows of a stratum
A_ROW = 73  # covariates of a person, as in the benchmark claims-fit
VARIANCE = 0.01


def time_fits(
    rows: int,
    columns: int,
    families: tuple[str, ...],
    folds: int,
    limit: float = math.inf,
    results: Path | None = None,
) -> Iterator[TimedTask]:
    """Fit each family once with a given variance and, if ``folds``, by cross-validation.

    Parameters
    ----------
    rows, columns : int
    families : tuple of str
        Names of `FAMILIES`.
    folds : int
        Folds of cross-validation; 0 for one fit alone.
    limit : float
        Processor seconds after which R is stopped.
    results : Path, optional
        File to which tasks are appended; those that it has are not repeated.
    """
    known = {(t.data, t.task) for t in read_times(results)}
    data_name = f"{rows:,} × {columns:,}"
    for family in families:
        for k in (0, folds) if folds else (0,):
            task = f"{family.replace('-', ' ')}, {f'{k} folds' if k else 'one fit'}"
            if (data_name, task) in known:
                continue
            data = _draw(family, rows, columns)
            few = _draw(family, max(2000, rows // 10), max(200, columns // 10))
            _fit(family, few, VARIANCE, k)  # compiles the kernels, as R's are
            times = _timed(family, data, k, limit)
            yield keep_time(results, TimedTask(data_name, task, *times))


def _draw(family: str, rows: int, columns: int) -> dict[str, Any]:
    """Draw columns as claims have them, and outcomes of the family."""
    survival = family in ("cox", "fine-gray")
    kind = "cox" if survival else "logistic"
    share = min(A_ROW / columns, 0.05)
    data = simulate(kind, "correlated", rows, columns, share, 0.1 if survival else 0.3, 1)
    data["strata"] = np.arange(rows) // OF_STRATUM
    if family == "fine-gray":
        competes = (data["y"] == 0) & (np.random.default_rng(2).random(rows) < 0.3)
        data["y"] = np.where(competes, 2, data["y"]).astype(int)
    return data


def _timed(
    family: str, data: dict[str, Any], folds: int, limit: float
) -> tuple[float, float, float, bool]:
    """Return seconds of both programs, R's objective above ours, and whether R ended."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _write(family, data, folder)
        given = (folder, TYPES[family], str(VARIANCE), str(folds), str(REPEATS))
        try:
            said = json.loads(run_r("times.R", *given, limit=limit).splitlines()[-1])
            found = pd.read_csv(folder / "beta.csv").set_index("id")["beta"]
        except RTooSlow:
            said, found = None, None
    model, seconds = fastest(lambda: _fit(family, data, VARIANCE, folds))
    if said is None or found is None:
        return seconds, limit, math.nan, False
    excess = math.nan
    if not folds:
        lam = math.sqrt(2 / VARIANCE)
        own = float(getattr(model, "intercept_", 0.0))
        columns = np.arange(1, data["X"].shape[1] + 1)
        theirs = found.reindex(columns, fill_value=0.0).to_numpy()
        excess = _objective(family, data, theirs, float(found.get(0, 0.0)), lam) - _objective(
            family, data, np.asarray(model.coef_).ravel(), own, lam
        )
    return seconds, said["seconds"], excess, True


def _write(family: str, data: dict[str, Any], folder: Path) -> None:
    """Write the problem in Cyclops's order, in files of integers and doubles."""
    order = np.arange(len(data["y"]))
    if "time" in data:
        order = np.lexsort((order, data["y"], -data["time"]))
    X = data["X"].tocsr()[order].tocsc()
    X.sort_indices()
    integers = {
        "y": data["y"][order],
        "stratum": data["strata"][order],
        "rows": X.indices,
        "columns": np.repeat(np.arange(X.shape[1]), np.diff(X.indptr)),
    }
    for name, values in integers.items():
        np.asarray(values, np.int32).tofile(folder / f"{name}.bin")
    time_at_risk = data.get("time", np.ones(len(order)))
    np.asarray(time_at_risk[order], float).tofile(folder / "time.bin")


def _fit(family: str, data: dict[str, Any], variance: float, folds: int) -> Any:
    """Fit the model here on one thread, by cross-validation if there are folds."""
    given: dict[str, Any] = {"prior": st.Laplace(variance), "n_jobs": 1}
    if folds:
        given["cv"] = st.CrossValidation(folds, random_state=1)
    if family == "logistic":
        return st.LogisticRegression(**given).fit(data["X"], data["y"].astype(int))
    if family == "conditional-poisson":
        model = st.ConditionalPoissonRegression(**given)
        return model.fit(data["X"], data["y"], strata=data["strata"])
    outcome = st.Surv(data["time"], data["y"])
    if family == "fine-gray":
        return st.FineGrayRegression(cause=1, **given).fit(data["X"], outcome)
    return st.CoxRegression(ties="breslow", **given).fit(data["X"], outcome)


def _objective(
    family: str, data: dict[str, Any], beta: np.ndarray, intercept: float, lam: float
) -> float:
    """Return the negative log-likelihood plus the penalty."""
    if family in ("logistic", "cox"):
        return objective(family, data, beta, intercept, lam)
    eta, y = data["X"] @ beta, data["y"]
    penalty = lam * float(np.abs(beta).sum())
    if family == "fine-gray":
        return _fine_gray_loss(data["time"], y, eta) + penalty
    total = np.bincount(data["strata"], np.exp(eta))
    return float(np.bincount(data["strata"], y) @ np.log(total) - y @ eta) + penalty


def _fine_gray_loss(time: np.ndarray, y: np.ndarray, eta: np.ndarray) -> float:
    """Return the negative log pseudo-likelihood of distinct times."""
    order = np.argsort(time)
    y, eta = y[order], eta[order]
    left = np.arange(len(y), 0, -1)
    before = np.append(1.0, np.cumprod(1 - (y == 0) / left)[:-1])  # of the censoring, just before
    e = np.exp(eta)
    at_risk = np.cumsum(e[::-1])[::-1]
    competing = np.append(0.0, np.cumsum(np.where(y == 2, e / before, 0.0))[:-1])
    event = y == 1
    return float(np.sum(np.log(at_risk + before * competing)[event]) - eta[event].sum())
