"""Checks of the values of settings by their types, in Python and in files."""

from __future__ import annotations

import datetime as dt
import functools
import numbers
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol, Self, TypeGuard, Union, get_args, get_origin

__all__ = [
    "After",
    "Before",
    "Check",
    "CheckedByItself",
    "Fault",
    "InvalidError",
    "Place",
    "PlacedError",
    "check_of",
    "is_checked_by_itself",
    "place_name",
]  # fmt: skip

Place = tuple[str | int, ...]
# A function of a value, and of whether it is from a file, which returns the value to store.
Check = Callable[[Any, bool], Any]


@dataclass(frozen=True)
class Fault:
    """A value that cannot be used.

    Attributes
    ----------
    place : tuple of str and int
        Its place within the value that was checked.
    why : str or callable
        The reason; a function of the place if the remedy depends on it.
    """

    place: Place
    why: str | Callable[[Place], str]

    @property
    def text(self) -> str:
        """The reason, as a sentence about the place."""
        return self.why if isinstance(self.why, str) else self.why(self.place)

    def within(self, part: str | int) -> Fault:
        """Return the fault of the value that contains the value as a part."""
        return replace(self, place=(part, *self.place))


class InvalidError(Exception):
    """Raised with the faults of a value."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults


class PlacedError(ValueError):
    """Raised by a check whose fault is at a place within the value."""

    def __init__(self, why: str, *place: str | int) -> None:
        super().__init__(why)
        self.place = place


class CheckedByItself(ABC):
    """Base class of types that check their values, which are tables in files."""

    @classmethod
    @abstractmethod
    def _checked(cls, value: Any, reading: bool) -> Self:
        """Return an object of the class.

        Raises
        ------
        InvalidError
            The value does not stand for one.
        """


class Rule(Protocol):
    """A condition that ``Annotated`` adds to a type."""

    def around(self, check: Check) -> Check:
        """Return the check of a type with this rule, from the check without it."""
        ...


@dataclass(frozen=True)
class Before:
    """A conversion before a value is checked.

    Attributes
    ----------
    convert : callable
        A function of the value that raises ValueError for values that it cannot convert.
    told : bool
        Whether its second argument is whether the value is from a file.
    """

    convert: Callable[..., Any]
    told: bool = False

    def around(self, check: Check) -> Check:
        """Return a check that converts the value first."""

        def converted(value: Any, reading: bool) -> Any:
            more = (reading,) if self.told else ()
            return check(_tried(self.convert, value, *more), reading)

        return converted


@dataclass(frozen=True)
class After:
    """A function of a checked value that returns it, or raises ValueError."""

    require: Callable[[Any], Any]

    def around(self, check: Check) -> Check:
        """Return a check that applies the function last."""
        return lambda value, reading: _tried(self.require, check(value, reading))


@functools.cache
def check_of(hint: Any) -> Check:
    """Return the check of the values of a type.

    Types are ``bool``, ``str``, ``int``, ``float``, dates, ``Literal``, tuples, mappings, unions,
    ``Annotated`` types with rules (`Before`, `After` and numbers of `validated_types`), and
    subclasses of `CheckedByItself`, which are settings.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        check = check_of(parts[0])
        for rule in hint.__metadata__:
            check = rule.around(check)
        return check
    if origin in (Union, types.UnionType):
        return functools.partial(
            _checked_union, [check_of(p) for p in parts if p is not type(None)]
        )
    if origin is Literal:
        return functools.partial(_checked_choice, parts)
    if origin is tuple and parts[-1] is ...:
        return functools.partial(_checked_list, check_of(parts[0]), _has_tables(parts[0]))
    if origin is tuple:
        return functools.partial(_checked_tuple, [check_of(p) for p in parts])
    if origin in (dict, Mapping):
        return functools.partial(_checked_mapping, check_of(parts[0]), check_of(parts[1]))
    if is_checked_by_itself(hint):
        return hint._checked
    return functools.partial(_checked_kind, hint)


def place_name(place: Place) -> str:
    """Format a place, such as ``question.[1].target``; items of lists are counted from 1."""
    return ".".join(str(p) if isinstance(p, str) else f"[{p + 1}]" for p in place)


