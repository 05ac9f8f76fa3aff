"""What a setting must be, and the sentence said where it is not."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

from steropes.errors import DataError

__all__ = ["LONGEST", "concept", "concepts", "real", "share", "text", "whole", "yes_or_no"]

LARGEST = 2**63 - 1  # what a BIGINT of the database holds
LONGEST = 100_000  # days: beyond any life, well within the database's dates


def whole(name: str, value: Any, low: int, high: int = LARGEST) -> None:
    """Refuse what is not a whole number from ``low`` to ``high``."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or not low <= int(value) <= high
    ):
        raise DataError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def concept(name: str, value: Any) -> None:
    """Refuse what cannot be the id of a concept."""
    if isinstance(value, str):
        raise DataError(
            f"{name} must be a concept id, a whole number such as 1118084, not {value!r}; "
            "the table concept of the database tells the id of a name"
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
    """The concept ids as a tuple of their own."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DataError(f"{name} must be a list of concept ids, not {values!r}")
    values = tuple(values)
    for value in values:
        concept(f"every one of {name}", value)
    return tuple(int(v) for v in values)


def real(name: str, value: Any, low: float = 0.0, high: float = math.inf) -> None:
    """Refuse what is not a finite number from ``low`` to ``high``."""
    limits = f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Real)
        or not (math.isfinite(float(value)) and low <= float(value) <= high)
    ):
        raise DataError(f"{name} must be a finite number {limits}, not {value!r}")


def share(name: str, value: Any) -> None:
    """Refuse what is not a number from 0 to 1."""
    real(name, value, 0.0, 1.0)


def yes_or_no(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise DataError(f"{name} must be True or False, not {value!r}")


def text(name: str, value: Any) -> None:
    """Refuse what is not a string with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{name} must be a name, not {value!r}")
