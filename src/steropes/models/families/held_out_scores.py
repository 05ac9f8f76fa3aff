"""Scores of held-out rows by which a cross-validation may choose, other than log-likelihoods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from ...data.survival_outcome import Surv, SurvivalOutcome
from ...design_matrix import Design
from ...design_matrix.multinomial_design import ClassDesign
from ...design_matrix.time_channel_design import ChannelDesign
from ...errors import DataError
from ...fit import Problem
from .family import Family

__all__ = ["HeldOutScore"]

# Scores of some family, which are not those of scikit-learn of the same name.
OWN = ("deviance", "auc", "concordance", "brier", "mse")


class HeldOutScore:
    """The score that `CrossValidation.scoring` names, as a function of a fold's coefficients.

    Parameters
    ----------
    family : Family
        Family of the model.
    name : str
        Name of the model's class, for messages.
    scoring : str or callable
        The name of a score or a scikit-learn scorer, or a callable.

    Raises
    ------
    DataError
        If the score is unknown or not defined for the family.
    """

    def __init__(self, family: Family, name: str, scoring: str | Callable[..., float]) -> None:
        self.family, self.scoring = family, scoring
        self.score = self._find(name)

    def __call__(
        self, problem: Problem, scaled: np.ndarray, train: np.ndarray, held: np.ndarray,
        log_likelihood: float,
    ) -> float:  # fmt: skip
        """Score the held-out rows; larger is better.

        Parameters
        ----------
        scaled : (p,) array
            Coefficients of the scaled columns, from the training rows.
        train, held : (n,) arrays
            Weights of the training rows and of the held-out rows.
        """
        if self.scoring == "deviance" and not self.family.has_own_deviance:
            return 2.0 * log_likelihood / float(held.sum())
        if not isinstance(problem.design, Design | ClassDesign | ChannelDesign):
            raise DataError(
                f"scoring={self.scoring!r} needs all rows in one X; leave scoring='held_out'."
            )
        part = replace(problem, weights=train)
        return float(self.score(part, scaled / problem.design.scale, held))

    def _find(self, name: str) -> Callable[[Problem, np.ndarray, np.ndarray], float]:
        """Return the function that computes the score."""
        if callable(self.scoring):
            if self.family.takes_callables:
                return self._by_scorer
        elif self.scoring in self.family.scores:
            found: Any = getattr(self.family, f"held_out_{self.scoring}", None)
            return found
        elif self.family.takes_scorers and self.scoring not in OWN:
            try:
                get_scorer(self.scoring)
            except ValueError:
                pass
            else:
                return self._by_scorer
        more = (
            ", a callable or the name of a scorer of scikit-learn"
            if self.family.takes_scorers
            else ""
        )
        given = "a callable as scoring" if callable(self.scoring) else f"scoring={self.scoring!r}"
        raise DataError(
            f"{given} is not defined for {name}; scoring must be 'held_out', "
            f"'difference', {', '.join(map(repr, self.family.scores))}{more}."
        )

    def _by_scorer(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the score of a scikit-learn scorer or another callable."""
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        rows, (outcome, _) = np.flatnonzero(held > 0), self.family.outcome_of_fit(part)
        eta = self.family.predictors_of_fit(part, beta)
        y = (Surv(*outcome) if isinstance(outcome, SurvivalOutcome) else outcome)[rows]
        if self.family.has_classes:
            model: BaseEstimator = FittedClassifier(eta)
            y = y.astype(np.int64)
        else:
            model = FittedRegressor(self.family.prediction(eta))
        weights = held[rows]
        accepts = "sample_weight" in inspect.signature(scorer).parameters
        given = {"sample_weight": weights} if accepts and np.ptp(weights) > 0 else {}
        try:
            return scorer(model, rows[:, None], y, **given)
        except ValueError as error:
            who = "The callable" if callable(self.scoring) else f"scoring={self.scoring!r}"
            raise DataError(
                f"{who} cannot score a fold: {str(error).rstrip('.')}. Use "
                "'held_out' or 'deviance', or for several classes 'auc' or 'brier'."
            ) from error


class FittedClassifier(ClassifierMixin, BaseEstimator):
    """Predictions of a model of classes, in place of the model, for scikit-learn's scorers.

    Parameters
    ----------
    eta : (n,) array
        Linear predictors of all rows; (n, K) of a multinomial model. Methods receive numbers of
        rows for X.
    """

    def __init__(self, eta: np.ndarray) -> None:
        self.eta = eta
        self.classes_ = np.arange(2 if eta.ndim == 1 else eta.shape[1])

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the linear predictors."""
        return np.asarray(self.eta[X[:, 0]])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of the classes."""
        if self.eta.ndim == 2:
            return np.asarray(softmax(self.decision_function(X), axis=1))
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the more probable class."""
        if self.eta.ndim == 2:
            return np.asarray(self.decision_function(X).argmax(axis=1))
        return (self.decision_function(X) > 0).astype(np.int64)


class FittedRegressor(RegressorMixin, BaseEstimator):
    """Predictions of another model, in place of the model, for scikit-learn's scorers.

    Parameters
    ----------
    predictions : (n,) array
        Means of linear and Poisson models, otherwise linear predictors. Methods receive numbers of
        rows for X.
    """

    def __init__(self, predictions: np.ndarray) -> None:
        self.predictions = predictions
        self.fitted_ = True

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions."""
        return np.asarray(self.predictions[X[:, 0]])
