"""The quadratic models of a step: replicates that share a Hessian, minimised together.

It knows nothing of likelihoods or of X: a matrix (an array, or what multiplies by it), gradients
and penalties come in, steps go out.
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
