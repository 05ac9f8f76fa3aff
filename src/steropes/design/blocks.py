"""Kinds of columns: 0/1 by row indices alone, sparse with values, dense, constant.

A block stores its columns divided by a power of two near their root mean square, so that the
solver sees numbers near one whatever the unit; dividing by a power of two is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends.cpu import NO_DATA, Lines

__all__ = ["Block", "ConstantBlock", "DenseBlock", "SparseBlock", "power_of_two"]


def power_of_two(size: np.ndarray) -> np.ndarray:
    """Return the power of two nearest to each size; 1 where it is zero."""
    size = np.asarray(size, dtype=np.float64)
    with np.errstate(divide="ignore"):
        exponent = np.where(size > 0, np.round(np.log2(size)), 0.0)
    return np.exp2(np.clip(exponent, -1000, 1000))


@dataclass(frozen=True)
class SparseBlock:
    """Columns of a CSC matrix; an empty ``data`` means that all stored entries are one."""

    n: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    scale: np.ndarray

    @classmethod
    def indicator(cls, n: int, indptr: np.ndarray, indices: np.ndarray) -> SparseBlock:
        """Columns of zeros and ones, by the rows of the ones."""
        return cls(n, indptr, indices, NO_DATA, np.ones(len(indptr) - 1))

    @classmethod
    def valued(cls, n: int, indptr, indices, data: np.ndarray) -> SparseBlock:
        """Columns with values, which are copied and scaled."""
        p = len(indptr) - 1
        counts = np.diff(indptr)
        column = np.repeat(np.arange(p), counts)
        largest = np.zeros(p)
        np.maximum.at(largest, column, np.abs(data))
        top = power_of_two(largest)
        data = data / top[column]
        rms = np.sqrt(np.bincount(column, data**2, minlength=p) / np.maximum(counts, 1))
        rest = power_of_two(rms)
        return cls(n, indptr, indices, data / rest[column], top * rest)

    @property
    def p(self) -> int:
        """Number of columns."""
        return len(self.indptr) - 1

    @property
    def lines(self) -> Lines:
        """The columns as lines for the backend."""
        return Lines(self.indptr[:-1], self.indptr[1:], self.indices, self.data, self.n)


@dataclass(frozen=True)
class DenseBlock:
    """Dense columns, (x − center) / scale."""

    values: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def standardized(cls, x: np.ndarray, center: bool) -> DenseBlock:
        """Copy, scale and, where the model allows it, centre the columns."""
        x = np.asarray(x, dtype=np.float64)
        largest = power_of_two(np.abs(x).max(axis=0, initial=0.0))
        z = x / largest
        middle = z.mean(axis=0) if center and len(z) else np.zeros(z.shape[1])
        z = z - middle
        # Rounding leaves a constant column slightly off zero after centring; it is zero.
        z[:, np.abs(z).max(axis=0, initial=0.0) < 1e-13 * np.maximum(np.abs(middle), 1e-300)] = 0.0
        rest = power_of_two(np.sqrt(np.mean(z**2, axis=0)) if len(z) else np.ones(z.shape[1]))
        return cls(np.ascontiguousarray(z / rest), middle * largest, largest * rest)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def p(self) -> int:
        """Number of columns."""
        return self.values.shape[1]


@dataclass(frozen=True)
class ConstantBlock:
    """The intercept: one column of ones."""

    n: int
    p: int = 1

    @property
    def scale(self) -> np.ndarray:
        """One."""
        return np.ones(1)


Block = SparseBlock | DenseBlock | ConstantBlock
