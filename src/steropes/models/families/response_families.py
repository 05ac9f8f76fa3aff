"""Families of generalised linear models."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

from ...data import check_classes
from ...fit import Problem
from ...infer.response_distributions import GammaResponse, null_predictor
from ...likelihoods.independent_rows_likelihood import IndependentRowsLikelihood
from .family import Family, ValidationData
from .links import LOG, LOGIT
from .performance_measures import auc, recalibration

__all__ = [
    "FRACTIONAL",
    "GAMMA",
    "LINEAR",
    "LOGISTIC",
    "NEGATIVE_BINOMIAL",
    "POISSON",
    "ClassFamily",
    "ResponseFamily",
]


class ResponseFamily(Family):
    """A family with one outcome and one linear predictor of each row."""

    takes_callables = takes_scorers = has_measures = True

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute Nagelkerke's R² and the recalibrated intercept and slope."""
        r2, intercept, slope = recalibration(data, eta, weight)
        return {"r2": r2, "intercept": intercept, "slope": slope}

    def outcome_of_fit(self, problem: Problem) -> tuple[Any, np.ndarray | None]:
        """Return the outcome of each row."""
        likelihood = problem.likelihood
        assert isinstance(likelihood, IndependentRowsLikelihood)
        return likelihood.backend.to_host(likelihood.y)[:, 0], None

    def held_out_deviance(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the mean deviance of the held-out rows."""
        used = held > 0
        y, eta = self.outcome_of_fit(part)[0][used], self.predictors_of_fit(part, beta)[used]
        return -self.mean_deviance(y, eta, held[used])

    def mean_deviance(self, y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
        """Compute the mean deviance, where it does not depend on other parameters."""
        raise NotImplementedError


class LinearFamily(ResponseFamily):
    """Normal outcomes with their mean as linear predictor."""

    ratio = None
    scores = ("deviance", "mse")
    has_own_deviance = True

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the explained variance, recalibrated intercept and slope, and squared error."""
        _, intercept, slope = recalibration(data, eta, weight, nagelkerke=False)
        y, total = data.y, float(weight.sum())
        residual = float(weight @ (y - eta) ** 2)
        own = y if data.offset is None else y - data.offset
        around = float(weight @ (own - np.average(own, weights=weight)) ** 2)
        r2 = 1.0 - residual / around if around > 0 else np.nan
        return {"r2": r2, "mse": residual / total, "intercept": intercept, "slope": slope}

    def held_out_mse(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the mean squared error."""
        y, eta = self.outcome_of_fit(part)[0], self.predictors_of_fit(part, beta)
        return -float(np.average((y - eta) ** 2, weights=held))

    held_out_deviance = held_out_mse


class LogFamily(ResponseFamily):
    """Outcomes with the logarithm of their mean as linear predictor."""

    link = LOG
    ratio = "rate ratio"

    def prediction(self, eta: np.ndarray) -> np.ndarray:
        """Return the mean."""
        return self.link.mean(eta)


class NegativeBinomialFamily(LogFamily):
    """Counts with a larger variance than Poisson's."""

    outcome_settings = ("dispersion",)


class PoissonFamily(LogFamily):
    """Counts with the variance of their mean."""

    has_own_deviance = True

    def mean_deviance(self, y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
        """Compute the mean deviance."""
        mean = np.maximum(np.exp(eta), np.finfo(float).tiny)
        return float(mean_poisson_deviance(y, mean, sample_weight=weight))


class GammaFamily(LogFamily):
    """Positive outcomes with a variance in proportion to the square of their mean."""

    has_own_deviance = True
    ratio = "ratio of means"

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the explained deviance, and the recalibrated intercept and slope.

        The likelihood is a density, which is not at most one, so that there is no Nagelkerke R².
        """
        _, intercept, slope = recalibration(data, eta, weight, nagelkerke=False)
        y, mean = data.y, null_predictor(data.y, weight, data.offset)
        left, around = (float(weight @ GammaResponse().deviance(y, x) ** 2) for x in (eta, mean))
        r2 = 1.0 - left / around if around > 0 else np.nan
        return {"r2": r2, "intercept": intercept, "slope": slope}

    def mean_deviance(self, y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
        """Compute the mean deviance."""
        mean = np.maximum(np.exp(eta), np.finfo(float).tiny)
        return float(mean_gamma_deviance(y, mean, sample_weight=weight))


class ClassFamily(ResponseFamily):
    """Outcomes that are classes."""

    link = LOGIT
    ratio = "odds ratio"
    scores: ClassVar[tuple[str, ...]] = ("deviance", "auc", "brier")
    has_classes = True

    def read_outcome(self, model: Any, y: Any) -> Any:
        """Read labels as the codes of the model's classes."""
        classes, codes = check_classes(y, len(y))
        place = {label: k for k, label in enumerate(model.classes_.tolist())}
        own = np.array([place[label] for label in classes.tolist()], np.float64)
        return own[codes]


class FractionalFamily(ResponseFamily):
    """Numbers from 0 to 1 with the log odds of their mean as linear predictor."""

    link = LOGIT
    ratio = "odds ratio"

    def prediction(self, eta: np.ndarray) -> np.ndarray:
        """Return the mean."""
        return np.asarray(expit(eta))


class LogisticFamily(ClassFamily):
    """Outcomes of two classes with the log odds of the second as linear predictor."""

    scores = ("deviance", "auc", "concordance", "brier")
    has_own_deviance = True

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the AUC, Nagelkerke's R², recalibrated intercept and slope, and Brier score."""
        y, total = data.y, float(weight.sum())
        own = super().performance(data, eta, weight)
        risk = 1.0 / (1.0 + np.exp(-np.clip(eta, -700, 700)))
        brier = float(weight @ (y - risk) ** 2) / total
        return {"auc": auc(y, eta, weight), **own, "brier": brier}

    def mean_deviance(self, y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
        """Compute the mean deviance."""
        return 2.0 * float(np.average(np.logaddexp(0.0, eta) - y * eta, weights=weight))

    def held_out_auc(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the area under the ROC curve."""
        return auc(self.outcome_of_fit(part)[0], self.predictors_of_fit(part, beta), held)

    held_out_concordance = held_out_auc

    def held_out_brier(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the Brier score."""
        error = (self.outcome_of_fit(part)[0] - expit(self.predictors_of_fit(part, beta))) ** 2
        return -float(np.average(error, weights=held))

    def risk(self, fit: Any, new: np.ndarray, at: float | None) -> np.ndarray:
        """Predict the probability of the second class."""
        return np.asarray(fit.predict_proba(new)[:, 1])


LINEAR, LOGISTIC, POISSON, GAMMA = LinearFamily(), LogisticFamily(), PoissonFamily(), GammaFamily()
NEGATIVE_BINOMIAL, FRACTIONAL = NegativeBinomialFamily(), FractionalFamily()
