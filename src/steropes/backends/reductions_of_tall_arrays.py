"""Reductions and column selection for arrays with many rows and a column per replicate.

For ten replicates, NumPy runs k loops of ten steps each, which takes ten times as long as reading
the array. Here several rows are first combined to long rows, or the array is transposed.

Reductions of arrays on a device are computed there and transferred to the host, where the solver
makes its decisions. They have one number for each row or column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .array_namespace import array_namespace, to_host
from .backend_interface import Array

__all__ = [
    "column_all", "column_any", "column_max", "column_sum", "columns", "reduce_rows",
    "row_any", "row_max", "row_min", "transposed_product",
]  # fmt: skip

# The number of rows that are combined to one.
TOGETHER = 32
# The number of columns from which rows are long enough for NumPy.
WIDE = 64
# The number of rows up to which BLAS computes a product in one piece.
LONG = 1 << 13
# The number of consecutive additions; longer plain sums lose digits.
PIECE = 1 << 9


def reduce_rows(ufunc: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Reduce over rows, (B,).

    NumPy sums pairwise along contiguous memory but sequentially over rows, so rows are reduced in
    pieces to limit rounding.
    """
    n, B = x.shape
    size = PIECE * (TOGETHER if B < WIDE else 1)
    if n > size and B > 1:
        pieces = [reduce_rows(ufunc, x[a : a + size]) for a in range(0, n, size)]
        return reduce_rows(ufunc, np.stack(pieces))
    if not (x.flags.c_contiguous and 1 < B < WIDE and n > TOGETHER):
        out: np.ndarray = ufunc.reduce(x, axis=0)
        return out
    whole = n - n % TOGETHER
    part = ufunc.reduce(x[:whole].reshape(-1, TOGETHER * B), axis=0).reshape(TOGETHER, B)
    return ufunc.reduce(np.concatenate([part, x[whole:]]), axis=0)


def transposed_product(X: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Compute X' R of tall arrays (n, p) and (n, B) in pieces of rows.

    BLAS would add all rows sequentially, which loses digits.
    """
    if len(X) <= LONG:
        return X.T @ R
    pieces = [X[a : a + LONG].T @ R[a : a + LONG] for a in range(0, len(X), LONG)]
    return reduce_rows(np.add, np.reshape(pieces, (len(pieces), -1))).reshape(pieces[0].shape)


def _across(ufunc: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Reduce over columns, (k,)."""
    if 1 < x.shape[1] < WIDE:
        out: np.ndarray = ufunc.reduce(np.ascontiguousarray(x.T), axis=0)
        return out
    return ufunc.reduce(x, axis=1)


def column_max(x: Array) -> np.ndarray:
    """Compute the maximum of zero and the entries of each column, (B,)."""
    if not isinstance(x, np.ndarray):
        return to_host(x.max(axis=0, initial=0.0))
    return np.maximum(reduce_rows(np.maximum, x), 0.0) if len(x) else np.zeros(x.shape[1])


def column_sum(x: Array) -> np.ndarray:
    """Sum each column, (B,)."""
    if not isinstance(x, np.ndarray):
        return to_host(x.sum(axis=0))
    return reduce_rows(np.add, x)


def column_all(x: Array) -> np.ndarray:
    """Return whether all entries of each column are nonzero, (B,)."""
    if not isinstance(x, np.ndarray):
        return to_host(x.all(axis=0))
    return reduce_rows(np.logical_and, x if x.dtype == bool else x != 0)


def column_any(x: Array) -> np.ndarray:
    """Return whether any entry of each column is nonzero, (B,)."""
    if not isinstance(x, np.ndarray):
        return to_host(x.any(axis=0))
    return reduce_rows(np.logical_or, x if x.dtype == bool else x != 0)


def row_any(x: Array) -> np.ndarray:
    """Return whether any entry of each row is nonzero, (k,)."""
    if not isinstance(x, np.ndarray):
        return to_host(x.any(axis=1))
    return _across(np.logical_or, x if x.dtype == bool else x != 0)


def row_max(x: Array) -> np.ndarray:
    """Compute the maximum of each row, (k,)."""
    if not isinstance(x, np.ndarray):
        return to_host(x.max(axis=1))
    return _across(np.maximum, x)


def row_min(x: np.ndarray) -> np.ndarray:
    """Compute the minimum of each row, (k,)."""
    return _across(np.minimum, x)


def columns(x: Array, at: Sequence[int] | NDArray[np.int64]) -> Array:
    """Select from the last axis ``at``, ascending, in C order; return x if all are selected.

    ``x[:, at]`` would be in Fortran order, and operations that mix both orders are slow.
    """
    if len(at) == x.shape[-1]:
        return x
    xp = array_namespace(x)
    return xp.take(x, xp.asarray(np.asarray(at)), axis=x.ndim - 1)
