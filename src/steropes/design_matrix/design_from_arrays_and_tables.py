"""Conversion and validation of arrays, sparse matrices and data frames to a `Design`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals import Series
from narwhals.exceptions import DuplicateError
from numpy.typing import ArrayLike
from scipy import sparse

from ..data.array_conversion import as_numbers, plain_array
from ..data.input_types import TableLike
from ..errors import DataError
from .category_coding import CategoryCoding, holds_labels, learn_levels, missing_value
from .column_checks import column_word, refuse_empty, refuse_extreme, refuse_twice
from .column_storage import Block, DenseBlock
from .design_from_sparse_matrices import blocks_of_sparse, runs, sparse_blocks
from .design_of_column_blocks import Design
from .storage_and_scaling_constants import STORAGE

__all__ = [
    "as_design",
    "column_names",
    "design_of_coded_table",
    "design_of_numbers",
    "has_names",
    "null_design",
]

# The columns of OHDSI's long tables.
LONG = {"rowid", "covariateid"}
# Numbers that take less memory than as float64.
NARROW = (np.float32, np.int8, np.int16, np.uint8, np.bool_)


def as_design(
    X: ArrayLike | sparse.sparray | sparse.spmatrix | TableLike | Design,
    names: Sequence[str] | None = None,
    *,
    copy: bool = True,
) -> Design:
    """Convert a matrix or table to a `Design`; X is never modified.

    Parameters
    ----------
    X : array (n, p), scipy sparse matrix or array, data frame, or Design
        Tables of pandas, polars and pyarrow keep their column names. A column ``sex`` of
        categories or text with the levels ``female`` and ``male`` becomes the 0/1 column
        ``sex[T.male]``, as in formulas; see the notes. Sparse matrices may have int32 or int64
        indices, in any order.
    names : list of str, optional
        Column names, instead of the table's own or ``x0``, ``x1`` and so on.
    copy : bool
        False lets the design keep the indices of an indicator matrix in canonical CSC form
        (sorted, int32, all values one) instead of a copy; X must not change as long as the
        design is in use.

    Returns
    -------
    Design
        The columns of X.

    Raises
    ------
    DataError
        NaN, infinity, complex numbers, dates, masked entries, indices out of range, missing
        categories, text that is numbers or identifiers: the message names the column and row.

    See Also
    --------
    Design.from_long : Convert tables of ``rowId, covariateId, covariateValue``.
    Design.from_entries : Build 0/1 covariates from a stream.

    Notes
    -----
    A column of labels becomes a 0/1 column for each level but the first (treatment coding, R's
    ``contr.treatment``). Levels have the order of pandas' categories or of a polars ``Enum``,
    which may be ordered or not, and are sorted otherwise; categories that do not occur are left
    out. Booleans are 0 and 1 under their own name. Missing labels are refused.

    References
    ----------
    Chambers and Hastie (1992), Statistical Models in S, §2.3.2 (treatment contrasts).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = steropes.as_design(np.array([[1.0, 61.0], [0.0, 48.0]]), names=["drug", "age"])
    >>> X.names
    ['drug', 'age']
    >>> import pandas as pd
    >>> steropes.as_design(pd.DataFrame({"sex": ["male", "female", "male"]})).names
    ['sex[T.male]']
    """
    return _design(X, names, copy, True)


def design_of_numbers(
    X: object, names: Sequence[str] | None = None, *, copy: bool = True
) -> Design:
    """Convert a matrix or table as `as_design`, but refuse columns of labels."""
    return _design(X, names, copy, False)


def design_of_coded_table(X: object, coding: CategoryCoding) -> Design:
    """Convert a table whose columns of labels have the levels of an earlier table."""
    return _design(X, None, False, coding)


def _design(
    X: Any, names: Sequence[str] | None, copy: bool, labels: bool | CategoryCoding
) -> Design:
    """Convert a matrix or table; ``labels`` is a coding, or whether to learn one."""
    if isinstance(X, Design):
        out = X.uncentered()
        if names is not None:
            return Design(out.blocks, names)
        out.coding = X.coding
        return out
    names = None if names is None else [str(name) for name in names]
    if sparse.issparse(X):
        blocks = blocks_of_sparse(X, names, copy)
    else:
        try:
            frame: Any = nw.from_native(X, eager_only=True, pass_through=True)
            is_frame = isinstance(frame, nw.DataFrame)
            if is_frame:
                refuse_twice(frame.columns)
        except DuplicateError:
            refuse_twice(_labels(X))
            raise
        if is_frame:
            _refuse_long(frame.columns)
            names = [str(c) for c in frame.columns] if names is None else names
            refuse_twice(names)
            return _from_frame(frame, names, labels)
        blocks = _from_dense(X, names)
    design = Design(blocks, names)
    refuse_extreme(design.scale, names)
    return design


def null_design(n: int) -> Design:
    """Create a design of n rows without columns, for null models."""
    return Design([DenseBlock(np.empty((n, 0)), np.empty(0), np.empty(0))], [])


def has_names(X: object) -> bool:
    """Return whether X has column names, as designs and tables do."""
    if isinstance(X, Design):
        return True
    try:
        return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)
    except DuplicateError:  # the names exist but are not unique
        return True


def column_names(X: object) -> list[str]:
    """Return the names of the columns of a table."""
    return [str(c) for c in _labels(X)]


def _labels(X: object) -> list[Hashable]:
    """Return the labels of the columns of a table."""
    table: Any = X
    names = getattr(table, "column_names", None)  # pyarrow's ``columns`` are arrays
    return list(table.columns if names is None else names)


def _refuse_long(columns: Sequence[object]) -> None:
    """Raise for a long table, since its ids would be used as covariates."""
    plain = {str(c).lower().replace("_", "") for c in columns}
    if plain >= LONG and len(plain) <= 3:
        raise DataError(
            f"X is a long table with one row per covariate of a person "
            f"({', '.join(map(str, columns))}), not one row per person. Convert it first: "
            "steropes.Design.from_long(X, rows=ids), with the row ids in the order of y."
        )


def _from_dense(X: object, names: list[str] | None) -> list[Block]:
    """Convert an array; large ones with few nonzeros become sparse."""

    def place(index: tuple[int, ...]) -> str:
        if len(index) != 2:
            return f"entry {index}"
        return f"column {column_word(names, index[1])}, row {index[0]}"

    array = plain_array(X, "X", place)
    if array.ndim != 2 and array.dtype.kind != "c":
        raise DataError(
            f"X must be 2-dimensional, not of shape {array.shape}. Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it "
            "contains a single sample."
        )
    if array.ndim == 2:
        refuse_empty(array.shape)
    array = as_numbers(array, "X", place, of="Input X", exact=False)
    if array.dtype == np.longdouble:
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    if array.dtype.kind == "f":
        _refuse_not_finite(array, place)
    if (
        array.size >= STORAGE.min_sparse_entries
        and np.count_nonzero(array) < STORAGE.sparse_below * array.size
    ):
        return blocks_of_sparse(sparse.csc_array(array), names)
    return [DenseBlock.standardized(array, center=False)]


def _refuse_not_finite(X: np.ndarray, place: Callable[[tuple[int, ...]], str]) -> None:
    """Raise if X contains NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        quick = np.isfinite(X.sum(dtype=np.float64))
    if quick or np.isfinite(X).all():
        return
    at = tuple(int(i) for i in np.argwhere(~np.isfinite(X))[0])
    raise DataError(
        f"Input X contains NaN or infinity: {place(at)} is {X[at]}. "
        "Impute it, add an indicator of missingness, or drop the row."
    )


