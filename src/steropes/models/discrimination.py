"""Concordance and time-dependent AUC with standard errors."""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ..data import check_level
from ..data.input_types import LabelsLike
from ..data.vector_checks import check_vector
from ..errors import DataError
from ..infer.concordance import censoring_share, concordance_influence
from ..infer.rounding_ties import merge_rounding_ties
from ..infer.time_dependent_auc import CensoringWeights, auc_at
from .coefficient_tables import cluster_codes, critical_value

__all__ = ["auc_table", "concordance_with_se", "pair_weights"]


def concordance_with_se(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    strata: np.ndarray | None,
    weight: np.ndarray,
    return_se: bool,
    cluster: LabelsLike | None = None,
    row: np.ndarray | None = None,
    share: np.ndarray | None = None,
) -> float | tuple[float, float]:
    """Compute the concordance, and optionally its standard error.

    Parameters
    ----------
    score, time, event, entry, strata, weight : (N,) arrays
        Values of rows, or of pieces of rows if ``row`` is given.
    return_se : bool
    cluster : (n,) labels, optional
        Clusters of rows, within which influences are summed before they are squared.
    row : (N,) int array, optional
        The row that each piece belongs to.
    share : (N,) array, optional
        Weight of pairs, by the row with the event.
    """
    score = merge_rounding_ties(score)
    value, influence = concordance_influence(score, time, event, entry, strata, weight, share)
    if not return_se:
        return value
    if row is not None:
        n = int(row.max()) + 1
        influence = np.bincount(row, weights=influence, minlength=n)
        weight = np.bincount(row, weights=weight, minlength=n)
    codes = cluster_codes(cluster, len(influence), weight)
    if codes is not None:
        influence = np.bincount(codes, weights=influence)
    return value, float(np.sqrt(influence @ influence))


def pair_weights(
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    strata: np.ndarray | None,
    weight: np.ndarray,
    ipcw: bool,
    tau: float | None,
) -> np.ndarray | None:
    """Compute weights of pairs, by the row with the event; None if all are equal."""
    if tau is not None and not (isinstance(tau, Real) and tau > 0):
        raise DataError(f"tau must be a time above zero, not {tau!r}.")
    if not isinstance(ipcw, bool | np.bool_):
        raise DataError(f"ipcw must be True or False, not {ipcw!r}.")
    if ipcw and entry is not None:
        raise DataError(
            "Weights by the inverse of the censoring curve are not defined with entry times; "
            "leave ipcw out, or entry."
        )
    if not ipcw and tau is None:
        return None
    return censoring_share(time, event, strata, weight, ipcw, tau)


def auc_table(
    risk: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    weight: np.ndarray,
    times: ArrayLike,
    level: float,
) -> pd.DataFrame:
    """Tabulate the AUC at some times with logit confidence limits.

    Parameters
    ----------
    risk : (n, T) array
        Score of each row at each time.
    time, event, weight : (n,) arrays
    times : (T,) array
    level : float
    """
    check_level(level)
    at = check_vector(np.atleast_1d(times), None, "times")
    censoring = CensoringWeights(time, event, weight)
    pairs = [
        auc_at(merge_rounding_ties(risk[:, i]), time, event, float(t), censoring)
        for i, t in enumerate(at)
    ]
    auc, se = np.array(pairs).reshape(-1, 2).T
    inside = (auc > 0) & (auc < 1)
    middle = np.where(inside, auc, 0.5)
    width = critical_value(level) * np.where(inside, se, 0.0) / (middle * (1 - middle))
    lower = np.where(inside, expit(logit(middle) - width), auc)
    upper = np.where(inside, expit(logit(middle) + width), auc)
    table = {"auc": auc, "se": se, "lower": lower, "upper": upper}
    return pd.DataFrame(table, pd.Index(at, name="time"))
