"""Conversion and validation of sparse matrices of any format to blocks of columns."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..errors import DataError
from .column_checks import column_word, refuse_empty
from .column_storage import Block, DenseBlock, SparseBlock, check_indices, check_pointers
from .storage_and_scaling_constants import STORAGE

__all__ = ["blocks_of_sparse", "runs", "sparse_blocks"]

PLAIN, VALUED, DENSE = 0, 1, 2


def blocks_of_sparse(
    X: sparse.sparray | sparse.spmatrix, names: list[str] | None, copy: bool = True
) -> list[Block]:
    """Convert a scipy sparse matrix or array, which is not modified, to blocks.

    Columns with mostly nonzero values become dense so that they can be centred: years, dates and
    laboratory values have means far from zero.
    """
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: X must be real.")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold numbers, not {X.dtype}; convert it with X.astype(float).")
    if X.ndim != 2:
        raise DataError(f"X must be 2-dimensional, not of shape {X.shape}.")
    refuse_empty(X.shape)
    C = _canonical(X)
    data = C.data
    plain = _all_ones(data)  # no value is missing or zero
    if not plain and data.dtype.kind == "f" and not np.isfinite(data).all():
        at = int(np.argmax(~np.isfinite(data)))
        j = int(np.searchsorted(C.indptr, at, side="right") - 1)
        raise DataError(
            f"Input X contains NaN or infinity: column {column_word(names, j)}, row "
            f"{C.indices[at]} is {data[at]}. Impute it or drop the row."
        )
    ascending = C.has_canonical_format
    if not plain and not data.all():
        C = C.copy()
        C.eliminate_zeros()
        data = C.data
    n = X.shape[0]
    index = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    indices = C.indices.astype(index, copy=False)
    indptr = C.indptr.astype(np.int64, copy=False)
    if copy and X.format == "csc":
        indices = indices.copy() if np.may_share_memory(indices, X.indices) else indices
        indptr = indptr.copy() if np.may_share_memory(indptr, X.indptr) else indptr
    if plain:
        return [SparseBlock.indicator(n, indptr, indices, ascending)]
    return sparse_blocks(n, indptr, indices, data)


def _canonical(X: sparse.sparray | sparse.spmatrix) -> sparse.csc_array:
    """Convert to CSC with sorted indices, without duplicates, in a type that can be added."""
    checked = _pointing(X)
    if isinstance(checked.data, np.ma.MaskedArray):
        raise DataError("X holds a masked array; build the sparse matrix from plain numbers.")
    alone = False
    if checked.format != "coo":
        # Cached flags about the order of indices may be outdated; a new matrix checks again.
        kind = type(checked)
        parts = (checked.data, checked.indices, checked.indptr)
        checked = kind(parts, shape=X.shape, copy=False)
        alone = checked.has_canonical_format
        major, minor = ("column", "row") if checked.format == "csc" else ("row", "column")
        size = X.shape[0] if checked.format == "csc" else X.shape[1]
        check_indices(size, checked.indptr, checked.indices, major, minor, alone)
    if checked.dtype == np.longdouble or not (alone or checked.dtype in (bool, np.float64)):
        # Duplicate entries are added, and small integers could overflow.
        with np.errstate(over="ignore"):
            checked = checked.astype(np.float64)
    C = checked.tocsc()
    C = sparse.csc_array((C.data, C.indices, C.indptr), shape=X.shape, copy=False)
    if alone:
        C.has_canonical_format = True  # sorted rows yield sorted columns
    if not C.has_canonical_format:
        C = C.copy()
        C.sum_duplicates()
    return C


def _pointing(X: sparse.sparray | sparse.spmatrix) -> sparse.sparray | sparse.spmatrix:
    """Convert to COO with validated indices, or to CSC or CSR with validated pointers."""
    try:
        if X.format == "bsr":
            X.check_format(full_check=True)
        if X.format not in ("csc", "csr", "coo"):
            X = X.tocoo()
    except (ValueError, IndexError, OverflowError, TypeError) as error:
        raise DataError(f"X is not a valid sparse matrix: {error}.") from None
    if X.format != "coo":
        lines, major = (X.shape[1], "column") if X.format == "csc" else (X.shape[0], "row")
        check_pointers(lines, X.indptr, X.indices, len(X.data), major)
        return X
    for what, at, size in (("row", X.row, X.shape[0]), ("column", X.col, X.shape[1])):
        if len(at) != len(X.data):
            raise DataError(
                f"X is not a valid sparse matrix: {len(X.data)} values, but {len(at)} "
                f"{what} numbers."
            )
        if at.dtype.kind not in "iu":
            raise DataError(
                f"X is not a valid sparse matrix: its indices are {at.dtype}, not integers."
            )
        check_indices(size, np.array([0, len(at)]), at, "matrix", what)
    return X


def sparse_blocks(n: int, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> list[Block]:
    """Build indicator blocks for columns of ones, and valued or dense blocks for others."""
    if _all_ones(data):
        return [SparseBlock.indicator(n, indptr, indices)]
    ones = data == 1
    not_ones = np.concatenate([[0], np.cumsum(~ones)])
    kind = np.where(np.diff(not_ones[indptr]) == 0, PLAIN, VALUED)
    kind[(kind == VALUED) & (np.diff(indptr) >= STORAGE.dense_share * n)] = DENSE
    parts = runs(kind)
    if len(parts) > STORAGE.max_runs:
        kind[kind == PLAIN] = VALUED
        parts = runs(kind)
    blocks: list[Block] = []
    for a, b in parts:
        part = slice(indptr[a], indptr[b])
        pointers = indptr[a : b + 1] - indptr[a]
        if kind[a] == PLAIN:
            blocks.append(SparseBlock.indicator(n, pointers, indices[part]))
            continue
        values = data[part].astype(np.float64)
        if kind[a] == VALUED:
            blocks.append(SparseBlock.valued(n, pointers, indices[part], values))
        else:
            full = sparse.csc_array((values, indices[part], pointers), shape=(n, b - a))
            blocks.append(DenseBlock.standardized(full.toarray(), center=False))
    return blocks


def runs(kind: np.ndarray) -> list[tuple[int, int]]:
    """Find the boundaries of runs of equal values."""
    edges = [0, *(np.flatnonzero(np.diff(kind)) + 1).tolist(), len(kind)]
    return list(zip(edges[:-1], edges[1:], strict=True))


def _all_ones(data: np.ndarray) -> bool:
    """Return whether all values are one."""
    return all(
        bool((data[a : a + STORAGE.compared_entries] == 1).all())
        for a in range(0, len(data), STORAGE.compared_entries)
    )
