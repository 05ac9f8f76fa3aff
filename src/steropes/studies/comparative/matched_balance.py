"""Covariate balance between the arms: standardised mean differences before and after matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.design.column_storage import SparseBlock
from steropes.errors import DataError

__all__ = ["balance_table", "largest_shift", "standardized_differences"]

AT_ONCE = 16  # columns with values of their own that are held dense at a time


def standardized_differences(
    design: Any, treated: ArrayLike, weights: ArrayLike | None = None
) -> pd.DataFrame:
    """Mean in each arm and standardised mean difference of every covariate.

    The difference is (m1 − m0) / sqrt((v1 + v0) / 2), with the means and variances (those of the
    people counted, so with denominator n) of each arm (Austin 2009, Stat Med 28:3083, eq. 1).
    Of a 0/1 covariate the mean is the prevalence p and the variance p (1 − p), which is his
    eq. 2. Where both variances are zero it is 0 if the means agree, and infinite if not.

    Parameters
    ----------
    design : Design or matrix, shape (n, p)
        Covariates, as the estimators accept them: 0/1, scores, measurements.
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
    mean, variance = _moments(design, arms, totals)
    return pd.DataFrame(
        {"target": mean[:, 0], "comparator": mean[:, 1], "smd": _smd(mean, variance)}
    )


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
        Matched set of each person, negative if unmatched. If all are, "after" is missing.

    Returns
    -------
    DataFrame
        Indexed by covariate: ``target_before``, ``comparator_before``, ``smd_before`` and the
        same three ``_after``.
    """
    kept = (np.asarray(matched) >= 0).astype(float)
    before = standardized_differences(design, treated)
    if kept.any():
        after = standardized_differences(design, treated, kept)
    else:
        after = pd.DataFrame(np.nan, before.index, before.columns)
    before, after = before.add_suffix("_before"), after.add_suffix("_after")
    table = pd.concat([before, after], axis=1)
    table.index = pd.Index(list(names), name="covariate")
    order = np.argsort(-table["smd_before"].abs().to_numpy(), kind="stable")
    return table.iloc[order]


def largest_shift(table: pd.DataFrame) -> float:
    """How far matching has moved the target arm: its largest standardised difference to before.

    Parameters
    ----------
    table : DataFrame
        As ``balance_table`` makes it, of 0/1 covariates.
    """
    before, after = (table[f"target_{when}"].to_numpy() for when in ("before", "after"))
    mean = np.column_stack((before, after))
    moved = np.abs(_smd(mean, mean * (1 - mean)))
    return float(np.max(moved[np.isfinite(moved)], initial=0.0))


def _moments(design: Any, weights: NDArray, totals: NDArray) -> tuple[NDArray, NDArray]:
    """Weighted means and variances of the columns, (p, B) each, whatever kind of matrix X is."""
    from steropes.backends import get_backend
    from steropes.design import as_design

    x, backend = as_design(design), get_backend()
    if x.n != len(weights):
        raise DataError(f"balance: {len(weights)} people, but the covariates have {x.n} rows")
    sums = np.hstack([x.rmatmul(weights[:, [b]], backend) for b in range(weights.shape[1])])
    mean = x.scale[:, None] * sums / totals + x.center[:, None]
    ones = np.zeros(x.p, dtype=bool)  # columns of zeros and ones, which the sums settle
    for block, _, at in x.columns(np.arange(x.p)):
        ones[at] = isinstance(block, SparseBlock) and len(block.data) == 0
    mean[ones] = np.clip(mean[ones], 0.0, 1.0)
    variance = mean * (1 - mean)
    others = np.flatnonzero(~ones)
    for some in (others[i : i + AT_ONCE] for i in range(0, len(others), AT_ONCE)):
        unit = np.zeros((x.p, len(some)))
        unit[some, np.arange(len(some))] = x.scale[some]
        values = x.matmul(unit, backend)
        for b, total in enumerate(totals):
            share = weights[:, b] / total
            variance[some, b] = share @ (values - share @ values) ** 2
    return mean, variance


def _smd(mean: NDArray, variance: NDArray) -> NDArray:
    difference = mean[:, 0] - mean[:, 1]
    spread = np.sqrt(variance.mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / spread)
