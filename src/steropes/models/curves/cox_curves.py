"""Survival curves of a Cox model with confidence limits, for single rows and averaged."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...data import check_level, refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...data.vector_checks import check_vector
from ...errors import DataError
from ...infer.baseline_hazard_variance import HazardWithVariance
from ...infer.robust_hazard_standard_errors import HazardInfluences
from ...infer.survival_standard_errors import HazardErrors, log_log_limits, time_grid
from ..fitting.coefficient_tables import critical_value
from ..fitting.default_standard_errors import name_errors
from ..fitting.designs_of_new_rows import dense_matrix
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import Kind, MatrixLike
from .counterfactual_groups import (
    Grouping,
    active_intervals,
    columns_of_coefficients,
    people_to_average,
)
from .standardized_survival import StandardizedSurvival, standardize

__all__ = [
    "baseline_and_errors",
    "baseline_hazard",
    "baseline_steps",
    "concatenate_by_row",
    "curve_table",
    "standardized_survival",
    "standardized_survival_of_sample",
    "survival",
]


def baseline_and_errors(
    model: ProportionalHazardsModel, kind: Kind | None = None, cluster: LabelsLike | None = None
) -> tuple[HazardWithVariance, HazardErrors, str]:
    """Compute the baseline, standard errors of curves, and their kind, by default as in `vcov`."""
    if kind is not None and kind not in ("model", "robust"):
        raise DataError(f"kind must be 'model' or 'robust' for curves, not {kind!r}.")
    problem = model._require_data("an interval of a curve")
    if model._has_sparse_prior():
        raise DataError(
            "Standard errors of curves need the model's covariance matrix, which there is "
            "none of with limits or a Laplace prior. predict_survival gives the curves "
            "alone; for intervals fit with prior=None or a Normal prior, or bootstrap the "
            "model."
        )
    state, V = HazardWithVariance(problem, model._beta), model.vcov("model").to_numpy()
    found = model.vcov(kind, cluster).attrs["errors"]  # the model's if robust ones do not exist
    if found == "model":
        return state, HazardErrors(state, V), found
    unit = model._cluster_codes(cluster, problem)
    return state, HazardInfluences(problem, model._beta, V, state, unit), found


def survival(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    times: ArrayLike | None = None,
    level: float = 0.95,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Compute survival curves with confidence limits, as R's ``survfit.coxph``.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    times : (T,) array, optional
        Default the event times (of the row's stratum).
    level : float
        Confidence level of the limits, which are symmetric on the log(−log) scale.
    strata : (n,) labels, optional
        Required if the model was fitted with strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    kind : {"model", "robust"}, optional
        Errors from the information, as in R's ``survfit.coxph``, or from the influences of rows
        on the coefficients and the baseline. Default ``"robust"`` if a weight of the fit is not a
        whole number, as in `vcov`. The table names the kind.
    cluster : (n_fit,) labels, optional
        With ``"robust"``: clusters of rows of the fit, within which influences are summed first.

    Returns
    -------
    DataFrame
        A line for each row and time: ``row`` (its position in X), ``time``, ``survival``,
        ``se``, ``lower``, ``upper``. NaN after the last time at which anyone (of the row's
        stratum) was under observation.

    Raises
    ------
    DataError
        Under a Laplace prior, which has no standard errors, or if the model was unpickled
        without its data.

    References
    ----------
    Tsiatis (1981), Ann Stat 9:93–108. Therneau and Grambsch (2000), §10.2.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.survival([[0.0]], times=[3])[["survival", "lower", "upper"]].round(2)
       survival  lower  upper
    0      0.57   0.06   0.89
    """
    check_level(level)
    refuse_other_order(X, strata=strata)
    state, errors, found = baseline_and_errors(model, kind, cluster)
    eta = model._linear_predictors(X, offset) - state.center_predictor
    codes = model._stratum_codes(X, strata, len(eta))
    Z = dense_matrix(model._check_new(X), host_backend(model.n_jobs))
    p = len(state.center)
    Z = Z[:, columns_of_coefficients(model, p)] - state.center
    given = None if times is None else check_vector(np.atleast_1d(times), None, "times")
    parts = []
    for s in np.unique(codes):
        rows = np.flatnonzero(codes == s)
        at = time_grid(state, int(s)) if given is None else given
        H, se = errors.cumulative_hazards(
            Z[rows], active_intervals(model, p), eta[rows], int(s), at
        )
        parts.append(curve_table(rows, at, H, se, float(model._last_seen[s]), level))
    return name_errors(present(concatenate_by_row(parts), "survival_curves"), found, model)


