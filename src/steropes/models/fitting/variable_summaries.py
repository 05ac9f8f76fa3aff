"""Ranges and typical values of variables, as rms's ``datadist`` stores them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ...backends import host_backend
from ...design_matrix import Design
from ...design_matrix.category_coding import CategoryCoding
from ...errors import DataError, listed
from ..formulas.formula_data_types import FormulaVariable
from .designs_of_new_rows import dense_matrix

__all__ = [
    "MAX_GROUPS", "summarize_columns", "summarize_variables", "typical_rows",
]  # fmt: skip

# Ranges extend between these quantiles, so that they show no values of single people.
QUANTILES = (0.05, 0.95)
# A numeric variable with at most this many distinct values is described by all of them.
MAX_LEVELS = 10
# A covariate with more values than this cannot define groups.
MAX_GROUPS = 20
# Number of points of the range of a numeric variable.
POINTS = 50
# Models of more columns than this have no typical row that anyone could choose values for.
MAX_COLUMNS = 200


def summarize_variables(
    data: pd.DataFrame, names: set[str], categories: Collection[str] = ()
) -> dict[str, FormulaVariable]:
    """Describe the columns of data that a formula uses, some of them as categories only."""
    out = {}
    for name in data.columns:
        if name not in names:
            continue
        column = data[name]
        if isinstance(column.dtype, pd.SparseDtype):  # which has no median
            column = column.sparse.to_dense()
        numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        numeric &= name not in categories
        levels = column.value_counts()
        if not numeric or len(levels) <= MAX_LEVELS:
            found = sorted(levels.index) if column.dtype != "category" else list(levels.index)
            if isinstance(column.dtype, pd.CategoricalDtype):
                found = [c for c in column.cat.categories if c in set(found)]
            center = float(column.median()) if numeric else levels.index[0]
            if numeric and center not in found:  # the middle between two levels
                center = levels.index[0]
            out[str(name)] = FormulaVariable(
                numeric, tuple(found), center, column.dtype, tuple(found)
            )
            continue
        x = column.to_numpy(np.float64)
        low, high = np.quantile(x, QUANTILES)
        grid = np.linspace(low, high, POINTS) if low < high else np.unique(x)[:POINTS]
        few = tuple(sorted(levels.index)) if len(levels) <= MAX_GROUPS else ()
        center = float(np.median(x))
        out[str(name)] = FormulaVariable(True, tuple(grid), center, column.dtype, few)
    return out


def summarize_columns(
    design: Design, columns: list[str], coding: CategoryCoding | None, n_jobs: int | None
) -> dict[str, FormulaVariable]:
    """Describe the columns of a table that a model was fitted to without a formula.

    Parameters
    ----------
    design : Design
        The columns of the fit; those of labels are coded as indicators.
    columns : list of str
        Names of the table's columns.
    coding : CategoryCoding, optional
        Levels of the columns of labels.

    Raises
    ------
    DataError
        If there are too many columns.
    """
    if len(columns) > MAX_COLUMNS:
        raise DataError(
            f"The model has {len(columns)} columns; typical values are for {MAX_COLUMNS} at most. "
            "Compare chosen rows by effects.predictions(X, reference=…)."
        )
    place = {name: j for j, name in enumerate(design.names)}
    backend = host_backend(n_jobs)
    out: dict[str, FormulaVariable] = {}
    for k, name in enumerate(columns):
        if coding is None or k not in coding.levels:
            x = dense_matrix(design.only(np.array([place[name]])), backend)
            out |= summarize_variables(pd.DataFrame({name: x[:, 0]}), {name})
            continue
        levels = coding.levels[k]
        at = np.array([place[coding.names[j]] for j in coding.positions[k]])
        counts = np.rint(dense_matrix(design.only(at), backend).sum(axis=0))
        counts = np.append(design.n - counts.sum(), counts)
        dtype = pd.CategoricalDtype(list(levels))
        out[name] = FormulaVariable(False, tuple(levels), levels[int(counts.argmax())], dtype)
    return out


def typical_rows(
    variables: Mapping[str, FormulaVariable], chosen: Mapping[str, Any], n: int = 1
) -> pd.DataFrame:
    """Build a table of n rows with chosen values of some variables and the centres of others.

    Raises
    ------
    DataError
        If there is no such variable, or a value is not one that it can have.
    """
    for name in chosen:
        if name not in variables:
            raise DataError(
                f"{name!r} is no variable of the model; there are {listed(list(variables))}."
            )
    columns = {}
    for name, variable in variables.items():
        values = chosen.get(name, variable.center)
        values = list(values) if isinstance(values, list | tuple | np.ndarray) else [values] * n
        _refuse_other_values(name, variable, values)
        integer = isinstance(variable.dtype, np.dtype) and variable.dtype.kind in "iu"
        whole = integer and all(float(v).is_integer() for v in values)
        # A fraction of a whole number, such as a median age, makes the column one of floats.
        kind = np.float64 if integer and not whole else variable.dtype
        columns[name] = pd.Series(values).astype(kind)
    return pd.DataFrame(columns)


def _refuse_other_values(name: str, variable: FormulaVariable, values: list[Any]) -> None:
    """Refuse labels that are not categories of a variable, and text in place of its numbers."""
    kinds, dtype = pd.api.types, variable.dtype
    for value in values:
        plain = value.item() if isinstance(value, np.generic) else value
        if not kinds.is_scalar(plain):
            raise DataError(f"{name!r} has one value in a row, not {plain!r}.")
        if isinstance(dtype, pd.CategoricalDtype):
            if plain not in dtype.categories:
                known = listed([str(x) for x in dtype.categories])
                raise DataError(f"{name!r} has no level {plain!r}; its levels are {known}.")
        elif kinds.is_numeric_dtype(dtype) and not isinstance(plain, Real):
            raise DataError(f"{name!r} is a number, not {plain!r}.")
