"""Types of settings: numbers within limits, dates and lists."""

from __future__ import annotations

import datetime as dt
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from steropes.designs.settings.value_checks import After, Before, Check, PlacedError
from steropes.designs.values.dates_and_ages import calendar_date, require_time_zone
from steropes.errors import DataError

__all__ = [
    "LARGEST", "LONGEST", "Age", "ById", "Count",
    "CovariateIds", "Day", "Days", "Folds", "Listed", "Name", "Number", "Offset", "OneOrMore",
    "Positive", "RiskDays", "Share", "TimeZone", "TrueRatio", "Whole", "YesNo",
]  # fmt: skip

LARGEST = 2**63 - 1  # The largest signed number of 64 bits, in which ids are stored.
LONGEST = 100_000  # Days: longer than any life, and well within the range of dates.
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Number:
    """A number between two limits, both inclusive; numpy's numbers are converted to Python's."""

    low: float = -math.inf
    high: float = math.inf

    abstract: ClassVar[Any] = numbers.Real
    kind: ClassVar[type] = float
    words: ClassVar[str] = "finite number"

    def check(self, value: Any) -> Any:
        """Return a value as a Python number, or raise ValueError with the requirement."""
        if isinstance(value, bool) or not isinstance(value, self.abstract):
            raise ValueError(f"must be a {self.words}, not {value!r}")
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise ValueError(f"must be a {self.words}{self.limits}, not {value!r}")
        return self.kind(value)

    def require(self, name: str, value: object) -> Any:
        """Return a value as a Python number, or raise DataError with the name of the value."""
        try:
            return self.check(value)
        except ValueError as error:
            raise DataError(f"{name} {error}") from None

    @property
    def limits(self) -> str:
        """The limits in words; empty without limits."""
        low, high = (_short(x) for x in (self.low, self.high))
        if low and high:
            return f" from {low} to {high}"
        return f" of {low} or more" if low else ""

    def around(self, check: Check) -> Check:
        """Return the check of a number with these limits, for ``Annotated`` types."""
        return Before(self.check).around(lambda value, reading: value)


@dataclass(frozen=True)
class Whole(Number):
    """A whole number between two limits, both inclusive."""

    low: int = -LARGEST - 1
    high: int = LARGEST

    abstract: ClassVar[Any] = numbers.Integral
    kind: ClassVar[type] = int
    words: ClassVar[str] = "whole number"


def _short(limit: float) -> str:
    """Format a limit; empty if it is infinite or the largest number of 64 bits."""
    unlimited = math.isinf(limit) or abs(limit) >= LARGEST
    return "" if unlimited else f"{limit:g}" if isinstance(limit, float) else str(limit)


def _listed(value: object, reading: bool) -> object:
    """Convert an iterable, or in files one value alone, to a tuple."""
    if isinstance(value, Mapping):
        return value  # One table is not a list of tables; the check of the list refuses it.
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(value)
    if reading:
        return (value,)
    raise ValueError(f"must be a list, not {value!r}")


def _one_or_more(value: object) -> object:
    """Convert one number or object alone to a tuple."""
    return value if isinstance(value, Iterable) else (value,)


def _by_id(value: object) -> object:
    """Convert the keys of a table, which are texts in files, to numbers."""
    if not isinstance(value, Mapping):
        return value
    found: dict[Any, Any] = {}
    for text, inner in value.items():
        key = int(text) if re.fullmatch(r"-?\d+", str(text)) else text
        if key in found:
            raise PlacedError(f"{key} is defined twice", text)
        found[key] = inner
    return found


def _name(value: str) -> str:
    """Return a text that is not blank."""
    if not value.strip():
        raise ValueError(f"must be a name, not {value!r}")
    return value


def _day(value: object, reading: bool) -> dt.date:
    """Return a calendar date; files may contain it as text."""
    try:
        return calendar_date("", value, text=reading)
    except DataError as error:
        raise ValueError(str(error).strip()) from None


Positive = Annotated[float, Number(0.0)]
TrueRatio = Annotated[float, Number(1e-6, 1e6)]
Share = Annotated[float, Number(0.0, 1.0)]
Count = Annotated[int, Whole(0)]
Folds = Annotated[int, Whole(2, 100)]
Repeats = Annotated[int, Whole(1, 1000)]
Days = Annotated[int, Whole(0, LONGEST)]
RiskDays = Annotated[int, Whole(1, LONGEST)]
Offset = Annotated[int, Whole(-LONGEST, LONGEST)]
Age = Annotated[int, Whole(0, 150)]
YesNo = bool
Name = Annotated[str, After(_name)]
TimeZone = Annotated[str, After(require_time_zone)]
Day = Annotated[dt.date, Before(_day, told=True)]
Listed = Annotated[tuple[V, ...], Before(_listed, told=True)]
OneOrMore = Annotated[Listed[V], Before(_one_or_more)]
ById = Annotated[dict[K, V], Before(_by_id)]
CovariateIds = Listed[Annotated[int, Whole()]]
