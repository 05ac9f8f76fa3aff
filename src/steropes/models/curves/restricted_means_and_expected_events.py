"""Restricted mean survival times and expected events of the rows of a Cox model."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...data import check_survival, refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.vector_checks import check_vector
from ...errors import DataError
from ..fitting.default_standard_errors import refuse_errors_not_asked_for
from ..fitting.designs_of_new_rows import dense_matrix
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import Kind, MatrixLike
from .counterfactual_groups import active_intervals, columns_of_coefficients
from .cox_curves import baseline_and_errors
from .time_quantiles import MAX_ENTRIES, hazards_before

__all__ = [
    "predict_expected_events",
    "predict_restricted_mean",
]


def predict_restricted_mean(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    t: ArrayLike,
    *,
    after: ArrayLike | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
) -> np.ndarray:
    """Predict the mean time lived up to t, the area under the survival curve.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    t : number or (m,) array
        Ends of the period, above zero.
    after : number or (n,) array, optional
        Time that each person has already lived; the mean is then that of the time lived
        between ``after`` and t, given survival to ``after``. Default 0.
    strata : (n,) labels, optional
        Required if the model was fitted with strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.

    Returns
    -------
    (n, m) array, or (n,) for a single t
        NaN if t is after the last time at which anyone (of the row's stratum) was under
        observation.

    Raises
    ------
    DataError
        If a time is not positive.

    See Also
    --------
    CoxRegression.curves.standardized_survival : Average restricted means with their errors.

    References
    ----------
    Royston and Parmar (2013), BMC Medical Research Methodology 13:152.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.restricted_mean([[0.0], [1.0]], 4).round(2).tolist()
    [3.36, 3.6]
    """
    refuse_other_order(X, strata=strata)
    ends = check_vector(np.atleast_1d(t), None, "t")
    if not (ends > 0).all():
        raise DataError("t must be above 0.")
    eta = model._linear_predictors(X, offset)
    codes, baseline = model._stratum_codes(X, strata, len(eta)), model._baseline()
    stratum, time = baseline.steps()[:2]
    out = np.full((len(eta), len(ends)), np.nan)
    begin = np.zeros(len(eta))
    H0 = np.zeros(len(eta))
    if after is not None:
        H0 = hazards_before(baseline, eta, codes, after, model._last_seen)
        begin[:] = np.asarray(after, np.float64)
    for s in np.unique(codes):
        at, rows = np.unique(time[stratum == s]), np.flatnonzero(codes == s)
        for block in np.array_split(rows, 1 + len(rows) * len(at) // MAX_ENTRIES):
            with np.errstate(over="ignore", invalid="ignore"):
                H = np.exp(baseline.log_cumulative_of(eta[block], codes[block], at))
                S = np.exp(-np.maximum(H - H0[block, None], 0.0))
            S = np.concatenate([np.ones((len(block), 1)), S], axis=1)
            edges = np.concatenate([[0.0], at, [np.inf]])
            for k, end in enumerate(ends[ends <= model._last_seen[s]]):
                low = np.maximum(edges[:-1], begin[block, None])
                width = np.maximum(np.minimum(edges[1:], end) - low, 0.0)
                out[block, np.flatnonzero(ends <= model._last_seen[s])[k]] = (S * width).sum(1)
    return out[:, 0] if np.ndim(t) == 0 else out


@overload
def predict_expected_events(
    model: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    return_se: Literal[False] = False,
    kind: None = None,
    cluster: None = None,
) -> np.ndarray: ...


@overload
def predict_expected_events(
    model: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    return_se: Literal[True],
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> tuple[np.ndarray, np.ndarray]: ...


def predict_expected_events(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    y: VectorLike,
    *,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    return_se: bool = False,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Predict the number of events of each row over its own follow-up.

    The sums of observed and expected events measure calibration, and their difference in the
    data of the fit is the martingale residual. As R's ``predict(fit, type="expected")``.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : structured array, (n,)
        ``Surv(time, event[, entry])``; the events themselves are not used.
    strata : (n,) labels, optional
        Required if the model was fitted with strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    return_se : bool
        Whether to return standard errors too.
    kind : {"model", "robust"}, optional
        With ``return_se``: as in `survival`, with the same default.
    cluster : (n_fit,) labels, optional
        With ``return_se``: as in `survival`.

    Returns
    -------
    (n,) array, or a pair of them with ``return_se``
        The cumulative hazard between entry and time. NaN if the time is after the last time
        at which anyone (of the row's stratum) was under observation in the fit.

    Raises
    ------
    DataError
        With ``return_se`` under a Laplace prior, or if the model was unpickled without its
        data; and for ``kind`` or ``cluster`` without ``return_se``.

    References
    ----------
    Therneau and Grambsch (2000), §4.2 and §10.2.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> model = steropes.CoxRegression().fit(X, y)
    >>> round(float(model.curves.expected_events(X, y).sum()), 6)
    3.0
    """
    refuse_other_order(X, strata=strata)
    refuse_errors_not_asked_for(return_se, kind, cluster)
    eta = model._linear_predictors(X, offset)
    n = len(eta)
    codes = model._stratum_codes(X, strata, n)
    time, _, entry = check_survival(y, n, competing=True)
    start = np.full(n, -np.inf) if entry is None else entry
    beyond = time > model._last_seen[codes]
    baseline = model._baseline()
    with np.errstate(over="ignore", invalid="ignore"):
        upto, before = (np.exp(baseline.log_cumulative_at(eta, codes, t)) for t in (time, start))
        expected = np.where(beyond, np.nan, np.maximum(upto - before, 0.0))
    if not return_se:
        return expected
    state, errors, _ = baseline_and_errors(model, kind, cluster)
    p = len(state.center)
    Z = dense_matrix(model._check_new(X), host_backend(model.n_jobs))
    Z = Z[:, columns_of_coefficients(model, p)] - state.center
    shifted = eta - state.center_predictor
    se = errors.at_own_times(Z, active_intervals(model, p), shifted, codes, start, time)
    return expected, np.where(beyond, np.nan, se)
