"""Evaluation of expressions in formulas, with errors that name the column and the row."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...data.input_types import LabelsLike
from ...data.survival_outcome import Surv
from ...errors import DataError, listed
from .formula_data_types import names_in, refuse_misread_operators
from .formula_safety import short_quote
from .formula_splines import ELEMENTWISE as FUNCTIONS_OF_R

__all__ = [
    "AbsentColumnError",
    "Evaluated",
    "call_formulaic",
    "evaluate_expression",
    "import_formulaic",
    "missing_value_error",
    "refuse_missing_arguments",
]

# Functions available in formulas that do not depend on the data (formulaic's stateless ones).
ELEMENTWISE = {
    "log": np.log, "log10": np.log10, "log2": np.log2, "exp": np.exp, "I": lambda x: x,
}  # fmt: skip
OF_EXPRESSIONS = (
    RecursionError, MemoryError, ValueError, NameError, SyntaxError, TypeError, AttributeError,
    ArithmeticError, LookupError,
)  # fmt: skip
# Terminal colours in formulaic's messages.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ABSENT = re.compile(r"^`?(.*?)`? is not present in the dataset", re.DOTALL)
NULLS = re.compile(r"^`(.*)` contains null values", re.DOTALL)
# Longest message of formulaic that is repeated, which quotes the whole formula in some errors.
MAX_MESSAGE = 1_000
# Advice for words in messages of formulaic and pandas.
HINTS = {
    "Unknown operator": "\nExpressions other than +, -, :, * and / of terms go into I(), such as "
    "I(age > 50); 'not x' is I(1 - x).",
    "truth value of a Series": "\nPut each condition in parentheses: (age > 50) & (sex == 1).",
}
# Functions of formulaic that take a column and store properties of the data.
TRANSFORMS = {
    "C", "bs", "cc", "center", "cr", "cs", "hashed", "lag", "ns", "poly", "rcs", "scale",
    "standardize",
}  # fmt: skip
# The value of an expression: a column, an outcome or labels.
Evaluated: TypeAlias = np.ndarray | pd.Series
Result = TypeVar("Result")


class AbsentColumnError(DataError):
    """An expression names a column that the data do not have."""


def _surv(*args: ArrayLike, **named: ArrayLike) -> np.ndarray:
    """Evaluate Surv() in a formula; refuse three positional arguments, which are ambiguous."""
    if len(args) > 2:
        raise DataError(
            "Surv(a, b, c) in a formula is Surv(start, stop, event) to some and Surv(time, event, "
            "entry) to others: say Surv(stop, event, entry=start)."
        )
    return Surv(*args, **named)


def _strata(*columns: LabelsLike) -> LabelsLike:
    """Evaluate strata() in a formula; several columns become tuples."""
    if len(columns) == 1:
        return columns[0]
    labels = np.empty(len(columns[0]), object)
    labels[:] = list(zip(*columns, strict=True))
    return labels


def import_formulaic() -> ModuleType:
    """Import formulaic, an optional dependency."""
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise ImportError(
            'Formulas need the package formulaic: pip install "steropes[formulas]"',
            name="formulaic",
        ) from error
    return formulaic


def call_formulaic(
    call: Callable[[], Result],
    data: pd.DataFrame | None = None,
    levels: Mapping[str, list[Any]] | None = None,
) -> Result:
    """Call formulaic and convert its errors and warnings.

    ``data`` serves to name rows, and ``levels``, those of the fit by column, to name new labels.
    """
    errors = import_formulaic().errors
    with warnings.catch_warnings():
        # Users cannot change how formulaic calls pandas.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("error", errors.DataMismatchWarning)
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # log(0) is refused by its row
                return call()
        except DataError:
            raise
        except errors.DataMismatchWarning as error:
            raise _unseen_label(error, data, levels or {}) from None
        except (errors.FormulaicError, *OF_EXPRESSIONS) as error:
            raise _as_ours(error, data) from None


def _unseen_label(
    error: Warning, data: pd.DataFrame | None, levels: Mapping[str, list[Any]]
) -> DataError:
    """Name the column and the row of a label that the fit has not seen."""
    for name, known in levels.items():
        if data is not None and name in data:
            new = np.flatnonzero(~data[name].isin(known))
            if len(new):
                label = data[name].iloc[new[:1]].tolist()[0]
                return DataError(
                    f"Column {name!r} has the level {label!r} in {_rows(new)}, which the fit has "
                    f"not seen; its levels were {listed(known)}. Merge the level with one of these "
                    "or drop the rows."
                )
    return DataError(
        f"A column has values that the fit has not seen ({error}). Merge or drop them."
    )


def _as_ours(error: BaseException, data: pd.DataFrame | None) -> DataError:
    """Convert an error of formulaic to a `DataError`.

    This is a separate function because a frame of the traceback with a variable that refers to
    the error would form a cycle, which keeps the data in memory until garbage collection.
    """
    cause = error.__cause__ or error
    if isinstance(cause, DataError):
        return cause
    if isinstance(cause, SyntaxError):
        return _no_expression(cause)
    said = COLOURS.sub("", str(cause))
    absent = ABSENT.match(said)
    name = absent.group(1) if absent else getattr(cause, "name", None)
    if absent or (isinstance(cause, NameError) and name is not None):
        python = f" Python's is {name.title()}." if name in {"TRUE", "FALSE"} else ""
        quoted = short_quote(str(name))
        return AbsentColumnError(
            f"The formula names {quoted}, which is not a column of the data.{python}"
        )
    nulls = NULLS.match(said)
    if nulls and data is not None:
        return missing_value_error(nulls.group(1), data)
    hint = next((hint for words, hint in HINTS.items() if words in said), "")
    if len(said) > MAX_MESSAGE:
        said = said[:MAX_MESSAGE] + "…"
    return DataError(f"The formula cannot be evaluated: {said}{hint}")


def _no_expression(error: SyntaxError) -> DataError:
    """Describe a part of a formula that is not an expression of Python."""
    text = (error.text or "").strip()
    part = f"{text!r} in the formula" if text else "A part of the formula"
    if ":" in text:
        return DataError(
            f"{part} has a colon within parentheses, which only joins whole terms: write a product "
            "of numbers, such as step(x * z, [90]), or an interaction outside, such as C(x):z."
        )
    return DataError(f"{part} is not an expression of Python ({error.msg}).")


def missing_value_error(text: str, data: pd.DataFrame) -> DataError:
    """Describe where an expression of a formula is missing, with the column and row."""
    named = [text] if text in data else sorted(names_in(text) & set(map(str, data.columns)))
    for name in named:
        empty = np.flatnonzero(np.asarray(pd.isna(data[name])))
        if len(empty):
            cause = "" if name == text else f", because column {name!r} is"
            return DataError(
                f"{text} is missing in {_rows(empty)}{cause}: drop such rows or impute it."
            )
    try:
        empty = np.flatnonzero(np.asarray(pd.isna(_unchecked(text, data))))
    except DataError:  # a spline or a coding, which formulaic evaluates only within a model
        return DataError(f"{text} is missing in some rows: drop such rows or impute it.")
    if not named:
        return DataError(f"{text} is missing in {_rows(empty)}: drop such rows or impute it.")
    return DataError(
        f"{text} is missing in {_rows(empty)}, where {listed(named)} is not: it is not defined "
        "there, as the root or logarithm of a negative number. Correct the values or drop the rows."
    )


def refuse_missing_arguments(text: str, data: pd.DataFrame) -> None:
    """Refuse missing values in a column that a transform takes.

    Some transforms of formulaic give a missing value a number: ``hashed`` a level of its own, and
    ``bs`` of a constant column zero.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:  # reported when it is evaluated
        return
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        argument = node.args[0]
        if node.func.id not in TRANSFORMS or not isinstance(argument, ast.Name):
            continue
        if argument.id in data and data[argument.id].isna().any():
            raise missing_value_error(text, data)


