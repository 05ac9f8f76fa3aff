"""Prior distributions of the coefficients (penalties): what they cost and leave alone."""

from .adaptive import BrokenAdaptiveRidge
from .base import HELD, Penalty, Prior, SmoothTerm
from .columns import AllColumns, CopiedColumns, KeptColumns, PriorColumns
from .convert import glmnet_lambda, variance_from_glmnet
from .grouped import FusedLaplace, GroupLaplace
from .hierarchical import Hierarchical
from .jeffreys import Jeffreys
from .joined import Joined
from .separable import ElasticNet, Laplace, Normal

__all__ = [
    "HELD",
    "AllColumns",
    "BrokenAdaptiveRidge",
    "CopiedColumns",
    "ElasticNet",
    "FusedLaplace",
    "GroupLaplace",
    "Hierarchical",
    "Jeffreys",
    "Joined",
    "KeptColumns",
    "Laplace",
    "Normal",
    "Penalty",
    "Prior",
    "PriorColumns",
    "SmoothTerm",
    "glmnet_lambda",
    "variance_from_glmnet",
]
