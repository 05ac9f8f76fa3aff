"""Prior distributions of the coefficients; their negative logarithms are penalties."""

from .broken_adaptive_ridge import BrokenAdaptiveRidge
from .coefficient_limits import LimitedPrior
from .column_mapping import AllColumns, CopiedColumns, KeptColumns, PriorColumns
from .glmnet_conversion import glmnet_lambda, variance_from_glmnet
from .group_and_fused_laplace import FusedLaplace, GroupLaplace
from .group_and_fused_penalty import GroupPenalty
from .hierarchical import Hierarchical
from .jeffreys import Jeffreys
from .joint_priors import JointLaplace, JointNormal, JointPrior
from .penalty import INFINITE_PENALTY, Penalty, SmoothTerm
from .penalty_within_limits import LimitedPenalty
from .prior_base_class import Prior
from .separable_priors import ElasticNet, Laplace, Normal

__all__ = [
    "INFINITE_PENALTY",
    "AllColumns",
    "BrokenAdaptiveRidge",
    "CopiedColumns",
    "ElasticNet",
    "FusedLaplace",
    "GroupLaplace",
    "GroupPenalty",
    "Hierarchical",
    "Jeffreys",
    "JointLaplace",
    "JointNormal",
    "JointPrior",
    "KeptColumns",
    "Laplace",
    "LimitedPenalty",
    "LimitedPrior",
    "Normal",
    "Penalty",
    "Prior",
    "PriorColumns",
    "SmoothTerm",
    "glmnet_lambda",
    "variance_from_glmnet",
]
