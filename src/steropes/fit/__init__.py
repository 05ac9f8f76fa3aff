"""Models with their data, and fits of their replicates: folds, draws, profile points, outcomes."""

from .replicate_fits import Replicates
from .solve_with_prior import certified_fit_under_prior, solve_under_prior
from .solver_problem import Problem

__all__ = ["Problem", "Replicates", "certified_fit_under_prior", "solve_under_prior"]
