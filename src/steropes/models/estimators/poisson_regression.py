"""Poisson regression for rates and counts."""

from __future__ import annotations

from ...backends.backend_interface import Backend
from ...design_matrix import Design
from ...infer.response_distributions import PoissonResponse
from ...likelihoods import Likelihood, PoissonLikelihood
from ..families.response_families import POISSON
from ..fitting.row_arguments import FitInputs, OutcomeRows
from .count_regression import CountRegression

__all__ = ["PoissonRegression"]


class PoissonRegression(CountRegression):
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
    NegativeBinomialRegression : Model of counts that vary more than Poisson's.
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
    _family = POISSON

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read counts and exposure; see `PenalizedModel`."""
        y, extras = self._counts(inputs, design.n)
        return PoissonLikelihood(y, backend), extras
