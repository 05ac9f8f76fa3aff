"""Conditional logistic and conditional Poisson regression, in which strata have intercepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from ...backends.backend_interface import Backend
from ...data import check_exposure, check_offset, check_response, check_strata, check_weights
from ...data.input_types import LabelsLike, VectorLike
from ...data.stratum_offsets import offsets_within_strata
from ...design_matrix import Design
from ...errors import DataError
from ...fit import Problem
from ...likelihoods import (
    ConditionalLogisticLikelihood,
    ConditionalPoissonLikelihood,
    Likelihood,
    MatchedCoxLikelihood,
)
from ...priors import Prior
from ..checks.check_accessors import GroupedChecks
from ..families.survival_families import CONDITIONAL, COUNTS_WITHIN_STRATA
from ..fitting.accessor_base_class import accessor
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed, Solver
from .fits_with_row_arguments import fit_with_strata, fit_with_strata_and_exposure
from .penalized_model import PenalizedModel

__all__ = ["ConditionalLogisticRegression", "ConditionalPoissonRegression"]


class _ConditionalModel(PenalizedModel):
    """Models that condition on each stratum's total, without intercept; folds keep strata whole."""

    checks = accessor(GroupedChecks)

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Centre offsets within strata before assembling the problem."""
        if inputs.offset is not None and inputs.strata is not None:
            n = design.n
            weights, offset = check_weights(inputs.sample_weight, n), check_offset(inputs.offset, n)
            assert offset is not None
            inputs = replace(inputs, offset=offsets_within_strata(offset, inputs.strata, weights))
        return super()._make_problem(design, inputs, like)

    def _strata(self, strata: LabelsLike | None, n: int, what: str) -> np.ndarray:
        """Convert strata to codes; refuse a fit without them."""
        if strata is None:
            raise DataError(
                f"{type(self).__name__} needs strata: pass fit(X, y, strata=labels) with {what} "
                "of each row."
            )
        codes = check_strata(strata, n)
        assert codes is not None
        return codes

    def _effective_sample_size(self, problem: Problem) -> float:
        """Return the total weight of the rows with cases or events."""
        assert problem.fold_label is not None
        return float(problem.weights[problem.fold_label > 0].sum())

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the log ratio against X = 0 in the same stratum, X β + offset.

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


def _folds(y: np.ndarray, strata: np.ndarray) -> OutcomeRows:
    """Label strata for folds, which keep strata whole and spread those with events evenly."""
    codes = strata.astype(np.int32) if len(strata) <= np.iinfo(np.int32).max else strata
    return {"fold_label": (y > 0).astype(np.int8), "fold_together": codes}


class ConditionalLogisticRegression(_ConditionalModel):
    """Conditional logistic regression for matched sets, with a prior on the log odds ratios.

    Maximises the conditional log-likelihood of the cases of each stratum given their number,
    minus the penalty. The intercepts of the strata cancel. Strata without cases or without
    controls, and single rows, do not contribute and take no time.

    Parameters
    ----------
    method : {"exact", "efron", "breslow"}
        ``"exact"`` (default): sums over all ways to choose the cases, by a recursion, for any
        numbers of cases and controls. ``"breslow"`` and ``"efron"``: Cox's partial likelihood
        with one event time per stratum and these approximations for ties, as in R's
        ``survival::clogit``. With one case per stratum the three are identical.
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
        Folds keep strata whole.
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
    coef_ : (p,) array
        Log odds ratios.
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
    LogisticRegression : Model with one intercept.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``fit(X, y, strata=labels)`` requires y of 0 (control) and 1 (case), or booleans. With
    ``method="exact"`` a weight is the number of times that the whole stratum counts, so that
    weights that vary within a stratum are refused (a weight of zero omits the row). The
    approximations apply the weights of rows in the numerator and in the denominator.

    References
    ----------
    Breslow and Day (1980), Statistical Methods in Cancer Research I, ch. 7.
    Gail, Lubin and Rubinstein (1981), Biometrika 68:703–707.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> x = np.array([[1.0], [0.0], [0.0], [1.0], [1.0], [0.0]])
    >>> m = steropes.ConditionalLogisticRegression()
    >>> m = m.fit(x, [1, 0, 1, 0, 1, 0], strata=["a", "a", "b", "b", "c", "c"])
    >>> round(float(np.exp(m.coef_[0])), 6)  # two discordant pairs to one
    2.0
    """

    fit = fit_with_strata
    _family = CONDITIONAL

    def __init__(
        self,
        *,
        method: Literal["exact", "efron", "breslow"] = "exact",
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
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
        self.method = method

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the outcome and strata; see `PenalizedModel`."""
        inputs.refuse_extras(self, "exposure")
        if self.method not in ("exact", "efron", "breslow"):
            raise DataError(f"method must be 'exact', 'efron' or 'breslow', not {self.method!r}.")
        y = check_response(inputs.y, design.n)
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            i = int(wrong.argmax())
            raise DataError(f"y must be 1 for cases and 0 for controls; row {i} is {y[i]:g}.")
        strata = self._strata(inputs.strata, design.n, "the matched set")
        if self.method == "exact":
            return ConditionalLogisticLikelihood(y, strata, backend), _folds(y, strata)
        return MatchedCoxLikelihood(y, strata, backend, self.method), _folds(y, strata)


class ConditionalPoissonRegression(_ConditionalModel):
    """Conditional Poisson regression: counts of a stratum given their total, with a prior.

    Maximises Σ w y log[w' exp η / Σ_stratum w exp η] − penalty over η = X β + log exposure +
    offset. The rates of the strata cancel. Estimates and standard errors equal those of a
    Poisson regression with an intercept for each stratum. Strata without events or with one row
    do not contribute and take no time.

    Parameters
    ----------
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
        Folds keep strata whole.
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
    coef_ : (p,) array
        Log rate ratios.
    log_likelihood_ : float
        Σ w [y η − y log Σ_stratum w exp η], the kernel of the multinomial likelihood. The
        constant log n_s! − Σ log y! of each stratum is omitted, as in statsmodels.
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
    SelfControlledCaseSeries : The same model for intervals of people's observation time.
    PoissonRegression : Model with one intercept.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``fit(X, y, strata=labels, exposure=time)`` requires counts y ≥ 0. A weight of 2 equals the
    row given twice, also in the sum of its stratum.

    References
    ----------
    Armstrong, Gasparrini and Tobias (2014), BMC Medical Research Methodology 14:122.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> m = steropes.ConditionalPoissonRegression()
    >>> m = m.fit(X, [1, 2, 2, 4], strata=["a", "a", "b", "b"])
    >>> round(float(np.exp(m.coef_[0])), 6)  # rate ratio
    2.0
    """

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
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

    fit = fit_with_strata_and_exposure
    _family = COUNTS_WITHIN_STRATA
    _stratum_description = "the stratum"
    _likelihood_class: type[ConditionalPoissonLikelihood] = ConditionalPoissonLikelihood

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the outcome and strata; see `PenalizedModel`."""
        y = check_response(inputs.y, design.n, minimum=0.0)
        log_exposure = check_exposure(inputs.exposure, design.n)
        strata = self._strata(inputs.strata, design.n, self._stratum_description)
        extras = _folds(y, strata)
        if log_exposure is not None:
            extras["offset"] = log_exposure
        return self._likelihood_class(y, strata, backend), extras
