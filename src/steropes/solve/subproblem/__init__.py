"""Quadratic models of replicates that share a Hessian, and their minimisation.

This package knows neither likelihoods nor X: it takes a matrix (an array or an operator), gradients
and penalties, and returns steps.
"""

from .dense_reduced_hessian import DenseReducedHessian
from .device_reduced_hessian import DeviceReducedHessian
from .low_rank_hessian_terms import LowRank
from .matrix_free_reduced_hessian import ColumnOperator, ColumnwiseReducedHessian
from .quadratic_model import QuadraticModel
from .reduced_hessian import ReducedHessian

__all__ = [
    "ColumnOperator",
    "ColumnwiseReducedHessian",
    "DenseReducedHessian",
    "DeviceReducedHessian",
    "LowRank",
    "QuadraticModel",
    "ReducedHessian",
]
