"""Time glmnet, survival and rms, and this library on the same problems."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.objective import objective
from benchmarks.simulate import simulate

import steropes as st

from .r_programs import RTooSlow, run_r
from .timed_task import TimedTask, fastest, keep_time, read_times

__all__ = ["time_peers"]

VARIANCE = 0.01
LAMBDA = math.sqrt(2 / VARIANCE)


@dataclass(frozen=True)
class Peer:
    """A task of R's script, with the same task here.

    Attributes
    ----------
    task, package, words : str
    rows, columns : int
    survival : bool
        Whether the outcome is a time.
    fit : callable
        Fits the data here.
    """

    task: str
    package: str
    words: str
    rows: int
    columns: int
    survival: bool
    fit: Callable[[dict[str, Any]], Any]


def _lasso(cv: bool) -> dict[str, Any]:
    given: dict[str, Any] = {"prior": st.Laplace(VARIANCE), "n_jobs": 1}
    return given | ({"cv": st.CrossValidation(10, random_state=1)} if cv else {})


def _logistic(data: dict[str, Any], **given: Any) -> Any:
    return st.LogisticRegression(**given).fit(data["X"], data["y"].astype(int))


def _cox(data: dict[str, Any], **given: Any) -> Any:
    return st.CoxRegression(**given).fit(data["X"], st.Surv(data["time"], data["y"]))


def _ordinal(data: dict[str, Any]) -> Any:
    return st.CumulativeProbabilityModel().fit(data["X"], data["time"])


PEERS = (
    Peer("glmnet_logistic", "glmnet", "logistic lasso, one fit", 20_000, 4000, False,
         lambda d: _logistic(d, **_lasso(False))),
    Peer("glmnet_logistic_close", "glmnet", "logistic lasso, thresh = 1e-14", 20_000, 4000, False,
         lambda d: _logistic(d, **_lasso(False))),
    Peer("glmnet_cox_close", "glmnet", "Cox lasso, thresh = 1e-14", 20_000, 4000, True,
         lambda d: _cox(d, ties="breslow", **_lasso(False))),
    Peer("glmnet_logistic_folds", "glmnet", "logistic lasso, 10 folds", 20_000, 4000, False,
         lambda d: _logistic(d, **_lasso(True))),
    Peer("glmnet_cox", "glmnet", "Cox lasso, one fit", 20_000, 4000, True,
         lambda d: _cox(d, ties="breslow", **_lasso(False))),
    Peer("glmnet_cox_folds", "glmnet", "Cox lasso, 10 folds", 20_000, 4000, True,
         lambda d: _cox(d, ties="breslow", **_lasso(True))),
    Peer("survival_cox", "survival", "Cox without a prior", 100_000, 30, True, _cox),
    Peer("rms_logistic", "rms", "logistic without a prior", 100_000, 30, False, _logistic),
    Peer("rms_ordinal", "rms", "ordinal, each value distinct", 5000, 5, True, _ordinal),
)  # fmt: skip


def time_peers(limit: float, results: Path | None = None) -> Iterator[TimedTask]:
    """Time the tasks of all peers.

    Parameters
    ----------
    limit : float
        Processor seconds after which R is stopped.
    results : Path, optional
        File to which tasks are appended; those that it has are not repeated.
    """
    known = {(t.other, t.task) for t in read_times(results)}
    for peer in PEERS:
        if (peer.package, peer.words) in known:
            continue
        data = _draw(peer, peer.rows, peer.columns)
        peer.fit(_draw(peer, max(1000, peer.rows // 10), max(5, peer.columns // 10)))
        model, seconds = fastest(lambda peer=peer, data=data: peer.fit(data))
        name = f"{peer.rows:,} × {peer.columns:,}"
        r_seconds, theirs = _of_r(peer, data, limit)
        excess = math.nan
        if theirs is not None and peer.task != "rms_ordinal":
            excess = _excess(peer, data, model, theirs)
        finished = math.isfinite(r_seconds)
        task = TimedTask(
            name, peer.words, seconds, r_seconds if finished else limit, excess, finished,
            peer.package,
        )  # fmt: skip
        yield keep_time(results, task)


def _draw(peer: Peer, rows: int, columns: int) -> dict[str, Any]:
    """Draw columns as claims have them, or a few common ones."""
    kind, share = ("uniform", 0.3) if columns < 100 else ("correlated", min(73 / columns, 0.05))
    family = "cox" if peer.survival else "logistic"
    return simulate(family, kind, rows, columns, share, 0.1 if peer.survival else 0.3, 1)


def _of_r(peer: Peer, data: dict[str, Any], limit: float) -> tuple[float, np.ndarray | None]:
    """Return R's seconds, infinite if it was stopped, and its intercept and coefficients."""
    X = data["X"].tocsc()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        np.asarray(data["y"], float).tofile(folder / "y.bin")
        np.asarray(data.get("time", data["y"]), float).tofile(folder / "time.bin")
        np.asarray(X.indices, np.int32).tofile(folder / "rows.bin")
        columns = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
        np.asarray(columns, np.int32).tofile(folder / "columns.bin")
        try:
            said = run_r("peer_times.R", folder, peer.task, str(LAMBDA), str(X.shape[1]),
                         limit=limit)  # fmt: skip
        except RTooSlow:
            return math.inf, None
        path = folder / "beta.csv"
        beta = pd.read_csv(path)["beta"].to_numpy() if path.exists() else None
    return json.loads(said.splitlines()[-1])["seconds"], beta


def _excess(peer: Peer, data: dict[str, Any], model: Any, theirs: np.ndarray) -> float:
    """Return R's objective less ours."""
    lam = 0.0 if peer.columns < 100 else LAMBDA
    family = "cox" if peer.survival else "logistic"
    own = float(getattr(model, "intercept_", 0.0))
    return objective(family, data, theirs[1:], theirs[0], lam) - objective(
        family, data, np.asarray(model.coef_).ravel(), own, lam
    )
