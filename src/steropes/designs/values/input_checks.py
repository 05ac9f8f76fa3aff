"""Checks of scores, weights and tables of people that users pass in."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = [
    "refuse_missing",
    "require_arms",
    "require_flags",
    "require_numbers",
    "require_people",
    "require_weights",
    "rows_of",
]

# Columns of a table of people with few allowed values.
CODES = {"treated": (0, 1), "event": (0, 1, 2)}


def require_numbers(label: str, values: ArrayLike) -> NDArray:
    """Convert values to floats and raise unless all are finite.

    Parameters
    ----------
    label : str
        Name of the values, for the message.
    values : array_like, shape (n,)

    Raises
    ------
    DataError
        A value is missing, infinite or not a number; the message names its row.
    """
    given = np.asarray(values).ravel()
    if given.dtype.kind not in "biuf":
        numbers = pd.to_numeric(pd.Series(given), errors="coerce")
        given = numbers.to_numpy(dtype=float, na_value=np.nan)
    found: NDArray = given.astype(float)
    finite = np.isfinite(found)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{label}: row {row} (counted from 0) is missing, infinite or not a number; correct it "
            "or leave the row out"
        )
    return found


def refuse_missing(column: pd.Series, what: str) -> None:
    """Refuse a column with missing values; the message has their rows."""
    absent = column.isna().to_numpy(dtype=bool)
    if absent.any():
        raise DataError(f"{what} is missing in {rows_of(absent)}; leave these rows out.")


def rows_of(mask: NDArray) -> str:
    """Describe the rows of a mask: their number, and the first."""
    n = int(mask.sum())
    row = f"row {int(mask.argmax())} (counted from 0)"
    return row if n == 1 else f"{n:,} rows, first in {row}"


def require_flags(label: str, values: pd.Series) -> NDArray[np.bool_]:
    """Convert a column of True and False, or 1 and 0, and raise for other values."""
    known = values.isin([True, False]).to_numpy(dtype=bool)
    if not known.all():
        raise DataError(
            f"{label} must be true or false; it is not in row {int(np.argmin(known))} (counted "
            "from 0)."
        )
    return values.to_numpy(dtype=bool)


def require_arms(treated: ArrayLike, label: str = "treated") -> NDArray[np.int8]:
    """Convert arms to 1 for the target and 0 for the comparator, and raise for other values.

    Parameters
    ----------
    label : str, default "treated"
        Name of the values, for the message.
    """
    labels = np.asarray(treated)
    if labels.dtype.kind in "OUS":
        text = np.array([isinstance(x, str | bytes) for x in labels.ravel()], bool)
        if text.any():
            raise DataError(
                f"{label}: row {int(text.argmax())} (counted from 0) is text; give 1 for the "
                "target group and 0 for the comparator, such as (arm == 'drug') * 1"
            )
    found = require_numbers(label, treated)
    wrong = ~np.isin(found, CODES["treated"])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{label}: row {row} (counted from 0) must be 0 or 1, not {found[row]:g}; "
            "select the rows of two groups, with 1 for the target and 0 for the comparator"
        )
    return found.astype(np.int8)


def require_weights(weights: ArrayLike | None, n: int) -> None:
    """Raise unless weights are one finite number of at least 0 for each of n people."""
    if weights is None:
        return
    found = require_numbers("weights", weights)
    if len(found) != n:
        raise DataError(f"weights: {len(found)} weights for {n} people; numbers must agree")
    if (found < 0).any():
        raise DataError(f"weights: row {int(np.argmax(found < 0))} (counted from 0) is negative")


def require_people(people: pd.DataFrame, *columns: str) -> None:
    """Raise if a table of people has a value that no estimate can use.

    Parameters
    ----------
    columns : str
        Columns to check: ``treated`` must be 0 or 1, ``event`` 0, 1 or 2, and all others finite and
        not negative.

    Raises
    ------
    DataError
        A column is missing or has such a value; the message names column and row.
    """
    for column in columns:
        if column not in people:
            raise DataError(f"people need the column {column!r}")
        found = require_numbers(f"people, column {column!r}", people[column])
        wrong = ~np.isin(found, CODES[column]) if column in CODES else found < 0
        if wrong.any():
            row = int(np.argmax(wrong))
            wanted = " or ".join(map(str, CODES[column])) if column in CODES else "0 or more"
            raise DataError(
                f"people, column {column!r}: row {row} (counted from 0) must be {wanted}"
            )
