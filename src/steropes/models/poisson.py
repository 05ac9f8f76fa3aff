"""Poisson regression: rates and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.face import Backend
from ..data import check_exposure, check_response, refuse_other_order
from ..errors import DataError
from ..likelihoods import Likelihood, PoissonLikelihood
from ..priors import Prior
from .annotations import Chooser, Device, Seed, Solver
from .base import PenalizedModel
from .logistic import _refuse_extras
from .residuals import GeneralizedResiduals
from .sklearn_base import RegressorMixin

__all__ = ["PoissonRegression"]


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
    _ratio = "rr"
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
        self, y: Any, n: int, strata: Any, exposure: Any, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        _refuse_extras(self, strata=strata)
        y = check_response(y, n, minimum=0.0)
        if not y.any():
            raise DataError("y is zero in every row: the rate has no finite logarithm.")
        extras = {"fold_label": (y > 0).astype(np.int64)}
        log_exposure = check_exposure(exposure, n)
        if log_exposure is not None:
            extras["offset"] = log_exposure
        return PoissonLikelihood(y, backend), extras

    def predict(self, X: Any, *, offset: Any = None, exposure: Any = None) -> np.ndarray:
        """Return expected counts exp(η), (n,); without ``exposure`` for one unit of it."""
        refuse_other_order(X, exposure=exposure)
        eta = self.linear_predictor(X, offset)
        log_exposure = check_exposure(exposure, len(eta))
        return np.exp(eta if log_exposure is None else eta + log_exposure)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