def _from_frame(frame: nw.DataFrame, names: list[str], labels: bool | CategoryCoding) -> Design:
    """Convert a data frame."""
    refuse_empty(frame.shape)
    if len(names) != frame.shape[1]:
        raise DataError(f"{len(names)} names for {frame.shape[1]} columns.")
    coding = _coding(frame, names) if labels is True else labels
    if not coding:
        design = Design(_from_numbers(frame, names), names)
        refuse_extreme(design.scale, names)
        return design
    refuse_twice(coding.names)
    coded = np.array([j in coding.levels for j in range(len(names))])
    blocks: list[Block] = []
    for a, b in runs(coded):
        if coded[a]:
            blocks += [coding.indicators(j, frame[:, j]) for j in range(a, b)]
        else:
            blocks += _from_numbers(frame[:, a:b], names[a:b])
    design = Design(blocks, coding.names)
    design.coding = coding
    refuse_extreme(design.scale, coding.names)
    return design


def _coding(frame: nw.DataFrame, names: list[str]) -> CategoryCoding | None:
    """Read the levels of the columns of labels; return None if there are none."""
    levels = {
        j: learn_levels(names[j], column)
        for j, column in enumerate(frame.iter_columns())
        if holds_labels(column)
    }
    return CategoryCoding(names, levels) if levels else None


