"""The family of multinomial models."""

from __future__ import annotations

import numpy as np

from ...fit import Problem
from .family import ValidationData
from .multinomial_performance import mean_auc, multinomial_brier, multinomial_performance
from .performance import outcome_of_rows, predictor_of_rows
from .response_families import ClassFamily

__all__ = ["MULTINOMIAL"]


class MultinomialFamily(ClassFamily):
    """Outcomes of several classes, each with a linear predictor."""

    measures_changing_effects = scores_changing_effects = True
    has_class_predictors = has_values = True

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the measures of `multinomial_performance`."""
        null = -data.null_log_likelihood(weight) / float(weight.sum())
        return multinomial_performance(data.y, eta, weight, null, data.offset)

    def held_out_auc(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the mean area under the ROC curve of each class against all others."""
        return mean_auc(outcome_of_rows(part)[0], predictor_of_rows(part, beta), held)

    def held_out_brier(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the Brier score."""
        return -multinomial_brier(outcome_of_rows(part)[0], predictor_of_rows(part, beta), held)

    def offset_of_rows(self, problem: Problem) -> np.ndarray | None:
        """Return the offset, (n, K)."""
        offset = problem.offset
        return None if offset is None else offset.reshape(-1, len(problem.weights)).T


MULTINOMIAL = MultinomialFamily()
