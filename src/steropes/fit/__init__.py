"""A model with its data, and its replicates: folds, draws, points of a profile, outcomes."""

from .problem import Problem
from .replicates import Replicates

__all__ = ["Problem", "Replicates"]
