"""Inference, effects and residuals of multinomial models."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pandas as pd

from ...infer.multinomial_performance import class_predictors, class_probabilities
from ..checks.residuals import (
    Params,
    ResidualKind,
    coefficient_residuals,
    has_columns,
    table_by_row,
)
from ..effects.effect_accessors import MeanEffects
from ..fitting.accessor_base_class import Accessor, function_of_model
from ..inference.inference_accessors import Inference
from .multinomial_effects import average_effects
from .multinomial_prediction_tables import prediction_table, term_tests
from .multinomial_predictions import MultinomialPredictions

__all__ = ["MultinomialChecks", "MultinomialEffects", "MultinomialInference"]


def residuals(
    model: MultinomialPredictions, kind: ResidualKind = "deviance", params: Params = None
) -> np.ndarray | pd.DataFrame:
    """Compute residuals of the rows of the fit.

    Parameters
    ----------
    kind : {"deviance", "response", "pearson", "score", "dfbeta", "dfbetas"}
        ``"response"``: 1[y = c] − p_c for each class c. ``"pearson"``: the same divided by
        √(p_c (1 − p_c)). ``"deviance"``: √(−2 log p_y), whose squares add up to the
        deviance. ``"score"``: the row's contribution to the gradient of the log-likelihood,
        x (1[y = c] − p_c). ``"dfbeta"``: the approximate change of the coefficients if the
        row were removed, its weighted score times the inverse information (the infinitesimal
        jackknife). ``"dfbetas"``: the same divided by the coefficients' standard errors. All
        but these two refer to one copy of a row regardless of its weight; scores of rows with
        a weight of zero are NaN.
    params : name, position, sequence of them, or mask, optional
        Coefficients to include in the kinds with columns of coefficients; default all.

    Returns
    -------
    (n,) array, or DataFrame
        In the order of the rows, with the offset of the fit. Only ``"deviance"`` is an array.
        ``"response"`` and ``"pearson"`` have a column for each class, the others for
        each coefficient.

    Raises
    ------
    DataError
        For ``"dfbeta"`` and ``"dfbetas"`` under a Laplace prior, or if the model was
        unpickled without its data.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, §2.4 and §12.4. Yee (2015), Vector
    Generalized Linear and Additive Models, §3.7 (residuals of each class).

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    >>> y = ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> m = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> m.checks.residuals("response").round(2).iloc[0].to_dict()
    {'a': 0.5, 'b': -0.25, 'c': -0.25}
    """
    problem = model._require_data("residuals")
    if kind in ("response", "pearson"):
        kinds: tuple[str, ...] = ("deviance", "response", "pearson")
    else:
        kinds = get_args(ResidualKind)
    by_coefficient = has_columns(kind, kinds, params)
    if not by_coefficient:
        codes, eta = class_predictors(problem, model._beta)
        p, others = class_probabilities(eta)
        own = np.arange(len(codes)), codes
        if kind == "deviance":
            return np.asarray(np.sqrt(2.0 * np.maximum(-np.log(p[own]), 0.0)))
        residual = -p
        residual[own] = others[own]
        if kind == "pearson":
            with np.errstate(divide="ignore", invalid="ignore"):
                residual = np.where(residual == 0, 0.0, residual / np.sqrt(p * others))
        return table_by_row(model, residual, model.classes_.tolist())
    return coefficient_residuals(model, problem, kind, params)


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
