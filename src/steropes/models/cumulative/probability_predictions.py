"""Predicted probabilities of cumulative models: at or below values, above them, of categories."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...backends.blas_threads import single_threaded_blas
from ...data.input_types import LabelsLike, VectorLike
from ...infer.cumulative_probability_predictions import (
    category_probabilities,
    densities,
    probabilities,
    threshold_at,
)
from ..fitting.coefficient_tables import critical_value
from ..fitting.setting_types import Kind, MatrixLike
from ..fitting.unavailable_attributes import UnavailableAttributeError, available_after
from .prediction_arrays import Prediction, pack_prediction, read_points, refuse_without_level

__all__ = ["predict_cdf", "predict_exceedance", "predict_proba"]


def _refuse_without_categories(model: Any) -> None:
    """Refuse probabilities of categories of an outcome that is not ordinal."""
    check_is_fitted(model)
    if model._not_ordinal is not None:
        raise UnavailableAttributeError(
            f"predict_proba() is for ordered categories, and {model._not_ordinal}; use "
            "predict_cdf() and predict_exceedance(), or fit pandas.Categorical(y, ordered=True)."
        )


@overload
def predict_cdf(
    self: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    level: None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> np.ndarray: ...  # fmt: skip
@overload
def predict_cdf(
    self: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    level: float,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> Prediction: ...  # fmt: skip
def predict_cdf(
    self: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    level: float | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> np.ndarray | Prediction:
    """Predict P(Y ≤ y | x); intervals are computed for α(y) − η and transformed.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (rows, p)
        Covariates, with the columns of the fit.
    y : number or (m,) array
        Points, or labels of the model's ordered categories; between two outcomes the
        probability is that of the lower one.
    level : float, optional
        Confidence level; None (default) returns the estimates alone.
    offset : (rows,) array, optional
        Known term of the linear predictor. Default 0.
    kind : {"model", "robust"}, optional
        Covariances of the intervals: those of the model, or the joint sandwich estimate for α
        and β, which takes a pass over the data for each distinct threshold.
    cluster : (n,) labels, optional
        Clusters of the rows of the fit, which imply robust covariances; see `vcov`.

    Returns
    -------
    (rows, m) array, or (rows,) for a single point, or a `Prediction` of such arrays
        Probabilities. The named tuple `Prediction` has ``estimate``, ``lower``, ``upper`` and
        ``se``, standard errors of the probabilities: F'(α(y) − η) times the standard error of
        α(y) − η. Limits lie between 0 and 1, and are NaN under a Laplace prior.

    Raises
    ------
    DataError
        If a point is missing, or ``kind`` or ``cluster`` is given without a level.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = np.round(2.0 * X[:, 0] + np.sin(7.0 * np.arange(40)))
    >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
    >>> model.predict_cdf([[0.0]], [-1, 0, 1, 3]).round(2).tolist()
    [[0.27, 0.8, 0.95, 1.0]]
    """
    return _probability(self, X, y, level, offset, kind, cluster, above=False)


@overload
def predict_exceedance(
    self: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    level: None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> np.ndarray: ...  # fmt: skip
@overload
def predict_exceedance(
    self: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    level: float,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> Prediction: ...  # fmt: skip
def predict_exceedance(
    self: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    level: float | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> np.ndarray | Prediction:
    """Predict P(Y > y | x), without cancellation if it is small.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (rows, p)
        Covariates, with the columns of the fit.
    y : number or (m,) array
        Points; between two outcomes the probability is that of the lower one.
    level : float, optional
        Confidence level; None (default) returns the estimates alone.
    offset : (rows,) array, optional
        Known term of the linear predictor. Default 0.
    kind : {"model", "robust"}, optional
        Covariances of the intervals, as in `predict_cdf`.
    cluster : (n,) labels, optional
        Clusters of the rows of the fit, as in `predict_cdf`.

    Returns
    -------
    (rows, m) array, or (rows,) for a single point, or a `Prediction` of such arrays
        Probabilities, in the form of `predict_cdf`.

    Raises
    ------
    DataError
        If a point is missing, or ``kind`` or ``cluster`` is given without a level.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = np.round(2.0 * X[:, 0] + np.sin(7.0 * np.arange(40)))
    >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
    >>> model.predict_exceedance([[0.0]], [-1, 0]).round(2).tolist()
    [[0.73, 0.2]]
    """
    return _probability(self, X, y, level, offset, kind, cluster, above=True)


def _probability(
    self: Any,
    X: MatrixLike,
    y: Any,
    level: float | None,
    offset: VectorLike | None,
    kind: Kind | None,
    cluster: LabelsLike | None,
    above: bool,
) -> np.ndarray | Prediction:
    """Predict probabilities below or above points."""
    refuse_without_level(level, kind, cluster)
    if self.categories_ is not None:
        one = isinstance(y, str) or not np.ndim(np.asarray(y, object))
        codes = [self._code_of_value(value) for value in ([y] if one else list(y))]
        y = codes[0] if one else codes
    points, scalar = read_points(y, "y")
    design, eta = self._design_and_predictor(X, offset)
    k = threshold_at(self.levels_, points)
    padded = np.concatenate([[-np.inf], self.alpha_, [np.inf]])
    u = padded[k + 1][None, :] - eta[:, None]
    estimate = probabilities(self._link, u, above)
    if level is None:
        return estimate[:, 0] if scalar else estimate
    q = critical_value(level)
    inner = np.flatnonzero((k >= 0) & (k < len(self.alpha_)))
    se = np.zeros_like(u)
    if self._lacks_standard_errors():
        se[:, inner] = np.nan
    elif len(inner):
        rows = self._scaled(design)
        se[:, inner] = np.sqrt(
            self._joint_covariances(kind, cluster).predictor_variance(k[inner], rows)
        )
    ends = [probabilities(self._link, u - s * q * se, above) for s in (1.0, -1.0)]
    lower, upper = ends[::-1] if above else ends
    found = pack_prediction(estimate, lower, upper, densities(self._link, u) * se, scalar)
    return found.with_errors(self._joint_kind(kind, cluster))


@available_after(_refuse_without_categories)
@single_threaded_blas()
def predict_proba(self: Any, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
    """Predict the probability of each category of an ordinal outcome.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (rows, p)
        Covariates, with the columns of the fit.
    offset : (rows,) array, optional
        Known term of the linear predictor. Default 0.

    Returns
    -------
    (rows, K) array
        Probabilities, which sum to one in each row. The columns are ``categories_``, with zero
        for categories that no row of the fit has, or ``levels_`` if labels are ascending
        numbers.

    Raises
    ------
    DataError
        If the outcome of the fit was numbers instead of ordered categories, censored or
        reduced. The method is then unavailable, so that ``hasattr`` is False.

    See Also
    --------
    CumulativeProbabilityModel.predict_cdf : Probabilities of intervals, with limits.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> import steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> place = np.digitize(X[:, 0] + np.sin(7.0 * np.arange(40)), [-0.5, 0.5])
    >>> y = pd.Categorical.from_codes(place, ["low", "middle", "high"], ordered=True)
    >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
    >>> model.predict_proba([[0.0]]).round(2).tolist()
    [[0.24, 0.48, 0.28]]
    """
    _, eta = self._design_and_predictor(X, offset)
    p = category_probabilities(self._link, self.alpha_, eta)
    if self.categories_ is None:
        return p
    out = np.zeros((len(p), len(self.categories_)))
    out[:, self.levels_.astype(np.int64)] = p
    return out
