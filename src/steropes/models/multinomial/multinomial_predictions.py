"""Predictions of multinomial models: linear predictors, probabilities and classes."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from scipy.special import log_softmax, softmax

from ...backends import host_backend
from ...data import refuse_other_order
from ...data.input_types import VectorLike
from ...design_matrix import Design
from ...errors import DataError
from ...fit.shards import ShardedDesign
from ..estimators.penalized_model import PenalizedModel
from ..families.performance_measures import share_correct
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.multinomial_inputs import read_class_offset
from ..fitting.setting_types import MatrixLike
from ..fitting.sklearn_base_types import ClassifierMixin

__all__ = ["MultinomialPredictions"]


class MultinomialPredictions(ClassifierMixin, PenalizedModel):
    """Predictions of models with a linear predictor for each class."""

    classes_: np.ndarray
    # The reference class of the fit; the setting may change afterwards.
    _reference_class: int
    # The column of X and the class of each coefficient: those with a line in the tables, and all.
    _effects: tuple[np.ndarray, np.ndarray]
    _parameters: tuple[np.ndarray, np.ndarray]
    _effect_names: list[str]
    _names_by_class: list[str]

    def _reference(self) -> int:
        """Return the position of the class to which unpenalised coefficients are relative."""
        return self._reference_class

    def _check_sharded(self) -> None:
        """Refuse rows in blocks."""
        raise DataError(
            "MultinomialLogisticRegression has no rows in blocks; give X as one table or matrix."
        )

    def linear_predictor(self, X: MatrixLike, offset: VectorLike | None = None) -> NoReturn:
        """Raise an error, because rows have a linear predictor for each class.

        Parameters
        ----------
        X : array, sparse matrix or data frame, (n, p)
            Not used.
        offset : (n,) array, optional
            Not used.

        Raises
        ------
        DataError
            Always; `decision_function` computes the linear predictors.
        """
        raise DataError(
            "A row of a multinomial model has a linear predictor for each class: see "
            "decision_function() and predict_proba()."
        )

    def _predictors(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Compute the linear predictors of all classes, (n, K)."""
        if isinstance(X, ShardedDesign):
            self._check_sharded()
        refuse_other_order(X, offset=offset)
        design = self._check_columns(X)
        eta = self._linear_part(design, self.coef_) + self.intercept_
        own = read_class_offset(offset, self.classes_.tolist(), design.n)
        return eta if own is None else eta + own

    def _linear_part(self, design: Design, coef: np.ndarray) -> np.ndarray:
        """Multiply a design with coefficients of all classes, (K, p), to (n, K)."""
        backend, K = host_backend(self.n_jobs), len(coef)
        D = np.zeros((design.p, backend.lanes(K)))
        D[:, :K] = (coef * design.scale).T
        return np.asarray(backend.to_host(design.matmul(D, backend))[:, :K])

    def decision_function(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Compute the linear predictors of the classes.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n, K) array or table, optional
            Known terms of the linear predictors, as in ``fit``. Default 0.

        Returns
        -------
        (n, K) array, or (n,) with two classes
            With two classes, the log odds of the second, as in scikit-learn.
        """
        eta = self._predictors(X, offset)
        return eta[:, 1] - eta[:, 0] if eta.shape[1] == 2 else eta

    def predict_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n, K) array or table, optional
            Known terms of the linear predictors, as in ``fit``. Default 0.

        Returns
        -------
        (n, K) array
            Probabilities, in the order of ``classes_``.
        """
        return np.asarray(softmax(self._predictors(X, offset), axis=1))

    def predict_log_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n, K) array or table, optional
            Known terms of the linear predictors, as in ``fit``. Default 0.

        Returns
        -------
        (n, K) array
            Log probabilities, in the order of ``classes_``.
        """
        return np.asarray(log_softmax(self._predictors(X, offset), axis=1))

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n, K) array or table, optional
            Known terms of the linear predictors, as in ``fit``. Default 0.

        Returns
        -------
        (n,) array
            Labels from ``classes_``.
        """
        best = self._predictors(X, offset).argmax(axis=1)
        return self.classes_[best]

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        *,
        offset: VectorLike | None = None,
    ) -> float:
        """Compute the share of correct predictions, as scikit-learn's classifiers do.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : (n,) array
            Labels.
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n, K) array or table, optional
            Known terms of the linear predictors, as in ``fit``. Default 0.

        Returns
        -------
        float
            Share of correct predictions.
        """
        y = outcome_of_table(self, X, y)
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X, offset)
        return share_correct(y, predicted, sample_weight)
