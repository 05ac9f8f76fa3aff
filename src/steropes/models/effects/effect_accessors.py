"""Effects of variables on the scale of the linear predictor, the mean or the ratio."""

from __future__ import annotations

from ..fitting.accessor_base_class import Accessor, function_of_model
from .average_effects import average_effects
from .partial_effects import partial_effect
from .prediction_tables import predict_terms, prediction_table

__all__ = ["Effects", "MeanEffects"]


class Effects(Accessor):
    """Predictions with standard errors, and effects of single variables and terms.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.effects.predictions([[1.0]], "ratio").columns.tolist()
    ['estimate', 'se', 'lower', 'upper']
    """

    partial = function_of_model(partial_effect)
    predictions = function_of_model(prediction_table)
    terms = function_of_model(predict_terms)


class MeanEffects(Effects):
    """Effects in generalised linear models, also on the mean of y.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.effects.predictions([[0.0]], "response").round(2).to_numpy().tolist()
    [[0.33, 0.27, 0.04, 0.85]]
    """

    average = function_of_model(average_effects)
