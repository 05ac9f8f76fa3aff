"""Type checks of settings that were read from a file."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from ..errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["read_fields", "refuse_type"]


def read_fields(settings: DataclassInstance) -> None:
    """Convert the lists of a frozen dataclass to tuples; raise `DataError` for wrong types."""
    hints = _types(type(settings))
    for f in fields(settings):
        value = getattr(settings, f.name)
        if isinstance(value, list):
            value = tuple(value)
            object.__setattr__(settings, f.name, value)
        refuse_type(f.name, value, hints[f.name])


@cache
def _types(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass."""
    return get_type_hints(kind)


def refuse_type(name: str, value: object, hint: object) -> None:
    """Raise `DataError` if a value does not have the type of its setting."""
    text = str(hint)
    options = get_args(hint)
    if text.startswith("tuple") and get_args(options[0]):  # of literals
        refuse_type(name, value, tuple[str, ...])
        assert isinstance(value, tuple)
        for item in value:
            refuse_type(name, item, options[0])
    elif "Literal" in text:
        allowed = [a for o in options for a in (get_args(o) or (o,)) if a is not type(None)]
        if value is None and type(None) in options:
            return
        if value not in allowed:
            raise DataError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    elif text.startswith("tuple"):
        of = options[0]
        kinds = (int, float) if of is float else (of,)
        if not isinstance(value, tuple) or any(
            not isinstance(v, kinds) or isinstance(v, bool) for v in value
        ):
            raise DataError(f"{name} must be a list of {of.__name__}, not {value!r}")
    elif hint is bool:
        if not isinstance(value, bool):
            raise DataError(f"{name} must be true or false, not {value!r}")
    elif hint in (int, float):
        kinds = (int, float) if hint is float else (int,)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise DataError(f"{name} must be a number, not {value!r}")
    elif not (isinstance(value, str) or (value is None and type(None) in options)):
        raise DataError(f"{name} must be text, not {value!r}")