def _from_numbers(frame: nw.DataFrame, names: list[str]) -> list[Block]:
    """Convert the columns of a data frame, one by one."""
    n, p = frame.shape
    is_sparse = _sparse_columns(frame)
    columns = [
        _sparse_column(name, column.to_native()) if held_sparse else _column(name, column)
        for name, column, held_sparse in zip(names, frame.iter_columns(), is_sparse, strict=True)
    ]
    if n * p < STORAGE.min_sparse_entries * 10 and not is_sparse.any():
        return [_dense(n, [x for x in columns if isinstance(x, np.ndarray)])]
    few = is_sparse.copy()
    if n * p >= STORAGE.min_sparse_entries * 10:
        few |= [
            isinstance(x, np.ndarray) and _nonzero_share(x) < STORAGE.sparse_below for x in columns
        ]
    blocks: list[Block] = []
    for a, b in runs(few):
        part = columns[a:b]
        if few[a]:
            entries = [_entries(x) if isinstance(x, np.ndarray) else x for x in part]
            indptr = np.concatenate([[0], np.cumsum([len(rows) for rows, _ in entries])])
            rows = np.concatenate([rows for rows, _ in entries]).astype(np.int32)
            data = np.concatenate([values for _, values in entries])
            blocks.extend(sparse_blocks(n, indptr, rows, data))
        else:
            blocks.append(_dense(n, [x for x in part if isinstance(x, np.ndarray)]))
    return blocks


def _dense(n: int, columns: Sequence[np.ndarray]) -> DenseBlock:
    """Copy columns of any numbers into one block."""
    together = np.empty((n, len(columns)))
    step = max(1, STORAGE.compared_entries // max(len(columns), 1))
    for a in range(0, n, step):  # The rows that all columns share stay in the cache.
        some = slice(a, a + step)
        for j, x in enumerate(columns):
            together[some, j] = x[some]
    return DenseBlock.standardized(together, center=False, reuse=True)


def _nonzero_share(x: np.ndarray) -> float:
    """Compute the share of nonzero values."""
    return np.count_nonzero(x) / len(x)


def _entries(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and values of the nonzero entries."""
    rows = np.flatnonzero(x)
    return rows, x[rows].astype(np.float64, copy=False)


def _sparse_columns(frame: nw.DataFrame) -> np.ndarray:
    """Mask of the columns that pandas stores as sparse numbers, with zeros left out, (p,)."""
    native = frame.to_native()
    if not isinstance(native, pd.DataFrame):
        return np.zeros(frame.shape[1], bool)
    return np.array(
        [
            isinstance(kind, pd.SparseDtype)
            and kind.subtype.kind in "fiub"
            and kind.fill_value == 0
            for kind in native.dtypes
        ]
    )


def _sparse_column(name: str, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and values of the nonzero entries of a sparse column of pandas."""
    stored = column.array
    rows, values = stored.sp_index.indices, np.asarray(stored.sp_values, np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        i = int(bad.argmax())
        raise DataError(missing_value(f"column {name!r}, row {rows[i]}", values[i]))
    kept = values != 0
    return rows[kept], values[kept]


def _column(name: str, column: Series) -> np.ndarray:
    """Check a column of a table, and return it as an array of numbers; raise with a remedy."""
    dtype = column.dtype
    if dtype.is_temporal():
        raise DataError(
            f"Column {name!r} holds dates or durations ({dtype}), not numbers; turn it into a "
            "number of days, or of years, since a day that you choose, or drop it."
        )
    if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Unknown, nw.Object)):
        raise DataError(
            f"Column {name!r} holds {dtype}, not numbers; turn it into 0/1 columns first "
            "(pandas.get_dummies, polars' to_dummies) or drop it."
        )

    def place(index: tuple[int, ...]) -> str:
        return f"column {name!r}, row {index[0]}"

    if dtype.is_numeric() or dtype == nw.Boolean:
        missing = column.is_null().to_numpy().astype(bool)
        if missing.any():
            raise DataError(missing_value(place((int(missing.argmax()),))))
        if dtype.is_decimal():
            column = column.cast(nw.Float64)
    x = as_numbers(column.to_numpy(), f"Column {name!r}", place, of="Input X", exact=False)
    if x.dtype not in NARROW:  # Narrow numbers are converted as they are copied into a block.
        with np.errstate(over="ignore"):
            x = x.astype(np.float64, copy=False)
    bad = ~np.isfinite(x)
    if bad.any():
        i = int(bad.argmax())
        raise DataError(missing_value(place((i,)), x[i]))
    return x
