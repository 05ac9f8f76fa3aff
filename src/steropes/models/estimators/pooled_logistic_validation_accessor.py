"""The `validation` accessor of pooled logistic models: concordance and time-dependent AUC."""

from __future__ import annotations

from ..fitting.accessor_base_class import function_of_model, overloaded_function_of_model
from ..validation.validation_accessors import Validation
from .pooled_logistic_discrimination import concordance, time_dependent_auc

__all__ = ["PooledValidation"]


class PooledValidation(Validation):
    """Discrimination of the risks of a pooled logistic model.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> model = steropes.PooledLogisticRegression(interval=2, baseline=0).fit(X, y)
    >>> model.validation.concordance(X, y)
    0.5625
    """

    concordance = overloaded_function_of_model(concordance)
    time_dependent_auc = function_of_model(time_dependent_auc)
