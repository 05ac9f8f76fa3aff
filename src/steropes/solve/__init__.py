"""The solver: replicates in, fits with certificates out; it never looks into a likelihood."""

from .batch import Batch
from .common import Common
from .fit import Fit

__all__ = ["Batch", "Common", "Fit"]
