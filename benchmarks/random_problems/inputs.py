"""What is handed to steropes: the estimator, and the same numbers in every storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import steropes

from .draw import Problem

__all__ = ["arguments", "arrays", "coefficients", "estimator", "prior_of", "stored", "variances_of"]

CLASSES = {
    "linear": "LinearRegression",
    "logistic": "LogisticRegression",
    "poisson": "PoissonRegression",
    "cox": "CoxRegression",
    "cox_steps": "CoxRegression",
    "fine_gray": "FineGrayRegression",
    "conditional_logistic": "ConditionalLogisticRegression",
    "conditional_poisson": "ConditionalPoissonRegression",
    "sccs": "SelfControlledCaseSeries",
    "pooled": "PooledLogisticRegression",
    "cumulative": "CumulativeProbabilityModel",
}


def stored(X: np.ndarray, storage: str) -> Any:
    """X as arrays in C or F order, a frame, sparse, a Design, or a Design of mixed blocks."""
    if storage == "frame":
        return pd.DataFrame(X.copy(), columns=[f"x{j}" for j in range(X.shape[1])])
    if storage == "csr":
        return sparse.csr_array(X)
    if storage == "csc":
        return sparse.csc_array(X)
    if storage == "design":
        return steropes.as_design(np.array(X))
    if storage == "mixed" and X.shape[1] > 1:
        half = X.shape[1] // 2
        left = steropes.as_design(sparse.csc_array(X[:, :half]))
        right = steropes.as_design(np.array(X[:, half:]))
        return steropes.Design([*left.blocks, *right.blocks])
    return np.array(X, order="F" if storage == "F" else "C")


def prior_of(problem: Problem) -> Any:
    v, exclude = problem.variances, list(problem.excluded)
    if problem.seed % 2 and exclude:
        exclude = [f"x{j}" for j in exclude]
    if problem.prior == "laplace":
        return steropes.Laplace(v["laplace"], exclude=exclude)
    if problem.prior == "normal":
        return steropes.Normal(v["normal"], exclude=exclude)
    if problem.prior == "elastic":
        return steropes.ElasticNet(v["laplace"], v["normal"], exclude=exclude)
    return None


def variances_of(prior: Any, p: int) -> dict[str, Any]:
    """The variances of a prior, one for each of the p columns of X where they are a vector."""
    out: dict[str, Any] = {}
    for name, key in (("laplace_variance", "laplace"), ("normal_variance", "normal")):
        if hasattr(prior, name):
            out[key] = getattr(prior, name)
    if not out and prior is not None:
        kind = "laplace" if isinstance(prior, steropes.Laplace) else "normal"
        out = {kind: prior.variance}
    return {k: np.asarray(v)[:p] if np.ndim(v) else v for k, v in out.items()}


def estimator(problem: Problem, **more: Any) -> Any:
    settings = {"n_jobs": 1, **problem.settings, **more}
    return getattr(steropes, CLASSES[problem.family])(prior=prior_of(problem), **settings)


def arguments(problem: Problem, storage: str | None = None) -> dict[str, Any]:
    """Arguments of ``fit``, all of them copies of the problem's own arrays."""
    data = problem.data
    if "time" in data:
        y = steropes.Surv(data["time"].copy(), data["event"].copy(), data.get("entry"))
    else:
        y = data["y"].copy()
    out = {"X": stored(problem.X, storage or problem.storage), "y": y}
    for name, value in (
        ("sample_weight", problem.weights),
        ("offset", problem.offset),
        ("strata", problem.strata),
        ("exposure", problem.exposure),
    ):
        if value is not None:
            out[name] = value.copy()
    return out


def arrays(given: dict[str, Any]) -> list[np.ndarray]:
    """Every buffer that a fit could write to."""
    out = []
    for value in given.values():
        if sparse.issparse(value):
            out += [value.data, value.indices, value.indptr]
        elif isinstance(value, pd.DataFrame):
            out.append(value.to_numpy())
        elif isinstance(value, steropes.Design):
            for block in value.blocks:
                out += [x for x in vars(block).values() if isinstance(x, np.ndarray)]
        else:
            out.append(value)
    return out


def coefficients(problem: Problem, model: Any) -> np.ndarray:
    """All parameters in the order of the dense problem."""
    if problem.family == "cumulative":
        return np.append(model.alpha_, model.coef_)
    if problem.family == "pooled":
        return np.append(model.baseline_coef_.to_numpy(), model.coef_)
    if problem.settings.get("fit_intercept"):
        return np.append(model.intercept_, model.coef_)
    return model.coef_
