"""The fits whose times on a GPU are measured, and one of them on the host."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import steropes

from .data import draw, load
from .fit_costs import FitCosts
from .plan import STAGES

__all__ = ["on_host", "study", "warm_up"]

# Seconds up to which a fit is repeated, as kernels for other sizes may have been compiled.
AGAIN = 30.0
# The largest differences of a fit on the host: of log-likelihoods relative to their size if one
# variance was chosen, and of chosen variances.
LIKELIHOOD, VARIANCE = 1e-6, 0.05


def _cross_validated(kind: type, folds: int, repeats: int, **settings: Any) -> Callable[..., Any]:
    def model(small: bool, **where: Any) -> Any:
        cv = steropes.CrossValidation(
            3 if small else folds, repeats=1 if small else repeats, random_state=1
        )
        return kind(prior=steropes.Laplace(), cv=cv, tol=1e-4, **settings, **where)

    return model


def _fixed(kind: type, lam: float | None, **settings: Any) -> Callable[..., Any]:
    def model(small: bool, **where: Any) -> Any:
        prior = None if lam is None else steropes.Laplace(2.0 / lam**2)
        return kind(prior=prior, tol=1e-4, **settings, **where)

    return model


_COX, _LOGISTIC, _EXACT = (
    steropes.CoxRegression, steropes.LogisticRegression, steropes.ConditionalLogisticRegression,
)  # fmt: skip
MODELS = {
    "logistic-10x10": _cross_validated(_LOGISTIC, 10, 10),
    # A λ at which the model has some dozens of columns.
    "bootstrap-200": _fixed(_COX, 10.0, ties="breslow"),
    "claims-cv-large": _cross_validated(_LOGISTIC, 10, 1),
    "cox-10x10": _cross_validated(_COX, 10, 10, ties="breslow"),
    "cox-million": _fixed(_COX, 2**0.5, ties="breslow"),
    "fine-gray-million": _fixed(steropes.FineGrayRegression, 2**0.5),
    "strata-million": _fixed(_COX, 2**0.5, ties="breslow"),
    "conditional-exact": _fixed(_EXACT, None, method="exact"),
}
# Bootstrap draws after a fit, of which the time is measured.
DRAWS = {"bootstrap-200": 200}


@cache
def _small(data: str, folder: Path) -> tuple[Any, ...]:
    """Draw data for a fit that compiles kernels."""
    folder.mkdir(exist_ok=True)
    draw(Namespace(data=data, small=True, folder=folder), print)
    return load(folder / f"{data}.npz")


def _run(name: str, small: bool, xy: Any, strata: dict[str, Any], **where: Any) -> tuple:
    """Return the fitted model and the seconds of the fit, or of draws after it."""
    start = time.perf_counter()
    model = MODELS[name](small, **where).fit(*xy, **strata)
    if name in DRAWS:
        start = time.perf_counter()
        model.inference.bootstrap(3 if small else DRAWS[name], random_state=1)
    return model, round(time.perf_counter() - start, 4)


def warm_up(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Fit every study's model to small data, so that the device is started and kernels compiled."""
    for name in MODELS:
        xy, strata, _ = _small(STAGES[name].data, Path(options.folder) / "compile")
        _run(name, True, xy, strata, device=options.device)
    return {"ok": True}


def _about(model: Any) -> dict[str, Any]:
    """Describe a fitted model."""
    out = {
        "ok": bool(model.converged_) and bool(np.isfinite(model.coef_).all()),
        "optimality": float(model.optimality_), "iterations": int(model.n_iter_),
        "nonzero": int(np.count_nonzero(model.coef_)),
        "log-likelihood": float(model.log_likelihood_),
    }  # fmt: skip
    variance = getattr(model, "variance_", None)
    return out if variance is None else {**out, "variance": float(variance)}


def study(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Measure the first and the second fit of a study, with the work of the second."""
    name = options.stage
    small = _small(options.data, Path(options.folder) / "compile")
    fit = partial(_run, name, device=options.device)
    fit(True, *small[:2])  # compiles
    xy, strata, source = load(Path(options.folder) / f"{options.data}.npz")
    run = partial(fit, options.small, xy, strata)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.empty_cache()  # as at the start of a process
        torch.cuda.reset_peak_memory_stats()
    with FitCosts() as costs:
        model, first = run()
    record = {"first seconds": first, "columns": source, **_about(model)}
    say(**record, counts=dict(costs.counts))
    if first < AGAIN:
        with FitCosts() as costs:
            model, record["seconds"] = run()
        record |= _about(model)
    record["counts"] = dict(costs.counts)
    if cuda:
        record["peak memory"] = torch.cuda.max_memory_allocated()
    say(**record)
    if options.split and "seconds" in record:
        with FitCosts(split=True) as costs:
            run()
        record["split"] = {key: round(x, 4) for key, x in costs.seconds.most_common()}
    return record


def on_host(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Measure a study on all threads of the host, and compare it with the device's fit."""
    name = options.stage.removesuffix("-host")
    fit = partial(_run, name, device="cpu", n_jobs=options.threads)
    fit(True, *_small(options.data, Path(options.folder) / "compile")[:2])
    xy, strata, source = load(Path(options.folder) / f"{options.data}.npz")
    model, seconds = fit(options.small, xy, strata)
    record = {"seconds": seconds, "columns": source, "threads": options.threads, **_about(model)}
    return record | _agreement(record, options.records.get(name, {}))


def _agreement(host: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    """Compare two fits of one model, as far as their tolerance goes."""
    if "log-likelihood" not in device:
        return {}
    a, b = host["variance"], device["variance"]
    gap = abs(host["log-likelihood"] - device["log-likelihood"])
    gap /= 1.0 + abs(host["log-likelihood"])
    same = abs(b / a - 1.0) <= VARIANCE if a != b else gap <= LIKELIHOOD
    return {"ok": host["ok"] and same, "log-likelihood gap": gap, "device variance": b}
