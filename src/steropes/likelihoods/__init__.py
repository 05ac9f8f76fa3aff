"""The models' mathematics in the linear predictor η (n × B): loss, gradient, curvature.

A likelihood never sees X. It is written once as array code over ``backend.xp`` with the
backend's scans and segment sums, and works on a batch of replicates that differ in their row
weights and linear predictors. Adding a family is one file here.
"""

from .base import Curvature, Likelihood
from .cox import CoxLikelihood
from .linear import LinearLikelihood
from .logistic import LogisticLikelihood
from .poisson import PoissonLikelihood

__all__ = [
    "CoxLikelihood",
    "Curvature",
    "Likelihood",
    "LinearLikelihood",
    "LogisticLikelihood",
    "PoissonLikelihood",
]
