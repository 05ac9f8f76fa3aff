"""Values as R writes them to JSON, and errors that name their JSON path.

R writes a vector of one value as a scalar, an infinite number as "Inf", attributes of an object as
further names that begin with ``attr_``, and a data frame as an object of columns. Ids may be
padded texts.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from steropes.designs.settings.validated_types import LARGEST, LONGEST
from steropes.errors import DataError
from steropes.studies.formatting.text_safety import plain_text

__all__ = [
    "ATTRIBUTES",
    "CODE",
    "Flag",
    "Identifier",
    "Integer",
    "Items",
    "JsonPath",
    "LowerCase",
    "MaybeDays",
    "MaybeFlag",
    "MaybeIdentifier",
    "MaybeInteger",
    "MaybeNumber",
    "MaybeText",
    "Objects",
    "RDate",
    "RDays",
    "RModel",
    "RNumber",
    "Scalar",
    "Text",
    "json_path",
    "parsed",
    "table_rows", "within",
]  # fmt: skip

JsonPath = tuple[str | int, ...]
CODE = "serialized_code"  # The name under which R stores a function.
# Attributes of R's objects that no result depends on.
ATTRIBUTES = {"attr_class", "attr_row.names", "attr_spec"}
# Values in messages are cut to this many characters.
SHOWN = 60
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class RModel(BaseModel):
    """An object of a specification with the names of R's arguments.

    Names that the model does not declare are refused, except attributes without influence on
    results. A name that is missing has the value of its default, as NULL has in R.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, arbitrary_types_allowed=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_attributes(cls, values: object) -> object:
        """Drop attributes of R's objects; an empty list is an object without names."""
        if values == []:
            return {}
        if not isinstance(values, Mapping):
            raise ValueError(f"must be an object, not {_shown(values)}")
        if CODE in values:
            raise ValueError("is a function of R, which cannot be run")
        return {name: value for name, value in values.items() if name not in ATTRIBUTES}


def parsed(model: type[M], values: object, path: JsonPath) -> M:
    """Validate values of a specification.

    Parameters
    ----------
    values : Any
        Parsed JSON.
    path : tuple of str and int
        The path of the values in the file, for messages.

    Raises
    ------
    DataError
        A name is unknown or missing, or a value has the wrong type; the message has the JSON path.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [_message(detail, path) for detail in error.errors()[:3]]
        raise DataError("; ".join(dict.fromkeys(lines))) from None


@contextmanager
def within(path: JsonPath) -> Iterator[None]:
    """Add a path to the message of a `DataError` that has none.

    Parameters
    ----------
    path : tuple of str and int
        The path of the values that are being translated.
    """
    try:
        yield
    except DataError as error:
        said, place = str(error), json_path(path)
        if said.startswith(place):
            raise
        raise DataError(f"{place}: {said}") from None


def json_path(path: JsonPath) -> str:
    """Format a path such as ``moduleSpecifications[2].settings``; items are counted from 0."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{plain_text(part)}" if text else part
    return text or "the file"


def table_rows(frame: object, path: JsonPath) -> list[dict[str, object]]:
    """Return the rows of a data frame that R has written, by columns or by rows.

    Raises
    ------
    DataError
        Columns differ in length, or the value is no data frame.
    """
    if frame is None or frame == []:
        return []
    if isinstance(frame, list) and all(isinstance(row, Mapping) for row in frame):
        return [dict(row) for row in frame]
    if not isinstance(frame, Mapping):
        raise DataError(f"{json_path(path)} must be a data frame, not {_shown(frame)}")
    columns = {k: _vector(v) for k, v in frame.items() if not k.startswith("attr_")}
    lengths = {len(v) for v in columns.values()}
    if len(lengths) > 1:
        raise DataError(f"{json_path(path)}: the columns of the data frame differ in length")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _message(detail: ErrorDetails, path: JsonPath) -> str:
    """Describe a fault with the JSON path of its value."""
    place = (*path, *(p for p in detail["loc"] if isinstance(p, str | int)))
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"{json_path(place)} is not known; steropes cannot tell whether results depend on it"
    if kind == "missing":
        return f"{json_path(place)} is missing"
    if kind == "value_error":
        return f"{json_path(place)} {detail['ctx']['error']}"
    words = {
        "literal_error": f"must be one of {detail.get('ctx', {}).get('expected', '')}",
        "list_type": "must be a list",
        "tuple_type": "must be a list",
        "dict_type": "must be an object",
        "model_type": "must be an object",
    }
    why = words.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])
    return f"{json_path(place)} {why}, not {_shown(value)}"


