"""A model with its data, and its replicates: folds, draws, points of a profile, outcomes."""

from .problem import Problem
from .replicates import Replicates
from .reweighted import certified_under, solve_under

__all__ = ["Problem", "Replicates", "certified_under", "solve_under"]