def _rows(rows: np.ndarray) -> str:
    """Describe some rows for a message."""
    return f"row {rows[0]}" + (f" and {len(rows) - 1} more" if len(rows) > 1 else "")


def evaluate_expression(text: str, data: pd.DataFrame) -> Evaluated | None:
    """Evaluate an expression in the columns of data; refuse missing values."""
    refuse_misread_operators(text, data)
    value = data[text] if text in data else _unchecked(text, data)
    if isinstance(value, pd.Series) and value.isna().any():
        raise missing_value_error(text, data)
    return value


def _refuse_builtin_names(text: str, env: Mapping[str, Any]) -> None:
    """Refuse a name that is no column but one of Python's functions, such as id."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:  # reported when the expression is evaluated
        return
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [x.id for x in ast.walk(tree) if isinstance(x, ast.Name) and id(x) not in called]
    for name in names:
        if name not in env and hasattr(builtins, name):
            raise AbsentColumnError(
                f"The formula names {name!r}, which is not a column of the data."
            )


def _unchecked(text: str, data: pd.DataFrame) -> Evaluated | None:
    """Evaluate an expression in the columns of data."""
    from formulaic.utils.stateful_transforms import stateful_eval

    from ...likelihoods.cumulative import Censored

    env = {
        **ELEMENTWISE, **FUNCTIONS_OF_R, "np": np, "Surv": _surv, "Censored": Censored,
        "strata": _strata, "cluster": _strata, "offset": lambda x: x,
        **{str(name): data[name] for name in data.columns},
    }  # fmt: skip
    _refuse_builtin_names(text, env)
    return call_formulaic(lambda: stateful_eval(text, env, {}, {}, None))
