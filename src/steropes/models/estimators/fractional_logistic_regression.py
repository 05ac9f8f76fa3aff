"""Logistic regression of shares between 0 and 1, for steps within other estimators."""

from __future__ import annotations

from ...backends.backend_interface import Backend
from ...data.vector_checks import check_response
from ...design_matrix import Design
from ...errors import DataError
from ...fit import Problem
from ...infer.response_distributions import BinaryResponse
from ...likelihoods import Likelihood, LogisticLikelihood
from ..families.response_families import FRACTIONAL
from ..fitting.row_arguments import FitInputs, OutcomeRows
from .generalized_linear_base_class import GeneralizedLinearModel

__all__ = ["FractionalLogisticRegression"]


class FractionalLogisticRegression(GeneralizedLinearModel):
    """Logistic regression of an outcome of numbers from 0 to 1, such as bounded means.

    Maximises Σ w [y η − log(1 + exp η)] − penalty, the objective of `LogisticRegression`, which
    is a quasi-likelihood if y has other values than 0 and 1: the coefficients are consistent if
    the mean of y is expit(η). Errors need ``kind="robust"``, because y has less variance
    than a binary outcome. It is a regressor: ``predict`` returns the mean.

    Parameters
    ----------
    prior, cv, solver, tol, max_iter, n_jobs, device, random_state, verbose, formula, trusted
        As in `PenalizedModel`.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised. Default True.

    Attributes
    ----------
    coef_ : (p,) array
        Differences of logit E(y) for an increase of a column by one.
    intercept_ : float
        Intercept.

    References
    ----------
    Papke and Wooldridge (1996), Journal of Applied Econometrics 11:619–632.

    Examples
    --------
    >>> from steropes.models.estimators.fractional_logistic_regression import (
    ...     FractionalLogisticRegression
    ... )
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0.1, 0.3, 0.5, 1.0]
    >>> model = FractionalLogisticRegression().fit(X, y)
    >>> model.predict([[0.0], [1.0]]).round(6).tolist()
    [0.2, 0.75]
    """

    _batched_outcomes = "laplace"
    _distribution = BinaryResponse()
    _family = FRACTIONAL

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the shares; see `PenalizedModel`."""
        inputs.refuse_extras(self, "strata", "exposure")
        y = check_response(inputs.y, design.n, minimum=0.0)
        if (y > 1).any():
            row = int((y > 1).argmax())
            raise DataError(f"y must be at most 1; row {row} is {y[row]:g}.")
        return LogisticLikelihood(y, backend), {}

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Assemble the problem; refuse an outcome without a finite intercept."""
        problem = super()._make_problem(design, inputs, like)
        y = check_response(inputs.y, design.n)[problem.weights > 0]
        if (y == y[0]).all() and y[0] in (0.0, 1.0):
            raise DataError(
                f"y is {y[0]:g} in all rows with a positive weight, so that its mean has no finite "
                "log odds."
            )
        return problem
