"""The matrix X: blocks of columns, products with batches of replicates; no statistics."""

from .build import as_design
from .design import Design
from .rows import RowMatrix

__all__ = ["Design", "RowMatrix", "as_design"]
