"""Residuals and checks of the assumptions of a fitted model."""

from __future__ import annotations

from ..fitting.accessor_base_class import Accessor, function_of_model, overloaded_function_of_model
from .proportional_hazards_checks import assumptions, hazards_residuals, proportionality
from .residuals import generalized_residuals, grouped_residuals

__all__ = ["CoxChecks", "FineGrayChecks", "GeneralizedChecks", "GroupedChecks"]


class GeneralizedChecks(Accessor):
    """Residuals of generalised linear models.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.checks.residuals("response").round(2).tolist()
    [-0.5, 0.5, -0.5, 0.5]
    """

    residuals = overloaded_function_of_model(generalized_residuals)


class GroupedChecks(Accessor):
    """Residuals of conditional models and models over intervals of time.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y, sets = [[1.0], [0.0], [0.0], [1.0]], [1, 0, 1, 0], ["a", "a", "b", "b"]
    >>> model = steropes.ConditionalLogisticRegression().fit(X, y, strata=sets)
    >>> model.checks.residuals().round(2).tolist()
    [0.5, -0.5, 0.5, -0.5]
    """

    residuals = overloaded_function_of_model(grouped_residuals)


class FineGrayChecks(Accessor):
    """Residuals of Fine–Gray models.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> model = steropes.FineGrayRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.checks.residuals().shape
    (6,)
    """

    residuals = overloaded_function_of_model(hazards_residuals)


class CoxChecks(FineGrayChecks):
    """Residuals and tests of the assumptions of Cox models.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.checks.proportionality().columns.tolist()
    ['chisq', 'df', 'p']
    """

    assumptions = function_of_model(assumptions)
    proportionality = function_of_model(proportionality)
