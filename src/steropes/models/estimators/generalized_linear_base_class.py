"""Base class of generalised linear models: settings, residuals, predicted means and D²."""

from __future__ import annotations

import numpy as np

from ...data import check_response, check_weights, refuse_other_order
from ...data.input_types import VectorLike
from ...data.vector_checks import check_offset
from ...infer.response_distributions import ResponseDistribution, null_predictor
from ...priors import Prior
from ..checks.check_accessors import GeneralizedChecks
from ..effects.effect_accessors import MeanEffects
from ..fitting.accessor_base_class import accessor
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed, Solver
from ..fitting.sklearn_base_types import RegressorMixin
from .penalized_model import PenalizedModel

__all__ = ["GeneralizedLinearModel"]

# A deviance per unit of weight below this is a result of rounding.
NEGLIGIBLE_DEVIANCE = 1e-24


class GeneralizedLinearModel(RegressorMixin, PenalizedModel):
    """Base class of models of the mean with independent rows and an intercept.

    A subclass sets ``_distribution``, a `ResponseDistribution`, and its `_likelihood` returns an
    `IndependentRowsLikelihood`. It inherits predictions, their score and ``checks.residuals``.

    Parameters
    ----------
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised. Default True.
    prior, cv, solver, tol, max_iter, n_jobs, device, random_state, verbose
        See `PenalizedModel`.
    """

    _intercept = True

    _distribution: ResponseDistribution
    effects = accessor(MeanEffects)
    checks = accessor(GeneralizedChecks)

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        fit_intercept: bool = True,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
        formula: str | None = None,
        trusted: bool = False,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose, formula=formula,
            trusted=trusted,
        )  # fmt: skip
        self.fit_intercept = fit_intercept

    def predict(self, X: MatrixLike, *, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the mean μ of each row, (n,).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            The covariates, with the columns of ``fit``.
        offset : (n,) array, optional
            Added to the linear predictors.

        Returns
        -------
        (n,) array
            The mean of the outcome, in its units.
        """
        return self._distribution.mean(self.linear_predictor(X, offset))

    def _read_response(self, y: VectorLike, n: int) -> np.ndarray:
        """Validate an outcome that the family can have, (n,)."""
        return check_response(y, n)

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        *,
        offset: VectorLike | None = None,
    ) -> float:
        """Compute the explained share of the deviance, D² = 1 − D(y, μ) / D(y, μ₀).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            The covariates, with the columns of ``fit``.
        y : (n,) array
            The outcomes.
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight, offset : (n,) arrays, optional
            As in ``fit``.

        Returns
        -------
        float
            1 at best, and 0 if the model predicts no better than μ₀: the weighted mean of y or,
            with an offset, exp(offset) times the best factor, as in R and statsmodels. If μ₀ equals
            y, 1 if it is predicted exactly and otherwise 0.
        """
        y = outcome_of_table(self, X, y)
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        eta = self.linear_predictor(X, offset)
        n = len(eta)
        y, w = self._read_response(y, n), check_weights(sample_weight, n)
        known = check_offset(self._formula_vector("offset", X, offset), n)
        null = null_predictor(y, w, known)
        used = w > 0
        left, whole = (
            float(w[used] @ self._distribution.deviance(y[used], x[used]) ** 2) for x in (eta, null)
        )
        if whole <= NEGLIGIBLE_DEVIANCE * w.sum():
            return float(left <= NEGLIGIBLE_DEVIANCE * w.sum())
        return 1.0 - left / whole
