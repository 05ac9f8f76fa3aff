"""Curves of Cox and Fine–Gray models."""

from __future__ import annotations

from ..fitting.accessor_base_class import Accessor, function_of_model, overloaded_function_of_model
from .cox_curves import (
    baseline_hazard,
    baseline_steps,
    standardized_survival,
    survival,
)
from .fine_gray_curves import incidence, standardized_incidence
from .restricted_means_and_expected_events import predict_expected_events, predict_restricted_mean
from .time_quantiles import predict_quantile

__all__ = ["CoxCurves", "FineGrayCurves"]


class CoxCurves(Accessor):
    """Survival curves with limits, their averages over people, and numbers derived from them.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.survival([[0.0]], times=[3]).columns.tolist()
    ['row', 'time', 'survival', 'se', 'lower', 'upper']
    """

    baseline_hazard = function_of_model(baseline_hazard)
    expected_events = overloaded_function_of_model(predict_expected_events)
    quantile = overloaded_function_of_model(predict_quantile)
    restricted_mean = function_of_model(predict_restricted_mean)
    standardized_survival = function_of_model(standardized_survival)
    survival = function_of_model(survival)


class FineGrayCurves(Accessor):
    """Cumulative incidence with limits, its averages over people, and its quantiles.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> model = steropes.FineGrayRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.incidence([[0.0]], times=[3]).columns.tolist()
    ['row', 'time', 'incidence', 'se', 'lower', 'upper']
    """

    baseline_hazard = function_of_model(baseline_steps)
    incidence = function_of_model(incidence)
    quantile = overloaded_function_of_model(predict_quantile)
    standardized_incidence = function_of_model(standardized_incidence)
