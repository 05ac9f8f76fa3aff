"""Heterogeneity of an effect: its pseudo-outcomes regressed on modifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from steropes.errors import DataError
from steropes.models.estimators.linear_regression import LinearRegression

__all__ = ["effect_modification"]


def effect_modification(
    pseudo: NDArray, modifiers: Any, weights: NDArray, clusters: NDArray | None, level: float
) -> pd.DataFrame:
    """Regress pseudo-outcomes on modifiers by least squares with robust errors.

    Parameters
    ----------
    pseudo : ndarray, shape (n,)
    modifiers : data frame or array, shape (n, q)
    weights : ndarray, shape (n,)
    clusters : ndarray of int, shape (n,), or None
    level : float

    Returns
    -------
    DataFrame
        ``coef``, ``se``, ``lower``, ``upper``, ``p`` by coefficient; ``attrs["joint_p"]``.
    """
    rows = np.shape(modifiers)[0]
    if rows != len(pseudo):
        raise DataError(f"modifiers has {rows} rows and the fit {len(pseudo)}; they must agree.")
    model = LinearRegression().fit(modifiers, pseudo, sample_weight=weights)
    found = model.summary(level, kind="robust", cluster=clusters)
    V = model.vcov("robust", clusters)
    names = [name for name in V.index if name != "intercept"]
    table = pd.DataFrame(found)[["coef", "se", "lower", "upper", "p"]]
    slopes = table.loc[names, "coef"].to_numpy()
    wald = float(slopes @ np.linalg.solve(V.loc[names, names].to_numpy(), slopes))
    table.attrs = {"joint_p": float(chi2.sf(wald, len(names)))}
    return table
