"""The fits whose times on a GPU are compared with the host's, with their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import steropes

from ..conditional import exact
from ..simulate import simulate
from ..tasks import TASKS

__all__ = ["DATA", "STUDIES", "Study", "load", "prepare"]

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """A fit at the size of a published comparison, and at a size for every machine.

    Attributes
    ----------
    data : str
        The data, by their name in `DATA`.
    model : callable
        Builds the estimator from a device, a number of threads and whether sizes are small.
    target : float
        Seconds to reach on an H100.
    draws : tuple of int
        Bootstrap draws on the device and on the host; none for a fit.
    """

    data: str
    model: Callable[[str, int | None, bool], Any]
    target: float
    draws: tuple[int, int] = (0, 0)


def _task(name: str) -> Callable[[bool], Arrays]:
    """Draw the data of a benchmark."""
    task = TASKS[name]

    def make(small: bool) -> Arrays:
        n, p, density = (600, 30, 0.1) if small else (task.n, task.p, task.density)
        kind = "claims" if small else task.kind
        return simulate(task.family, kind, n, p, density, task.rate if not small else 0.3, 1)

    return make


def _million(kind: str) -> Callable[[bool], Arrays]:
    """Draw a million people with 1,000 columns; competing events or strata are drawn at random."""

    def make(small: bool) -> Arrays:
        n, p = (600, 20) if small else (1_000_000, 1_000)
        data = simulate("cox", "uniform", n, p, 0.05, 0.3, 1)
        rng = np.random.default_rng(2)
        if kind == "fine-gray":
            data["y"] = data["y"] * rng.integers(1, 3, n)
        elif kind == "strata":
            data["strata"] = rng.integers(0, max(2, n // 20), n)
        return data

    return make


def _exact(small: bool) -> Arrays:
    X, y, strata = exact(200, 5, 10) if small else exact()
    return {"X": X, "y": y, "strata": strata}


def _cross_validated(kind: type, folds: int, repeats: int, **settings: Any) -> Callable[..., Any]:
    def model(device: str, n_jobs: int | None, small: bool) -> Any:
        cv = steropes.CrossValidation(
            3 if small else folds, repeats=1 if small else repeats, random_state=1
        )
        prior = steropes.Laplace()
        return kind(prior=prior, cv=cv, tol=1e-4, device=device, n_jobs=n_jobs, **settings)

    return model


def _fixed(kind: type, lam: float | None, **settings: Any) -> Callable[..., Any]:
    def model(device: str, n_jobs: int | None, _: bool) -> Any:
        prior = None if lam is None else steropes.Laplace(2.0 / lam**2)
        return kind(prior=prior, tol=1e-4, device=device, n_jobs=n_jobs, **settings)

    return model


_COX, _LOGISTIC = steropes.CoxRegression, steropes.LogisticRegression
_CLAIMS = 100**0.5  # λ of the bootstrap, at which the claims-size model has some dozens of columns

# Functions that draw the arrays, of the small size or the full one.
DATA: dict[str, Callable[[bool], Arrays]] = {
    "cox-claims": _task("cox-claims-cv"),
    "correlated-claims": _task("claims-cv-large"),
    "logistic-claims": _task("logistic-claims-cv"),
    "cox-million": _million("cox"),
    "fine-gray-million": _million("fine-gray"),
    "strata-million": _million("strata"),
    "matched-sets": _exact,
}

STUDIES = {
    "cox-10x10": Study(
        "cox-claims", _cross_validated(_COX, 10, 10, ties="breslow"), 5.0
    ),
    "claims-cv-large": Study(
        "correlated-claims", _cross_validated(_LOGISTIC, 10, 1), 4.0
    ),
    "logistic-10x10": Study(
        "logistic-claims", _cross_validated(_LOGISTIC, 10, 10), 4.0
    ),
    "cox-million": Study("cox-million", _fixed(_COX, 2**0.5, ties="breslow"), 0.5),
    "fine-gray-million": Study(
        "fine-gray-million", _fixed(steropes.FineGrayRegression, 2**0.5), 0.7
    ),
    "strata-million": Study("strata-million", _fixed(_COX, 2**0.5, ties="breslow"), 0.5),
    "conditional-exact": Study(
        "matched-sets", _fixed(steropes.ConditionalLogisticRegression, None, method="exact"), 0.05
    ),
    "bootstrap-200": Study(
        "cox-claims", _fixed(_COX, _CLAIMS, ties="breslow"), 20.0, (200, 20)
    ),
}  # fmt: skip


def prepare(name: str, small: bool, folder: Path) -> None:
    """Draw data and write them; complete files alone have the final name."""
    data = DATA[name](small)
    X = data.pop("X")
    data.pop("source", None)
    arrays = {key: np.asarray(x) for key, x in data.items()}
    if sparse.issparse(X):
        arrays |= {"indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    else:
        arrays["dense"] = X
    part = folder / f"{name}.part.npz"
    np.savez(part, **arrays)
    part.rename(folder / f"{name}.npz")


def load(name: str, folder: Path) -> tuple[Any, Any, Arrays]:
    """Read X, y and the other arguments of ``fit``."""
    with np.load(folder / f"{name}.npz") as f:
        data = {key: f[key] for key in f.files}
    if "dense" in data:
        X: Any = data["dense"]
    else:
        ones = np.ones(len(data["indices"]))
        X = sparse.csc_array((ones, data["indices"], data["indptr"]), shape=tuple(data["shape"]))
    y: Any = data["y"].astype(int)
    if "time" in data:
        y = steropes.Surv(data["time"], y)
    return X, y, {"strata": data["strata"]} if "strata" in data else {}