def _refused(why: str | Callable[[Place], str]) -> InvalidError:
    """Create the error of the value itself."""
    return InvalidError(Fault((), why))


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; its ValueError becomes the fault of the value."""
    try:
        return function(*arguments)
    except ValueError as error:
        place = error.place if isinstance(error, PlacedError) else ()
        raise InvalidError(Fault(place, str(error))) from None


def is_checked_by_itself(hint: Any) -> TypeGuard[type[CheckedByItself]]:
    """Check whether a type checks its values."""
    return isinstance(hint, type) and issubclass(hint, CheckedByItself)


def _has_tables(hint: Any) -> bool:
    """Check whether values of a type are tables in files."""
    return is_checked_by_itself(hint) or any(_has_tables(part) for part in get_args(hint))


def _checked_kind(kind: Any, value: Any, reading: bool) -> Any:
    """Check a value of a plain type; ``Any`` accepts all."""
    if kind is Any or (isinstance(value, kind) and (kind is bool) == isinstance(value, bool)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    words = {bool: "true or false" if reading else "True or False", str: "text",
             int: "a whole number", float: "a number", dt.date: "a date"}  # fmt: skip
    raise _refused(f"must be {words[kind]}, not {value!r}")


def _checked_choice(choices: tuple[Any, ...], value: Any, reading: bool) -> Any:
    """Check a value that is one of several; True is not 1."""
    for choice in choices:
        kind = numbers.Integral if isinstance(choice, int) else type(choice)
        if isinstance(value, kind) and value == choice and not isinstance(value, bool):
            return choice
    raise _refused(f"must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _checked_union(checks: list[Check], value: Any, reading: bool) -> Any:
    """Check a value that may be None or of one of several types."""
    if value is None:
        return None
    for check in checks[:-1]:
        try:
            return check(value, reading)
        except InvalidError:
            pass
    return checks[-1](value, reading)


def _checked_list(check: Check, tables: bool, value: Any, reading: bool) -> tuple[Any, ...]:
    """Check the items of a list, which may be tables in files."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise _not_a_list(value, reading, tables)
    return _all_checked([(i, check, item) for i, item in enumerate(value)], reading)


def _checked_tuple(checks: list[Check], value: Any, reading: bool) -> tuple[Any, ...]:
    """Check the items of a list of fixed length."""
    if not isinstance(value, list | tuple):
        raise _not_a_list(value, reading, tables=False)
    if len(value) != len(checks):
        raise _refused(f"must be a list of {len(checks)} values, not {len(value)}")
    parts = zip(range(len(checks)), checks, value, strict=True)
    return _all_checked(list(parts), reading)


def _checked_mapping(of_key: Check, of_value: Check, value: Any, reading: bool) -> dict[Any, Any]:
    """Check the keys and values of a table."""
    if not isinstance(value, Mapping):
        raise _refused(f"must be a table, not {value!r}")
    faults: list[Fault] = []
    made = {}
    for key, inner in value.items():
        found = []
        for check, part, more in ((of_key, key, ("[key]",)), (of_value, inner, ())):
            try:
                found.append(check(part, reading))
            except InvalidError as error:
                faults += [replace(f, place=(key, *more, *f.place)) for f in error.faults]
        if len(found) == 2:
            made[found[0]] = found[1]
    if faults:
        raise InvalidError(*faults)
    return made


def _all_checked(parts: list[tuple[int, Check, Any]], reading: bool) -> tuple[Any, ...]:
    """Check the items of a list; the error has the faults of all of them."""
    faults: list[Fault] = []
    made = []
    for at, check, item in parts:
        try:
            made.append(check(item, reading))
        except InvalidError as error:
            faults += [fault.within(at) for fault in error.faults]
    if faults:
        raise InvalidError(*faults)
    return tuple(made)


def _not_a_list(value: Any, reading: bool, tables: bool) -> InvalidError:
    """Create the error of a value that is no list; in a file it may be a table."""
    if not (isinstance(value, Mapping) and reading):
        return _refused(f"must be a list, not {value!r}")
    if tables:
        return _refused(_table_for_tables)
    return _refused(lambda place: f"must be a list, not a table: write {place[-1]} = [1, 2]")


def _table_for_tables(place: Place) -> str:
    """Explain how a list of tables is written."""
    header = ".".join(part for part in place if isinstance(part, str))
    return (
        f"must be a list of tables: write [[{header}]], with two pairs of brackets, for each "
        "of them (in JSON a list of objects)"
    )
