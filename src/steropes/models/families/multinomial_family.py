"""The family of multinomial models."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...fit import Problem
from ...infer.multinomial_performance import (
    class_predictors,
    mean_auc,
    multinomial_brier,
    multinomial_performance,
)
from ...likelihoods.multinomial_likelihood import MultinomialLikelihood
from .family import ValidationData
from .response_families import ClassFamily

__all__ = ["MULTINOMIAL"]


class MultinomialFamily(ClassFamily):
    """Outcomes of several classes, each with a linear predictor."""

    measures_changing_effects = scores_changing_effects = True
    has_class_predictors = has_values = True

    def outcome_of_fit(self, problem: Problem) -> tuple[Any, np.ndarray | None]:
        """Return the codes of the classes."""
        likelihood = problem.likelihood
        assert isinstance(likelihood, MultinomialLikelihood)
        return likelihood.codes, None

    def predictors_of_fit(self, problem: Problem, beta: np.ndarray) -> np.ndarray:
        """Compute η of each class, (n, K)."""
        return class_predictors(problem, beta)[1]

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the measures of `multinomial_performance`."""
        null = -data.null_log_likelihood(weight) / float(weight.sum())
        return multinomial_performance(data.y, eta, weight, null, data.offset)

    def held_out_auc(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the mean area under the ROC curve of each class against all others."""
        return mean_auc(self.outcome_of_fit(part)[0], self.predictors_of_fit(part, beta), held)

    def held_out_brier(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the Brier score."""
        codes, eta = self.outcome_of_fit(part)[0], self.predictors_of_fit(part, beta)
        return -multinomial_brier(codes, eta, held)

    def offset_of_rows(self, problem: Problem) -> np.ndarray | None:
        """Return the offset, (n, K)."""
        offset = problem.offset
        return None if offset is None else offset.reshape(-1, len(problem.weights)).T


MULTINOMIAL = MultinomialFamily()
