"""The same object again, other numbers of threads, and buffers that change after the fit."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np

import steropes

from .draw import Problem
from .inputs import arguments, arrays, coefficients, estimator

__all__ = ["check_reuse"]


def check_reuse(problem: Problem, model: Any, given: Any, options: Any, wrong: Any) -> None:
    """One of four ways to use an estimator twice, drawn by the seed."""
    ways = (_threads, _refit, _refused, _overwritten)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        way = ways[int(np.random.default_rng([problem.seed, 3]).integers(4))]
        try:
            way(problem, model, given, options, wrong)
        except (steropes.DataError, steropes.SeparationError) as error:
            wrong(f"the same fit again ({way.__name__[1:]}) was refused: {str(error)[:120]}")


def _same(problem, model, other, wrong, what):
    a, b = coefficients(problem, model), coefficients(problem, other)
    if a.shape != b.shape or a.tobytes() != b.tobytes():
        off = abs(a - b).max() if a.shape == b.shape else np.inf
        wrong(f"{what}: coefficients differ by {off:.2g}")
    elif model.log_likelihood_ != other.log_likelihood_:
        wrong(f"{what}: another log-likelihood")


def _threads(problem, model, given, options, wrong):
    other = estimator(problem, n_jobs=2, **options).fit(**arguments(problem))
    _same(problem, model, other, wrong, "two threads")


def _refit(problem, model, given, options, wrong):
    """After a fit of other rows and fewer columns."""
    other = estimator(problem, **options)
    first = arguments(problem, "C")
    rows = np.random.default_rng(problem.seed).permutation(problem.n)[: problem.n // 2 + 4]
    first = {k: v[rows] for k, v in first.items()}
    first["X"] = first["X"][:, : max(1, problem.X.shape[1] - 1)]
    other.cv = None
    with contextlib.suppress(steropes.DataError, steropes.SeparationError):
        other.fit(**first)
    other.cv = options.get("cv")
    other.fit(**arguments(problem))
    _same(problem, model, other, wrong, "a second fit of the object")


def _refused(problem, model, given, options, wrong):
    """A refused fit leaves the old one, all of it, or none."""
    kept = {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
    old = coefficients(problem, model).copy()
    bad = arguments(problem, "C")
    bad["X"] = np.column_stack([bad["X"], np.ones(problem.n)])
    if bad["y"].dtype.names:
        bad["y"]["time"][-1] = np.nan
    elif problem.family == "logistic":
        bad["y"] = np.full(problem.n, 7.0)
    else:
        bad["y"][-1] = np.nan
    try:
        model.fit(**bad)
        wrong("NaN in y was not refused")
        return
    except steropes.DataError:
        pass
    now = {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
    if not now.get("converged_") and "coef_" not in now:
        return
    for name in {*kept, *now}:
        if kept.get(name) is not now.get(name) and not _equal(kept.get(name), now.get(name)):
            wrong(f"after a refused fit {name} is {now.get(name)!r}, was {kept.get(name)!r}"[:200])
            return
    if coefficients(problem, model).tobytes() != old.tobytes():
        wrong("after a refused fit other coefficients")
    try:
        _covariance(model)
        model.predict(problem.X) if problem.family != "cox_steps" else None
    except Exception as error:
        wrong(f"after a refused fit {type(error).__name__}: {str(error)[:100]}")


def _covariance(model):
    """The covariance matrix, or empty where it is refused: an ℓ1 penalty, or lost in rounding."""
    try:
        return model.vcov("model").to_numpy()
    except steropes.DataError as error:
        if "there are no standard errors" in str(error) or "lost in rounding" in str(error):
            return np.empty(0)
        raise


def _equal(a, b):
    try:
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    except Exception:
        return False


def _overwritten(problem, model, given, options, wrong):
    """Standard errors are of what was fitted, whatever becomes of the caller's arrays."""
    other = estimator(problem, **options)
    theirs = arguments(problem)
    other.fit(**theirs)
    if not isinstance(theirs["X"], steropes.Design):
        for x in arrays(theirs):
            if x.dtype.names:
                x["time"] = 1.0
            elif x.flags.writeable and x.dtype.kind == "f":
                x *= 4.0
    try:
        a, b = _covariance(model), _covariance(other)
    except Exception as error:
        wrong(f"vcov after the buffers changed raised {type(error).__name__}: {error}"[:200])
        return
    if not np.array_equal(a, b, equal_nan=True):
        wrong("standard errors follow the caller's buffers")