def baseline_steps(model: ProportionalHazardsModel, level: None = None) -> ResultTable:
    """Compute the steps of the baseline hazard at X = 0 and offset 0, and their cumulative sum.

    Parameters
    ----------
    level : None
        There are no limits.

    Returns
    -------
    DataFrame
        A line for each event time: ``time``, ``hazard`` (Breslow's estimate of the step) and
        ``cumulative_subdistribution_hazard``; with strata their label ``stratum`` in front, sorted
        if the labels can be ordered.

    Raises
    ------
    DataError
        If the model was unpickled without its data.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> model = steropes.FineGrayRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.baseline_hazard()["time"].tolist()
    [1.0, 3.0, 5.0]
    """
    if level is not None:
        raise DataError("The baseline of a Fine–Gray model has no limits; leave level out.")
    return _presented(model, model._baseline_steps())


def _presented(model: ProportionalHazardsModel, table: pd.DataFrame) -> ResultTable:
    """Make a table of a baseline a result that draws the cumulative hazards of strata."""
    strata = [name for name in table if name == "stratum"]
    drawn: dict[str, Any] = {"column": model._cumulative_name, "label": "Cumulative hazard"}
    return present(table, "interval_curves", labels=strata, step=True, **drawn)


def baseline_hazard(
    model: ProportionalHazardsModel,
    level: float | None = 0.95,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Compute the steps of the baseline hazard, with limits of the cumulative hazard.

    Parameters
    ----------
    level : float or None
        Confidence level of the limits, which are symmetric on the log scale. With None there are
        no limits, which models under a Laplace prior do not have.
    kind : {"model", "robust"}, optional
        Kind of errors, as in `survival`.
    cluster : (n_fit,) labels, optional
        As in `survival`.

    Returns
    -------
    DataFrame
        A line for each event time: ``time``, ``hazard`` (the step, by Breslow's or Efron's estimate
        according to ``ties``), ``cumulative_hazard`` and its ``se``, ``lower`` and ``upper``, all
        at X = 0 and offset 0; with strata their label ``stratum`` in front. The limits are
        wide if X = 0 is far from the data; `survival` computes them for any X.

    Raises
    ------
    DataError
        With a level under a Laplace prior, which has no standard errors, or if the model was
        unpickled without its data.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.baseline_hazard()["cumulative_hazard"].round(2).tolist()
    [0.24, 0.56, 1.2]
    """
    if level is None:
        if kind is not None or cluster is not None:
            raise DataError("kind and cluster are of the limits; give a level too, such as 0.95.")
        return _presented(model, model._baseline_steps())
    z = critical_value(level)
    state, errors, found = baseline_and_errors(model, kind, cluster)
    table = model._baseline_steps()
    p = len(state.center)
    shares = []
    for s in np.unique(state.stratum):
        at = time_grid(state, int(s))
        if len(at):
            zero, eta = -state.center[None, :], -state.center_predictor[None, :]
            shares.append(errors.log_hazards(zero, active_intervals(model, p), eta, int(s), at)[1])
    share = np.concatenate(shares, axis=1)[0]
    H = table["cumulative_hazard"]
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.exp(z * share)
        table["se"], table["lower"], table["upper"] = share * H, H / width, H * width
    return name_errors(_presented(model, table), found, model)


def standardized_survival(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    times: ArrayLike | None = None,
    by: Grouping = None,
    level: float = 0.95,
    sample_weight: VectorLike | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> StandardizedSurvival:
    """Average survival curves over people, with a covariate set to each of its values.

    This is the g-formula for a point treatment (Robins 1986): with treatment ``by`` and all
    confounders in X, the curves are those if everyone, or no one, were treated.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        The people to average over.
    times : (T,) array, optional
        Positive. Default those of ``unique_times_``. NaN after the last time at which anyone
        (of some stratum) was under observation.
    by : name or position of a column of X, or mapping, optional
        The column that defines the groups: everyone is assigned each of its values in the fit
        (at most 20) in turn, and the smallest value, or first label, is the reference of
        differences and ratios. A
        position counts the columns of X as they were given to ``fit``; the coefficient may
        be fixed. If X is a table of data, ``by`` is a column of that table, and the formula
        recomputes all of its terms. For a covariate that enters several columns of X, a
        mapping gives the whole X of each group by its label. The tables have a column with
        the name of the covariate, or ``group`` if the name is taken, as ``time`` is.
        Default: X without changes or groups.
    level : float
        Confidence level of the limits, which are computed on the log(−log) scale for
        survival and on the log scale for ratios.
    sample_weight : (n,) array, optional
        Weights of the average.
    strata : (n,) labels, optional
        Required if the model was fitted with strata, which remain unchanged.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    kind : {"model", "robust"}, optional
        Errors from the information, as in R's ``survfit.coxph``, or from the influences of rows
        on the coefficients and the baseline. Default ``"robust"`` if a weight of the fit is not a
        whole number, as in `vcov`. The tables name the kind.
    cluster : (n_fit,) labels, optional
        With ``"robust"``: clusters of rows of the fit, within which influences are summed first.

    Returns
    -------
    StandardizedSurvival
        Tables ``survival``, ``differences``, ``ratios``, ``risk_ratios``,
        ``restricted_means`` and ``restricted_mean_differences``. Standard errors are from
        the delta method for the estimated coefficients and baseline, conditional on the
        people of X. The means need survival at all event times, so that the computing time is
        proportional to people times event times.

    Raises
    ------
    DataError
        Under a Laplace prior; for times at or below zero; for a column with too many values.

    References
    ----------
    Gail and Byar (1986), Biom J 28:587–599. Zhang, Loberiza, Klein and Zhang (2007), Comput
    Methods Programs Biomed 88:95–101. Robins (1986), Math Modelling 7:1393.

    Examples
    --------
    >>> import pandas as pd, steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = pd.DataFrame({"drug": [0.0, 1.0, 0.0, 0.0, 1.0], "age": [6.1, 4.8, 5.5, 7.0, 5.1]})
    >>> model = steropes.CoxRegression(prior=steropes.Normal()).fit(X, y)
    >>> averages = model.curves.standardized_survival(X, times=[4], by="drug")
    >>> averages.differences[["drug", "reference", "time"]].to_numpy().tolist()
    [[1.0, 0.0, 4.0]]
    """
    check_level(level)
    refuse_other_order(X, sample_weight=sample_weight, strata=strata)
    state, errors, found = baseline_and_errors(model, kind, cluster)
    people = people_to_average(model, state, X, times, by, sample_weight, strata, offset)
    return standardize(state, people, errors.joint_covariance, level)._named(found, model)


def standardized_survival_of_sample(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    rows: np.ndarray,
    times: ArrayLike,
    by: Grouping,
    level: float = 0.95,
    cluster: LabelsLike | None = None,
) -> StandardizedSurvival:
    """Average survival curves over people of the fit, with robust errors for the whole population.

    The errors of `standardized_survival` are those for the people of X. Here they also count that
    these people, like those of the fit, are a sample (stacked estimating equations).

    Parameters
    ----------
    X : data frame, (n, p)
        People of the fit.
    rows : (n,) int array
        Their rows in the fit.
    times, by, level, cluster
        As in `standardized_survival`.
    """
    state, errors, found = baseline_and_errors(model, "robust", cluster)
    people = people_to_average(model, state, X, times, by, None, None, None)
    return standardize(state, people, errors.joint_covariance, level, rows)._named(found, model)


def curve_table(
    rows: np.ndarray,
    times: np.ndarray,
    hazard: np.ndarray,
    se: np.ndarray,
    last: float,
    level: float,
    kind: Literal["survival", "incidence"] = "survival",
) -> pd.DataFrame:
    """Tabulate curves in long form: row, time, value, standard error and limits.

    Parameters
    ----------
    rows : (n,) int array
    times : (T,) array
    hazard, se : (n, T) arrays
        Cumulative hazards with their standard errors.
    last : float
        The last time under observation; later values are NaN.
    kind : {"survival", "incidence"}
        Whether to tabulate exp(−hazard), or one minus that.
    """
    S = np.exp(-hazard)
    error = S * se
    lower, upper = log_log_limits(S, error, level)
    columns = {kind: S, "se": error, "lower": lower, "upper": upper}
    if kind == "incidence":
        columns |= {kind: -np.expm1(-hazard), "lower": 1.0 - upper, "upper": 1.0 - lower}
    table = {"row": np.repeat(rows, len(times)), "time": np.tile(times, len(rows))}
    for name, x in columns.items():
        x[:, times > last] = np.nan
        table[name] = x.ravel()
    return pd.DataFrame(table)


def concatenate_by_row(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables of strata in the order of X's rows."""
    whole = pd.concat(parts, ignore_index=True)
    by = np.argsort(whole["row"].to_numpy(), kind="stable")
    return whole.iloc[by].reset_index(drop=True)
