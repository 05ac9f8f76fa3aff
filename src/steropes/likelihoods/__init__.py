"""Likelihoods as functions of the linear predictor η (n × B): loss, gradient and curvature.

A likelihood never sees X. It is array code over ``backend.xp`` with the backend's scans and
segment sums, and works on a batch of replicates with different row weights and linear predictors.
Each family is one file.
"""

from .conditional_logistic_likelihood import ConditionalLogisticLikelihood
from .conditional_poisson_likelihood import CaseSeriesLikelihood, ConditionalPoissonLikelihood
from .cox_likelihood import CoxLikelihood
from .fine_gray_likelihood import FineGrayLikelihood
from .gamma_likelihood import GammaLikelihood
from .hessian_structures import Curvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_interface import Likelihood
from .linear_likelihood import LinearLikelihood
from .logistic_likelihood import LogisticLikelihood
from .matched_cox_likelihood import MatchedCoxLikelihood
from .negative_binomial_likelihood import NegativeBinomialLikelihood
from .poisson_likelihood import PoissonLikelihood

__all__ = [
    "CaseSeriesLikelihood",
    "ConditionalLogisticLikelihood",
    "ConditionalPoissonLikelihood",
    "CoxLikelihood",
    "Curvature",
    "FineGrayLikelihood",
    "GammaLikelihood",
    "IndependentRowsLikelihood",
    "Likelihood",
    "LinearLikelihood",
    "LogisticLikelihood",
    "MatchedCoxLikelihood",
    "NegativeBinomialLikelihood",
    "PoissonLikelihood",
]
