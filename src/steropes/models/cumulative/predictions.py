"""Predictions of cumulative models: probabilities, means and quantiles of the outcome."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...backends import host_backend
from ...backends.blas_threads import single_threaded_blas
from ...backends.thread_pool import ThreadPool
from ...data import refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.result_tables import draw_estimates
from ...design import Design
from ...errors import DataError
from ...infer.cumulative_predictions import (
    category_probabilities,
    densities,
    means,
    probabilities,
    quantile_levels,
    threshold_at,
)
from ..fitting.coefficient_tables import critical_value
from ..fitting.computed_attributes import UnavailableAttributeError, available_after
from ..fitting.default_errors import NamesErrors
from ..fitting.setting_types import Kind, MatrixLike
from ..fitting.sklearn_base import RegressorMixin
from .threshold_covariances import CumulativeInference

__all__ = ["CumulativePredictions", "Prediction"]


class _Arrays(NamedTuple):
    """The arrays of a prediction."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    se: np.ndarray

    def plot(self, **options: Any) -> Any:
        """Draw a line for each row of X and each point by `steropes.plots.forest`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return draw_estimates(self.estimate, self.lower, self.upper, **options)


class Prediction(NamesErrors, _Arrays):
    """An estimate with its interval and standard error, arrays of one shape.

    ``se`` has the units of the estimate, a probability or an outcome. Intervals of probabilities
    and quantiles are computed on the scale of α − η and are not symmetric about the estimate.
    ``errors`` is the kind of errors, "model" or "robust".
    """


def _refuse_without_categories(model: Any) -> None:
    """Refuse probabilities of categories of an outcome that is not ordinal."""
    check_is_fitted(model)
    if model._not_ordinal is not None:
        raise UnavailableAttributeError(
            f"predict_proba() is for ordered categories, and {model._not_ordinal}; use "
            "predict_cdf() and predict_exceedance(), or fit pandas.Categorical(y, ordered=True)."
        )


class CumulativePredictions(RegressorMixin, CumulativeInference):
    """Conditional probabilities, quantiles and means with delta-method intervals.

    All methods take ``X`` (rows, p) and ``offset`` (rows,), and points as one number, with a
    result (rows,), or as m numbers, with a result (rows, m). With ``level=None`` they return an
    array, and with a level such as 0.95 a `Prediction` of arrays. The intervals use the
    covariances of α and β and are NaN under a Laplace prior. With ``kind="robust"`` the
    covariances are the joint sandwich estimate for α and β, with ``cluster`` (n,) labels of the
    rows of the fit, as in `vcov`; each distinct threshold, and each row of a mean, then requires
    a pass over the data.
    """

    alpha_: np.ndarray
    levels_: np.ndarray
    _link: str
    # Means place the mass beyond all levels at this value.
    _largest_bound: float
    categories_: list | None
    # Why the outcome has no categories whose probabilities can be predicted; None if it has.
    _not_ordinal: str | None

    @overload
    def predict_cdf(
        self,
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
        self,
        X: MatrixLike,
        y: VectorLike,
        *,
        level: float,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> Prediction: ...  # fmt: skip
    def predict_cdf(
        self,
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
        return self._probability(X, y, level, offset, kind, cluster, above=False)

    @overload
    def predict_exceedance(
        self,
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
        self,
        X: MatrixLike,
        y: VectorLike,
        *,
        level: float,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> Prediction: ...  # fmt: skip
    def predict_exceedance(
        self,
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
        """
        return self._probability(X, y, level, offset, kind, cluster, above=True)

    def _probability(
        self,
        X: MatrixLike,
        y: Any,
        level: float | None,
        offset: VectorLike | None,
        kind: Kind | None,
        cluster: LabelsLike | None,
        above: bool,
    ) -> np.ndarray | Prediction:
        """Predict probabilities below or above points."""
        _refuse_without_level(level, kind, cluster)
        if self.categories_ is not None:
            one = isinstance(y, str) or not np.ndim(np.asarray(y, object))
            codes = [self._code_of_value(value) for value in ([y] if one else list(y))]
            y = codes[0] if one else codes
        points, scalar = _points(y, "y")
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
        found = _packed(estimate, lower, upper, densities(self._link, u) * se, scalar)
        return found.with_errors(self._joint_kind(kind, cluster))

    @overload
    def predict_quantile(
        self,
        X: MatrixLike,
        q: ArrayLike = 0.5,
        *,
        level: None = None,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> np.ndarray: ...  # fmt: skip
    @overload
    def predict_quantile(
        self,
        X: MatrixLike,
        q: ArrayLike = 0.5,
        *,
        level: float,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> Prediction: ...  # fmt: skip
    def predict_quantile(
        self,
        X: MatrixLike,
        q: ArrayLike = 0.5,
        *,
        level: float | None = None,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> np.ndarray | Prediction:
        """Predict the smallest outcome y with P(Y ≤ y | x) ≥ q.

        The limits are the outcomes at which α reaches η + F⁻¹(q) minus and plus z standard errors
        of α − η at the estimate. ``se`` is half the distance between the limits with z = 1, the
        delta method for a step function α. It is zero if the adjacent outcomes are further away.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (rows, p)
            Covariates, with the columns of the fit.
        q : number or (m,) array
            Probabilities between 0 and 1.
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
        (rows, m) array, or (rows,) for a single q, or a `Prediction` of such arrays
            Quantiles, which are observed outcomes.

        Raises
        ------
        DataError
            If q is not between 0 and 1, or ``kind`` or ``cluster`` is given without a level.

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
        >>> y = np.round(2.0 * X[:, 0] + np.sin(7.0 * np.arange(40)))
        >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
        >>> model.predict_quantile([[-1.0], [1.0]], [0.25, 0.75]).tolist()
        [[-2.0, -1.0], [2.0, 3.0]]
        """
        _refuse_without_level(level, kind, cluster)
        points, scalar = _points(q, "q")
        if not ((points > 0) & (points < 1)).all():
            raise DataError("q must be between 0 and 1.")
        design, eta = self._design_and_predictor(X, offset)
        at = quantile_levels(self.alpha_, self._link, eta, points)
        estimate = self.levels_[at]
        if level is None:
            return estimate[:, 0] if scalar else estimate
        z = critical_value(level)
        nothing = np.full(at.shape, np.nan)
        lower, upper, below, above = (nothing.copy() for _ in range(4))
        if not self._lacks_standard_errors():
            rows = self._scaled(design)
            last = len(self.alpha_) - 1
            information = self._joint_covariances(kind, cluster)
            for j, p in enumerate(points):
                own = np.sqrt(information.paired_variance(np.minimum(at[:, j], last), rows))
                for out, errors in ((lower, -z), (upper, z), (below, -1.0), (above, 1.0)):
                    shift = (errors * own)[:, None]
                    end = quantile_levels(self.alpha_, self._link, eta, np.array([p]), shift)
                    out[:, j] = self.levels_[end[:, 0]]
        with np.errstate(invalid="ignore"):  # of two that are beyond all outcomes
            se = np.where(np.isinf(above), above, (above - below) / 2.0)
        found = _packed(estimate, lower, upper, se, scalar)
        return found.with_errors(self._joint_kind(kind, cluster))

    @overload
    def predict_mean(
        self,
        X: MatrixLike,
        *,
        level: None = None,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> np.ndarray: ...  # fmt: skip
    @overload
    def predict_mean(
        self, X: MatrixLike, *, level: float,
        offset: VectorLike | None = None, kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> Prediction: ...  # fmt: skip
    def predict_mean(
        self,
        X: MatrixLike,
        *,
        level: float | None = None,
        offset: VectorLike | None = None,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
    ) -> np.ndarray | Prediction:
        """Predict E(Y | x) from the estimated distribution over the observed outcomes.

        Mass beyond all outcomes (of right-censored rows) is placed at the largest bound, so that
        the result is a lower bound of the mean, like a restricted mean.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (rows, p)
            Covariates, with the columns of the fit.
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
        (rows,) array, or a `Prediction` of such arrays
            Means.

        Raises
        ------
        DataError
            If ``kind`` or ``cluster`` is given without a level.

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
        >>> y = np.round(2.0 * X[:, 0] + np.sin(7.0 * np.arange(40)))
        >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
        >>> model.predict_mean([[-1.0], [1.0]]).round(1).tolist()
        [-1.6, 2.2]
        """
        _refuse_without_level(level, kind, cluster)
        design, eta = self._design_and_predictor(X, offset)
        values = self.levels_.copy()
        if values[-1] == np.inf:
            values[-1] = self._largest_bound
        pool = ThreadPool(self.n_jobs)
        if level is None:
            return means(self.alpha_, values, self._link, eta, pool)[0]
        z = critical_value(level)
        if self._lacks_standard_errors():
            mean = means(self.alpha_, values, self._link, eta, pool)[0]
            nothing = np.full(len(mean), np.nan)
            return Prediction(mean, nothing, nothing.copy(), nothing.copy())
        rows = self._scaled(design)
        information = self._joint_covariances(kind, cluster)
        mean, variance = means(self.alpha_, values, self._link, eta, pool, information, rows)
        se = np.sqrt(np.asarray(variance))
        found = Prediction(mean, mean - z * se, mean + z * se, se)
        return found.with_errors(self._joint_kind(kind, cluster))

    @available_after(_refuse_without_categories)
    @single_threaded_blas()
    def predict_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
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

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the conditional mean E(Y | x).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (rows, p)
            Covariates, with the columns of the fit.
        offset : (rows,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (rows,) array
            The result of `predict_mean`.
        """
        return self.predict_mean(X, offset=offset)

    def _design_and_predictor(
        self, X: MatrixLike, offset: VectorLike | None
    ) -> tuple[Design, np.ndarray]:
        """Read new rows; return the design and its linear predictors."""
        refuse_other_order(X, offset=offset)
        design = self._check_new(X)
        # A design has names even if X, an array, had none, so that linear_predictor would refuse.
        beta = (self._estimated * design.scale)[:, None]
        eta = design.matmul(beta, host_backend(self.n_jobs))[:, 0]
        offset = self._new_offset(X, offset, design.n)
        return design, eta if offset is None else eta + offset

    def _scaled(self, design: Design) -> np.ndarray:
        """Return new rows in the scale of the fit's columns, dense, (rows, p)."""
        X = _dense(design)
        return X * (design.scale / self._covariances().scale)


def _dense(design: Design) -> np.ndarray:
    """Convert a design's scaled columns to a dense array."""
    rows = design.by_rows(np.arange(design.p), None, host_backend(1))
    return rows.between(0, rows.n)


def _points(x: VectorLike, what: str) -> tuple[np.ndarray, bool]:
    """Validate points; return them as an array, and whether there is a single one."""
    try:
        points = np.asarray(x, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must hold numbers: {error}.") from None
    if points.ndim > 1 or np.isnan(points).any():
        raise DataError(f"{what} must be a number or a 1-dimensional array without NaN.")
    return np.atleast_1d(points), points.ndim == 0


def _refuse_without_level(
    level: float | None, kind: Kind | None, cluster: LabelsLike | None
) -> None:
    """Refuse arguments that matter to intervals only."""
    if level is None and (kind not in (None, "model") or cluster is not None):
        raise DataError("kind and cluster are of the intervals; give a level too, such as 0.95.")


def _packed(
    estimate: np.ndarray, lower: np.ndarray, upper: np.ndarray, se: np.ndarray, scalar: bool
) -> Prediction:
    """Combine arrays to a prediction, one-dimensional for a single point."""
    parts = (estimate, lower, upper, se)
    return Prediction(*(x[:, 0] if scalar else x for x in parts))
