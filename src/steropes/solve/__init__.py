"""Replicates in, fits with certificates out; knows designs, likelihoods and penalties only."""

from .fit import Fit
from .newton import Batch
from .working import WorkingSet

__all__ = ["Batch", "Fit", "WorkingSet"]
