"""Gamma regression for positive outcomes, such as costs and lengths of stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...backends.backend_interface import Backend
from ...data import check_response
from ...data.input_types import VectorLike
from ...design_matrix import Design
from ...errors import DataError
from ...fit import Problem
from ...infer.profile_fits import FromObjective
from ...infer.response_distributions import GammaResponse
from ...likelihoods import GammaLikelihood, Likelihood
from ...likelihoods.gamma_likelihood import gamma_log_density, gamma_shape
from ...solve.linear_predictor import linear_predictor
from ..families.response_families import GAMMA
from ..fitting.row_arguments import FitInputs, OutcomeRows
from .generalized_linear_base_class import GeneralizedLinearModel

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["GammaRegression"]

# The logarithm of the largest outcome's ratio to the median beyond which fits are refused. Fits are
# accurate up to 66 in tests, and meaningless from 80 to 100 on.
EXTREME_RATIO = 80.0


class GammaRegression(GeneralizedLinearModel):
    """Gamma regression with a log link and a prior on the coefficients.

    For positive outcomes with a constant coefficient of variation: E(y) = μ = exp η and
    Var(y) = φ μ². Minimises Σ w [y / μ − 1 − log(y / μ)] + penalty over η = intercept + X β +
    offset. The prior is relative to a dispersion φ of one, as in glmnet. The dispersion is
    estimated afterwards and enters ``log_likelihood_`` and the standard errors.

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
    solver : {"newton"}
        Proximal Newton method. There is no coordinate descent for this model.
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
    coef_ : (p,) array
        Logarithms of ratios of means.
    dispersion_ : float
        Dispersion φ, the squared coefficient of variation: Pearson's Σ w (y / μ − 1)² divided by
        ``df_resid_``, without weights as in R's ``summary(glm(…))``. It multiplies the covariance
        matrix.
    df_resid_ : float
        Σ w minus the number of coefficients that are not zero (the intercept counted), the degrees
        of freedom of the t tests in ``summary()``. R's is the number of rows minus that of the
        coefficients, also with weights.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, and at the dispersion with the
        largest likelihood (R's ``logLik`` has the mean deviance as dispersion).
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        The certificate of `PenalizedModel`. The unit of a column without λ is √H_jj times the root
        of the dispersion with the largest likelihood.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps.
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
        If unpenalised columns are collinear.

    See Also
    --------
    PoissonRegression : Model of counts, which is also consistent for positive outcomes.
    LinearRegression : Model with a constant variance.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    Standard errors are from the observed information, in which rows have the weight y / μ. R's
    ``glm`` and the default of statsmodels use its expectation, with weights of one; both agree in
    large samples.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, ch. 8.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> m = steropes.GammaRegression().fit(X, [1.0, 3.0, 2.0, 6.0])  # costs
    >>> round(float(np.exp(m.coef_[0])), 6)  # ratio of means
    2.0
    >>> round(m.dispersion_, 6)
    0.5
    """

    _batched_outcomes = "laplace"
    _distribution = GammaResponse()
    _family = GAMMA

    df_resid_: float
    dispersion_: float

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the outcome; see `PenalizedModel`."""
        inputs.refuse_extras(self, "strata", "exposure")
        return GammaLikelihood(self._read_response(inputs.y, design.n), backend), {}

    def _read_response(self, y: VectorLike, n: int) -> np.ndarray:
        """Read the outcome; refuse values that are not positive."""
        y = check_response(y, n)
        if (y <= 0).any():
            row = int(np.argmax(y <= 0))
            raise DataError(
                f"y must be positive; row {row} is {y[row]:g}. Leave such rows out, or use "
                "PoissonRegression, which allows zeros."
            )
        return y

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Assemble the problem and measure the scale of the outcome."""
        problem = super()._make_problem(design, inputs, like)
        likelihood = problem.likelihood
        assert isinstance(likelihood, GammaLikelihood)
        _refuse_extreme_outcomes(likelihood, problem)
        likelihood.measure(problem.weights, problem.offset)
        return problem

    def _set_likelihood(self, loss: float, problem: Problem) -> None:
        """Set the log-likelihood and the dispersion."""
        w, likelihood = problem.weights, problem.likelihood
        assert isinstance(likelihood, GammaLikelihood)
        used = int(np.count_nonzero(self.coef_)) + problem.n_free
        self.df_resid_ = float(w.sum() - used)
        host = likelihood.backend.to_host
        eta = host(linear_predictor(problem, self._beta * problem.design.scale))[:, 0]
        ratio = self._distribution.pearson(host(likelihood.y)[:, 0], eta)
        squares = float(w @ np.where(w > 0, ratio, 0.0) ** 2)
        self.dispersion_ = squares / self.df_resid_ if self.df_resid_ > 0 else np.nan
        self.log_likelihood_ = self._objective_to_likelihood(problem)(loss)[0]

    def _objective_to_likelihood(self, problem: Problem) -> FromObjective:
        """Return the profile log-likelihood, with the shape that fits the mean half-deviance."""
        likelihood, w = problem.likelihood, problem.weights
        total = float(w.sum())
        assert isinstance(likelihood, GammaLikelihood)
        log_y = float(w @ likelihood.backend.to_host(likelihood.log_y)[:, 0])

        def from_objective(objective: float) -> tuple[float, float]:
            """Return the log-likelihood and its derivative in the objective."""
            if objective <= 0:
                return np.inf, 0.0
            k = float(gamma_shape(objective / total))
            return float(gamma_log_density(k, objective, total, log_y)), -k

        return from_objective

    def _residual_df(self) -> float:
        """Return the residual degrees of freedom."""
        return self.df_resid_ if self.df_resid_ > 0 else np.nan

    def _residual_variance(self) -> float:
        """Return the dispersion."""
        return self.dispersion_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _refuse_extreme_outcomes(likelihood: GammaLikelihood, problem: Problem) -> None:
    """Raise `DataError` if the largest outcome leaves at least half of the others without effect.

    A gradient then consists of the largest outcomes and rounding errors.
    """
    t = likelihood.backend.to_host(likelihood.log_y)[:, 0]
    t = t if problem.offset is None else t - problem.offset
    rows = np.flatnonzero(problem.weights > 0)
    if not len(rows):
        return
    top = int(rows[t[rows].argmax()])
    typical = float(np.median(t[rows]))
    if t[top] - typical > EXTREME_RATIO:
        given = "" if problem.offset is None else ", relative to the offsets"
        raise DataError(
            f"The outcomes are too far apart: y is exp({t[top] - typical:.0f}) times the median in "
            f"row {top}{given}, so most rows have no influence next to it. Check the unit of y, or "
            "model log(y) with LinearRegression."
        )
