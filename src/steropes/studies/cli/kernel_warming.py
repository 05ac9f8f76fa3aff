"""Compilation of the numerical kernels ahead of their first use."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

__all__ = ["compile_kernels"]


def compile_kernels() -> Iterator[tuple[str, float]]:
    """Fit a small model of each family and match pairs, so that Numba compiles its kernels.

    The stored kernels are found by later processes of the same installation. Where nothing can be
    stored (a read-only installation and home), every process compiles anew.

    Yields
    ------
    tuple of str and float
        The family and the seconds that it took.
    """
    for name, fit in _fits().items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so small data may not determine a coefficient
            fit()
        yield name, time.perf_counter() - start


def _fits() -> dict[str, Callable[[], object]]:
    """Return the fits by family: sparse and dense columns, one fit and cross-validation."""
    from steropes.data import Surv
    from steropes.designs.propensity.pair_matching import match_pairs
    from steropes.models import (
        ConditionalLogisticRegression,
        ConditionalPoissonRegression,
        CoxRegression,
        FineGrayRegression,
        LinearRegression,
        LogisticRegression,
        PoissonRegression,
        PooledLogisticRegression,
        SelfControlledCaseSeries,
    )
    from steropes.models.cumulative import CumulativeProbabilityModel
    from steropes.priors import Laplace

    rng = np.random.default_rng(0)
    n, p = 400, 30
    dense = (rng.random((n, p)) < 0.2).astype(float)
    columns = sparse.csc_array(dense)
    y = rng.integers(0, 2, n)
    time_, strata = rng.integers(1, 60, n).astype(float), np.arange(n) // 4
    causes = rng.integers(0, 3, n)
    prior = Laplace(0.1)

    def generalised() -> None:
        for X in (columns, dense):
            LogisticRegression(prior=prior, cv=5).fit(X, y)
            LogisticRegression(prior=prior).fit(X, y).inference.profile("x0")
        LinearRegression(prior=prior).fit(columns, time_)
        PoissonRegression(prior=prior).fit(columns, y)

    def cox() -> None:
        outcome = Surv(time_, y)
        for X in (columns, dense):
            CoxRegression(prior=prior, cv=5).fit(X, outcome)
        CoxRegression(prior=prior).fit(columns, outcome, strata=strata % 3)

    def conditional() -> None:
        ConditionalLogisticRegression(prior=prior).fit(columns, y, strata=strata)
        ConditionalPoissonRegression(prior=prior).fit(columns, y, strata=strata)
        SelfControlledCaseSeries(prior=prior).fit(columns, y, strata=strata, exposure=time_)

    return {
        "logistic, linear and Poisson": generalised,
        "Cox": cox,
        "Fine–Gray": lambda: FineGrayRegression(prior=prior).fit(columns, Surv(time_, causes)),
        "conditional and case series": conditional,
        "pooled logistic": lambda: PooledLogisticRegression(interval=10.0, prior=prior).fit(
            columns, Surv(time_, y)
        ),
        "cumulative": lambda: CumulativeProbabilityModel(prior=prior).fit(columns, time_),
        "matching": lambda: match_pairs(time_, y, 1.0),
    }
