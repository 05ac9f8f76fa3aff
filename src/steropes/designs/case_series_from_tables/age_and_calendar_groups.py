"""Groups of age, season and calendar time as columns of the model."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series.calendar_time_splines import first_day, month_of
from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series.series_column_descriptions import GROUP, Column
from steropes.designs.values.dates_and_ages import calendar_date
from steropes.errors import DataError

__all__ = ["TimeGroups", "age_groups", "calendar_groups", "season_groups"]

MONTH_AND_DAY = re.compile(r"(\d{1,2})-(\d{1,2})")


@dataclass(frozen=True)
class TimeGroups:
    """Segments of time that belong to groups, relative to the first group with an event.

    Attributes
    ----------
    kind : {"age", "season", "calendar"}
    names : list of str
        Names of all groups.
    bounds : (k,) int array
        First days of the segments after the first.
    group : (k + 1,) int array
        Group of each segment.
    origin : (n,) int array
        Day 0 of each case on the scale of the bounds.
    """

    kind: str
    names: list[str]
    bounds: NDArray
    group: NDArray
    origin: NDArray

    def reference(self, cases: Cases) -> int:
        """Return the first group with an event."""
        day = self.origin[cases.outcome_case] + cases.outcome_day
        return int(self.group[np.searchsorted(self.bounds, day, side="right")].min())

    def columns(self, cases: Cases) -> list[Column]:
        """Return the columns of the groups other than the reference."""
        reference = self.reference(cases)
        return [Column(name, GROUP) for g, name in enumerate(self.names) if g != reference]

    def spans(self, cases: Cases) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return case, column, first and last day of the groups other than the reference."""
        low = self.origin + cases.start
        high = self.origin + cases.end
        a = np.searchsorted(self.bounds, low, side="right")
        counts = np.searchsorted(self.bounds, high, side="right") - a + 1
        case = np.repeat(np.arange(len(cases)), counts)
        begins = np.concatenate([[0], np.cumsum(counts)])[:-1]
        segment = np.arange(len(case)) - np.repeat(begins - a, counts)
        first, last = low[case], high[case]
        inner, outer = segment > 0, segment < len(self.bounds)
        first[inner] = np.maximum(first[inner], self.bounds[segment[inner] - 1])
        last[outer] = np.minimum(last[outer], self.bounds[segment[outer]] - 1)
        reference, group = self.reference(cases), self.group[segment]
        kept = group != reference
        column = group - (group > reference)
        shift = self.origin[case]
        return case[kept], column[kept], (first - shift)[kept], (last - shift)[kept]


def age_groups(cuts: Any, cases: Cases) -> TimeGroups:
    """Make groups of age from the first days of later groups, or a number of quantile groups."""
    ages = np.floor(cases.age).astype(np.int64)
    if isinstance(cuts, Integral) and not isinstance(cuts, bool):
        count = int(cuts)
        if count < 2:
            raise DataError(f"age must be two groups or more, or a list of ages, not {cuts!r}.")
        _, first = np.unique(cases.person[cases.outcome_case], return_index=True)
        at = ages[cases.outcome_case[first]] + cases.outcome_day[first]
        found = np.floor(np.quantile(at, np.arange(1, count) / count)).astype(np.int64)
        bounds = np.unique(found)
    else:
        bounds = _ascending("age", cuts, "ages in days, such as [427, 488]")
    names = [f"age below {bounds[0]}"]
    names += [f"age {a} to {b - 1}" for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    names.append(f"age from {bounds[-1]}")
    return TimeGroups("age", names, bounds, np.arange(len(bounds) + 1), ages)


def season_groups(firsts: Any, cases: Cases) -> TimeGroups:
    """Make groups of the season from the first days of each, as months or "month-day"."""
    found = [_month_and_day(x) for x in _sequence("season", firsts, 'months, or "04-15"')]
    if len(found) < 2 or sorted(set(found)) != found:
        raise DataError(
            "season must be the first days of two groups or more in ascending order, such as "
            f"[1, 4, 7, 10] or ['02-15', '08-15'], not {firsts!r}."
        )
    low = int((cases.observed + cases.start).min())
    high = int((cases.observed + cases.end).max())
    first, last = (int(m) // 12 for m in month_of(np.array([low, high])))
    years = range(first, last + 1)
    months = np.array([12 * year + month - 1 for year in years for month, _ in found])
    bounds = first_day(months) + np.array([day - 1 for _, day in found] * len(years))
    group = np.arange(len(bounds)) % len(found)
    names = [f"season from {m:02d}-{d:02d}" for m, d in found]
    return TimeGroups("season", names, bounds, np.append(len(found) - 1, group), cases.observed)


def calendar_groups(firsts: Any, cases: Cases) -> TimeGroups:
    """Make groups of calendar time from the first days of later groups."""
    dates = [calendar_date("calendar", x) for x in _sequence("calendar", firsts, "dates")]
    days = [int(np.datetime64(d, "D").astype(np.int64)) for d in dates]
    bounds = _ascending("calendar", days, "dates")
    names = [f"calendar time before {dates[0]}", *(f"calendar time from {d}" for d in dates)]
    return TimeGroups("calendar", names, bounds, np.arange(len(bounds) + 1), cases.observed)


def _ascending(name: str, values: Any, what: str) -> NDArray:
    """Convert ascending whole numbers."""
    found = _sequence(name, values, what)
    whole = all(isinstance(x, Integral) and not isinstance(x, bool) for x in found)
    if not found or not whole or any(b <= a for a, b in zip(found[:-1], found[1:], strict=True)):
        raise DataError(
            f"{name} must be the first days of the second and later groups in ascending order: "
            f"{what}, not {values!r}."
        )
    return np.array(found, np.int64)


def _sequence(name: str, values: Any, what: str) -> list[Any]:
    """Convert a sequence to a list."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence | range):
        raise DataError(f"{name} must be a list of {what}, or a Spline, not {values!r}.")
    return list(values)


def _month_and_day(value: Any) -> tuple[int, int]:
    """Convert a month, or text "month-day"."""
    if isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= 12:
        return int(value), 1
    match = MONTH_AND_DAY.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        month, day = int(match[1]), int(match[2])
        try:
            dt.date(2001, month, day)
        except ValueError:
            pass
        else:
            return month, day
    raise DataError(
        f"season has {value!r}; give months from 1 to 12, or days as 'month-day' such as '04-15' "
        "(29 February is not in every year)."
    )
