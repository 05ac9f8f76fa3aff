"""Odds ratios of exposures within matched sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

import steropes
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.errors import DataError

__all__ = ["Ties", "fit_sets", "ratio_rows"]

Ties = Literal["exact", "efron", "breslow"]


def fit_sets(
    X: NDArray,
    names: Sequence[str],
    case: NDArray,
    sets: NDArray,
    *,
    contrasts: int,
    why: str,
    ties: Ties = "exact",
) -> Any:
    """Fit a conditional logistic regression to matched sets.

    Parameters
    ----------
    X : (n, p) array
        Exposures, then covariates.
    case : (n,) bool array
    sets : (n,) int array
    contrasts : int
        Number of the first columns that must vary within a set.
    why : str
        Remedy if one does not.

    Raises
    ------
    DataError
        No set is discordant in an exposure.
    SeparationError
        A ratio has no finite estimate.
    """
    counts = discordant_sets(X[:, :contrasts], sets)
    if (counts == 0).any():
        raise DataError(
            f"No set is discordant in {names[int(np.argmin(counts))]!r}: in each, all windows or "
            f"people are exposed, or none. {why}"
        )
    table = pd.DataFrame(X.astype(float), columns=list(names))
    model = steropes.ConditionalLogisticRegression(method=ties)
    return model.fit(table, case.astype(float), strata=sets)


def discordant_sets(X: NDArray, sets: NDArray) -> NDArray:
    """Count the sets within which each column varies."""
    order = np.argsort(sets, kind="stable")
    heads = np.flatnonzero(np.diff(sets[order], prepend=-1))
    values = X[order].astype(float)
    least, most = (f.reduceat(values, heads, axis=0) for f in (np.minimum, np.maximum))
    return np.asarray((most > least).sum(axis=0))


def ratio_rows(
    estimate: NDArray, error: NDArray, names: Sequence[str], level: float, errors: str
) -> pd.DataFrame:
    """Make rows of ratios with Wald limits from their logarithms and standard errors."""
    z = norm.ppf(0.5 + level / 2)
    limits = [[ratio_of(x) for x in estimate + k * z * error] for k in (0, -1, 1)]
    table = pd.DataFrame(dict(zip(("ratio", "lower", "upper"), limits, strict=True)), list(names))
    return table.assign(
        log_ratio=estimate, se=error, p=2 * norm.sf(np.abs(estimate / error)), errors=errors
    )
