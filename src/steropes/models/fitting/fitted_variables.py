"""The labels and values that variables had in the data of a fit.

Effects and averages are named after labels and differences from a reference. These come from the
fit, because the rows of a prediction may lack some of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...design_matrix import Design
from ...design_matrix.column_storage import ConstantBlock, DenseBlock, SparseBlock
from ...design_matrix.multinomial_design import ClassDesign
from ...errors import DataError, listed
from .variable_summaries import MAX_GROUPS

__all__ = ["FittedVariable", "fitted_variable", "values_of_columns"]

# Number of rows after which a column with many values needs no further reading.
FIRST_ROWS = 1000
# Values of centred columns are those of the data up to rounding to this number of digits.
DIGITS = 12


class FittedVariable(NamedTuple):
    """The values of a variable in the data of the fit.

    Attributes
    ----------
    labels : bool
        Whether values are labels, the first of which is the reference.
    values : tuple
        Distinct values in the order of the labels or numbers; empty if there are too many.
    dtype : object
        Type of the column; None for a number of any type.
    """

    labels: bool
    values: tuple[Any, ...]
    dtype: Any = None

    @property
    def binary(self) -> bool:
        """Whether the variable had the values zero and one only."""
        return not self.labels and bool(self.values) and set(self.values) <= {0, 1}

    def constant(self, value: Any, like: pd.Series) -> pd.Series:
        """Return a column with one value, of the type that the column had in the fit."""
        dtype: Any = like.dtype if self.dtype is None else self.dtype
        if self.dtype is None and pd.api.types.is_integer_dtype(dtype) and value != int(value):
            dtype = np.float64
        one = pd.Series([value], dtype=dtype)
        return one.iloc[np.zeros(len(like), np.intp)].set_axis(like.index)

    def groups(self, name: str, like: pd.Series) -> dict[Hashable, pd.Series]:
        """Return a column for each value, by value; refuse a variable with too many values."""
        if not self.values or len(self.values) > MAX_GROUPS:
            raise DataError(
                f"Column {name!r} had too many values for groups in the fit (more than "
                f"{MAX_GROUPS}). Give the values that are meant: "
                "by={'low': data_low, 'high': data_high}."
            )
        out: dict[Hashable, pd.Series] = {}
        for given in self.values:
            same = self.constant(given, like)
            value = same.iloc[0] if len(same) else given
            out[value.item() if isinstance(value, np.generic) else value] = same
        return out

    def refuse_unseen(self, name: str, column: pd.Series) -> None:
        """Refuse labels that the fit did not contain."""
        known = set(self.values)
        unseen = ~column.isin(known)
        if unseen.any():
            row = int(np.flatnonzero(unseen)[0])
            raise DataError(
                f"Column {name!r} has the level {column.iloc[row]!r} in row {row}, which the fit "
                f"has not seen; its levels were {listed(list(self.values))}. Merge the level with "
                "one of these or drop the rows."
            )


def fitted_variable(model: Any, name: str, j: int, table: str) -> FittedVariable | None:
    """Find the values that a variable had in the data of a fit.

    Parameters
    ----------
    model : estimator
    name : str
        Name of the variable.
    j : int
        Its position among all columns of X, for a matrix.
    table : {"formula", "labels", "matrix"}
        Whether it is a variable of the model's formula, a column of a table like that of the fit,
        or a column of numbers.

    Returns
    -------
    FittedVariable or None
        None if the values are not known, as those of rows in blocks, of columns with a fixed
        coefficient, and of models that an earlier version has pickled.
    """
    if table == "formula":
        known = model._formula.variables.get(name)
        if known is None:
            return None
        truth = pd.api.types.is_bool_dtype(known.dtype) and name not in model._formula.categories
        if not known.numeric and not truth:
            return FittedVariable(True, tuple(known.values), known.dtype)
        return None if known.levels is None else FittedVariable(False, known.levels, known.dtype)
    if table == "labels":
        coding = model._coding
        k = coding.columns.index(name)
        if k in coding.levels:
            levels = tuple(coding.levels[k])
            return FittedVariable(True, levels, pd.CategoricalDtype(list(levels)))
        j = int(coding.positions[k][0])
    values = values_of_columns(model, [j]).get(j)
    return None if values is None else FittedVariable(False, values)


def values_of_columns(model: Any, columns: list[int] | None = None) -> dict[int, tuple[float, ...]]:
    """Return the distinct values of columns of X in the fit, by position.

    Parameters
    ----------
    columns : list of int, optional
        Positions among all columns of X; default all.

    Returns
    -------
    dict
        Empty tuples for columns with more than `MAX_GROUPS` values. Columns of which nothing is
        known are left out.
    """
    stored: dict[int, tuple[float, ...]] | None = getattr(model, "_column_values", None)
    if stored is not None:  # a fit that was unpickled without its data
        return stored
    design = getattr(getattr(model, "_problem", None), "design", None)
    while design is not None and not isinstance(design, Design):
        design = getattr(design, "X", None)
    if design is None:
        return {}
    first = design.blocks[0].p if isinstance(design.blocks[0], ConstantBlock) else 0
    fixed, p = model._fixed, design.p - first
    if fixed is None or isinstance(model._problem.design, ClassDesign):  # which has all columns
        place = {j: j + first for j in range(p)}
    else:
        place = {int(j): k + first for k, j in enumerate(fixed.kept)}
    wanted = place if columns is None else {j: place[j] for j in columns if j in place}
    return {j: _distinct_values(design, k) for j, k in wanted.items()}


def _distinct_values(design: Design, j: int) -> tuple[float, ...]:
    """Return the distinct values of one column, an empty tuple if they are many."""
    ((block, local, _),) = design.columns(np.array([j]))
    k = int(local[0])
    if isinstance(block, SparseBlock):
        begin, end = int(block.indptr[k]), int(block.indptr[k + 1])
        zero = [0.0] if end - begin < block.n else []
        if not len(block.data):
            return tuple(zero + [1.0] * (end > begin))
        x, center, scale = block.data[begin:end], 0.0, float(block.scale[k])
    elif isinstance(block, DenseBlock):
        x, zero = block.values[:, k], []
        center, scale = float(block.center[k]), float(block.scale[k])
    else:
        return (1.0,)
    for part in (x[:FIRST_ROWS], x):
        found = np.unique(part)
        if len(found) > MAX_GROUPS:
            return ()
    values = found * scale + center
    if center:
        size = float(np.abs(values).max(initial=0.0)) + abs(center)
        values = np.round(values, DIGITS - int(np.ceil(np.log10(size))) if size else 0)
    values = np.unique(np.append(values, zero)) + 0.0
    return tuple(values.tolist()) if len(values) <= MAX_GROUPS else ()
