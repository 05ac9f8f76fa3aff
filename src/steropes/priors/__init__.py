"""Prior distributions of the coefficients (penalties): what they cost and leave alone."""

from .convert import glmnet_lambda, variance_from_glmnet
from .elastic import ElasticNet, Laplace, Normal, Penalty, Prior

__all__ = [
    "ElasticNet",
    "Laplace",
    "Normal",
    "Penalty",
    "Prior",
    "glmnet_lambda",
    "variance_from_glmnet",
]
