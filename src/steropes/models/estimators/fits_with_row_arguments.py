"""Methods ``fit`` of models with strata, with exposures, with both, and with interval weights."""

from __future__ import annotations

from typing import TypeVar

from numpy.typing import ArrayLike

from ...data.input_types import CoefficientsByColumn, LabelsLike, VectorLike
from ...data.interval_weights import IntervalWeights
from ..fitting.row_arguments import FitInputs, refuses_other_rows
from ..fitting.setting_types import MatrixLike
from .penalized_model import PenalizedModel

__all__ = [
    "fit_with_exposure",
    "fit_with_interval_weights",
    "fit_with_strata",
    "fit_with_strata_and_exposure",
]

M = TypeVar("M", bound=PenalizedModel)


@refuses_other_rows
def fit_with_exposure(
    self: M,
    X: MatrixLike,
    y: VectorLike | None = None,
    *,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    exposure: VectorLike | None = None,
    start_at: ArrayLike | CoefficientsByColumn | None = None,
    fixed: CoefficientsByColumn | None = None,
) -> M:
    """Fit the model.

    Parameters
    ----------
    X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
        Covariates, or the table of data for the model's formula.
    y : (n,) array
        Counts, as the class describes.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    exposure : (n,) array, optional
        Positive time at risk; its logarithm is added to the offset. Default 1.
    start_at, fixed : arrays or mappings, optional
        Initial coefficients, and coefficients that are held at given values; see
        `PenalizedModel.fit`.

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

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [1, 3, 4, 4]
    >>> model = steropes.PoissonRegression().fit(X, y, exposure=[10.0, 10.0, 10.0, 10.0])
    >>> model.coef_.round(2).tolist()
    [0.69]
    """
    inputs = FitInputs(y, sample_weight, offset, exposure=exposure)
    return self._fit_rows(X, inputs, start_at, fixed)


@refuses_other_rows
def fit_with_strata(
    self: M,
    X: MatrixLike,
    y: VectorLike | None = None,
    *,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    strata: LabelsLike | None = None,
    start_at: ArrayLike | CoefficientsByColumn | None = None,
    fixed: CoefficientsByColumn | None = None,
) -> M:
    """Fit the model.

    Parameters
    ----------
    X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
        Covariates, or the table of data for the model's formula.
    y : (n,) array
        Outcome, ``Surv(time, event[, entry])`` of survival models; see the class.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    strata : (n,) labels, optional
        Hashable labels in any order, which conditional models need. A data frame with several
        columns has a stratum for each combination of their values.
    start_at, fixed : arrays or mappings, optional
        Initial coefficients, and coefficients that are held at given values; see
        `PenalizedModel.fit`.

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

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X, site = [[0.0], [1.0], [0.0], [0.0], [1.0]], ["a", "a", "a", "b", "b"]
    >>> steropes.CoxRegression(prior=steropes.Normal()).fit(X, y, strata=site).coef_.shape
    (1,)
    """
    inputs = FitInputs(y, sample_weight, offset, strata=strata)
    return self._fit_rows(X, inputs, start_at, fixed)


@refuses_other_rows
def fit_with_strata_and_exposure(
    self: M,
    X: MatrixLike,
    y: VectorLike | None = None,
    *,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    strata: LabelsLike | None = None,
    exposure: VectorLike | None = None,
    start_at: ArrayLike | CoefficientsByColumn | None = None,
    fixed: CoefficientsByColumn | None = None,
) -> M:
    """Fit the model.

    Parameters
    ----------
    X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
        Covariates, or the table of data for the model's formula.
    y : (n,) array
        Outcome; see the class.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    strata : (n,) labels
        The stratum of each row: hashable labels in any order. A data frame with several columns
        has a stratum for each combination of their values.
    exposure : (n,) array, optional
        Positive time at risk; its logarithm is added to the offset. Default 1.
    start_at, fixed : arrays or mappings, optional
        Initial coefficients, and coefficients that are held at given values; see
        `PenalizedModel.fit`.

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

    Examples
    --------
    >>> import steropes
    >>> X, sets = [[0.0], [1.0], [0.0], [1.0]], ["a", "a", "b", "b"]
    >>> model = steropes.ConditionalPoissonRegression().fit(X, [1, 2, 2, 4], strata=sets)
    >>> model.coef_.round(2).tolist()
    [0.69]
    """
    inputs = FitInputs(y, sample_weight, offset, strata=strata, exposure=exposure)
    return self._fit_rows(X, inputs, start_at, fixed)


@refuses_other_rows
def fit_with_interval_weights(
    self: M,
    X: MatrixLike,
    y: VectorLike | None = None,
    *,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    interval_weights: IntervalWeights | ArrayLike | None = None,
    start_at: ArrayLike | CoefficientsByColumn | None = None,
    fixed: CoefficientsByColumn | None = None,
) -> M:
    """Fit the model.

    Parameters
    ----------
    X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
        Covariates, or the table of data for the model's formula.
    y : (n,) array
        Outcome, ``Surv(time, event[, entry])``.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    interval_weights : (n, K) array, optional
        Weights of the K intervals of each row, such as inverse probabilities of remaining
        uncensored, which multiply ``sample_weight``. A row then stands for as many
        person-intervals with weights of their own, and no row is repeated.
    start_at, fixed : arrays or mappings, optional
        Initial coefficients, and coefficients that are held at given values; see
        `PenalizedModel.fit`.

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

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0], [0.0], [1.0]], steropes.Surv([1, 2, 2, 2], [1, 1, 1, 0])
    >>> weights = [[1.0, 1.0], [1.0, 2.0], [1.0, 1.5], [1.0, 1.0]]
    >>> model = steropes.PooledLogisticRegression(interval=1, baseline=0)
    >>> model.fit(X, y, interval_weights=weights).coef_.round(2).tolist()
    [-1.32]
    """
    inputs = FitInputs(y, sample_weight, offset, interval_weights=interval_weights)
    return self._fit_rows(X, inputs, start_at, fixed)
