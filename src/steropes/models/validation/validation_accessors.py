"""Performance of a fitted model: optimism, calibration and discrimination."""

from __future__ import annotations

from ..fitting.accessor_base_class import Accessor, function_of_model, overloaded_function_of_model
from .internal_validation import calibration_curve, validate
from .proportional_hazards_discrimination import concordance, time_dependent_auc

__all__ = ["CoxValidation", "FineGrayValidation", "Validation"]


class Validation(Accessor):
    """Measures of performance, corrected for optimism by the bootstrap.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0.1, 0.8, 2.3, 2.9, 4.2, 4.7]
    >>> model = steropes.LinearRegression().fit(X, y)
    >>> model.validation.validate(20, random_state=0).index.tolist()
    ['r2', 'mse', 'intercept', 'slope']
    """

    calibration_curve = function_of_model(calibration_curve)
    validate = function_of_model(validate)


class CoxValidation(Validation):
    """Performance of Cox models.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> steropes.CoxRegression().fit(X, y).validation.concordance(X, y)
    0.5625
    """

    concordance = overloaded_function_of_model(concordance)
    time_dependent_auc = function_of_model(time_dependent_auc)


class FineGrayValidation(CoxValidation):
    """Performance of Fine–Gray models.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = [[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]]
    >>> round(steropes.FineGrayRegression().fit(X, y).validation.concordance(X, y), 3)
    0.636
    """
