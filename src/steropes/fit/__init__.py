"""A model with its data, and its replicates: folds, draws, points of a profile, outcomes."""

from .problem import Problem
from .replicates import Replicates
from .solve_with_prior import certified_fit_under_prior, solve_under_prior

__all__ = ["Problem", "Replicates", "certified_fit_under_prior", "solve_under_prior"]
