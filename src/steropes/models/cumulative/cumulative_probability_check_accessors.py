"""Residuals and checks of cumulative probability models."""

from __future__ import annotations

from ..fitting.accessor_base_class import Accessor, function_of_model
from .cumulative_model_checks import parallelism, plot_alpha, residuals

__all__ = ["CumulativeChecks"]


class CumulativeChecks(Accessor):
    """Residuals, and tests of the assumption that effects are the same at all thresholds.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0], [0.0], [1.0], [0.0]], [1.0, 2.5, 3.0, 4.0, 5.5]
    >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
    >>> model.checks.residuals(X, y).shape
    (5,)
    """

    parallelism = function_of_model(parallelism)
    plot_alpha = function_of_model(plot_alpha)
    residuals = function_of_model(residuals)
