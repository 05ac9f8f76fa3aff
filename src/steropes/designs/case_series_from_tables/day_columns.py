"""Columns of days: whole numbers, or dates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.values.dates_and_ages import as_days
from steropes.designs.values.input_checks import refuse_missing, rows_of
from steropes.errors import DataError

__all__ = ["DayColumns"]

# Kinds of whole numbers that tables may hold as objects.
NUMBERS = ("decimal", "integer", "floating", "mixed-integer-float")
# Bounds of days as numbers: a day of the year 9999 since any origin, with a margin.
FARTHEST = 10_000_000


@dataclass
class DayColumns:
    """Reads the columns of days of several tables, which are all numbers or all dates.

    Attributes
    ----------
    dates : bool or None
        Whether days are dates; None before the first column with a value.
    """

    dates: bool | None = None
    _first: str = ""
    _zones: dict[str, str] = field(default_factory=dict)

    def read(self, column: pd.Series, what: str) -> tuple[NDArray, NDArray]:
        """Return days as integers (0 where missing), since 1970-01-01 for dates, and a mask.

        Parameters
        ----------
        what : str
            Table and column, for messages.
        """
        missing = column.isna().to_numpy(dtype=bool)
        if missing.all():
            return np.zeros(len(column), np.int64), missing
        dates = not _is_number(column, what)
        if self.dates is None:
            self.dates, self._first = dates, what
        elif self.dates != dates:
            words = {True: "dates", False: "numbers"}
            raise DataError(
                f"{what} has {words[dates]}, but {self._first} has {words[self.dates]}; give all "
                "days as dates, or all as numbers of days on one scale, such as ages in days."
            )
        days = self._dates(column, what) if dates else _numbers(column, missing, what)
        return days, missing

    def read_dates(self, column: pd.Series, what: str) -> NDArray:
        """Return dates without missing values as days since 1970-01-01."""
        refuse_missing(column, what)
        if len(column) and _is_number(column, what):
            raise DataError(f"{what} must be dates, such as 2010-12-31, not numbers.")
        return self._dates(column, what)

    def _dates(self, column: pd.Series, what: str) -> NDArray:
        """Convert dates; refuse tables with different time zones, whose days would not agree."""
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            zone = str(column.dtype.tz)
            for other, of in self._zones.items():
                if other != zone:
                    raise DataError(
                        f"{what} has times of the time zone {zone}, but {of} has times of {other}; "
                        "convert all to one zone, because a day begins at its midnight."
                    )
            self._zones[zone] = what
        days = as_days(column, what)
        return np.where(np.isnat(days), np.datetime64(0, "D"), days).astype(np.int64)


def _is_number(column: pd.Series, what: str) -> bool:
    """Return whether a column has numbers."""
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        raise DataError(f"{what} must be dates or whole numbers of days, not {kind}.")
    if pd.api.types.is_numeric_dtype(kind):
        return True
    return pd.api.types.infer_dtype(column, skipna=True) in NUMBERS


def _numbers(column: pd.Series, missing: NDArray, what: str) -> NDArray:
    """Convert numbers to whole days."""
    values = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore"):
        wrong = ~missing & ~((values == np.floor(values)) & (np.abs(values) <= FARTHEST))
    if wrong.any():
        raise DataError(
            f"{what} must be whole numbers of days up to {FARTHEST:,}; it is not in "
            f"{rows_of(wrong)}. Round the days, or convert times to days."
        )
    return np.where(missing, 0, values).astype(np.int64)
