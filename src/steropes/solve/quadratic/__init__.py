"""The quadratic models of a step: replicates that share a Hessian, minimised together.

It knows nothing of likelihoods or of X: a matrix, gradients and penalties come in, steps go out.
"""

from .low_rank import LowRank
from .model import Quadratic, minimize_quadratic

__all__ = ["LowRank", "Quadratic", "minimize_quadratic"]
