"""Making two groups comparable: propensity scores, weights, trimming, matching, strata."""

from .propensity_scores import PropensityRules, PropensityScores, fit_scores
from .propensity_weights import Estimand, propensity_weights

__all__ = ["Estimand", "PropensityRules", "PropensityScores", "fit_scores", "propensity_weights"]
