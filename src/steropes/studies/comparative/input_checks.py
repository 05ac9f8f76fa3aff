"""Checks of scores, weights and tables of people that users pass in."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = ["require_numbers", "require_people", "require_weights"]

# The columns of a table of people, and the values that are allowed where these are few.
CODES = {"treated": (0, 1), "event": (0, 1, 2)}


def require_numbers(what: str, values: ArrayLike) -> NDArray:
    """Return values as floats, and refuse those that are not finite.

    Parameters
    ----------
    what : str
        Name of the values, for the message.
    values : array_like, shape (n,)

    Raises
    ------
    DataError
        A missing or infinite value, or one that is not a number; names its row.
    """
    numbers = pd.to_numeric(pd.Series(np.asarray(values).ravel()), errors="coerce")
    found = numbers.to_numpy(dtype=float, na_value=np.nan)
    finite = np.isfinite(found)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{what}: row {row} (counted from 0) is missing, infinite or not a number; correct it "
            "or leave the row out"
        )
    return found


def require_weights(weights: ArrayLike | None, n: int) -> None:
    """Refuse weights that are not one finite number of 0 or more for each of n people."""
    if weights is None:
        return
    found = require_numbers("weights", weights)
    if len(found) != n:
        raise DataError(f"weights: {len(found)} weights for {n} people; one each is needed")
    if (found < 0).any():
        raise DataError(f"weights: row {int(np.argmax(found < 0))} (counted from 0) is negative")


def require_people(people: pd.DataFrame, *columns: str) -> None:
    """Refuse a table of people with a value that no estimate can use.

    Parameters
    ----------
    people : DataFrame
    columns : str
        Those that are read: ``treated`` has to be 0 or 1, ``event`` 0, 1 or 2, and all others
        finite and not negative.

    Raises
    ------
    DataError
        A column that is not there, or such a value; names column and row.
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
                f"people, column {column!r}: row {row} (counted from 0) has to be {wanted}"
            )
