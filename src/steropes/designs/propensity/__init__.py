"""Propensity scores: fits, matching, strata, trimming, weights and the balance of covariates."""

from steropes.designs.propensity.covariate_balance import Balance, covariate_balance
from steropes.designs.propensity.estimated_propensity_weights import EstimatedWeights
from steropes.designs.propensity.fitted_propensity_model import Propensity, auc, preference_score
from steropes.designs.propensity.pair_matching import match_pairs
from steropes.designs.propensity.propensity_score_fit import (
    PropensityRules,
    PropensityScores,
    fit_scores,
)
from steropes.designs.propensity.score_matching import Match, match_scores, matched_weights
from steropes.designs.propensity.score_strata import Stratify, score_strata
from steropes.designs.propensity.score_trimming import Trim, trim
from steropes.designs.propensity.weights_by_estimand import propensity_weights

__all__ = [
    "Balance",
    "EstimatedWeights",
    "Match",
    "Propensity",
    "PropensityRules",
    "PropensityScores",
    "Stratify",
    "Trim",
    "auc",
    "covariate_balance",
    "fit_scores",
    "match_pairs",
    "match_scores",
    "matched_weights",
    "preference_score",
    "propensity_weights",
    "score_strata",
    "trim",
]
