"""Checks of single settings: numbers, whole numbers, flags and names of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from steropes.errors import DataError

__all__ = ["check_flag", "check_names", "check_real", "check_whole"]


def check_real(name: str, value: Any, fits: Callable[[float], bool], wanted: str) -> float:
    """Return a setting that is a number.

    Parameters
    ----------
    name : str
        Name of the setting.
    value : object
    fits : callable
        Returns whether a number is in the range; it must be False for NaN.
    wanted : str
        The values that are allowed, for the message.

    Raises
    ------
    DataError
        The value is no number, or out of range.
    """
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not number or not fits(float(value)):
        raise DataError(f"{name} must be {wanted}, not {value!r}.")
    return float(value)


def check_whole(name: str, value: Any, least: int) -> int:
    """Return a setting that is a whole number of ``least`` or more."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise DataError(f"{name} must be a whole number of {least} or more, not {value!r}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Return a setting that is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise DataError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def check_names(name: str, value: Any) -> list[str]:
    """Return a setting that is a list of names; a text is not, because its letters are."""
    several = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)
    if not several or not all(isinstance(each, str) for each in value):
        raise DataError(f"{name} must be a list of names, such as ['age'], not {value!r}.")
    return list(value)
