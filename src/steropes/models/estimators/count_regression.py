"""Base class of regression models of counts with an exposure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...data import check_exposure, check_offset, check_response, check_weights, refuse_other_order
from ...data.input_types import VectorLike
from ...errors import DataError
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import MatrixLike
from .fits_with_row_arguments import fit_with_exposure
from .generalized_linear_base_class import GeneralizedLinearModel

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["CountRegression"]

# A deviance per event below this is a result of rounding.
NEGLIGIBLE_DEVIANCE = 1e-14


class CountRegression(GeneralizedLinearModel):
    """Base class of models of counts with a log link and the log exposure as offset."""

    fit = fit_with_exposure

    def _counts(self, inputs: FitInputs, n: int) -> tuple[np.ndarray, OutcomeRows]:
        """Read counts and exposure; return the counts and the arguments of `Problem`."""
        inputs.refuse_extras(self, "strata")
        y = check_response(inputs.y, n, minimum=0.0)
        if not y.any():
            raise DataError("y is zero in every row: the rate has no finite logarithm.")
        extras: OutcomeRows = {"fold_label": (y > 0).astype(np.int64)}
        log_exposure = check_exposure(inputs.exposure, n)
        if log_exposure is not None:
            extras["offset"] = log_exposure
        return y, extras

    def _best_rate(self, y: np.ndarray, w: np.ndarray, own: np.ndarray) -> float:
        """Return the intercept with the largest likelihood at known terms ``own`` (n,) of η."""
        top = own.max()
        return float(np.log(w @ y) - np.log(w @ np.exp(own - top)) - top)

    def predict(
        self, X: MatrixLike, *, offset: VectorLike | None = None, exposure: VectorLike | None = None
    ) -> np.ndarray:
        """Predict expected counts exp(η).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        exposure : (n,) array, optional
            Positive time at risk. Default one unit of it.

        Returns
        -------
        (n,) array
            Expected counts.
        """
        refuse_other_order(X, exposure=exposure)
        eta = self.linear_predictor(X, offset)
        log_exposure = check_exposure(exposure, len(eta))
        return np.exp(eta if log_exposure is None else eta + log_exposure)

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        *,
        offset: VectorLike | None = None,
        exposure: VectorLike | None = None,
    ) -> float:
        """Compute the explained share of the deviance, D² = 1 − D(y, μ) / D(y, μ₀).

        This is the score of scikit-learn's ``PoissonRegressor``: 1 at best, and 0 if the model
        predicts no better than the best single rate μ₀ (times exposure and exp(offset)).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : (n,) array
            Counts.
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        exposure : (n,) array, optional
            Positive time at risk. Default one unit of it, or the column that the fit named.

        Returns
        -------
        float
            If μ₀ equals y, 1 for a model that predicts y exactly and otherwise 0, as in
            scikit-learn's ``r2_score``.
        """
        y = outcome_of_table(self, X, y)
        refuse_other_order(X, y=y, sample_weight=sample_weight, exposure=exposure)
        exposure = self._formula_vector("exposure", X, exposure)
        eta = self.linear_predictor(X, offset)
        n = len(eta)
        y, w = check_response(y, n, minimum=0.0), check_weights(sample_weight, n)
        own = np.zeros(n)
        if (log_exposure := check_exposure(exposure, n)) is not None:
            eta, own = eta + log_exposure, own + log_exposure
        offset = self._formula_vector("offset", X, offset)
        if (known := check_offset(offset, n)) is not None:
            own = own + known
        used = w > 0
        y, w, eta, own = y[used], w[used], eta[used], own[used]
        events = float(w @ y)
        with np.errstate(over="ignore"):
            left = float(w @ self._distribution.deviance(y, eta) ** 2)
        whole = 0.0
        if events > 0:
            rate = self._best_rate(y, w, own)
            whole = float(w @ self._distribution.deviance(y, rate + own) ** 2)
        if whole <= NEGLIGIBLE_DEVIANCE * events:
            return float(left <= NEGLIGIBLE_DEVIANCE * events)
        return 1.0 - left / whole

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
