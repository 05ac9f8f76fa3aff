"""Poisson regression for rates and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..backends.protocols import Backend
from ..data import (
    check_exposure,
    check_offset,
    check_response,
    check_weights,
    refuse_other_order,
)
from ..data.input_types import VectorLike
from ..design import Design
from ..errors import DataError
from ..infer.response_distributions import PoissonResponse
from ..likelihoods import Likelihood, PoissonLikelihood
from .fit_inputs import FitInputs, OutcomeRows
from .generalized_linear_model import MeanRegression
from .setting_types import MatrixLike

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["PoissonRegression"]

# A deviance per event below this is a result of rounding.
NEGLIGIBLE_DEVIANCE = 1e-14


class PoissonRegression(MeanRegression):
    """Poisson regression with a prior on the coefficients.

    Maximises Σ w [y η − exp η − log y!] − penalty over η = intercept + X β + log exposure +
    offset. The intercept is not penalised.

    Parameters
    ----------
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised. Default True.
    solver : {"newton", "ccd"}
        Proximal Newton method (default), or the cyclic coordinate descent of Suchard and others
        (2013) as published.
    tol : float
        Largest ``optimality_`` of a converged fit, default 1e-8.
    max_iter : int
        Maximum number of Newton steps, default 200.
    n_jobs : int, optional
        Number of threads, default all cores. Results do not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where to compute; "auto" uses a GPU for large fits if there is one. Default "cpu".
    random_state : int, Generator or None
        Seed of the folds if ``cv`` has none. Without either, an integer ``cv`` uses the same folds
        in every fit and a `CrossValidation` draws new ones.
    verbose : int
        Whether to show progress on standard error (1) or not (0, default).

    Attributes
    ----------
    intercept_ : float
        Intercept, 0 without ``fit_intercept``.
    coef_ : (p,) array
        Log rate ratios.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, with all its constants.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        Certificate: the largest violation of the optimality conditions over all columns, computed
        from X at the final coefficients; see `PenalizedModel`.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps, or of sweeps with ``solver="ccd"``.
    trace_ : DataFrame
        Progress of the fit, with a row for each step; see `PenalizedModel`.
    variance_ : float
        Variance of the prior that ``cv`` has chosen; only with ``cv``.
    cv_results_ : DataFrame
        Scores of the variances; only with ``cv``, see `PenalizedModel`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (p,) array of str
        Names of the columns; only if X had names.

    Raises
    ------
    SeparationError
        If the data do not determine the coefficients of some unpenalised columns.

    See Also
    --------
    ConditionalPoissonRegression : Model with a rate of each stratum.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``fit(X, y, exposure=time)`` takes nonnegative counts, which need not be whole numbers, and
    the time at risk.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, ch. 6.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> m = steropes.PoissonRegression().fit(X, [1, 3, 4, 4], exposure=[10.0, 10.0, 10.0, 10.0])
    >>> round(float(np.exp(m.coef_[0])), 6)  # rate ratio
    2.0
    """

    _batched_outcomes = "laplace"
    _distribution = PoissonResponse()
    _performance_family = "poisson"

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read counts and exposure; see `PenalizedModel`."""
        inputs.refuse_extras(self, "strata")
        y = check_response(inputs.y, design.n, minimum=0.0)
        if not y.any():
            raise DataError("y is zero in every row: the rate has no finite logarithm.")
        extras: OutcomeRows = {"fold_label": (y > 0).astype(np.int64)}
        log_exposure = check_exposure(inputs.exposure, design.n)
        if log_exposure is not None:
            extras["offset"] = log_exposure
        return PoissonLikelihood(y, backend), extras

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
        y: VectorLike,
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
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        exposure : (n,) array, optional
            Positive time at risk. Default one unit of it.

        Returns
        -------
        float
            If μ₀ equals y, 1 for a model that predicts y exactly and otherwise 0, as in
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
        used = w > 0
        y, w, eta, own = y[used], w[used], eta[used], own[used]
        events = float(w @ y)
        with np.errstate(over="ignore"):
            left = float(w @ self._distribution.deviance(y, eta) ** 2)
        whole = 0.0
        if events > 0:
            top = own.max()
            rate = np.log(events) - np.log(w @ np.exp(own - top)) - top
            whole = float(w @ self._distribution.deviance(y, rate + own) ** 2)
        if whole <= NEGLIGIBLE_DEVIANCE * events:
            return float(left <= NEGLIGIBLE_DEVIANCE * events)
        return 1.0 - left / whole

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
