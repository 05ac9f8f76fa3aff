"""The quadratic models of a step: replicates that share a Hessian, minimised together.

It knows nothing of likelihoods or of X: a matrix (an array, or what multiplies by it), gradients
and penalties come in, steps go out.
"""

from .column_matrix import ColumnMatrix, OfColumns
from .coordinates import Coordinates
from .low_rank import LowRank
from .model import Quadratic
from .shared import SharedMatrix

__all__ = [
    "ColumnMatrix",
    "Coordinates",
    "LowRank",
    "OfColumns",
    "Quadratic",
    "SharedMatrix",
]
