"""Predictions of cumulative models: probabilities, means and quantiles of the outcome."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...backends.thread_pool import ThreadPool
from ...data import refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...design_matrix import Design
from ...errors import DataError
from ...infer.cumulative_probability_predictions import (
    means,
    quantile_levels,
)
from ..fitting.coefficient_tables import critical_value
from ..fitting.setting_types import Kind, MatrixLike
from ..fitting.sklearn_base_types import RegressorMixin
from .cumulative_standard_errors import CumulativeInference
from .prediction_arrays import Prediction, pack_prediction, read_points, refuse_without_level
from .probability_predictions import predict_cdf, predict_exceedance, predict_proba

__all__ = ["CumulativePredictions", "Prediction"]


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

    predict_cdf = predict_cdf
    predict_exceedance = predict_exceedance
    predict_proba = predict_proba

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
        refuse_without_level(level, kind, cluster)
        points, scalar = read_points(q, "q")
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
        found = pack_prediction(estimate, lower, upper, se, scalar)
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
        refuse_without_level(level, kind, cluster)
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
