"""Scores of held-out rows by which a cross-validation may choose, other than log-likelihoods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, mean_gamma_deviance, mean_poisson_deviance

from ...data.survival_outcome import Surv, SurvivalOutcome
from ...data.weighted_quantiles import weighted_quantiles
from ...design import Design
from ...design.multinomial_design import ClassDesign
from ...design.pooled_logistic_design import ChannelDesign
from ...errors import DataError
from ...fit import Problem
from ...infer.baseline_hazard import Baseline
from ...infer.brier_score import brier_table
from ...infer.concordance import concordance_index
from ...infer.rounding_ties import merge_rounding_ties
from ...likelihoods import CoxLikelihood
from ...likelihoods.conditional_logistic_likelihood import ConditionalLogisticLikelihood
from ...likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood
from ...solve.linear_predictor import linear_predictor
from .multinomial_performance import mean_auc, multinomial_brier
from .performance import (
    LOG_FAMILIES,
    ValidationData,
    auc,
    concordance,
    outcome_of_rows,
    predictor_of_rows,
)

__all__ = ["HeldOutScore"]

# Quantiles of the event times over which the Brier score of a survival model is integrated.
EVENT_TIME_QUANTILES = np.linspace(0.05, 0.9, 18)
# The families in which scikit-learn's scorers are defined.
SKLEARN_FAMILIES = ("linear", "logistic", "multinomial", *LOG_FAMILIES)
# The families with a mean deviance that does not depend on other parameters.
DEVIANCE_FAMILIES = ("linear", "logistic", "poisson", "gamma")
SURVIVAL_FAMILIES = ("cox", "fine_gray")
# The families with linear predictors of other units than rows, which have scores of their own only.
OTHER_UNITS = ("pooled", "conditional")


class HeldOutScore:
    """The score that `CrossValidation.scoring` names, as a function of a fold's coefficients.

    Parameters
    ----------
    family : str
        Family of the model; one of `steropes.models.families.performance.FAMILIES`, "pooled" or
        "conditional".
    name : str
        Name of the model's class, for messages.
    scoring : str or callable
        The name of a score or a scikit-learn scorer, or a callable.

    Raises
    ------
    DataError
        If the score is unknown or not defined for the family.
    """

    def __init__(self, family: str | None, name: str, scoring: str | Callable[..., float]) -> None:
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
        if self.scoring == "deviance" and self.family not in DEVIANCE_FAMILIES:
            return 2.0 * log_likelihood / float(held.sum())
        if not isinstance(problem.design, Design | ClassDesign | ChannelDesign):
            raise DataError(
                f"scoring={self.scoring!r} needs all rows in one X; leave scoring='held_out'."
            )
        part = replace(problem, weights=train)
        return float(self.score(self, part, scaled / problem.design.scale, held))

    def _find(self, name: str) -> Callable[[Any, Problem, np.ndarray, np.ndarray], float]:
        """Return the function that computes the score."""
        if callable(self.scoring):
            if self.family is not None and self.family not in OTHER_UNITS:
                return HeldOutScore._by_scorer
        elif self.scoring in self.OWN:
            families, function = self.OWN[self.scoring]
            if families is None or self.family in families:
                return function
        elif self.family in SKLEARN_FAMILIES:
            try:
                get_scorer(self.scoring)
            except ValueError:
                pass
            else:
                return HeldOutScore._by_scorer
        known = [
            score for score, (families, _) in self.OWN.items()
            if families is None or self.family in families
        ]  # fmt: skip
        more = (
            ", a callable or the name of a scorer of scikit-learn"
            if self.family in SKLEARN_FAMILIES
            else ""
        )
        given = "a callable as scoring" if callable(self.scoring) else f"scoring={self.scoring!r}"
        raise DataError(
            f"{given} is not defined for {name}; scoring must be 'held_out', "
            f"'difference', {', '.join(map(repr, known))}{more}."
        )

    def _data(self, problem: Problem) -> ValidationData:
        """Return the outcome of all rows."""
        assert self.family is not None
        return ValidationData(self.family, None, *outcome_of_rows(problem))

    def _deviance(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the mean deviance of a generalised linear model."""
        y, eta = self._data(part).y, predictor_of_rows(part, beta)
        if self.family == "linear":
            return -float(np.average((y - eta) ** 2, weights=held))
        used = held > 0
        y, eta, weight = y[used], eta[used], held[used]
        if self.family in LOG_FAMILIES:
            deviance = mean_gamma_deviance if self.family == "gamma" else mean_poisson_deviance
            mean = np.maximum(np.exp(eta), np.finfo(float).tiny)
            return -float(deviance(y, mean, sample_weight=weight))
        return -2.0 * float(np.average(np.logaddexp(0.0, eta) - y * eta, weights=weight))

    def _auc(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the area under the ROC curve, of several classes the mean of each against all.

        In pooled models it separates intervals with the event from those without.
        """
        if self.family == "pooled":
            return auc(*person_intervals(part, beta, held))
        measure = mean_auc if self.family == "multinomial" else auc
        return measure(self._data(part).y, predictor_of_rows(part, beta), held)

    def _concordance(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the concordance, which is the AUC of two classes.

        In conditional logistic models it is that of cases and controls of the same stratum.
        """
        if self.family == "logistic":
            return self._auc(part, beta, held)
        if self.family == "conditional":
            return concordance_within_strata(part, beta, held)
        used = np.flatnonzero(held > 0)
        data, eta = self._data(part), predictor_of_rows(part, beta)
        y = data.y.at(used) if isinstance(data.y, SurvivalOutcome) else data.y[used]
        strata = None if data.strata is None else data.strata[used]
        return concordance(ValidationData(data.family, None, y, strata), eta[used], held[used])

    def _brier(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the Brier score, in survival models integrated over time.

        That of pooled models is the mean over the intervals that people begin at risk.
        """
        if self.family == "pooled":
            y, eta, weight = person_intervals(part, beta, held)
            return -float(np.average((y - expit(eta)) ** 2, weights=weight))
        data, used = self._data(part), np.flatnonzero(held > 0)
        if self.family == "multinomial":
            return -multinomial_brier(data.y, predictor_of_rows(part, beta), held)
        if self.family == "logistic":
            error = (data.y - expit(predictor_of_rows(part, beta))) ** 2
            return -float(np.average(error, weights=held))
        time, event, entry = data.y
        if entry is not None:
            raise DataError("The Brier score is not defined with entry times; leave entry out.")
        likelihood = part.likelihood
        assert isinstance(likelihood, CoxLikelihood)
        codes = np.zeros(len(time), np.int64)
        codes[likelihood.row_of_x] = likelihood.stratum
        weight = np.maximum(part.weights, held)
        counted = weight > 0
        seen = min(time[used].max(), likelihood.last_seen(part.weights)[codes[used]].min())
        if not np.isfinite(seen):
            raise DataError("A fold holds out a whole stratum, of which there is no baseline.")
        own = counted & (event == 1)
        times = weighted_quantiles(time[own], weight[own], EVENT_TIME_QUANTILES)
        times = np.unique(times[times < seen])
        if len(times) == 0:
            raise DataError("A fold holds out nobody who is observed until the first events.")
        hazards = Baseline(part, beta)
        # Baselines are those at X = 0, and linear predictors are relative to the columns' centres.
        eta = predictor_of_rows(part, beta)[used] - Baseline._at_zero(part, beta)[0]
        risk = -np.expm1(-np.exp(hazards.log_cumulative_of(eta[:, None], codes[used], times)))
        everyone, here = Surv(time[counted], event[counted]), Surv(time[used], event[used])
        table = brier_table(risk, here, times, 1, held[used], everyone, weight[counted])
        score = table["brier"].to_numpy()
        if len(times) == 1:
            return -float(score[0])
        return -float(np.trapezoid(score, times) / (times[-1] - times[0]))

    def _mse(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the mean squared error."""
        y, eta = self._data(part).y, predictor_of_rows(part, beta)
        return -float(np.average((y - eta) ** 2, weights=held))

    def _by_scorer(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the score of a scikit-learn scorer or another callable."""
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        rows, data = np.flatnonzero(held > 0), self._data(part)
        eta = predictor_of_rows(part, beta)
        if isinstance(data.y, SurvivalOutcome):
            y = Surv(*data.y)[rows]
        else:
            y = data.y[rows]
        if self.family in ("logistic", "multinomial"):
            model: BaseEstimator = FittedClassifier(eta)
            y = y.astype(np.int64)
        else:
            model = FittedRegressor(np.exp(eta) if self.family in LOG_FAMILIES else eta)
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

    # The families of each score (None means all), and its function.
    OWN: ClassVar[Mapping[str, tuple[tuple[str, ...] | None, Callable[..., float]]]] = {
        "deviance": (None, _deviance),
        "auc": (("logistic", "multinomial", "pooled"), _auc),
        "concordance": (
            ("logistic", "cumulative", "conditional", *SURVIVAL_FAMILIES),
            _concordance,
        ),
        "brier": (("logistic", "multinomial", "pooled", *SURVIVAL_FAMILIES), _brier),
        "mse": (("linear",), _mse),
    }


def person_intervals(
    problem: Problem, beta: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return event, linear predictor and weight of each interval that someone begins at risk.

    Parameters
    ----------
    problem : Problem
        The problem of a pooled logistic model.
    beta : (p,) array
        Coefficients in the columns' units.
    weight : (n,) array
        Weights of people; those without weight are left out.
    """
    likelihood = problem.likelihood
    assert isinstance(likelihood, PooledLogisticLikelihood)
    to_host = likelihood.backend.to_host
    stacked = linear_predictor(problem, beta * problem.design.scale)
    found = []
    for at, eta, at_risk in likelihood.intervals.predictors(*likelihood.split(stacked)):
        used = to_host(at_risk)[:, :, 0] & (weight[at] > 0)[:, None]
        person, k = np.nonzero(used)
        row = np.arange(at.start, at.stop)[person]
        event = (likelihood.event[row] != 0) & (likelihood.last[row] - 1 == k)
        found.append((event.astype(np.int64), to_host(eta)[person, k, 0], weight[row]))
    event, eta, w = (np.concatenate(x) for x in zip(*found, strict=True))
    return event, eta, w


def concordance_within_strata(problem: Problem, beta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the share of pairs of a case and a control of a stratum that η orders; NaN if none.

    Pairs have the product of the rows' weights, or in exact models the weight of the stratum.

    Parameters
    ----------
    problem : Problem
        The problem of a conditional logistic model.
    beta : (p,) array
        Coefficients in X's units.
    weight : (n,) array
    """
    likelihood, rows = problem.likelihood, problem.likelihood.row_of_x
    if isinstance(likelihood, ConditionalLogisticLikelihood):
        case = likelihood.case
        strata = np.repeat(np.arange(len(likelihood.pointers) - 1), np.diff(likelihood.pointers))
        w = np.sqrt(weight[rows])
    else:
        assert isinstance(likelihood, CoxLikelihood)
        case, strata, w = likelihood.event, likelihood.stratum, weight[rows]
    used = w > 0
    case = case[used].astype(np.int64)
    eta = merge_rounding_ties(predictor_of_rows(problem, beta)[rows][used])
    try:
        return concordance_index(eta, 2.0 - case, case, None, strata[used], w[used])
    except DataError:  # no pairs
        return np.nan


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
