"""The solver: replicates in, fits with certificates out; it never looks into a likelihood."""

from .fit_result import Fit
from .proximal_newton.batch import Batch
from .shared_curvature import Common

__all__ = ["Batch", "Common", "Fit"]
