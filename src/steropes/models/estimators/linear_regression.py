"""Linear regression."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score

from ...backends.backend_interface import Backend
from ...data import check_response, refuse_other_order
from ...data.input_types import VectorLike
from ...design_matrix import Design
from ...fit import Problem
from ...infer.profile_fits import FromObjective
from ...infer.response_distributions import NormalResponse
from ...likelihoods import Likelihood, LinearLikelihood
from ..families.response_families import LINEAR
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import MatrixLike
from .generalized_linear_base_class import GeneralizedLinearModel

__all__ = ["LinearRegression"]


class LinearRegression(GeneralizedLinearModel):
    """Linear regression with a prior on the coefficients.

    Minimises ½ Σ w (y − η)² + penalty over η = intercept + X β + offset. The prior is relative
    to a residual variance of one, as in glmnet and Cyclops. The residual variance is estimated
    afterwards and enters ``log_likelihood_`` and the standard errors.

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
    formula : str, optional
        Outcome and covariates, such as ``"y ~ drug + age"``, with which ``fit`` takes a table of
        data in place of X and y; see `from_formula`.
    trusted : bool
        Whether to evaluate any Python in the formula, default no; see `from_formula`.

    Attributes
    ----------
    intercept_ : float
        Intercept, 0 without ``fit_intercept``.
    sigma2_ : float
        Residual variance: Σ w (y − η)² divided by Σ w minus the number of coefficients that are
        not zero (the intercept counted). R's ``lm`` divides by the number of rows minus that of
        the coefficients, because it takes weights for precisions.
    df_resid_ : float
        That divisor, the degrees of freedom of the t tests in ``summary()``.
    optimality_ : float
        The certificate of `PenalizedModel`. The unit of a column without λ is √H_jj times the
        residual standard deviation √(Σ w (y − η)² / Σ w), with H = X'WX, so that the certificate
        does not depend on the unit of y.
    log_likelihood_ : float
        Normal log-likelihood at the maximum-likelihood variance Σ w (y − η)² / Σ w, as R's
        ``logLik``.
    prior_ : Prior or None
        Prior in use, with its variance.
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
    coef_ : (p,) array
        Differences of the expected outcome for an increase of a column by one.

    Raises
    ------
    SeparationError
        If unpenalised columns are collinear.

    See Also
    --------
    LogisticRegression : Model of an outcome with two classes.
    PoissonRegression : Model of counts.
    PenalizedModel : Methods and attributes of all models.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, ch. 3. Zou, Hastie and Tibshirani
    (2007), Annals of Statistics 35:2173 (degrees of freedom of the lasso).

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> m = steropes.LinearRegression().fit(X, [1.0, 3.0, 5.0, 7.5])
    >>> round(float(m.coef_[0]), 6)
    2.15
    """

    _batched_outcomes = "always"
    _offset_on_log_scale = False
    _distribution = NormalResponse()
    _family = LINEAR

    df_resid_: float
    sigma2_: float

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the outcome; see `PenalizedModel`."""
        inputs.refuse_extras(self, "strata", "exposure")
        return LinearLikelihood(check_response(inputs.y, design.n), backend), {}

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Assemble the problem and measure the scale of the outcome."""
        problem = super()._make_problem(design, inputs, like)
        likelihood = problem.likelihood
        assert isinstance(likelihood, LinearLikelihood)
        likelihood.measure(problem.weights, problem.offset)
        return problem

    def _set_likelihood(self, loss: float, problem: Problem) -> None:
        """Set the log-likelihood and the residual variance from the loss."""
        n = problem.weights.sum()
        used = int(np.count_nonzero(self.coef_)) + problem.n_free
        variance = 2.0 * loss / n
        self.df_resid_ = float(n - used)
        self.sigma2_ = 2.0 * loss / self.df_resid_ if n > used else np.nan
        with np.errstate(divide="ignore"):
            self.log_likelihood_ = float(-0.5 * n * (np.log(2 * np.pi * variance) + 1.0))

    def _objective_to_likelihood(self, problem: Problem) -> FromObjective:
        """Return the profile log-likelihood, with the variance 2 × objective / Σ w."""
        n = float(problem.weights.sum())

        def likelihood(objective: float) -> tuple[float, float]:
            """Return the log-likelihood and its derivative in the objective."""
            if objective <= 0:
                return np.inf, 0.0
            return -0.5 * n * (np.log(4 * np.pi * objective / n) + 1.0), -0.5 * n / objective

        return likelihood

    def _residual_df(self) -> float:
        """Return the residual degrees of freedom."""
        return self.df_resid_ if self.df_resid_ > 0 else np.nan

    def _residual_variance(self) -> float:
        """Return the residual variance."""
        return self.sigma2_

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the expected outcome.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n,) array
            The linear predictor.
        """
        return self.linear_predictor(X, offset)

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        *,
        offset: VectorLike | None = None,
    ) -> float:
        """Compute R² of the predictions, as scikit-learn's regressors do.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : (n,) array
            Outcomes.
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. The metadata routing of scikit-learn passes it after
            ``set_score_request(offset=True)``.

        Returns
        -------
        float
            R², 1 at best, and 0 for a prediction by the mean.
        """
        y = outcome_of_table(self, X, y)
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X, offset)
        y = check_response(y, len(predicted))
        return float(r2_score(y, predicted, sample_weight=sample_weight))
