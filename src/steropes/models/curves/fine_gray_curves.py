"""Cumulative incidence curves of a Fine–Gray model with confidence limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...data import check_level, refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...data.vector_checks import check_vector
from ...errors import DataError
from ...infer.baseline_hazard_variance import HazardWithVariance
from ...infer.robust_hazard_standard_errors import HazardInfluences
from ...infer.survival_standard_errors import time_grid
from ..fitting.default_standard_errors import name_errors
from ..fitting.designs_of_new_rows import dense_matrix
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import MatrixLike
from .counterfactual_groups import Grouping, people_to_average
from .cox_curves import concatenate_by_row, curve_table
from .standardized_survival import StandardizedIncidence, standardize_incidence

__all__ = [
    "incidence",
    "standardized_incidence",
]


def _baseline_and_errors(
    model: ProportionalHazardsModel, cluster: LabelsLike | None
) -> tuple[HazardWithVariance, HazardInfluences]:
    """Compute the baseline, and standard errors by the influences of rows or clusters."""
    problem = model._require_data("an interval of a curve")
    V = model.vcov("model").to_numpy()  # the inverse information
    if not np.isfinite(V).all():
        raise DataError(
            "Standard errors of curves need the model's covariance matrix, which there is "
            "none of under a Laplace prior. predict_cumulative_incidence gives the curves "
            "alone."
        )
    unit = model._cluster_codes(cluster, problem)
    state = HazardWithVariance(problem, model._beta)
    return state, HazardInfluences(problem, model._beta, V, state, unit)


def incidence(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    times: ArrayLike | None = None,
    level: float = 0.95,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Compute cumulative incidence curves with confidence limits.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    times : (T,) array, optional
        Default the times of the event of interest (in the row's stratum).
    level : float
        Confidence level of the limits, which are symmetric on the log(−log) scale of one
        minus the incidence.
    strata : (n,) labels, optional
        Required if the model was fitted with strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    cluster : (n_fit,) labels, optional
        Labels of the rows of the fit; influences are summed within clusters.

    Returns
    -------
    DataFrame
        A line for each row and time: ``row`` (its position in X), ``time``, ``incidence``,
        ``se``, ``lower``, ``upper``. The standard error is the sandwich estimate from the
        rows' influences on β̂, the baseline and the censoring distribution (Fine and Gray
        1999, §4). NaN after the last time under observation in the row's stratum.

    Raises
    ------
    DataError
        Under a Laplace prior, which has no standard errors, or if the model was unpickled
        without its data.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> model = steropes.FineGrayRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.incidence([[0.0]]).columns.tolist()
    ['row', 'time', 'incidence', 'se', 'lower', 'upper']
    """
    check_level(level)
    refuse_other_order(X, strata=strata)
    state, errors = _baseline_and_errors(model, cluster)
    eta = model._linear_predictors(X, offset) - state.center_predictor
    acts = np.ones((len(state.center), 1), bool)
    codes = model._stratum_codes(X, strata, len(eta))
    Z = dense_matrix(model._check_new(X), host_backend(model.n_jobs)) - state.center
    given = None if times is None else check_vector(np.atleast_1d(times), None, "times")
    parts = []
    for s in np.unique(codes):
        rows = np.flatnonzero(codes == s)
        at = time_grid(state, int(s)) if given is None else given
        H, se = errors.cumulative_hazards(Z[rows], acts, eta[rows], int(s), at)
        parts.append(curve_table(rows, at, H, se, float(model._last_seen[s]), level, "incidence"))
    return name_errors(present(concatenate_by_row(parts), "incidence_curves"), "robust")


def standardized_incidence(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    times: ArrayLike | None = None,
    by: Grouping = None,
    level: float = 0.95,
    sample_weight: VectorLike | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    cluster: LabelsLike | None = None,
) -> StandardizedIncidence:
    """Average incidence curves over people, with a covariate set to each of its values.

    This is the g-formula for a point treatment (Robins 1986): with treatment ``by`` and all
    confounders in X, the curves are those if everyone, or no one, were treated. Competing
    events are part of the effect, which is a total effect (Young and others 2020).

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        The people to average over.
    times : (T,) array, optional
        Positive. Default those of ``unique_times_``. NaN after the last time at which anyone
        (of some stratum) was under observation.
    by : name or position of a column of X, or mapping, optional
        The column that defines the groups, as in `CoxRegression.curves.standardized_survival`.
        Default: X without changes or groups.
    level : float
        Confidence level of the limits, which are computed on the log(−log) scale of one minus
        the incidence, and on the log scale for ratios.
    sample_weight : (n,) array, optional
        Weights of the average.
    strata : (n,) labels, optional
        Required if the model was fitted with strata, which remain unchanged.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    cluster : (n_fit,) labels, optional
        Labels of the rows of the fit; influences are summed within clusters.

    Returns
    -------
    StandardizedIncidence
        Tables ``incidence``, ``differences``, ``ratios``, ``times_lost`` (the mean time lost
        to the event up to each time, Andersen 2013) and ``time_lost_differences``. Standard
        errors are sandwich estimates from the influences of the rows of the fit on β̂, the
        baseline and the censoring distribution, conditional on the people of X.

    Raises
    ------
    DataError
        Under a Laplace prior; for times at or below zero; for a column with too many values.

    References
    ----------
    Fine and Gray (1999), JASA 94:496–509. Robins (1986), Math Modelling 7:1393. Andersen
    (2013), Statistics in Medicine 32:5278–5285. Young, Stensrud, Tchetgen Tchetgen and Hernán
    (2020), Statistics in Medicine 39:1199–1236.

    Examples
    --------
    >>> import pandas as pd, steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = pd.DataFrame({"drug": [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]})
    >>> model = steropes.FineGrayRegression().fit(X, y)
    >>> averages = model.curves.standardized_incidence(X, times=[3], by="drug")
    >>> averages.differences[["drug", "reference", "difference"]].round(2).to_numpy().tolist()
    [[1.0, 0.0, -0.25]]
    """
    check_level(level)
    refuse_other_order(X, sample_weight=sample_weight, strata=strata)
    state, errors = _baseline_and_errors(model, cluster)
    people = people_to_average(model, state, X, times, by, sample_weight, strata, offset)
    return standardize_incidence(state, people, errors.joint_covariance, level)._named("robust")
