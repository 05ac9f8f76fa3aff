"""The result of a simulation: covariates, outcome, further arguments of a fit, and the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ..data.html_representations import FieldsInHtml
from ..errors import DataError

__all__ = ["Simulated", "check_sizes", "draw_indicators", "draw_truth"]


@dataclass(frozen=True, eq=False)
class Simulated(FieldsInHtml):
    """Simulated data and their truth.

    Attributes
    ----------
    X : sparse array, (n, p)
        Covariates of zeros and ones; columns are called x0, x1 and so on.
    y : (n,) array
        Outcome, as ``fit`` of the model takes it.
    truth : Series
        True coefficients by name.
    fit_params : dict
        Further arguments of ``fit``, such as ``strata`` and ``exposure``.
    treated : (n,) array of int or None
        1 for the treated, in simulated cohorts.

    Examples
    --------
    >>> import steropes
    >>> data = steropes.datasets.simulate_regression("poisson", n=500, p=4, seed=3)
    >>> model = steropes.PoissonRegression().fit(data.X, data.y, **data.fit_params)
    >>> inside = model.confint().loc[data.truth.index]
    >>> ((inside["lower"] < data.truth) & (data.truth < inside["upper"])).tolist()
    [True, True, True, True]
    """

    X: sparse.csc_array
    y: np.ndarray
    truth: pd.Series
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    treated: np.ndarray | None = None


def check_sizes(density: float, **sizes: int) -> None:
    """Refuse sizes that are not positive whole numbers, and a density outside (0, 1]."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise DataError(f"{name} must be a whole number of 1 or more, not {value!r}.")
    if not 0 < density <= 1:
        raise DataError(f"density must be above 0 and at most 1, not {density!r}.")


def draw_indicators(n: int, p: int, density: float, rng: np.random.Generator) -> sparse.csc_array:
    """Draw binary columns with exponentially distributed prevalences of mean ``density``.

    Few covariates are common and most are rare, as in claims. A prevalence is at most one half.
    """
    share = np.minimum(rng.exponential(density, p), 0.5)
    number = np.maximum(rng.binomial(n, share), 1)
    rows = np.concatenate([np.sort(rng.choice(n, k, replace=False)) for k in number])
    indptr = np.concatenate([[0], np.cumsum(number)])
    return sparse.csc_array((np.ones(len(rows)), rows, indptr), shape=(n, p))


def draw_truth(p: int, n_effects: int | None, sd: float, rng: np.random.Generator) -> pd.Series:
    """Draw normal coefficients for ``n_effects`` columns, by default all; the others are zero."""
    number = p if n_effects is None else n_effects
    if not 0 <= number <= p:
        raise DataError(f"n_effects must be from 0 to {p}, the number of columns, not {number!r}.")
    beta = np.zeros(p)
    beta[rng.choice(p, number, replace=False)] = sd * rng.normal(size=number)
    return pd.Series(beta, [f"x{j}" for j in range(p)], name="coef")
