"""Negative binomial regression for counts that vary more than Poisson's."""

from __future__ import annotations

import warnings
from numbers import Real

import numpy as np

from ...backends.backend_interface import Backend
from ...design_matrix import Design
from ...errors import DataError
from ...fit import Problem
from ...infer.response_distributions import NegativeBinomialResponse
from ...likelihoods import Likelihood, NegativeBinomialLikelihood
from ...priors import Prior
from ...solve.linear_predictor import bound_weights, linear_predictor
from ..families.response_families import NEGATIVE_BINOMIAL
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import Chooser, Device, Seed, Solver
from .count_regression import CountRegression

__all__ = ["NegativeBinomialRegression"]


class NegativeBinomialRegression(CountRegression):
    """Negative binomial regression (NB2) with a prior on the coefficients.

    For counts with a mean μ = exp η and the variance μ + α μ². Maximises the log-likelihood minus
    the penalty over η = intercept + X β + log exposure + offset and, unless it is given, over the
    dispersion α. The intercept and the dispersion are not penalised.

    Parameters
    ----------
    dispersion : float, optional
        The dispersion α > 0 (``alpha`` in statsmodels, the inverse of ``theta`` in R). None
        (default) estimates it.
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
        Log rate ratios.
    dispersion_ : float
        The dispersion α, given or estimated; zero if the counts vary no more than Poisson's, so
        that the fit is that of `PoissonRegression`. R's ``theta`` is its inverse.
    log_likelihood_ : float
        Log-likelihood at the coefficients and the dispersion, without the prior, with all its
        constants.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        Certificate: the largest violation of the optimality conditions over all columns, computed
        from X at the final coefficients; see `PenalizedModel`.
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
        If the data do not determine the coefficients of some unpenalised columns.

    See Also
    --------
    PoissonRegression : Model with the variance μ; its robust errors allow for any variance.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``fit(X, y, exposure=time)`` takes nonnegative counts and the time at risk.

    An estimated dispersion is profiled out: every value of the likelihood, in folds, draws and
    points of a profile too, is that at the best dispersion for these coefficients. Standard errors
    are from the observed information of coefficients and dispersion together, as in statsmodels'
    ``NegativeBinomial``. Those of R's ``glm.nb`` take the dispersion as known and the information
    in expectation; all agree in large samples.

    References
    ----------
    Lawless (1987), Canadian Journal of Statistics 15:209–225. Hilbe (2011), Negative Binomial
    Regression, ch. 8.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.repeat([[0.0], [1.0]], 4, axis=0)
    >>> m = steropes.NegativeBinomialRegression().fit(X, [0, 1, 2, 9, 1, 3, 6, 14])
    >>> round(float(np.exp(m.coef_[0])), 6)  # rate ratio
    2.0
    >>> round(m.dispersion_, 3)
    0.785
    """

    _distribution = NegativeBinomialResponse()
    _family = NEGATIVE_BINOMIAL

    dispersion_: float
    # Whether the fit estimated the dispersion; the setting may change afterwards.
    _estimates_dispersion: bool

    def __init__(
        self,
        *,
        dispersion: float | None = None,
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
            prior=prior, cv=cv, fit_intercept=fit_intercept, solver=solver, tol=tol,
            max_iter=max_iter, n_jobs=n_jobs, device=device, random_state=random_state,
            verbose=verbose, formula=formula, trusted=trusted,
        )  # fmt: skip
        self.dispersion = dispersion

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read counts and exposure; see `PenalizedModel`."""
        given = self.dispersion
        known = isinstance(given, Real) and not isinstance(given, bool)
        if given is not None and not (known and 0 < float(given) < np.inf):
            raise DataError(
                f"dispersion must be a positive number or None, not {given!r}. A dispersion of "
                "zero is PoissonRegression."
            )
        y, extras = self._counts(inputs, design.n)
        part = y % 1.0 != 0
        if part.any():
            warnings.warn(
                f"y is not a whole number in row {int(part.argmax())} and {int(part.sum()) - 1} "
                "more: the negative binomial distribution is one of counts, and its log-likelihood "
                "and dispersion have no meaning for others. Give a rate as a count with "
                "exposure=…, or use GammaRegression.",
                UserWarning,
                stacklevel=2,
            )
        number = None if given is None else float(given)
        return NegativeBinomialLikelihood(y, backend, number), extras

    def _set_likelihood(self, loss: float, problem: Problem) -> None:
        """Set the log-likelihood and the dispersion."""
        super()._set_likelihood(loss, problem)
        likelihood = problem.likelihood
        assert isinstance(likelihood, NegativeBinomialLikelihood)
        eta = linear_predictor(problem, self._beta * problem.design.scale)
        self.dispersion_ = likelihood.fitted_dispersion(eta, bound_weights(problem))
        self._distribution = NegativeBinomialResponse(self.dispersion_)
        self._estimates_dispersion = likelihood.given is None

    def _n_extra_parameters(self) -> int:
        """Return one for an estimated dispersion."""
        return int(self._estimates_dispersion)

    def _best_rate(self, y: np.ndarray, w: np.ndarray, own: np.ndarray) -> float:
        """Return the intercept with the largest likelihood at known terms ``own`` (n,) of η."""
        return NegativeBinomialResponse(self.dispersion_).intercept(
            y, w, own, super()._best_rate(y, w, own)
        )
