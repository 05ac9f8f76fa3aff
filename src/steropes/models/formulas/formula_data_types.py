"""Tables for formulas with R's data types: 64-bit numbers, and conditions as 0 and 1."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError

from ...data.array_conversion import refuse_lazy_query
from ...errors import DataError

__all__ = [
    "DOT",
    "NAMES",
    "FormulaVariable",
    "RowVector",
    "as_pandas_table",
    "drop_unused_categories",
    "names_in",
    "refuse_misread_operators",
    "widen_numbers",
    "without_function_names",
]

LABELS = re.compile(r"(?<![\w.])(?:C|strata|cluster)\(([^)]*)")
ARITHMETIC = re.compile(r"[-+*/%]")
NAMES = re.compile(r"`([^`]+)`|(\w+)")
QUOTED = re.compile(r"`[^`]*`")
# Names of functions that a formula calls, and of NumPy before the name of one.
CALLED = re.compile(r"(?<![\w.`])(\w+(?=\s*\()|np(?=\.))")
DOT = re.compile(r"(?<![\w.)\]])\.(?![\w(])")
# Integers above this are converted to floats: their seventh power would overflow 64 bits.
LARGE = 1000

# A data type of pandas, or its name.
Dtype: TypeAlias = type | str | pd.api.extensions.ExtensionDtype

# Arguments of a fit with a value for each row that a formula can name.
RowVector = Literal["strata", "offset", "exposure", "cluster"]


def widen_numbers(data: pd.DataFrame, text: str) -> pd.DataFrame:
    """Convert numbers that a formula uses to 64 bits, and booleans to 0 and 1, as R does.

    In integers of eight bits products, squares and differences overflow silently, and logarithms
    have three digits; the sum of two booleans is a boolean. Powers of large integers overflow
    even in 64 bits, so that these become floats, except in the outcome and in labels, which
    appear in names. Short floats that are labels are rounded to the decimals that they display.
    """
    named = names_in(text)
    outcome, labels = text.partition("~")[0], LABELS.findall(text)
    as_they_are = names_in(outcome, *labels)
    conditions = names_in(outcome, *(x for x in labels if not ARITHMETIC.search(x)))
    decimal = names_in(*labels)
    every = DOT.search(text) is not None
    types: dict[Hashable, Dtype] = {}
    columns: dict[Hashable, pd.Series] = {}
    for name in data.columns:
        if not (every or str(name) in named):
            continue
        column = data[name]
        if pd.api.types.is_bool_dtype(column.dtype) and column.dtype != object:
            wide = None if str(name) in conditions else _counted(column.dtype)
        else:
            wide = _wide(column, str(name) not in as_they_are)
        if wide is None:
            continue
        if str(name) in decimal and pd.api.types.is_float_dtype(column.dtype):
            columns[name] = _shortest(column)
        else:
            types[name] = wide
    data = data.astype(types) if types else data
    if columns:
        data = data.copy(deep=False)
        for name, column in columns.items():
            data[name] = column
    return data


def names_in(*texts: str) -> set[str]:
    """Return the names in expressions of a formula."""
    return {a or b for text in texts for a, b in NAMES.findall(text)}


def without_function_names(data: pd.DataFrame, text: str) -> pd.DataFrame:
    """Drop columns that have the name of a function in a formula, which they would replace.

    Raises
    ------
    DataError
        If the formula also uses such a column.
    """
    called = set(CALLED.findall(QUOTED.sub("", text))) & set(map(str, data.columns))
    for name in sorted(called & names_in(CALLED.sub("", text))):
        raise DataError(
            f"Column {name!r} has the name of a function in the formula; rename the column."
        )
    return data.drop(columns=list(called)) if called else data


def _counted(kind: object) -> Dtype | None:
    """Return the integer type for a column of booleans; None for a categorical column."""
    if isinstance(kind, pd.SparseDtype):
        return pd.SparseDtype(np.int64, int(kind.fill_value))
    if isinstance(kind, pd.ArrowDtype):
        return "int64[pyarrow]"
    if isinstance(kind, pd.CategoricalDtype):
        return None
    return np.int64 if isinstance(kind, np.dtype) else "Int64"


def _shortest(column: pd.Series) -> pd.Series:
    """Round a column of short floats to the decimals that they display: 0.1, not 0.10000000149."""
    kind: Any = column.dtype
    plain = kind.subtype if isinstance(kind, pd.SparseDtype) else kind
    codes, values = pd.factorize(column)
    short = np.asarray(values, np.dtype(f"f{plain.itemsize}"))  # pandas makes 32 bits of 16
    decimals = np.array([float(str(v)) for v in short], np.float64)
    out = np.full(len(codes), np.nan)
    out[codes >= 0] = decimals[codes[codes >= 0]]
    return pd.Series(out, index=column.index)


def _wide(column: pd.Series, computed: bool) -> Dtype | None:
    """Return the 64-bit type for a numeric column; None if no conversion is needed."""
    kind: Any = column.dtype
    plain = kind.subtype if isinstance(kind, pd.SparseDtype) else kind
    whole = pd.api.types.is_integer_dtype(plain)
    if not (whole or pd.api.types.is_float_dtype(plain)):
        return None
    wide = plain.itemsize == 8
    if whole and (computed or (wide and plain.kind == "u")):
        most = LARGE if computed else np.iinfo(np.int64).max
        whole = not bool((column > most).any() or (plain.kind != "u" and (column < -most).any()))
    if wide and plain.kind == ("i" if whole else "f"):
        return None
    if isinstance(kind, pd.SparseDtype):
        return pd.SparseDtype(np.int64 if whole else np.float64, kind.fill_value)
    if isinstance(kind, pd.ArrowDtype):
        return "int64[pyarrow]" if whole else "double[pyarrow]"
    if isinstance(kind, np.dtype):
        return np.int64 if whole else np.float64
    return "Int64" if whole else "Float64"  # with a mask of what is missing


def refuse_misread_operators(text: str, data: pd.DataFrame) -> None:
    """Refuse operators that do not have the meaning that they have in R.

    NumPy treats sums and negatives of conditions as "or" and "not", and Python's ``x ^ 2`` is no
    power but an exclusive "or" of bits.

    Boolean columns have been converted to numbers before, unless they are also labels.
    """
    try:
        tree = ast.parse(text.replace("`", ""), mode="eval")
    except SyntaxError:  # reported when the expression is evaluated
        return
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            if not _condition(node, data):
                raise DataError(
                    f"^ in {ast.unparse(node)} is not a power in Python: write **, as in x ** 2."
                )
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            parts = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        if parts and all(_condition(part, data) for part in parts):
            first = ast.unparse(parts[0])
            raise DataError(
                f"{ast.unparse(node)} would not count its conditions, which are not numbers here: "
                f"write 1 * ({first}) for ({first})."
            )


def _condition(node: ast.expr, data: pd.DataFrame) -> bool:
    """Return whether the form of an expression implies a boolean value."""
    match node:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert() | ast.Not() | ast.USub() | ast.UAdd()):
            return _condition(node.operand, data)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Add() | ast.Mult()):
            return _condition(node.left, data) and _condition(node.right, data)
        case ast.Name():
            return node.id in data.columns and pd.api.types.is_bool_dtype(data[node.id].dtype)
        case ast.Constant():
            return isinstance(node.value, bool)
    return False


def as_pandas_table(data: object) -> pd.DataFrame:
    """Convert a pandas, polars or pyarrow table to pandas."""
    refuse_lazy_query(data, "data")
    try:
        frame = nw.from_native(data, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise DataError(f"Columns of data have the same name: {error}") from None
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            f"data must be a pandas, polars or pyarrow table, not {type(data).__name__}."
        )
    table = _converted(frame)
    # formulaic treats text as labels only in columns of objects, and any other object as a label.
    types: dict[Any, Any] = {}
    for name, kind in frame.schema.items():
        plain = table[name].dtype == object
        if kind == nw.String and not plain:
            types[name] = object
        elif (
            kind == nw.Categorical
            and not isinstance(data, pd.DataFrame)
            and not table[name].cat.ordered
        ):
            # Unordered categories of polars and Arrow are in the order in which they were met.
            sorted_labels = sorted(table[name].cat.categories)
            table = table.assign(**{name: table[name].cat.reorder_categories(sorted_labels)})
        elif isinstance(kind, nw.Enum):  # polars' conversion loses the order
            types[name] = pd.CategoricalDtype(list(kind.categories), ordered=True)
        elif kind == nw.Decimal or (plain and pd.api.types.infer_dtype(table[name]) == "decimal"):
            types[name] = np.float64
    return table.astype(types) if types else table


def _converted(frame: nw.DataFrame[Any]) -> pd.DataFrame:
    """Convert a table to pandas, which polars does by pyarrow where it is installed."""
    try:
        return frame.to_pandas()
    except ModuleNotFoundError:
        columns = {name: frame[name].to_numpy() for name in frame.columns}
        labels = [name for name, kind in frame.schema.items() if kind == nw.Categorical]
        return pd.DataFrame(columns).astype(dict.fromkeys(labels, "category"))


def drop_unused_categories(data: pd.DataFrame) -> pd.DataFrame:
    """Remove unused categories, which remain when rows of a table are selected."""
    kinds = {name: kind for name, kind in data.dtypes.items() if kind == "category"}
    return data.assign(**{str(k): data[k].cat.remove_unused_categories() for k in kinds})


@dataclass(frozen=True)
class FormulaVariable:
    """Typical values of a column of the data.

    Attributes
    ----------
    numeric : bool
        Whether values are numbers with an order, not labels.
    values : tuple
        Points of the range between the 5th and the 95th percentile, or all levels.
    center : object
        The median, or the most frequent level.
    dtype : object
        Type of the column.
    levels : tuple or None
        All distinct values if they are few enough for groups, else empty; None if unknown.
    """

    numeric: bool
    values: tuple[Any, ...]
    center: Any
    dtype: Any
    levels: tuple[Any, ...] | None = None
