"""Linear regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from ..backends.face import Backend
from ..data import check_response, refuse_other_order
from ..design import Design
from ..infer.profile_fits import FromObjective
from ..likelihoods import Likelihood, LinearLikelihood
from ..priors import Prior
from .base import PenalizedModel, Problem
from .fit_inputs import FitInputs
from .residuals import GeneralizedResiduals
from .setting_types import Chooser, Device, Seed, Solver
from .sklearn_base import RegressorMixin

__all__ = ["LinearRegression"]


class LinearRegression(RegressorMixin, GeneralizedResiduals, PenalizedModel):
    """Linear regression with a prior on the coefficients.

    Minimises ½ Σ w (y − η)² + penalty over η = intercept + X β + offset: the prior is relative
    to a residual variance of one, as in glmnet and Cyclops. The residual variance is estimated
    afterwards and enters ``log_likelihood_`` and the standard errors.

    Parameters
    ----------
    prior, cv, fit_intercept, solver, tol, max_iter, n_jobs, device, random_state, verbose
        As in `LogisticRegression`.

    Attributes
    ----------
    intercept_ : float
    sigma2_ : float
        Residual variance: Σ w (y − η)² divided by Σ w minus the number of coefficients that are
        not zero (the intercept counted).
    df_resid_ : float
        That divisor, the degrees of freedom of the t tests in ``summary()``.
    optimality_ : float
        As in every model; the unit of a column without λ is √H_jj times the residual standard
        deviation √(Σ w (y − η)² / Σ w), H being X'WX, so that the outcome's unit has no part.
    log_likelihood_ : float
        Normal log-likelihood at the maximum-likelihood variance Σ w (y − η)² / Σ w, as R's
        ``logLik`` has it.
    """

    _intercept = True
    _batched_outcomes = "always"
    _has_ratio = False
    _offset_on_log_scale = False
    _family = "linear"

    df_resid_: float
    sigma2_: float

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
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.fit_intercept = fit_intercept

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        inputs.refuse_extras(self, "strata", "exposure")
        return LinearLikelihood(check_response(inputs.y, design.n), backend), {}

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        problem = super()._make_problem(design, inputs, like)
        likelihood = problem.likelihood
        assert isinstance(likelihood, LinearLikelihood)
        likelihood.measure(problem.weights, problem.offset)
        return problem

    def _set_likelihood(self, loss: float, problem: Problem) -> None:
        n = problem.weights.sum()
        used = int(np.count_nonzero(self.coef_)) + problem.n_free
        variance = 2.0 * loss / n
        self.df_resid_ = float(n - used)
        self.sigma2_ = 2.0 * loss / self.df_resid_ if n > used else np.nan
        with np.errstate(divide="ignore"):
            self.log_likelihood_ = float(-0.5 * n * (np.log(2 * np.pi * variance) + 1.0))

    def _objective_to_likelihood(self, problem: Problem) -> FromObjective:
        """With the residual variance at its maximum, 2 × objective / Σ w."""
        n = float(problem.weights.sum())

        def likelihood(objective: float) -> tuple[float, float]:
            if objective <= 0:
                return np.inf, 0.0
            return -0.5 * n * (np.log(4 * np.pi * objective / n) + 1.0), -0.5 * n / objective

        return likelihood

    def _residual_df(self) -> float:
        return self.df_resid_ if self.df_resid_ > 0 else np.nan

    def _residual_variance(self) -> float:
        return self.sigma2_

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the expected outcome, (n,)."""
        return self.linear_predictor(X, offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """R² of the predictions, as of scikit-learn's regressors.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        y, sample_weight, offset : (n,) arrays
            As in ``fit``; scikit-learn routes an offset as ``set_score_request(offset=True)``
            asks it to.
        """
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        return float(r2_score(y, self.predict(X, offset), sample_weight=sample_weight))
