"""The self-controlled case series, which compares periods within people."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from ...data.input_types import CoefficientsByColumn, LabelsLike, VectorLike
from ...errors import DataError
from ...likelihoods import CaseSeriesLikelihood
from ..fitting.row_arguments import FitInputs
from ..fitting.setting_types import MatrixLike
from .conditional_regression import ConditionalPoissonRegression

__all__ = ["SelfControlledCaseSeries"]


class SelfControlledCaseSeries(ConditionalPoissonRegression):
    """Self-controlled case series (SCCS): rate ratios within people who had the event.

    A row is an interval (era) of a person's observation time during which the covariates are
    constant. Given their total number, a person's events are distributed over the intervals by a
    multinomial distribution with probabilities t_i exp(x_i'β) / Σ_j t_j exp(x_j'β), where t is
    the length of the interval. All characteristics that are constant over time cancel.

    Parameters
    ----------
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
        Folds keep people whole.
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
        Σ w y log[t exp(x'β) / Σ_person t exp(x'β)], the kernel of the multinomial likelihood.
        The constant log n! − Σ log y! of each person is omitted.
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
    ConditionalPoissonRegression : The same model for strata of any kind.
    steropes.studies.case_series : Case series from an OMOP database.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``fit(X, y, strata=person, exposure=days)`` requires the number of events in each interval
    (any number per person) and its positive length. People without events or with a single
    interval do not contribute to the estimate; they may be included and take no time. Rows that
    are sorted by person are used without a copy.

    References
    ----------
    Farrington (1995), Biometrics 51:228–235.
    Whitaker, Farrington, Spiessens and Musonda (2006), Statistics in Medicine 25:1768–1797.
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> exposed = np.array([[0], [1], [0], [1]])
    >>> m = steropes.SelfControlledCaseSeries().fit(
    ...     exposed, [1, 1, 1, 2], strata=[1, 1, 2, 2], exposure=[300, 65, 200, 100]
    ... )
    >>> round(float(np.exp(m.coef_[0])), 2)  # rate ratio
    4.25
    """

    _stratum_description = "the person"
    _likelihood_class = CaseSeriesLikelihood

    def fit(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        *,
        sample_weight: VectorLike | None = None,
        offset: VectorLike | None = None,
        exposure: VectorLike | None = None,
        strata: LabelsLike | None = None,
        start_at: ArrayLike | CoefficientsByColumn | None = None,
        fixed: CoefficientsByColumn | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or array, data frame or Design, (n, p)
            Covariates of each interval. Inputs are never modified.
        y : (n,) array
            Number of events in each interval.
        sample_weight : (n,) array, optional
            Nonnegative row weights; a weight of 2 equals the row given twice. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        exposure : (n,) array
            Positive length of each interval, for example in days. It may be omitted only if
            ``offset`` contains its logarithm.
        strata : (n,) labels
            The person of each interval: hashable labels in any order.
        start_at : (p,) array, or mapping or series from names or positions to numbers, optional
            Initial coefficients; columns that a mapping omits start at zero. They affect the
            duration of the fit and not its result.
        fixed : mapping or series from names or positions to numbers, optional
            Coefficients that are held at given values, for example zero or the estimates of an
            earlier study. They are part of ``coef_`` and of all predictions, have no line in
            ``summary()`` and are not penalised.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        DataError
            If the input cannot be used; the message names the column or row.
        SeparationError
            If the data do not determine the coefficients of some unpenalised columns, which the
            message names.
        """
        inputs = FitInputs(y, sample_weight, offset, exposure, strata)
        return self._fit_rows(X, inputs, start_at, fixed)

    def _fit(
        self,
        X: MatrixLike,
        inputs: FitInputs,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
    ) -> None:
        """Fit the model after a check that the lengths of the intervals are known."""
        if inputs.exposure is None and inputs.offset is None:
            raise DataError(
                "A self-controlled case series needs the lengths of the intervals: pass "
                "exposure=days (numpy.ones(len(y)) where all are of equal length)."
            )
        super()._fit(X, inputs, start_at, fixed)
