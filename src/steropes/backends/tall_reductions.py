"""Reductions of tall arrays (k, B) with short rows, and some of their columns.

Of ten replicates side by side NumPy makes k loops of ten steps each, which takes ten times as long
as reading the array does. Here rows are taken together first, which makes long ones, or columns are
made rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "column_all", "column_any", "column_max", "column_sum", "columns", "reduce_rows",
    "row_any", "row_max", "row_min", "transposed_product",
]  # fmt: skip

TOGETHER = 32  # rows taken as one
WIDE = 64  # columns from which on rows are long enough
LONG = 1 << 13  # rows of a product that BLAS adds up by itself
PIECE = 1 << 9  # additions in a row: sums of many more lose digits


def reduce_rows(ufunc: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Reduce over rows, (B,).

    NumPy adds long columns up in pairs, but rows one after another, so rows are reduced in pieces.
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
    """X' R of tall arrays (n, p) and (n, B), by pieces of the rows.

    BLAS adds up all rows one after another in a few sums.
    """
    if len(X) <= LONG:
        return X.T @ R
    pieces = [X[a : a + LONG].T @ R[a : a + LONG] for a in range(0, len(X), LONG)]
    return reduce_rows(np.add, np.reshape(pieces, (len(pieces), -1))).reshape(pieces[0].shape)


def _across(ufunc: np.ufunc, x: np.ndarray) -> np.ndarray:
    if 1 < x.shape[1] < WIDE:
        out: np.ndarray = ufunc.reduce(np.ascontiguousarray(x.T), axis=0)
        return out
    return ufunc.reduce(x, axis=1)


def column_max(x: np.ndarray) -> np.ndarray:
    """The largest of each column (B,), but no less than 0."""
    return np.maximum(reduce_rows(np.maximum, x), 0.0) if len(x) else np.zeros(x.shape[1])


def column_sum(x: np.ndarray) -> np.ndarray:
    """The sum of each column, (B,)."""
    return reduce_rows(np.add, x)


def column_all(x: np.ndarray) -> np.ndarray:
    """Whether nothing in a column is zero, (B,)."""
    return reduce_rows(np.logical_and, x if x.dtype == bool else x != 0)


def column_any(x: np.ndarray) -> np.ndarray:
    """Whether anything in a column is not zero, (B,)."""
    return reduce_rows(np.logical_or, x if x.dtype == bool else x != 0)


def row_any(x: np.ndarray) -> np.ndarray:
    """Whether anything in a row is not zero, (k,)."""
    return _across(np.logical_or, x if x.dtype == bool else x != 0)


def row_max(x: np.ndarray) -> np.ndarray:
    """The largest of each row, (k,)."""
    return _across(np.maximum, x)


def row_min(x: np.ndarray) -> np.ndarray:
    """The least of each row, (k,)."""
    return _across(np.minimum, x)


def columns(x: np.ndarray, at: Any) -> np.ndarray:
    """Columns ``at``, ascending, with short rows as before; x itself where these are all.

    ``x[:, at]`` has long columns, and what mixes the two kinds is slow.
    """
    return x if len(at) == x.shape[1] else np.take(x, at, axis=1)
