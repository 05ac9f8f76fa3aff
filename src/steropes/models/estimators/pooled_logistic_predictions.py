"""Predictions of pooled logistic models: hazards, survival, risks, and their concordance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...backends.backend_interface import Backend
from ...data import refuse_other_order
from ...data.array_conversion import as_numbers
from ...data.input_types import VectorLike
from ...data.vector_checks import check_vector
from ...errors import DataError
from ...likelihoods.pooled_logistic_likelihood import interval_log_odds, survival_probabilities
from ..curves.step_functions import StepFunction
from ..fitting.fitted_model import FittedModel
from ..fitting.setting_types import MatrixLike
from ..fitting.unavailable_attributes import computed_attribute
from .pooled_logistic_time_effects import DiscreteTime

__all__ = ["PooledPredictions"]


class PooledPredictions(FittedModel):
    """Predictions for the intervals of time of a pooled logistic model."""

    _time: DiscreteTime
    # End of the last interval at whose start anyone was at risk.
    _end: float
    # All coefficients in the user's units, with the baseline at X = 0.
    _uncentered_beta: np.ndarray

    breaks_: np.ndarray

    def _predictors(
        self, X: MatrixLike, offset: VectorLike | None
    ) -> tuple[np.ndarray, np.ndarray, Backend]:
        """Compute stacked linear predictors of new rows, and the functions of time."""
        refuse_other_order(X, offset=offset)
        design = self._check_new(X)
        whole = self._time.design(design)
        backend = host_backend(self.n_jobs)
        eta = whole.matmul((self._uncentered_beta * whole.scale)[:, None], backend)[:, 0]
        offset = self._new_offset(X, offset, design.n)
        if offset is not None:
            eta[: design.n] += offset
        return eta, whole.scaled, backend

    def linear_predictor(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Compute the log odds of the event in each interval.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n, K) array
            Log odds, with a column for each interval.
        """
        eta, F, _ = self._predictors(X, offset)
        return interval_log_odds(eta, F)

    def predict_hazard(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the probability of the event in each interval, given risk at its start.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n, K) array
            Probabilities, with a column for each interval.
        """
        eta = self.linear_predictor(X, offset)
        e = np.exp(-np.abs(eta))
        return np.where(eta >= 0, 1.0, e) / (1.0 + e)

    @property
    @computed_attribute
    def unique_times_(self) -> np.ndarray:
        """Ends of the intervals in which anyone was at risk, the steps of survival functions."""
        ends = self.breaks_[1:]
        return np.asarray(ends[ends <= self._end * (1 + 1e-9)])

    def predict_survival(
        self,
        X: MatrixLike,
        times: ArrayLike | None = None,
        offset: VectorLike | None = None,
        *,
        after: ArrayLike | None = None,
    ) -> np.ndarray:
        """Predict the probability of no event by each time.

        This is the product of 1 − p_ik over the intervals that have ended by the time; within an
        interval it equals the survival at the end of the previous one.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        times : (m,) array or float, optional
            Times in any order. Default ``unique_times_``.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        after : float or (n,) array, optional
            Time until which a row is known to be free of the event. Predictions are then
            conditional on that, and 1 until this time; times count from 0.

        Returns
        -------
        (n, m) array
            NaN after the end of the last interval at whose start anyone was at risk.
        """
        self._check_columns(X)  # refuses an estimator without a fit
        times = np.atleast_1d(self.unique_times_ if times is None else times)
        if after is not None:
            return self._survival_after(X, times, offset, after)
        eta, F, backend = self._predictors(X, offset)
        times = check_vector(times, None, "times")
        end = self._end
        late = times > (end * (1 + 1e-9) if end > 0 else end)
        ended = self._time.intervals.ended(np.where(late, self.breaks_[0], times))
        out = survival_probabilities(eta, F, ended, backend)
        out[:, late] = np.nan
        return out

    def _survival_after(
        self, X: MatrixLike, times: np.ndarray, offset: VectorLike | None, after: ArrayLike
    ) -> np.ndarray:
        """Predict survival by each time given survival until a time of each row."""
        whole = self.predict_survival(X, times, offset)
        start = np.asarray(as_numbers(after, "after"), np.float64)
        if start.ndim > 1 or (start.ndim == 1 and len(start) != len(whole)):
            raise DataError(f"after must be one time or one for each of {len(whole)} rows.")
        if not (start >= 0).all():
            raise DataError("after must be times from zero on.")
        start = np.broadcast_to(start, (len(whole),))
        distinct, place = np.unique(start, return_inverse=True)
        until = self.predict_survival(X, distinct, offset)[np.arange(len(whole)), place]
        with np.errstate(invalid="ignore"):
            given = whole / until[:, None]
        return np.where(times <= start[:, None], 1.0, given)

    def predict_survival_function(
        self, X: MatrixLike, offset: VectorLike | None = None
    ) -> list[StepFunction]:
        """Predict a survival function for each row, as scikit-survival does.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        list of StepFunction
            Functions of time with steps at ``unique_times_``, the ends of intervals, known from 0
            to the last of them.

        See Also
        --------
        predict_survival : The values at given times, as an array.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 1, 0, 1, 1, 0])
        >>> X = [[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]]
        >>> model = steropes.PooledLogisticRegression(interval=2, baseline=0).fit(X, y)
        >>> low, high = model.predict_survival_function([[0.0], [1.0]])
        >>> low([0, 2, 5]).round(2).tolist()
        [1.0, 0.67, 0.44]
        """
        survival = self.predict_survival(X, None, offset)
        times, domain = self.unique_times_, (0.0, float(self._end))
        return [StepFunction(times, row, 1.0, domain) for row in survival]

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the risk by the end of the last interval with people at risk.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n,) array
            The risk 1 − S(t).
        """
        return 1.0 - self.predict_survival(X, self._end, offset)[:, 0]
