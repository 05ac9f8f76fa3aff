"""Concordance and AUC of Fine–Gray models."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...data import check_strata, check_survival, check_weights, refuse_other_order
from ...data.group_checks_and_counts import count_people
from ...data.input_types import LabelsLike, VectorLike
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import MatrixLike
from .discrimination import auc_table, competing_concordance_with_se, times_of_events

__all__ = ["concordance", "time_dependent_auc"]


@overload
def concordance(
    model: Any,
    X: MatrixLike,
    y: VectorLike,
    sample_weight: VectorLike | None = None,
    strata: LabelsLike | None = None,
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
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    *,
    return_se: Literal[True],
    cluster: LabelsLike | None = None,
    ipcw: bool = False,
    tau: float | None = None,
) -> tuple[float, float]: ...


def concordance(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    y: VectorLike,
    sample_weight: VectorLike | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    return_se: bool = False,
    cluster: LabelsLike | None = None,
    *,
    ipcw: bool = False,
    tau: float | None = None,
) -> float | tuple[float, float]:
    """Compute Harrell's or, with weights for censoring, Uno's concordance for the cause.

    People with a competing event never have the event of interest and count as surviving
    longest. Only pairs that are comparable despite censoring are used. With entry times two
    people are compared at an event of one after both have entered.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array
        As in ``fit``.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    strata : (n,) labels, optional
        Pairs are formed within strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    return_se : bool
        Whether to return the standard error too, from the infinitesimal jackknife, as in R's
        ``survival::concordance``.
    cluster : (n,) labels, optional
        With ``return_se``: rows that belong together, such as those of one person. Default
        those of ``cluster()`` in the formula, if X is a table of data.
    ipcw : bool
        Whether to weight pairs by the inverse probability that both are uncensored for as
        long as the comparison needs, so that the concordance does not depend on the
        distribution of censoring: to the event of interest for a person at risk then, and to
        the own event for one with an earlier competing event. The probabilities are from the
        Kaplan–Meier curve of censoring in y (of each stratum), and the standard error treats
        them as known. Not with entry times. Without competing events it is Uno's
        concordance, as in `CoxRegression.validation.concordance`.
    tau : float, optional
        Only events of interest before this time count; useful with ``ipcw`` if few have a
        long follow-up.

    Returns
    -------
    float, or a pair of floats with ``return_se``
        The concordance, 0.5 without discrimination and 1 at best, and its standard error.

    Raises
    ------
    DataError
        If y has no comparable pairs, or ``ipcw`` is combined with entry times.

    References
    ----------
    Wolbers, Koller, Witteman and Steyerberg (2009), Epidemiology 20:555–561. Wolbers, Blanche,
    Koller, Witteman and Gerds (2014), Biostatistics 15:526–539 (weights for censoring).

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = [[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]]
    >>> model = steropes.FineGrayRegression().fit(X, y)
    >>> round(model.validation.concordance(X, y), 3)
    0.636
    >>> round(model.validation.concordance(X, y, ipcw=True), 3)
    0.686
    """
    if return_se:
        cluster = model._formula_vector("cluster", X, cluster)
    refuse_other_order(X, sample_weight=sample_weight, strata=strata, cluster=cluster)
    eta = model.linear_predictor(X, offset)
    n = len(eta)
    outcome, weight = check_survival(y, n, competing=True), check_weights(sample_weight, n)
    codes = check_strata(model._formula_vector("strata", X, strata), n)
    return competing_concordance_with_se(
        eta, outcome, codes, weight, model._cause, ipcw, tau, return_se, cluster
    )


def time_dependent_auc(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    y: VectorLike,
    times: ArrayLike | None = None,
    sample_weight: VectorLike | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compute the AUC for the event of interest by each time.

    Controls are people without the event of interest by the time, including those with a
    competing event. Cases and people with a competing event are weighted by the inverse
    probability of being uncensored, from the Kaplan–Meier curve of censoring in y.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array
        As in ``fit``; without entry times.
    times : (T,) array, optional
        Default the distinct times of events of interest in y, except the last time under
        observation.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    strata : (n,) labels, optional
        Required if the model was fitted with strata; risks include the baseline and are
        compared across strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    level : float
        Confidence level of the intervals, which are symmetric on the logit scale.

    Returns
    -------
    DataFrame
        Indexed by time; columns ``auc``, ``se``, ``lower``, ``upper``. Standard errors are
        from the infinitesimal jackknife, which accounts for the estimation of the censoring
        curve and not of the coefficients.

    Raises
    ------
    DataError
        If y has entry times, or a time precedes all events or follows all observation.

    See Also
    --------
    steropes.time_dependent_auc : The same for any score.

    References
    ----------
    Blanche, Dartigues and Jacqmin-Gadda (2013), Statistics in Medicine 32:5381–5397.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = [[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]]
    >>> table = steropes.FineGrayRegression().fit(X, y).validation.time_dependent_auc(X, y, [2.5])
    >>> table["auc"].round(2).tolist()
    [0.8]
    """
    refuse_other_order(X, sample_weight=sample_weight, strata=strata)
    n = count_people(y)
    outcome, weight = check_survival(y, n, competing=True), check_weights(sample_weight, n)
    if times is None:
        times = model._known_times(times_of_events(outcome, weight, model._cause))
    if model._strata_labels is None and strata is None:
        eta = model._linear_predictors(X, offset)
        risk = np.broadcast_to(eta, (len(eta), np.size(times)))
    else:
        risk = model._log_cumulative(X, times, strata, offset)
    check_survival(y, len(risk), competing=True)
    return auc_table(risk, outcome, weight, times, level, model._cause)
