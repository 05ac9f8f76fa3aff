"""The solver: replicates in, fits with certificates out; it never looks into a likelihood."""

from .shared_curvature import Common
from .fit import Fit
from .proximal_newton.batch import Batch

__all__ = ["Batch", "Common", "Fit"]
