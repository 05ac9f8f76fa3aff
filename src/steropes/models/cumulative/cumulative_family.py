"""What the family of cumulative models declares: link, ratio, performance measures and outcome."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import DataError
from ...fit import Problem
from ...infer.concordance import concordance_index
from ...infer.rounding_ties import merge_rounding_ties
from ...likelihoods.cumulative import CumulativeLikelihood
from ..families.family import Family, ValidationData
from ..families.links import EXCEEDANCE, Link
from ..families.performance_measures import (
    rank_correlation,
    recalibration,
)
from ..fitting.ordinal_outcomes import read_new_outcome

__all__ = ["CUMULATIVE"]


# exp(β) of each link. It multiplies the odds of larger values, −log P(Y ≤ v), whose derivative is
# the reversed hazard, or divides −log P(Y > v), the cumulative hazard.
RATIOS = {
    "logit": "odds ratio",
    "loglog": "reversed hazard ratio",
    "cloglog": "inverse hazard ratio",
}


class CumulativeFamily(Family):
    """Ordered outcomes, which are larger at a larger linear predictor."""

    scores = ("deviance", "concordance")
    outcome_settings = ("link",)
    takes_callables = has_measures = has_values = exceeds_values = True

    def outcome_of_fit(self, problem: Problem) -> tuple[Any, np.ndarray | None]:
        """Return the outcomes, which must not be censored."""
        likelihood = problem.likelihood
        assert isinstance(likelihood, CumulativeLikelihood)
        if likelihood.y.upper is not None:
            raise DataError("Measures of performance need an outcome without censoring.")
        return np.asarray(likelihood.y.lower, np.float64), None

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute concordance, rank correlation, Nagelkerke's R² and the recalibrated slope."""
        r2, _, slope = recalibration(data, eta, weight)
        return {
            "concordance": concordance_of_numbers(data.y, eta, weight),
            "spearman": rank_correlation(data.y, eta, weight),
            "r2": r2,
            "slope": slope,
        }

    def held_out_concordance(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the concordance of the held-out rows."""
        used = np.flatnonzero(held > 0)
        y, eta = self.outcome_of_fit(part)[0], self.predictors_of_fit(part, beta)
        return concordance_of_numbers(y[used], eta[used], held[used])

    def read_outcome(self, model: Any, y: Any) -> Any:
        """Read numbers or ordered categories without censoring."""
        outcome = read_new_outcome(y, len(y), model.categories_)
        if outcome.upper is not None:
            raise DataError("Measures of performance need an outcome without censoring.")
        return np.asarray(outcome.lower, np.float64)

    def link_of(self, model: Any) -> Link:
        """Return the link of the probability that a value is exceeded."""
        return EXCEEDANCE[model.link]

    def ratio_of(self, model: Any) -> str | None:
        """Return the ratio, which the probit and cauchit links do not have."""
        return RATIOS.get(getattr(model, "_link", model.link))

    def risk(self, fit: Any, new: np.ndarray, at: float | None) -> np.ndarray:
        """Predict the probability that the value ``at`` is exceeded."""
        return np.asarray(fit.predict_exceedance(new, at))


def concordance_of_numbers(y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the share of pairs of different outcomes that η orders; NaN if there are none."""
    score = merge_rounding_ties(eta)
    y = y - y.min() + 1.0
    try:
        return concordance_index(-score, y, np.ones(len(y), np.int64), weight=weight)
    except DataError:
        return np.nan


CUMULATIVE = CumulativeFamily()
