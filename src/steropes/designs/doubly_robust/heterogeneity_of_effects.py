"""Heterogeneity of an effect: its pseudo-outcomes regressed on modifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from steropes.errors import DataError
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.priors import Prior
from steropes.select.crossvalidation import FOLDS

__all__ = ["effect_modification"]


def effect_modification(
    pseudo: NDArray, modifiers: Any, weights: NDArray, clusters: NDArray | None, level: float,
    prior: Prior | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Regress pseudo-outcomes on modifiers by least squares with robust errors.

    Parameters
    ----------
    pseudo : ndarray, shape (n,)
    modifiers : data frame or array, shape (n, q)
    weights : ndarray, shape (n,)
    clusters : ndarray of int, shape (n,), or None
    level : float
    prior : Laplace, optional
        Prior of a lasso, whose coefficients are debiased.

    Returns
    -------
    DataFrame
        ``coef``, ``se``, ``lower``, ``upper``, ``p`` by coefficient; ``attrs["joint_p"]``.
    """
    rows = np.shape(modifiers)[0]
    if rows != len(pseudo):
        raise DataError(f"modifiers has {rows} rows and the fit {len(pseudo)}; they must agree.")
    if prior is not None:
        return _debiased(pseudo, modifiers, weights, clusters, level, prior)
    model = LinearRegression().fit(modifiers, pseudo, sample_weight=weights)
    found = model.summary(level, kind="robust", cluster=clusters)
    V = model.vcov("robust", clusters)
    names = [name for name in V.index if name != "intercept"]
    table = pd.DataFrame(found)[["coef", "se", "lower", "upper", "p"]]
    slopes = table.loc[names, "coef"].to_numpy()
    wald = float(slopes @ np.linalg.solve(V.loc[names, names].to_numpy(), slopes))
    table.attrs = {"joint_p": float(chi2.sf(wald, len(names)))}
    return table


def _debiased(
    pseudo: NDArray, modifiers: Any, weights: NDArray, clusters: NDArray | None, level: float,
    prior: Prior,
) -> pd.DataFrame:  # fmt: skip
    """Regress by a lasso and debias all coefficients."""
    lasso = LinearRegression(prior=prior, cv=FOLDS, random_state=0)
    lasso.fit(modifiers, pseudo, sample_weight=weights)
    names = [str(name) for name in lasso.summary().index if name != "intercept"]
    found = lasso.inference.debiased_lasso(names, kind="robust", cluster=clusters).summary(level)
    table = pd.DataFrame(found)[["coef", "se", "lower", "upper", "p"]]
    order = np.argsort(table["p"].to_numpy(), kind="stable")
    holm = np.maximum.accumulate(table["p"].to_numpy()[order] * np.arange(len(order), 0, -1))
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(holm, 1.0)
    table["p_adjusted"] = adjusted
    table.attrs = {"joint_p": float(adjusted.min())}
    return table
