"""Inference about the coefficients of a fitted model: tests, profiles, draws and posteriors."""

from __future__ import annotations

from ..fitting.accessor_base_class import Accessor, function_of_model
from .debiased_inference import debiased_lasso
from .estimator_bootstrap import bootstrap
from .hypothesis_tests import linear_hypothesis, model_tests
from .linear_combinations import linear_combination
from .posterior_inference import posterior
from .profile_likelihood import profile
from .term_tests import term_tests

__all__ = ["Inference"]


class Inference(Accessor):
    """Tests, intervals and distributions of coefficients beyond those of ``summary()``.

    Parameters
    ----------
    model : PenalizedModel
        A fitted model, of which the attribute is a part.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.inference.model_tests().index.tolist()
    ['likelihood ratio', 'score', 'wald']
    """

    bootstrap = function_of_model(bootstrap)
    debiased_lasso = function_of_model(debiased_lasso)
    linear_combination = function_of_model(linear_combination)
    linear_hypothesis = function_of_model(linear_hypothesis)
    model_tests = function_of_model(model_tests)
    posterior = function_of_model(posterior)
    profile = function_of_model(profile)
    term_tests = function_of_model(term_tests)
