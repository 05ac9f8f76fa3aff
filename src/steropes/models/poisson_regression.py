"""Poisson regression: rates and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.face import Backend
from ..data import (
    check_exposure,
    check_offset,
    check_response,
    check_weights,
    refuse_other_order,
)
from ..design import Design
from ..errors import DataError
from ..infer.glm_residuals import response_residuals
from ..likelihoods import Likelihood, PoissonLikelihood
from ..priors import Prior
from .base import PenalizedModel
from .fit_inputs import FitInputs
from .residuals import GeneralizedResiduals
from .setting_types import Chooser, Device, Seed, Solver
from .sklearn_base import RegressorMixin

__all__ = ["PoissonRegression"]

EQUAL = 1e-14  # deviance an event of counts that are as expected, but for rounding


class PoissonRegression(RegressorMixin, GeneralizedResiduals, PenalizedModel):
    """Poisson regression with a prior on the coefficients.

    Maximises Σ w [y η − exp η − log y!] − penalty over η = intercept + X β + log exposure +
    offset. The intercept is not penalised.

    Parameters
    ----------
    prior, cv, fit_intercept, solver, tol, max_iter, n_jobs, device, random_state, verbose
        As in `LogisticRegression`.

    Attributes
    ----------
    intercept_ : float
    """

    _intercept = True
    _batched_outcomes = "laplace"
    _family = "poisson"

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
        inputs.refuse_extras(self, "strata")
        y = check_response(inputs.y, design.n, minimum=0.0)
        if not y.any():
            raise DataError("y is zero in every row: the rate has no finite logarithm.")
        extras = {"fold_label": (y > 0).astype(np.int64)}
        log_exposure = check_exposure(inputs.exposure, design.n)
        if log_exposure is not None:
            extras["offset"] = log_exposure
        return PoissonLikelihood(y, backend), extras

    def predict(self, X: Any, *, offset: Any = None, exposure: Any = None) -> np.ndarray:
        """Return expected counts exp(η), (n,); without ``exposure`` for one unit of it."""
        refuse_other_order(X, exposure=exposure)
        eta = self.linear_predictor(X, offset)
        log_exposure = check_exposure(exposure, len(eta))
        return np.exp(eta if log_exposure is None else eta + log_exposure)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Share of the deviance that is explained, D² = 1 − D(y, μ) / D(y, μ₀).

        As of scikit-learn's ``PoissonRegressor``. At best 1, and 0 where the model predicts no
        better than μ₀, the one rate that fits y best (times exposure and exp(offset)).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        y : (n,) array
            Counts.
        sample_weight, offset, exposure : (n,) arrays, optional
            As in ``fit``.

        Returns
        -------
        float
            Where μ₀ is y itself, 1 if the model predicts just that and otherwise 0, as in
            scikit-learn's ``r2_score``.
        """
        refuse_other_order(X, y=y, sample_weight=sample_weight, exposure=exposure)
        eta = self.linear_predictor(X, offset)
        n = len(eta)
        y, w = check_response(y, n, minimum=0.0), check_weights(sample_weight, n)
        own = np.zeros(n)
        if (log_exposure := check_exposure(exposure, n)) is not None:
            eta, own = eta + log_exposure, own + log_exposure
        offset = self._formula_vector("offset", X, offset)
        if (known := check_offset(offset, n)) is not None:
            own = own + known
        there = w > 0  # in others anything may stand
        y, w, eta, own = y[there], w[there], eta[there], own[there]
        events = float(w @ y)
        with np.errstate(over="ignore"):
            left = float(w @ response_residuals("poisson", "deviance", y, eta) ** 2)
        whole = 0.0
        if events > 0:
            top = own.max()
            rate = np.log(events) - np.log(w @ np.exp(own - top)) - top
            whole = float(w @ response_residuals("poisson", "deviance", y, rate + own) ** 2)
        if whole <= EQUAL * events:
            return float(left <= EQUAL * events)
        return 1.0 - left / whole

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
