"""The models' mathematics in the linear predictor η (n × B): loss, gradient, curvature.

A likelihood never sees X. It is written once as array code over ``backend.xp`` with the
backend's scans and segment sums, and works on a batch of replicates that differ in their row
weights and linear predictors. Adding a family is one file here.
"""

from .base import Likelihood
from .conditional_logistic import ConditionalLogisticLikelihood
from .conditional_poisson import CaseSeriesLikelihood, ConditionalPoissonLikelihood
from .cox import CoxLikelihood
from .curvature import AnyCurvature
from .fine_gray import FineGrayLikelihood
from .linear import LinearLikelihood
from .logistic import LogisticLikelihood
from .matched_cox import MatchedCoxLikelihood
from .poisson import PoissonLikelihood

__all__ = [
    "AnyCurvature",
    "CaseSeriesLikelihood",
    "ConditionalLogisticLikelihood",
    "ConditionalPoissonLikelihood",
    "CoxLikelihood",
    "FineGrayLikelihood",
    "Likelihood",
    "LinearLikelihood",
    "LogisticLikelihood",
    "MatchedCoxLikelihood",
    "PoissonLikelihood",
]
