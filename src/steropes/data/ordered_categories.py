"""Categorical outcomes of pandas, polars and Arrow.

A pandas ``Categorical`` (or series, index or frame of one), a polars ``Enum`` and an ordered Arrow
dictionary list their categories in an order. This order counts and not that of the labels:
``Categorical(y, [3, 2, 1, 0], ordered=True)`` rises from 3 to 0. In classes it counts even if the
pandas type is not called ordered, as the order of the levels of R's factors does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from ..errors import DataError
from .array_conversion import as_series

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Categories",
    "categories_in_order",
    "ordered_categories",
    "refuse_other_category_order",
    "with_categories",
]


class Categories(NamedTuple):
    """Categories of n rows.

    Attributes
    ----------
    codes : (n,) int array
        Position of each row's category, −1 if it is missing.
    labels : list
        All categories in their order, including unused ones.
    ordered : bool
        Whether the type states that they rise from the first to the last.
    """

    codes: np.ndarray
    labels: list
    ordered: bool = True

    @property
    def ascend(self) -> bool:
        """Whether the labels are numbers in ascending order."""
        try:
            values = np.asarray(self.labels, np.float64)
        except (TypeError, ValueError):
            return False
        text = any(isinstance(label, str | bytes) for label in self.labels)
        return not text and bool((np.diff(values) > 0).all())

    def refuse_missing(self, what: str) -> None:
        """Refuse rows without a category."""
        if (self.codes < 0).any():
            i = int((self.codes < 0).argmax())
            raise DataError(f"{what} is missing in row {i}; drop the row.")


def ordered_categories(y: object) -> Categories | None:
    """Read ordered categories of any library; return None if y is anything else."""
    found = categories_in_order(y)
    return found if found is not None and found.ordered else None


def with_categories(y: object) -> np.ndarray | pd.Categorical:
    """Convert an outcome to an array whose rows can be selected, with its categories if any."""
    found = categories_in_order(y)
    if found is None:
        return np.asarray(y)
    return pd.Categorical.from_codes(found.codes, found.labels, ordered=found.ordered)


def categories_in_order(y: object) -> Categories | None:
    """Read categories that are listed in an order; return None if y is anything else.

    The categories of a polars ``Categorical`` and of other Arrow dictionaries are in the order in
    which a process or a file has met them. They are not read here.
    """
    if isinstance(y, pd.Categorical | pd.CategoricalIndex):
        y = pd.Series(y)
    elif isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    if isinstance(y, np.ndarray | list | tuple) or y is None:
        return None
    frame = nw.from_native(y, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if frame.shape[1] != 1:
            return None
        y = frame[:, 0].to_native()
    series = as_series(y)
    if series is None:
        return None
    dictionary = _arrow_dictionary(y)
    if dictionary is not None:
        plain = dictionary.to_pandas()
        return _from_pandas(plain) if plain.dtype.ordered else None
    if isinstance(y, pd.Series) and isinstance(y.dtype, pd.CategoricalDtype):
        return _from_pandas(y)
    if not isinstance(series.dtype, nw.Enum):
        return None
    labels = list(series.dtype.categories)
    codes = pd.Categorical(series.to_list(), categories=labels).codes
    return Categories(codes.astype(np.int64), labels)


def _from_pandas(y: pd.Series) -> Categories:
    """Read a pandas series of categories."""
    codes = np.asarray(y.cat.codes, np.int64)
    return Categories(codes, y.cat.categories.tolist(), bool(y.cat.ordered))


def _arrow_dictionary(y: object) -> pa.ChunkedArray | None:
    """Return an Arrow dictionary array, plain or in a pandas series; otherwise None."""
    if "pyarrow" not in sys.modules:
        return None
    import pyarrow as pa

    if isinstance(y, pd.Series):
        if not isinstance(y.dtype, pd.ArrowDtype):
            return None
        y = y.array.__arrow_array__()
    if not isinstance(y, pa.Array | pa.ChunkedArray) or not pa.types.is_dictionary(y.type):
        return None
    return pa.chunked_array([y]) if isinstance(y, pa.Array) else y


def refuse_other_category_order(y: object, what: str) -> None:
    """Refuse ordered categories of numbers in an order that differs from that of the numbers.

    This protects outcomes that are read as numbers, where the order of categories is ignored.
    """
    found = ordered_categories(y)
    if found is None or found.ascend:
        return
    if any(isinstance(label, str | bytes) for label in found.labels):
        return  # refused as text
    raise DataError(
        f"{what} holds ordered categories, {found.labels!r} from the lowest to the highest, which "
        f"is not the order of their numbers. Numbers are read here: pass {what}.astype(float) if "
        f"the labels are meant, or the codes of the categories."
    )
