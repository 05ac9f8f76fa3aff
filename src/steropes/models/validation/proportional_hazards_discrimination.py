"""Concordance and AUC of Cox and Fine–Gray models."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ...data import check_strata, check_survival, check_weights, refuse_other_order
from ...data.group_checks_and_counts import count_people
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable
from ...likelihoods.piecewise_cox_likelihood import cut_at
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import MatrixLike
from .survival_discrimination_measures import (
    auc_table,
    competing_concordance_with_se,
    concordance_with_se,
    pair_weights,
    times_of_events,
)

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
    """Compute the share of comparable pairs that fail in the order of their risks (Harrell).

    Equal risks count one half. With entry times, two rows are compared at an event of one if
    the other is at risk at that time; with ``strata``, only within strata; with time-varying
    effects, by their risks at the time of the event. As R's ``survival::concordance``. In
    Fine–Gray models, people with a competing event never have the event of interest and count as
    surviving longest.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array
        As in ``fit``.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    strata : (n,) labels, optional
        Labels of strata. Default none.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    return_se : bool
        Whether to return the standard error too, from the infinitesimal jackknife with the
        weights of pairs as given, as in R's ``survival::concordance``.
    cluster : (n,) labels, optional
        With ``return_se``: rows that belong together, such as those of one person. Default
        those of ``cluster()`` in the formula, if X is a table of data.
    ipcw : bool
        Whether to compute Uno's concordance, which does not depend on the distribution of
        censoring: pairs are weighted by the inverse square of the probability of being
        uncensored just before the event, from the Kaplan–Meier curve of censoring in y (of
        each stratum). As R's ``survival::concordance(timewt="n/G2")``; not with entry times.
        With competing events, pairs are weighted by the inverse probability that both are
        uncensored for as long as the comparison needs: to the event of interest for a person at
        risk then, and to the own event for one with an earlier competing event. The standard
        error treats these probabilities as known.
    tau : float, optional
        Only events (of interest) before this time count; useful with ``ipcw`` if few have a long
        follow-up.

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
    Harrell, Califf, Pryor, Lee and Rosati (1982), JAMA 247:2543–2546. Uno, Cai, Pencina,
    D'Agostino and Wei (2011), Statistics in Medicine 30:1105–1117. Wolbers, Koller, Witteman and
    Steyerberg (2009), Epidemiology 20:555–561; Wolbers, Blanche, Koller, Witteman and Gerds (2014),
    Biostatistics 15:526–539 (competing events).

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> steropes.CoxRegression().fit(X, y).validation.concordance(X, y)
    0.5625
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = [[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]]
    >>> model = steropes.FineGrayRegression().fit(X, y)
    >>> round(model.validation.concordance(X, y, ipcw=True), 3)
    0.686
    """
    if return_se:
        cluster = model._formula_vector("cluster", X, cluster)
    refuse_other_order(X, sample_weight=sample_weight, strata=strata, cluster=cluster)
    eta = model._linear_predictors(X, offset)
    n = len(eta)
    outcome = check_survival(y, n, competing=model._cause is not None)
    weight = check_weights(sample_weight, n)
    codes = check_strata(model._formula_vector("strata", X, strata), n)
    if model._cause is not None:
        pairs = ipcw, tau, return_se, cluster
        return competing_concordance_with_se(
            eta[:, 0], outcome, codes, weight, model._cause, *pairs
        )
    share = pair_weights(*outcome, codes, weight, ipcw, tau)
    if model._effects is None:
        time, event, entry = outcome
        rest = entry, codes, weight, return_se, cluster
        return concordance_with_se(eta[:, 0], time, event, *rest, share=share)
    row, interval, time, event, entry = cut_at(*outcome, model._cuts)
    code = interval if codes is None else interval + model._effects.Q * codes[row]
    pieces = entry, code, weight[row], return_se, cluster, row
    share = None if share is None else share[row]
    return concordance_with_se(eta[row, interval], time, event, *pieces, share)


def time_dependent_auc(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    y: VectorLike,
    times: ArrayLike | None = None,
    sample_weight: VectorLike | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    level: float = 0.95,
) -> ResultTable:
    """Compute the AUC for the event by each time against later events.

    To account for censoring, cases are weighted by the inverse probability of being
    uncensored, from the Kaplan–Meier curve of censoring in y. In Fine–Gray models, people with a
    competing event belong to the controls, with such weights.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array
        As in ``fit``; without entry times.
    times : (T,) array, optional
        Times at which cases (events so far) are compared with later events. Default the
        distinct times of events (of interest) in y, except the last time under observation and
        times after the last one of a stratum of the fit.
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
    Uno, Cai, Tian and Wei (2007), JASA 102:527–537. Hung and Chiang (2010), Can J Stat
    38:8–26. Blanche, Dartigues and Jacqmin-Gadda (2013), Statistics in Medicine 32:5381–5397
    (competing events).

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.2], [1.0], [0.1], [0.5], [0.9]]
    >>> table = steropes.CoxRegression().fit(X, y).validation.time_dependent_auc(X, y, [3.5])
    >>> table["auc"].round(2).tolist()
    [0.83]
    """
    refuse_other_order(X, sample_weight=sample_weight, strata=strata)
    n, competing = count_people(y), model._cause is not None
    cause = 1 if model._cause is None else model._cause
    outcome = check_survival(y, n, competing=competing)
    weight = check_weights(sample_weight, n)
    if times is None:
        times = model._known_times(times_of_events(outcome, weight, cause))
    plain = model._effects is None and model._strata_labels is None
    if plain and strata is None:
        eta = model._linear_predictors(X, offset)
        risk = np.broadcast_to(eta, (len(eta), np.size(times)))
    else:
        risk = model._log_cumulative(X, times, strata, offset)
    check_survival(y, len(risk), competing=competing)
    return auc_table(risk, outcome, weight, times, level, cause)
