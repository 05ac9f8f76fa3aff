"""Calendar dates of values, time zones, birthdays, and ages in completed years.

A study counts days, so that every value with a time is converted to its local calendar date: for a
time with a time zone the date in that zone, for text the date that it begins with. The time zone of
the computer is never used.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.array_conversion import as_series
from steropes.errors import DataError

__all__ = [
    "DAYS_PER_YEAR",
    "AgeRule",
    "as_days",
    "birthday",
    "calendar_date",
    "require_time_zone",
]

# Average days of a year, in rates and in ages of R's packages.
DAYS_PER_YEAR = 365.25
# A year of age lasts from birthday to birthday or, as in R's packages, 365.25 days.
AgeRule = Literal["birthdays", "365.25 days"]
TEXT = re.compile(r"\s*(\d{4}-\d{2}-\d{2})(?:[T ]\d.*)?", re.DOTALL)
NO_DATE = np.datetime64("NaT", "D")


def as_days(values: Any, label: str) -> NDArray:
    """Convert values to an array of days, ``datetime64[D]``.

    Parameters
    ----------
    values : array_like, shape (n,)
        Dates, timestamps of any unit and time zone, or text such as "2010-12-31"; of NumPy, pandas,
        polars, pyarrow or Python. Missing values stay missing.
    label : str
        Name of the values, for error messages.

    Raises
    ------
    DataError
        A value is not a date. The message names its row and not the value, which may be that of a
        person.
    """
    values = _as_array(values)
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    if values.dtype.kind not in "OUST" and len(values):
        raise DataError(
            f"{label} must be dates, timestamps or text such as 2010-12-31, not {values.dtype}"
        )
    if {*map(type, values)} == {dt.date}:  # The usual and faster case, as from pyarrow.
        return values.astype("datetime64[D]")
    found = np.full(len(values), NO_DATE)
    for row, value in enumerate(values):
        try:
            found[row] = _day(value)
        except ValueError:
            raise DataError(
                f"{label} has a value that is not a date in row {row}; write dates like "
                "2010-12-31, and leave unknown dates missing"
            ) from None
    return found


def calendar_date(name: str, value: object, text: bool = True) -> dt.date:
    """Return the calendar date of a setting.

    Parameters
    ----------
    name : str
        Name of the setting, for error messages.
    value : date, datetime, Timestamp, datetime64 or str
        The local date of a datetime is used, whatever its time zone.
    text : bool, default True
        Whether text is accepted.

    Raises
    ------
    DataError
        The value is not a date.
    """
    try:
        day = _day(value) if text or not isinstance(value, str) else NO_DATE
    except ValueError:
        day = NO_DATE
    found = day.item()
    if not isinstance(found, dt.date):  # Missing, or beyond the years of Python's dates.
        raise DataError(f"{name} must be a date such as 2020-12-31, not {value!r}")
    return found


def birthday(born: NDArray, years: int) -> NDArray:
    """Return the days on which people complete some years of life.

    People born on 29 February have birthdays on 1 March in other years.

    Parameters
    ----------
    born : array of datetime64[D], shape (n,)
    """
    month = born.astype("datetime64[M]")
    return (month + np.timedelta64(12 * years, "M")).astype("datetime64[D]") + (born - month)


def _as_array(values: Any) -> NDArray:
    """Convert values to a NumPy array, with times in a time zone as local times."""
    series = as_series(values)
    if series is not None:  # The table may be from polars or pyarrow.
        values = series.to_pandas()
    if isinstance(values, pd.Index):
        values = values.to_series()
    if isinstance(values, pd.api.extensions.ExtensionArray):
        values = pd.Series(values)
    if isinstance(values, pd.Series):
        if isinstance(values.dtype, pd.DatetimeTZDtype):
            values = values.dt.tz_localize(None)
        kept = isinstance(values.dtype, np.dtype)
        return (values.to_numpy() if kept else values.to_numpy(dtype=object)).ravel()
    return np.asarray(values).ravel()


def _day(value: object) -> np.datetime64:
    """Return the local calendar day of a value.

    Raises
    ------
    ValueError
        The value is not a date.
    """
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[D]")
    if isinstance(value, str):
        shown = TEXT.fullmatch(value)
        if shown is None:
            raise ValueError
        return np.datetime64(shown[1], "D")
    if isinstance(value, dt.date) and value is not pd.NaT:
        return np.datetime64(dt.date(value.year, value.month, value.day), "D")
    if value is None or value is pd.NaT or value is pd.NA or value != value:
        return NO_DATE
    raise ValueError


def require_time_zone(name: object) -> str:
    """Return the name of a time zone.

    Raises
    ------
    DataError
        There is no such zone.
    """
    try:
        if isinstance(name, str):
            return zoneinfo.ZoneInfo(name).key
    except (KeyError, ValueError, OSError):  # Not found, an invalid path, or a folder.
        pass
    raise DataError(
        f'time_zone must be the name of a time zone, such as "UTC" or "Europe/Berlin", not {name!r}'
    )
