"""Outcomes of many fits as users pass them: by name, or as columns of a table."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError

from ...data import refuse_other_order
from ...data.array_conversion import as_numbers, as_series, refuse_lazy_query
from ...data.input_types import TableLike, VectorLike
from ...data.ordered_categories import Categories, categories_in_order
from ...errors import DataError
from ..fitting.setting_types import MatrixLike

__all__ = [
    "ROW_ARGUMENTS",
    "FitArguments",
    "Outcomes",
    "leave_out_missing",
    "read_outcomes",
    "refuse_labels_in_other_order",
    "refuse_twice",
]

ROW_ARGUMENTS = ("sample_weight", "offset", "exposure", "strata")
FitArguments = dict[str, Any]
# Outcomes by name, or a table of them.
Outcomes: TypeAlias = Mapping[Any, VectorLike | Mapping[str, VectorLike]] | TableLike


def read_outcomes(outcomes: Outcomes, common: FitArguments) -> dict[str, FitArguments]:
    """Read the arguments of ``fit`` for each outcome."""
    refuse_lazy_query(outcomes, "The table of outcomes")
    if isinstance(outcomes, Mapping):
        named = list(outcomes.items())
    else:
        named = _columns(outcomes)
    if not named:
        raise DataError("outcomes must be a mapping from names to outcomes, or a data frame.")
    out: dict[str, FitArguments] = {}
    for name, value in named:
        if str(name) in out:
            raise DataError(f"Two outcomes are called {str(name)!r}; rename one.")
        own: FitArguments = dict(value) if isinstance(value, Mapping) else {"y": value}
        wrong = [key for key in own if key not in ("y", *ROW_ARGUMENTS)]
        if "y" not in own or wrong:
            raise DataError(
                f"Outcome {name!r} needs y, and may have {', '.join(ROW_ARGUMENTS)}"
                + (f"; it has {wrong[0]!r}." if wrong else ".")
            )
        out[str(name)] = {**common, **own}
    return out


def refuse_twice(
    given: Mapping[str, FitArguments], common: FitArguments, of_formula: set[str]
) -> None:
    """Refuse an outcome's own strata or offset if the formula has some too."""
    for name, part in given.items():
        for key in sorted(of_formula):
            if part[key] is not common[key]:
                raise DataError(f"{key} is in the formula and of outcome {name!r}; give it once.")


def _columns(table: TableLike) -> list[tuple[str, VectorLike]]:
    """Return names and columns of a table of any library; nothing if it is not a table."""
    if isinstance(table, pd.DataFrame):  # names may have any type and be repeated
        return [(str(name), table.iloc[:, j]) for j, name in enumerate(table.columns)]
    try:
        frame = nw.from_native(table, eager_only=True, pass_through=True)
    except DuplicateError:
        names = list(table.column_names)
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"Two outcomes are called {twice!r}; rename one.") from None
    if not isinstance(frame, nw.DataFrame):
        return []
    return [(column.name, column.to_native()) for column in frame.iter_columns()]


def refuse_labels_in_other_order(X: MatrixLike, name: str, given: FitArguments) -> None:
    """Refuse an outcome that has the row labels of X in another order, as ``fit`` would."""
    try:  # X is converted to a design later, which has no labels
        refuse_other_order(X, **given)
    except DataError as error:
        raise DataError(f"Outcome {name!r}: {error}") from None


def _with_gaps(y: VectorLike) -> tuple[np.ndarray, np.ndarray]:
    """Fill missing values of an outcome with another row's value; return it and the mask."""
    series = as_series(y)
    if series is not None and series.dtype.is_integer() and series.null_count() < len(series):
        # NumPy would convert integers with gaps to floats and round those beyond 2⁵³.
        missing = series.is_null().to_numpy().astype(bool)
        return series.fill_null(series.min()).to_numpy(), missing
    y = np.asarray(y, object if isinstance(y, list | tuple) else None)  # labels may be of any type
    missing = np.asarray(pd.isna(y))
    if y.ndim == 1 and missing.any() and not missing.all():
        y = np.where(missing, y[int(np.argmin(missing))], y)
    return y, missing


def leave_out_missing(given: FitArguments, n: int) -> FitArguments:
    """Give rows with a missing y a weight of zero and the y of another row."""
    y = given["y"]
    if isinstance(y, np.ndarray) and y.dtype.names is not None:  # survival outcomes are complete
        return given
    if (categories := categories_in_order(y)) is not None:
        return _leave_out_categories(given, categories, n)
    y, missing = _with_gaps(y)
    if y.ndim != 1 or len(y) != n or not missing.any() or missing.all():
        return given
    weight = _without(given["sample_weight"], missing)
    if weight is None:
        return given  # the fit refuses the weights
    with contextlib.suppress(TypeError, ValueError):  # labels stay labels
        y = as_numbers(y, "y").astype(np.float64)
    return {**given, "y": y, "sample_weight": weight}


def _leave_out_categories(given: FitArguments, y: Categories, n: int) -> FitArguments:
    """Apply `_leave_out` to categories, preserving their order."""
    missing = y.codes < 0
    if len(y.codes) != n or not missing.any() or missing.all():
        return given
    weight = _without(given["sample_weight"], missing)
    if weight is None:
        return given
    codes = np.where(missing, y.codes[int(np.argmin(missing))], y.codes)
    filled = pd.Categorical.from_codes(codes, y.labels, ordered=y.ordered)
    return {**given, "y": filled, "sample_weight": weight}


def _without(weight: VectorLike | None, missing: np.ndarray) -> np.ndarray | None:
    """Set the weights of some rows to zero; None if the weights have another length."""
    one = weight is None or isinstance(weight, Real)  # equal weights
    if one:
        out = np.full(len(missing), 1.0 if weight is None else weight)
    else:
        out = np.array(weight, np.float64)
    if out.shape != missing.shape:
        return None
    out[missing] = 0.0
    return out
