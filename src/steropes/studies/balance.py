"""Covariate balance between the arms: standardised mean differences before and after matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = ["balance_table", "standardized_differences"]


def standardized_differences(
    design: Any, treated: ArrayLike, weights: ArrayLike | None = None
) -> pd.DataFrame:
    """Prevalence in each arm and standardised mean difference of every 0/1 covariate.

    The difference is (p1 − p0) / sqrt((p1 (1 − p1) + p0 (1 − p0)) / 2), with the prevalences of
    the people counted (Austin 2009, Stat Med 28:3083, eq. 2). Where both variances are zero it
    is 0 if the prevalences agree, and infinite if one arm all has what the other lacks.

    Parameters
    ----------
    design : Design or matrix, shape (n, p)
        0/1 covariates, as the estimators accept them.
    treated : array_like, shape (n,)
        1 for the target arm, 0 for the comparator.
    weights : array_like, shape (n,), optional
        Weights of people, for example 1 for the matched and 0 for the others.

    Returns
    -------
    DataFrame
        Columns ``target``, ``comparator``, ``smd``; one row a covariate.
    """
    treated = np.asarray(treated).astype(bool)
    weight = np.ones(len(treated)) if weights is None else np.asarray(weights, dtype=float)
    arms = np.column_stack((weight * treated, weight * ~treated))
    totals = arms.sum(axis=0)
    if not (totals > 0).all():
        raise DataError("balance: an arm has no people")
    prevalence = _column_sums(design, arms) / totals
    outside = (prevalence < -1e-9).any(axis=1) | (prevalence > 1 + 1e-9).any(axis=1)
    if outside.any():
        raise DataError(
            f"balance: column {int(np.argmax(outside))} is not 0/1; cut it into groups first"
        )
    p1, p0 = np.clip(prevalence, 0.0, 1.0).T
    return pd.DataFrame({"target": p1, "comparator": p0, "smd": _smd(p1, p0)})


def balance_table(
    design: Any, names: Sequence[str], treated: ArrayLike, matched: ArrayLike
) -> pd.DataFrame:
    """Balance before and after matching, the covariates most unequal before coming first.

    Parameters
    ----------
    design, treated
        As for :func:`standardized_differences`.
    names : sequence of str
        Names of the covariates.
    matched : array_like of int, shape (n,)
        Matched set of each person, negative if unmatched.

    Returns
    -------
    DataFrame
        Indexed by covariate: ``target_before``, ``comparator_before``, ``smd_before`` and the
        same three ``_after``.
    """
    kept = (np.asarray(matched) >= 0).astype(float)
    before = standardized_differences(design, treated).add_suffix("_before")
    after = standardized_differences(design, treated, kept).add_suffix("_after")
    table = pd.concat([before, after], axis=1)
    table.index = pd.Index(list(names), name="covariate")
    order = np.argsort(-table["smd_before"].abs().to_numpy(), kind="stable")
    return table.iloc[order]


def _column_sums(design: Any, weights: NDArray) -> NDArray:
    """X' weights, (p, B), whatever kind of matrix X is."""
    from steropes.backends import get_backend
    from steropes.design import as_design

    x, backend = as_design(design), get_backend()
    scaled = np.hstack([x.rmatmul(weights[:, [b]], backend) for b in range(weights.shape[1])])
    return x.scale[:, None] * scaled + x.center[:, None] * weights.sum(axis=0)


def _smd(p1: NDArray, p0: NDArray) -> NDArray:
    spread = np.sqrt((p1 * (1 - p1) + p0 * (1 - p0)) / 2)
    difference = p1 - p0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / spread)
