"""Concordance and AUC of pooled logistic models."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...data import check_survival, check_weights, refuse_other_order
from ...data.group_checks_and_counts import count_people
from ...data.input_types import LabelsLike, VectorLike
from ..fitting.setting_types import MatrixLike
from ..validation.survival_discrimination_measures import (
    auc_table,
    concordance_with_se,
    pair_weights,
    times_of_events,
)
from .pooled_logistic_predictions import PooledPredictions

__all__ = ["concordance", "time_dependent_auc"]


@overload
def concordance(
    model: Any,
    X: MatrixLike,
    y: VectorLike,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    return_se: Literal[False] = False,
    cluster: LabelsLike | None = None,
    *,
    ipcw: bool = False,
    tau: float | None = None,
) -> float: ...
@overload
def concordance(
    model: Any,
    X: MatrixLike,
    y: VectorLike,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    *,
    return_se: Literal[True],
    cluster: LabelsLike | None = None,
    ipcw: bool = False,
    tau: float | None = None,
) -> tuple[float, float]: ...


def concordance(
    model: PooledPredictions,
    X: MatrixLike,
    y: VectorLike,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    return_se: bool = False,
    cluster: LabelsLike | None = None,
    *,
    ipcw: bool = False,
    tau: float | None = None,
) -> float | tuple[float, float]:
    """Compute the concordance of the risks by the end of the last interval.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array
        As in ``fit``.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    return_se : bool
        Whether to return the standard error too, from the infinitesimal jackknife.
    cluster : (n,) labels, optional
        With ``return_se``: rows that belong together, such as those of one person. Default
        those of ``cluster()`` in the formula, if X is a table of data.
    ipcw : bool
        Whether to compute Uno's concordance, which does not depend on the distribution of
        censoring; see `CoxRegression.validation.concordance`.
    tau : float, optional
        Only events before this time count.

    Returns
    -------
    float, or a pair of floats with ``return_se``
        The concordance, 0.5 without discrimination and 1 at best, and its standard error.

    Raises
    ------
    DataError
        If y has no comparable pairs, or ``ipcw`` is combined with entry times.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> model = steropes.PooledLogisticRegression(interval=2, baseline=0).fit(X, y)
    >>> model.validation.concordance(X, y)
    0.5625
    """
    if return_se:
        cluster = model._formula_vector("cluster", X, cluster)
    refuse_other_order(X, sample_weight=sample_weight, cluster=cluster)
    risk = _risks(model, X, model._end, offset)[:, 0]
    n = len(risk)
    time, event, entry = check_survival(y, n)
    weight = check_weights(sample_weight, n)
    share = pair_weights(time, event, entry, None, weight, ipcw, tau)
    rest = entry, None, weight, return_se, cluster
    return concordance_with_se(risk, time, event, *rest, share=share)


def time_dependent_auc(
    model: PooledPredictions,
    X: MatrixLike,
    y: VectorLike,
    times: ArrayLike | None = None,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compute the AUC for the event by each time against later events.

    To account for censoring, cases are weighted by the inverse probability of being
    uncensored, from the Kaplan–Meier curve of censoring in y.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array
        As in ``fit``; without entry times.
    times : (T,) array, optional
        Default the ends of intervals before the last time under observation.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    level : float
        Confidence level of the intervals, which are symmetric on the logit scale.

    Returns
    -------
    DataFrame
        Indexed by time; columns ``auc``, ``se``, ``lower``, ``upper``; see
        `CoxRegression.validation.time_dependent_auc`.

    Raises
    ------
    DataError
        If y has entry times, or a time precedes all events or follows all observation.

    See Also
    --------
    steropes.time_dependent_auc : The same for any score.

    References
    ----------
    Uno, Cai, Tian and Wei (2007), JASA 102:527–537.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> model = steropes.PooledLogisticRegression(interval=2, baseline=0).fit(X, y)
    >>> model.validation.time_dependent_auc(X, y, [3.5]).columns.tolist()
    ['auc', 'se', 'lower', 'upper']
    """
    refuse_other_order(X, sample_weight=sample_weight)
    n = count_people(y)
    outcome, weight = check_survival(y, n), check_weights(sample_weight, n)
    if times is None:
        model._check_columns(X)  # refuses an estimator without a fit
        ends = model.breaks_[1:]
        used = weight > 0
        first = times_of_events(outcome, weight)[0]
        last = min(outcome.time[used].max(), np.nextafter(model._end, np.inf))
        times = ends[(ends >= first) & (ends < last)]
    risk = _risks(model, X, times, offset)
    check_survival(y, len(risk))
    return auc_table(risk, outcome, weight, times, level)


def _risks(
    model: PooledPredictions, X: MatrixLike, times: ArrayLike, offset: VectorLike | None
) -> np.ndarray:
    """Compute log(−log S) at the times, (n, T), which distinguishes probabilities near one."""
    with np.errstate(divide="ignore"):  # risks of zero and one are infinite
        return np.log(-np.log(model.predict_survival(X, times, offset)))
