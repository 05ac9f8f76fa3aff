"""The base class of settings: frozen dataclasses whose fields pydantic validates."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, ClassVar, Self, dataclass_transform, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import (
    ArgsKwargs,
    CoreSchema,
    ErrorDetails,
    PydanticCustomError,
    SchemaValidator,
    core_schema,
)

from steropes.data.html_representations import FieldsInHtml
from steropes.errors import DataError
from steropes.studies.settings.settings_reader import Place, Source, place_name
from steropes.studies.settings.validated_types import READING, fault

__all__ = ["Settings"]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Settings(FieldsInHtml):
    """Base class of settings, which are frozen dataclasses with validated fields.

    Subclasses declare fields with types of `validated_types` and are created with positional or
    keyword arguments. Their ``__post_init__`` checks combinations of fields. Every error is a
    `DataError`.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __pydantic_validator__: ClassVar[SchemaValidator]

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the subclass a pydantic dataclass and its errors `DataError`."""
        super().__init_subclass__(**options)
        dataclass(cls, frozen=True, config=ConfigDict(extra="forbid"))
        create = cls.__init__

        @functools.wraps(create)
        def create_or_refuse(self: Settings, *args: Any, **kwargs: Any) -> None:
            try:
                create(self, *args, **kwargs)
            except ValidationError as error:
                raise DataError(_python_message(cls, error)) from None

        type.__setattr__(cls, "__init__", create_or_refuse)

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
            return cls.__pydantic_validator__.validate_python(values, context=READING)
        except ValidationError as error:
            found = [_explained(e, reading=True, cls=cls) for e in error.errors()[:5]]
            lines = [f"{source.where((*place, *at))}: {why}" for at, why in found]
            raise DataError("\n".join(dict.fromkeys(lines))) from None

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: Callable[[object], CoreSchema]
    ) -> CoreSchema:
        return core_schema.with_info_wrap_validator_function(cls._validated, handler(source))

    @classmethod
    def _validated(cls, data: Any, handler: Callable[[Any], Any], info: Any) -> Any:
        """Validate an object, its arguments, or in a file a table or its first value alone."""
        names = [f.name for f in dataclasses.fields(cls)]
        if isinstance(data, ArgsKwargs):
            _refuse_unknown(data.kwargs or {}, names)
            return handler(data)
        if isinstance(data, cls):
            return handler(data)
        if info.context != READING:
            raise ValueError(f"must be an instance of {cls.__name__}, not {data!r}")
        if isinstance(data, Mapping):
            _refuse_unknown(data, names)
            none = {k for k, v in data.items() if v is False} & _optional(cls)
            return handler({**data, **dict.fromkeys(none)})
        if isinstance(data, list) and any(isinstance(v, Mapping) for v in data):
            raise PydanticCustomError("one_table", "must be one table")
        try:
            return handler({names[0]: data})
        except ValidationError as error:
            if not isinstance(data, bool | str):
                raise
            why = _explained(error.errors()[0], reading=True)[1]
            raise PydanticCustomError("alone", "{why}", {"why": why, "first": names[0]}) from None


def _optional(cls: type) -> set[str]:
    """Return the names of the fields that may be None and are not true or false."""
    kinds = {name: get_args(hint) for name, hint in get_type_hints(cls).items()}
    return {name for name, of in kinds.items() if NoneType in of and bool not in of}


def _refuse_unknown(given: Mapping[Any, Any], known: list[str]) -> None:
    """Refuse a name that is not the name of a field, and suggest the nearest one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ";"
            raise fault(
                f"there is no setting {name!r}{meant} The settings are {', '.join(known)}", name
            )


def _python_message(cls: type[Settings], error: ValidationError) -> str:
    """Format the first fault of arguments, with the name of the argument."""
    place, why = _explained(error.errors()[0], reading=False)
    if place and isinstance(place[0], int):
        place = (dataclasses.fields(cls)[place[0]].name, *place[1:])
    if len(place) > 1 and get_origin(get_type_hints(cls)[str(place[0])]) is dict:
        place = (place[0], str(place[1]), *place[2:])  # an id, and no position
    return f"{place_name(place)}{'' if why.startswith('must') else ':'} {why}" if place else why


def _lists_tables(cls: type | None, place: Place) -> bool:
    """Check whether the setting at a place is a list of tables, rather than of single values."""
    classes: list[Any] = [cls]
    for part in place:
        if isinstance(part, str):
            hints = [get_type_hints(c, include_extras=True).get(part) for c in classes]
            classes = [c for hint in hints for c in _settings_in(hint)]
    return bool(classes)


def _settings_in(hint: object) -> list[type]:
    """List the classes of settings that a type contains."""
    own = [hint] if isinstance(hint, type) and issubclass(hint, Settings) else []
    return own + [c for part in get_args(hint) for c in _settings_in(part)]


def _explained(error: ErrorDetails, reading: bool, cls: type | None = None) -> tuple[Place, str]:
    """Return the place of a fault and a sentence about it."""
    kind, value, place = error["type"], error["input"], tuple(error["loc"])
    context, name = error.get("ctx", {}), place_name(place)
    choices = str(context.get("expected", "")).replace(" or ", ", ")
    words = {
        "bool_type": "true or false" if reading else "True or False",
        "literal_error": f"one of {choices}",
        "string_type": "text",
        "tuple_type": "a list",
        "dict_type": "a table",
    }
    if kind == "fault":
        return (*place, *context["at"]), context["why"]
    if kind == "value_error":
        return place, str(context["error"])
    if kind == "missing":
        return place[:-1], f"{place[-1]} is missing"
    if kind == "tuple_type" and isinstance(value, Mapping) and not _lists_tables(cls, place):
        return place, f"must be a list, not a table: write {place[-1]} = [1, 2]"
    if kind == "tuple_type" and isinstance(value, Mapping):
        header = ".".join(part for part in place if isinstance(part, str))
        return place, (
            f"must be a list of tables: write [[{header}]], with two pairs of brackets, for each "
            "of them (in JSON a list of objects)"
        )
    if kind == "one_table":
        return place, (
            f"must be one table: write [{name}], with one pair of brackets (in JSON an object)"
        )
    if kind == "alone":
        allowed = "may be a table of settings, {first} alone, or (where there may be none) false"
        item = isinstance(place[-1], int)
        return place, context["why"] + (
            "" if item else f"; {place[-1]} {allowed.format(**context)}"
        )
    return place, f"must be {words[kind]}, not {value!r}" if kind in words else error["msg"]
