"""Tables of data with a column set to each of its values, for standardised survival."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from ...errors import DataError
from ..fitting.fitted_variables import FittedVariable
from ..fitting.variable_ranges import MAX_GROUPS
from ..formulas.formula_parsing import Formula

__all__ = ["MAX_GROUPS", "column_of_table", "formula_column", "tables_by_value"]


def formula_column(by: str | int, data: pd.DataFrame, formula: Formula) -> str | None:
    """Find the column of a table that ``by``, a name or position, refers to.

    Returns
    -------
    str or None
        None for a name that is not in the formula.

    Raises
    ------
    DataError
        If the position is not in the table, or its column not in the formula.
    """
    known = {str(name) for name in formula.spec.required_variables}
    if isinstance(by, str):
        return by if by in known else None
    name = column_of_table(by, data)
    if name not in known:
        raise DataError(f"Column {name!r}, at position {by} of X, is not in the formula.")
    return name


def column_of_table(by: str | int, data: pd.DataFrame) -> str:
    """Return the name of the column of a table that ``by``, a name or position, refers to.

    Raises
    ------
    DataError
        If the table has no such column.
    """
    columns = [str(name) for name in data.columns]
    if isinstance(by, str) and by in columns:
        return by
    whole = isinstance(by, int | np.integer) and not isinstance(by, bool)
    if not whole or not -len(columns) <= int(by) < len(columns):
        raise DataError(
            f"by must be the name or position of one of the {len(columns)} columns of X, or a "
            f"mapping from labels to tables, not {by!r}."
        )
    return columns[int(by)]


def tables_by_value(
    name: str, data: pd.DataFrame, known: FittedVariable | None
) -> dict[Hashable, pd.DataFrame]:
    """Copy the table with a column set to each of its values.

    Parameters
    ----------
    name : str
        A column without missing values.
    known : FittedVariable, optional
        Its values in the fit; by default those of the data define the groups.

    Returns
    -------
    dict of DataFrame
        By value, in ascending order or that of the labels.

    Raises
    ------
    DataError
        If the column has too many values for groups.
    """
    column = data[name]
    if known is not None:
        if known.labels:
            known.refuse_unseen(name, column)
        groups = known.groups(name, column)
        return {label: data.assign(**{name: same}) for label, same in groups.items()}
    values = column.drop_duplicates()
    if len(values) > MAX_GROUPS:
        raise DataError(
            f"Column {name!r} has {len(values)} values, too many for groups. Give the values that "
            "are meant: by={'low': data_low, 'high': data_high}."
        )
    # Repeating a row of the column preserves its type, including categories.
    out: dict[Hashable, pd.DataFrame] = {}
    for value in values.sort_values():
        row = int(np.flatnonzero(np.asarray(column == value))[0])
        same = column.iloc[np.full(len(column), row)].set_axis(data.index)
        label = value.item() if isinstance(value, np.generic) else value
        out[label] = data.assign(**{name: same})
    return out
