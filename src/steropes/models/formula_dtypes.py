"""Numbers that a formula computes with, as R has them: of 64 bits, and conditions as 0 and 1."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError

__all__ = ["DOT", "NAMES", "names_in", "refuse_sums_of_conditions", "widen_numbers"]

LABELS = re.compile(r"(?<![\w.])(?:C|strata)\(([^)]*)")
ARITHMETIC = re.compile(r"[-+*/%]")
NAMES = re.compile(r"`([^`]+)`|(\w+)")
DOT = re.compile(r"(?<![\w.)\]])\.(?![\w(])")
LARGE = 1000  # a whole number: the seventh power has no place in 64 bits


def widen_numbers(data: pd.DataFrame, text: str) -> pd.DataFrame:
    """The table with the numbers that a formula names in 64 bits, as R's are.

    In the eight bits of a small integer a product, a square or a difference would overflow, and
    a logarithm have three digits, all without a word; the sum of two booleans would be one. In 64
    bits powers of large integers overflow still: they are floats, but where they are the outcome
    or labels, which shows in names. Short floats that are labels are the decimal that they show.
    """
    named = names_in(text)
    outcome, labels = text.partition("~")[0], LABELS.findall(text)
    as_they_are = names_in(outcome, *labels)
    conditions = names_in(outcome, *(x for x in labels if not ARITHMETIC.search(x)))
    decimal = names_in(*labels)
    every = DOT.search(text) is not None
    types: dict[Any, Any] = {}
    columns: dict[Any, Any] = {}
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


def _counted(kind: Any) -> Any:
    """The type of whole numbers for a column of booleans; None for labels of two kinds."""
    if isinstance(kind, pd.SparseDtype):
        return pd.SparseDtype(np.int64, int(kind.fill_value))
    if isinstance(kind, pd.ArrowDtype):
        return "int64[pyarrow]"
    if isinstance(kind, pd.CategoricalDtype):
        return None
    return np.int64 if isinstance(kind, np.dtype) else "Int64"


def _shortest(column: pd.Series) -> pd.Series:
    """A column of short floats as the decimals that they show: 0.1, not 0.10000000149."""
    kind: Any = column.dtype
    plain = kind.subtype if isinstance(kind, pd.SparseDtype) else kind
    codes, values = pd.factorize(column)
    short = np.asarray(values, np.dtype(f"f{plain.itemsize}"))  # pandas makes 32 bits of 16
    decimals = np.array([float(str(v)) for v in short], np.float64)
    out = np.full(len(codes), np.nan)
    out[codes >= 0] = decimals[codes[codes >= 0]]
    return pd.Series(out, index=column.index)


def _wide(column: pd.Series, computed: bool) -> Any:
    """The type of 64 bits that holds the numbers of a column; None where it has that."""
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


def refuse_sums_of_conditions(text: str, data: pd.DataFrame) -> None:
    """Refuse a sum, a difference or the negative of conditions, which NumPy takes for "or", "not".

    Columns of booleans are numbers by then, but where they are labels too.
    """
    try:
        tree = ast.parse(text.replace("`", ""), mode="eval")
    except SyntaxError:  # told by whoever evaluates it
        return
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
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
    """Whether an expression is true or false and no number, as far as its form tells."""
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
