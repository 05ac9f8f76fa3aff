"""Coding of columns of labels as 0/1 columns, one for each level but the first.

This is the treatment coding of R and of the library's formulas: a column ``sex`` with the levels
``female`` and ``male`` becomes the column ``sex[T.male]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals import Series

from ..data.vector_checks import is_blank
from ..errors import DataError, listed
from .column_storage import SparseBlock

__all__ = [
    "MAX_TEXT_LEVELS", "CategoryCoding", "holds_labels", "learn_levels", "missing_value",
    "read_labels",
]  # fmt: skip

# Text with more levels than this in more than half of the rows is regarded as identifiers.
MAX_TEXT_LEVELS = 20


@dataclass(frozen=True)
class CategoryCoding:
    """The levels of a table's columns of labels, which new data must share.

    Attributes
    ----------
    columns : list of str
        Names of all columns of the table.
    levels : mapping
        Levels of each column of labels by its position, the reference level first.
    """

    columns: list[str]
    levels: Mapping[int, tuple[Any, ...]]

    @cached_property
    def names(self) -> list[str]:
        """Names of the coded columns."""
        out = []
        for j, name in enumerate(self.columns):
            if j in self.levels:
                out += [f"{name}[T.{level}]" for level in self.levels[j][1:]]
            else:
                out.append(name)
        return out

    @cached_property
    def positions(self) -> list[np.ndarray]:
        """Positions of the coded columns that belong to each column of the table."""
        sizes = [len(self.levels[j]) - 1 if j in self.levels else 1
                 for j in range(len(self.columns))]  # fmt: skip
        ends = np.cumsum(sizes)
        return [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def indicators(self, j: int, column: Series) -> SparseBlock:
        """Code a column of labels; refuse levels that the fit did not contain.

        Raises
        ------
        DataError
            If a value is missing or a level is new.
        """
        name, known = self.columns[j], self.levels[j]
        codes, labels = read_labels(name, column)
        place = {level: k for k, level in enumerate(known)}
        new = [label for label in labels if label not in place]
        if new:
            row = int((codes == labels.index(new[0])).argmax())
            raise DataError(
                f"Column {name!r} has the level {new[0]!r} in row {row}"
                + (f" and {len(new) - 1} others" if len(new) > 1 else "")
                + f", which the fit has not seen; its levels were {listed(list(known))}. Merge the "
                "level with one of these or drop the rows."
            )
        codes = np.array([place[label] for label in labels])[codes]
        return indicator_block(codes, len(known))

    def refuse_other_reference(self, other: CategoryCoding) -> None:
        """Refuse columns of labels that were converted with another reference level.

        Their indicators can have the same names but are relative to another level.

        Raises
        ------
        DataError
            If the first level of a column differs.
        """
        if other.columns != self.columns:
            return
        for j in sorted(self.levels.keys() & other.levels.keys()):
            if other.levels[j][0] != self.levels[j][0]:
                raise DataError(
                    f"Column {self.columns[j]!r} was converted with the reference level "
                    f"{other.levels[j][0]!r}, but in the fit it was {self.levels[j][0]!r}. Pass "
                    "the table, whose labels are then converted as in the fit."
                )


def indicator_block(codes: np.ndarray, levels: int) -> SparseBlock:
    """Build the indicators of the levels 1, 2, … from codes, (n,)."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(levels + 1))
    index = np.int32 if len(codes) <= np.iinfo(np.int32).max else np.int64
    rows = order[ends[1] :].astype(index)
    return SparseBlock.indicator(len(codes), ends[1:] - ends[1], rows, ascending=True)


def holds_labels(column: Series) -> bool:
    """Return whether a column has categories or text."""
    return column.dtype in (nw.Categorical, nw.Enum, nw.String)


def learn_levels(name: str, column: Series) -> tuple[Any, ...]:
    """Return the levels of a column that occur, in the order of its categories or sorted.

    Raises
    ------
    DataError
        If values are missing, there is one level only, or text is blank, numbers or identifiers.
    """
    codes, labels = read_labels(name, column)
    if column.dtype == nw.String:
        refuse_blank_text(name, labels, codes)
        refuse_text_of_numbers(name, labels)
        if len(labels) > MAX_TEXT_LEVELS and 2 * len(labels) > len(codes):
            raise DataError(
                f"Column {name!r} has {len(labels)} different texts in {len(codes)} rows, as "
                "identifiers have; drop it or, if they are labels, convert it to a categorical "
                "type."
            )
    if len(labels) < 2:
        raise DataError(
            f"Column {name!r} has the single level {labels[0]!r} and therefore no effect; drop it."
        )
    return tuple(labels)


def read_labels(name: str, column: Series) -> tuple[np.ndarray, list[Any]]:
    """Return the code of each row and the labels that occur.

    Labels have the order of pandas' categories and of a polars ``Enum``, and are sorted otherwise:
    the categories of a polars ``Categorical`` are in the order in which a process has met them.

    Raises
    ------
    DataError
        If a value is missing.
    """
    native = column.to_native()
    if isinstance(native, pd.Series) and isinstance(native.dtype, pd.CategoricalDtype):
        values = native.array
        codes, labels = np.asarray(values.codes), list(values.categories)
    elif isinstance(column.dtype, nw.Enum):
        labels = list(column.dtype.categories)
        codes = pd.Categorical(column.to_list(), categories=labels).codes
    else:
        text = column.cast(nw.String) if holds_labels(column) else column
        found, uniques = pd.factorize(np.asarray(text.to_numpy()), use_na_sentinel=True)
        labels = sorted(uniques.tolist(), key=lambda x: (str(type(x)), x))
        place = {label: k for k, label in enumerate(labels)}
        renumber = np.array([*(place[label] for label in uniques.tolist()), -1])
        codes = renumber[found]
    codes = codes.astype(np.int64)
    if (codes < 0).any():
        where = f"column {name!r}, row {int((codes < 0).argmax())}"
        raise DataError(missing_value(where, advice="Give missing values a level of their own"))
    there = np.unique(codes)
    renumber = np.full(len(labels), -1)
    renumber[there] = np.arange(len(there))
    return renumber[codes], [labels[k] for k in there]


def missing_value(where: str, value: float | str = "missing", advice: str = "Impute it") -> str:
    """Format the message about a missing or infinite value."""
    return (
        f"Input X contains NaN or infinity: {where} is {value}. {advice}, "
        "add an indicator of missingness, or drop the row."
    )


def refuse_blank_text(name: str, labels: Sequence[str], codes: np.ndarray) -> None:
    """Refuse text without a visible character, as databases write missing labels.

    It is sorted first, and would be the reference level.
    """
    blank = next((k for k, label in enumerate(labels) if is_blank(label)), None)
    if blank is not None:
        raise DataError(
            f"Column {name!r} is blank in row {int((codes == blank).argmax())}; name the level of "
            "missing values, such as 'unknown', or drop the row."
        )


def refuse_text_of_numbers(name: str, labels: Sequence[str]) -> None:
    """Refuse text of which every level is a number."""
    if all(_is_number(label) for label in labels):
        raise DataError(
            f"Column {name!r} has numbers as text, such as {labels[0]!r}; convert it to numbers "
            "(pandas.to_numeric, polars' cast) or, if they are labels, to a categorical type."
        )


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
