"""Fits of one model to many versions of the same data: folds, bootstrap draws, outcomes."""

from .replicate_fits import Replicates
from .solve_with_prior import certified_fit_under_prior, solve_under_prior
from .solver_problem import Problem

__all__ = ["Problem", "Replicates", "certified_fit_under_prior", "solve_under_prior"]
