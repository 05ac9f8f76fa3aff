"""Inference, effects and residuals of multinomial models."""

from __future__ import annotations

from ..effects.effect_accessors import MeanEffects
from ..fitting.accessors import Accessor, function_of_model
from ..inference.inference_accessors import Inference
from .multinomial_effects import average_effects
from .multinomial_prediction_tables import prediction_table, term_tests
from .multinomial_residuals import residuals

__all__ = ["MultinomialChecks", "MultinomialEffects", "MultinomialInference"]


class MultinomialInference(Inference):
    """Inference about the coefficients of all classes.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0]] * 4, ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> model = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> model.inference.model_tests()["df"].tolist()
    [2.0, 2.0, 2.0]
    """

    term_tests = function_of_model(term_tests)


class MultinomialEffects(MeanEffects):
    """Effects on the probabilities of classes.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0]] * 4, ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> model = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> model.effects.average(X).columns.tolist()[:2]
    ['effect', 'lower']
    """

    average = function_of_model(average_effects)
    predictions = function_of_model(prediction_table)


class MultinomialChecks(Accessor):
    """Residuals of multinomial models.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0]] * 4, ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> model = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> model.checks.residuals("response").columns.tolist()
    ['a', 'b', 'c']
    """

    residuals = function_of_model(residuals)
