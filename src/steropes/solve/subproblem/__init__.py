"""Quadratic models of replicates that share a Hessian, and their minimisation.

This package knows neither likelihoods nor X: it takes a matrix (an array or an operator), gradients
and penalties, and returns steps.
"""

from .column_matrix import ColumnMatrix, ColumnOperator
from .low_rank import LowRank
from .quadratic_model import QuadraticModel
from .reduced_matrix import ReducedMatrix
from .shared_matrix import SharedMatrix

__all__ = [
    "ColumnMatrix",
    "ColumnOperator",
    "LowRank",
    "QuadraticModel",
    "ReducedMatrix",
    "SharedMatrix",
]
