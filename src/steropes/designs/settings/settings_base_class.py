"""The base class of settings: frozen dataclasses whose fields are checked by their types."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Protocol,
    Self,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.settings.value_checks import (
    Check,
    CheckedByItself,
    Fault,
    InvalidError,
    Place,
    check_of,
    place_name,
)
from steropes.errors import DataError

__all__ = ["Settings"]

MOST_FAULTS = 5  # The number of faults that an error message lists.


class Source(Protocol):
    """Where values are from, such as a file."""

    def where(self, place: Place) -> str:
        """Describe the place of a value."""
        ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Settings(FieldsInHtml, CheckedByItself):
    """Base class of settings, which are frozen dataclasses with checked fields.

    Subclasses declare fields with types of `validated_types` and are created with positional or
    keyword arguments. Their ``__post_init__`` checks combinations of fields. Every error is a
    `DataError`.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the subclass a dataclass whose arguments are checked."""
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True)(cls)
        create = cls.__init__

        @functools.wraps(create)
        def create_or_refuse(self: Settings, *args: Any, **kwargs: Any) -> None:
            try:
                given = _arguments(cls, args, kwargs)
                create(self, **_checked_fields(cls, given, reading=False))
            except InvalidError as error:
                raise DataError(_python_message(cls, error.faults[0])) from None

        type.__setattr__(cls, "__init__", create_or_refuse)
        type.__setattr__(cls, "_create", create)

    @classmethod
    def read(cls, values: Any, source: Source, place: Place = ()) -> Self:
        """Create settings from values of a file.

        A table, or the value of the first field alone, stands for an object, and ``false`` for
        None, which TOML lacks.

        Parameters
        ----------
        values : mapping or value
            Values of the fields, or the value of the first field.
        source : Source
            The file, for the lines in error messages.
        place : tuple of str and int
            Place of the values in the file, for error messages.

        Returns
        -------
        Settings
            Settings of this class.

        Raises
        ------
        DataError
            A name is unknown, a required one is missing, or a value is invalid. The message has a
            line for each of the first faults, with its place in the file.
        """
        try:
            return cls._checked(values, reading=True)
        except InvalidError as error:
            found = error.faults[:MOST_FAULTS]
            lines = [f"{source.where((*place, *fault.place))}: {fault.text}" for fault in found]
            raise DataError("\n".join(dict.fromkeys(lines))) from None

    @classmethod
    def _checked(cls, value: Any, reading: bool) -> Self:
        """Return an object of the class; in files a table or its first value alone stands for it.

        Raises
        ------
        InvalidError
            The value does not, or values of the table are invalid.
        """
        names = [f.name for f in dataclasses.fields(cls)]
        if isinstance(value, cls):
            return value
        if not reading:
            why = f"must be an instance of {cls.__name__}, not {value!r}"
            raise InvalidError(Fault((), why))
        if isinstance(value, Mapping):
            _refuse_unknown(value, names)
            return cls._read(value)
        if isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            raise InvalidError(Fault((), _several_tables))
        try:
            return cls._read({names[0]: value})
        except InvalidError as error:
            if not isinstance(value, bool | str):
                raise
            alone = functools.partial(_value_alone, error.faults[0].text, names[0])
            raise InvalidError(Fault((), alone)) from None

    @classmethod
    def _read(cls, values: Mapping[str, Any]) -> Self:
        """Create an object from the values of a file, in which false stands for None."""
        none = {k for k, v in values.items() if v is False} & _optional(cls)
        fields = _checked_fields(cls, {**values, **dict.fromkeys(none)}, reading=True)
        made = object.__new__(cls)
        try:
            vars(cls)["_create"](made, **fields)
        except ValueError as error:
            raise InvalidError(Fault((), str(error))) from None
        return made


def _arguments(cls: type[Settings], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict:
    """Return arguments by the names of fields."""
    names = [f.name for f in dataclasses.fields(cls)]
    _refuse_unknown(kwargs, names)
    if len(args) > len(names):
        raise DataError(f"{cls.__name__} has {len(names)} settings, not {len(args)}")
    given = dict(zip(names, args, strict=False))
    if twice := given.keys() & kwargs.keys():
        raise DataError(f"{min(twice)} is given twice, by its position and by its name")
    return {**given, **kwargs}


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    """Return the types of the fields, which may be declared later than the class."""
    return get_type_hints(cls, include_extras=True)


@functools.cache
def _field_checks(cls: Any) -> list[tuple[str, Check, bool]]:
    """Return the fields with the checks of their values, and whether they have no default."""
    missing, hints = dataclasses.MISSING, _hints(cls)
    return [
        (f.name, check_of(hints[f.name]), f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(cls)
    ]


def _checked_fields(cls: Any, values: Mapping[str, Any], reading: bool) -> dict[str, Any]:
    """Check the values of fields; defaults are left out."""
    faults: list[Fault] = []
    made = {}
    for name, check, required in _field_checks(cls):
        if name in values:
            try:
                made[name] = check(values[name], reading)
            except InvalidError as error:
                faults += [fault.within(name) for fault in error.faults]
        elif required:
            faults.append(Fault((), f"{name} is missing"))
    if faults:
        raise InvalidError(*faults)
    return made


def _optional(cls: type[Settings]) -> set[str]:
    """Return the names of the fields that may be None and are not true or false."""
    kinds = {name: get_args(hint) for name, hint in get_type_hints(cls).items()}
    return {name for name, of in kinds.items() if NoneType in of and bool not in of}


def _refuse_unknown(given: Iterable[Any], known: list[str]) -> None:
    """Refuse a name that is not the name of a field, and suggest the nearest one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ";"
            why = f"there is no setting {name!r}{meant} The settings are {', '.join(known)}"
            raise InvalidError(Fault((name,), why))


def _python_message(cls: type[Settings], fault: Fault) -> str:
    """Format the fault of an argument, with the name of the argument."""
    place, why = fault.place, fault.text
    if len(place) > 1 and isinstance(place[1], int) and _is_mapping(cls, place[0]):
        place = (place[0], str(place[1]), *place[2:])  # an id, and no position
    return f"{place_name(place)}{'' if why.startswith('must') else ':'} {why}" if place else why


def _is_mapping(cls: type[Settings], name: str | int) -> bool:
    """Check whether a field is a table of values by id."""
    return get_origin(get_type_hints(cls)[str(name)]) is dict


def _several_tables(place: Place) -> str:
    """Explain that there may be one table only."""
    return (
        f"must be one table: write [{place_name(place)}], with one pair of brackets (in JSON an "
        "object)"
    )


def _value_alone(why: str, first: str, place: Place) -> str:
    """Explain which values may stand for an object in a file."""
    if isinstance(place[-1], int):
        return why
    return (
        f"{why}; {place[-1]} may be a table of settings, {first} alone, or (where there may be "
        "none) false"
    )
