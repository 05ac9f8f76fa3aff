"""From what users hold (arrays, sparse matrices, data frames) to a `Design`, with refusals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from scipy import sparse

from ..errors import DataError
from .blocks import Block, DenseBlock, SparseBlock
from .design import Design

__all__ = ["as_design"]

SPARSE_BELOW = 0.15  # share of nonzeros under which a large dense input is stored as sparse
LARGE = 1_000_000  # entries; a smaller dense input stays dense
MOST_RUNS = 64  # blocks that a matrix of mixed columns is cut into at most


def as_design(X: Any, names: list[str] | None = None) -> Design:
    """Convert a matrix or table to a `Design`; X is never modified, and copied only if it must be.

    Parameters
    ----------
    X : array (n, p), scipy sparse matrix or array, data frame, or Design
        pandas, polars and pyarrow tables keep their column names. Sparse matrices may have int32
        or int64 indices, in any order; an indicator matrix in canonical CSC form is not copied.
    names : list of str, optional
        Column names, instead of the table's own or ``x0``, ``x1``, …

    Raises
    ------
    DataError
        NaN, infinity, complex numbers, text: the message names the column and row.
    """
    if isinstance(X, Design):
        return X if names is None else Design(X.blocks, names)
    if sparse.issparse(X):
        return _from_sparse(X, names)
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError:
        twice = next(c for c, count in Counter(X.columns).items() if count > 1)
        raise DataError(f"X has more than one column named {twice!r}; rename one.") from None
    if isinstance(frame, nw.DataFrame):
        return _from_frame(frame, names)
    return _from_dense(X, names)


def _name(names: list[str] | None, j: int) -> str:
    return repr(names[j]) if names is not None else f"{j} (counted from 0)"


def _from_dense(X: Any, names: list[str] | None) -> Design:
    X = np.asarray(X)
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: X must be real.")
    if X.ndim != 2:
        raise DataError(
            f"X must be 2-dimensional, not of shape {X.shape}. Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it "
            "contains a single sample."
        )
    if X.shape[0] == 0:
        raise DataError(f"Found array with 0 sample(s) (shape={X.shape}): X has no rows.")
    if X.shape[1] == 0:
        raise DataError(
            f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required: X has no columns."
        )
    if X.dtype.kind not in "fiub":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            # scikit-learn's own words where it checks for them: an argument must be a string …
            raise type(error)(f"X must hold numbers: {error}") from error
    if X.dtype.kind == "f":
        _refuse_not_finite(X, names)
    if X.size >= LARGE and np.count_nonzero(X) < SPARSE_BELOW * X.size:
        return _from_sparse(sparse.csc_array(X), names)
    return Design([DenseBlock.standardized(X, center=False)], names)


def _refuse_not_finite(X: np.ndarray, names: list[str] | None) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        quick = np.isfinite(X.sum(dtype=np.float64))
    if quick or np.isfinite(X).all():
        return
    i, j = np.argwhere(~np.isfinite(X))[0]
    raise DataError(
        f"Input X contains NaN or infinity: column {_name(names, j)}, row {i} is {X[i, j]}. "
        "Impute it, add an indicator of missingness, or drop the row."
    )


def _from_frame(frame: nw.DataFrame, names: list[str] | None) -> Design:
    names = [str(c) for c in frame.columns] if names is None else names
    if len(set(names)) != len(names):
        twice = next(c for c in names if names.count(c) > 1)
        raise DataError(f"X has more than one column named {twice!r}; rename one.")
    n, p = frame.shape
    if n == 0:
        raise DataError(f"Found array with 0 sample(s) (shape=({n}, {p})): X has no rows.")
    if p == 0:
        raise DataError("0 feature(s) while a minimum of 1 is required: X has no columns.")
    columns = []
    for name, column in zip(names, frame.iter_columns(), strict=True):
        columns.append(_column(name, column))
    if n * p < LARGE * 10:
        return Design([DenseBlock.standardized(np.column_stack(columns), center=False)], names)
    few = [np.count_nonzero(x) < SPARSE_BELOW * n for x in columns]
    blocks: list[Block] = []
    for a, b in _runs(np.array(few)):
        part = columns[a:b]
        if few[a]:
            rows = [np.flatnonzero(x) for x in part]
            indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
            data = np.concatenate([x[r] for x, r in zip(part, rows, strict=True)])
            blocks.extend(_sparse_blocks(n, indptr, np.concatenate(rows).astype(np.int32), data))
        else:
            blocks.append(DenseBlock.standardized(np.column_stack(part), center=False))
    return Design(blocks, names)


def _column(name: str, column: Any) -> np.ndarray:
    """One column of a table as float64, or a refusal that says what to do with it."""
    if column.dtype == nw.Boolean:
        if column.null_count():
            raise DataError(_missing(name, int(column.is_null().to_numpy().argmax())))
        return column.to_numpy().astype(np.float64)
    if not column.dtype.is_numeric() and not column.dtype == nw.Unknown:
        raise DataError(
            f"Column {name!r} holds {column.dtype}, not numbers; turn it into 0/1 columns first "
            "(pandas.get_dummies, polars' to_dummies) or drop it."
        )
    try:
        x = np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"Column {name!r} holds {column.dtype}, not numbers.") from None
    bad = ~np.isfinite(x)
    if bad.any():
        raise DataError(_missing(name, int(bad.argmax()), x[bad.argmax()]))
    return x


def _missing(name: str, row: int, value: Any = "missing") -> str:
    return (
        f"Input X contains NaN or infinity: column {name!r}, row {row} is {value}. Impute it, "
        "add an indicator of missingness, or drop the row."
    )


def _from_sparse(X: Any, names: list[str] | None) -> Design:
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: X must be real.")
    if X.ndim != 2 or X.shape[0] == 0:
        raise DataError(f"Found array with 0 sample(s) (shape={X.shape}): X has no rows.")
    n, p = X.shape
    if p == 0:
        raise DataError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    C = X if X.format == "csc" else X.tocsc()
    C = sparse.csc_array((C.data, C.indices, C.indptr), shape=(n, p), copy=False)
    if not C.has_canonical_format:
        C = C.copy()
        C.sum_duplicates()
    data = C.data
    if data.dtype.kind == "f" and not np.isfinite(data).all():
        at = int(np.argmax(~np.isfinite(data)))
        j = int(np.searchsorted(C.indptr, at, side="right") - 1)
        raise DataError(
            f"Input X contains NaN or infinity: column {_name(names, j)}, row {C.indices[at]} is "
            f"{data[at]}. Impute it or drop the row."
        )
    if len(data) and not data.all():
        C = C.copy()
        C.eliminate_zeros()
        data = C.data
    index = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    indices = C.indices.astype(index, copy=False)
    return Design(_sparse_blocks(n, C.indptr.astype(np.int64, copy=False), indices, data), names)


def _sparse_blocks(n: int, indptr, indices, data) -> list[Block]:
    """Indicator blocks for columns of ones, valued ones for the rest, side by side."""
    ones = data == 1
    if ones.all():
        return [SparseBlock.indicator(n, indptr, indices)]
    not_ones = np.concatenate([[0], np.cumsum(~ones)])
    plain = np.diff(not_ones[indptr]) == 0
    runs = _runs(plain)
    if len(runs) > MOST_RUNS:
        runs, plain = [(0, len(plain))], np.zeros(len(plain), bool)
    blocks: list[Block] = []
    for a, b in runs:
        part = slice(indptr[a], indptr[b])
        pointers = indptr[a : b + 1] - indptr[a]
        if plain[a]:
            blocks.append(SparseBlock.indicator(n, pointers, indices[part]))
        else:
            values = data[part].astype(np.float64)
            blocks.append(SparseBlock.valued(n, pointers, indices[part], values))
    return blocks


def _runs(kind: np.ndarray) -> list[tuple[int, int]]:
    edges = [0, *(np.flatnonzero(np.diff(kind)) + 1).tolist(), len(kind)]
    return list(zip(edges[:-1], edges[1:], strict=True))
