"""Validation of settings, with errors that state the requirement."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

from steropes.errors import DataError

__all__ = ["LONGEST", "concept", "concepts", "real", "share", "text", "whole", "yes_or_no"]

LARGEST = 2**63 - 1  # The largest BIGINT of the database.
LONGEST = 100_000  # Days: longer than any life, and well within the range of dates.


def whole(name: str, value: Any, low: int, high: int = LARGEST) -> None:
    """Raise unless a value is a whole number from ``low`` to ``high``."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or not low <= int(value) <= high
    ):
        raise DataError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def concept(name: str, value: Any) -> None:
    """Raise unless a value can be a concept id."""
    if isinstance(value, str):
        raise DataError(
            f"{name} must be a concept id, a whole number such as 1118084, not {value!r}; "
            "look up the id of a name in the table concept, or by steropes concepts"
        )
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or not 0 < int(value) <= LARGEST
    ):
        raise DataError(
            f"{name} must be a concept id, a whole number from 1 to {LARGEST}, not {value!r}"
        )


def concepts(name: str, values: Any) -> tuple[int, ...]:
    """Check concept ids and return them as a tuple."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DataError(f"{name} must be a list of concept ids, not {values!r}")
    values = tuple(values)
    for value in values:
        concept(f"every one of {name}", value)
    return tuple(int(v) for v in values)


def real(name: str, value: Any, low: float = 0.0, high: float = math.inf) -> None:
    """Raise unless a value is a finite number from ``low`` to ``high``."""
    limits = f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Real)
        or not (math.isfinite(float(value)) and low <= float(value) <= high)
    ):
        raise DataError(f"{name} must be a finite number {limits}, not {value!r}")


def share(name: str, value: Any) -> None:
    """Raise unless a value is a number from 0 to 1."""
    real(name, value, 0.0, 1.0)


def yes_or_no(name: str, value: Any) -> None:
    """Raise unless a value is True or False."""
    if not isinstance(value, bool):
        raise DataError(f"{name} must be True or False, not {value!r}")


def text(name: str, value: Any) -> None:
    """Raise unless a value is a string that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{name} must be a name, not {value!r}")
