"""A table of data in which everyone has one value of a column, for each of its values in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from .formula_parsing import Formula
from .standardized_survival import MOST_VALUES

__all__ = ["formula_column", "tables_by_value"]


def formula_column(by: Any, data: pd.DataFrame, formula: Formula) -> str | None:
    """The column of a table that ``by``, a name or position, means, if the formula has it.

    Raises
    ------
    DataError
        A position that the table does not have, or of a column that the formula does not have.
    """
    known = {str(name) for name in formula.spec.required_variables}
    if isinstance(by, str):
        return by if by in known else None
    whole = isinstance(by, int | np.integer) and not isinstance(by, bool)
    if not whole or not -len(data.columns) <= by < len(data.columns):
        raise DataError(
            f"by must be the name or position of one of the {len(data.columns)} columns of X, or a "
            f"mapping from labels to tables, not {by!r}."
        )
    name = str(data.columns[by])
    if name not in known:
        raise DataError(f"Column {name!r}, at position {by} of X, is not in the formula.")
    return name


def tables_by_value(name: str, data: pd.DataFrame) -> dict[Any, pd.DataFrame]:
    """The table with each value of a column for everyone, by value in their order.

    Parameters
    ----------
    name : str
        A column without missing values.
    data : DataFrame

    Raises
    ------
    DataError
        More values than groups can be.
    """
    column = data[name]
    values = column.drop_duplicates()
    if len(values) > MOST_VALUES:
        raise DataError(
            f"Column {name!r} has {len(values)} values, too many for groups. Give the values that "
            "are meant: by={'low': data_low, 'high': data_high}."
        )
    # The rows taken are of the column's own type, labels of categories with it.
    groups = {}
    for value in values.sort_values():
        row = int(np.flatnonzero(np.asarray(column == value))[0])
        same = column.iloc[np.full(len(column), row)].set_axis(data.index)
        label = value.item() if isinstance(value, np.generic) else value
        groups[label] = data.assign(**{name: same})
    return groups