def _shown(value: object) -> str:
    """Format a value for a message, cut to a readable length."""
    text = plain_text(repr(value))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _scalar(value: object) -> object:
    """Return the only value of a vector of one; an empty one is NULL."""
    if isinstance(value, list):
        if len(value) > 1:
            raise ValueError(f"must be one value, not a list of {len(value)}")
        return value[0] if value else None
    return None if value == {} else value


def _vector(value: object) -> list[object]:
    """Return a vector as a list; NULL and {} are empty."""
    if value is None or value == {}:
        return []
    return value if isinstance(value, list) else [value]


def _integer(value: object) -> int:
    """Convert a scalar to a whole number of 64 bits; R pads ids to texts."""
    value = _scalar(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,19}\s*", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be a whole number, not {_shown(value)}")
    if not -LARGEST <= value <= LARGEST:
        raise ValueError("must fit into 64 bits")
    return value


def _identifier(value: object) -> int:
    """Convert a scalar to an id, which is not negative."""
    number = _integer(value)
    if number < 0:
        raise ValueError(f"must be an id, not {number}")
    return number


def _number(value: object) -> float:
    """Convert a scalar to a number, which may be infinite."""
    value = _scalar(value)
    if isinstance(value, str) and value.strip() in ("Inf", "-Inf"):
        return math.inf if value.strip() == "Inf" else -math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"must be a number, not {_shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("is too large to be a setting") from None


def _flag(value: object) -> bool:
    """Convert a scalar to true or false."""
    value = _scalar(value)
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _text(value: object) -> str:
    """Convert a scalar to text."""
    value = _scalar(value)
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {_shown(value)}")
    return value


def _lower_case(value: object) -> object:
    """Convert the text of a scalar to lower case, since R compares some choices without case."""
    value = _scalar(value)
    return value.lower() if isinstance(value, str) else value


def _date(value: object) -> dt.date | None:
    """Convert "20171201" or "2017-12-01" to a date; empty is none."""
    value = _scalar(value)
    if value is None or value == "":
        return None
    digits = re.sub(r"^(\d{4})-(\d\d)-(\d\d)(T00:00:00.*)?$", r"\1\2\3", str(value))
    try:
        if not re.fullmatch(r"\d{8}", digits):
            raise ValueError
        return dt.date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        raise ValueError(f"must be a date such as 20171201, not {_shown(value)}") from None


def _optional(convert: Callable[[object], object]) -> BeforeValidator:
    """Return the validator of a scalar that may be NULL."""

    def convert_unless_null(value: object) -> object:
        value = _scalar(value)
        return None if value is None else convert(value)

    return BeforeValidator(convert_unless_null)


def _objects(value: object) -> object:
    """Return a list of objects; one object alone is a list of one."""
    if value is None or value == {}:
        return []
    return [value] if isinstance(value, Mapping) else value


def _days(value: object) -> int:
    """Convert a scalar to days; R's users write numbers such as 9999999 for no limit."""
    return max(-LONGEST, min(LONGEST, _integer(value)))


Integer = Annotated[int, BeforeValidator(_integer)]
RDays = Annotated[int, BeforeValidator(_days)]
Identifier = Annotated[int, BeforeValidator(_identifier)]
RNumber = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Text = Annotated[str, BeforeValidator(_text)]
RDate = Annotated[dt.date | None, BeforeValidator(_date)]
Items = Annotated[tuple[T, ...], BeforeValidator(_vector)]
Objects = Annotated[tuple[T, ...], BeforeValidator(_objects)]
Scalar = BeforeValidator(_scalar)
LowerCase = BeforeValidator(_lower_case)
MaybeInteger = Annotated[int | None, _optional(_integer)]
MaybeDays = Annotated[int | None, _optional(_days)]
MaybeIdentifier = Annotated[int | None, _optional(_identifier)]
MaybeNumber = Annotated[float | None, _optional(_number)]
MaybeFlag = Annotated[bool | None, _optional(_flag)]
MaybeText = Annotated[str | None, _optional(_text)]
