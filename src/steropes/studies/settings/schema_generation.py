"""JSON Schemas of settings, with descriptions from the docstrings of their classes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from steropes.designs.settings.validated_types import LARGEST, Number
from steropes.designs.settings.value_checks import is_checked_by_itself
from steropes.studies.settings.setting_fields import first_paragraph, setting_fields

__all__ = ["schema_of"]

PLAIN: dict[Any, dict[str, object]] = {
    bool: {"type": "boolean"},
    dt.date: {"type": "string", "format": "date"},
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    Any: {},
}


def schema_of(cls: type) -> dict[str, object]:
    """Create the JSON Schema of files with the settings of a class.

    Instead of a table the value of its first field alone is valid, and ``false`` instead of null.
    """
    definitions: dict[str, dict[str, object]] = {}
    made = _class_schema(cls, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": cls.__name__,
        "$defs": {k: v for k, v in sorted(definitions.items()) if k != cls.__name__},
    }


def _class_schema(cls: Any, definitions: dict[str, dict[str, object]]) -> dict[str, object]:
    """Create the schema of the tables of a class, and those of the classes in its fields."""
    properties, required = {}, []
    for name, field in setting_fields(cls).items():
        made = _schema(field.hint, definitions)
        if _has_default(cls, name):
            if field.default is not None:
                made = made | {"default": _json(field.default)}
        elif field.default is dataclasses.MISSING:
            required.append(name)
        if field.description:
            made = made | {"description": field.description}
        properties[name] = made
    needed = {"required": required} if required else {}
    known = {"additionalProperties": False} if is_checked_by_itself(cls) else {}
    return {
        **known,
        "properties": properties,
        **needed,
        "type": "object",
        "description": first_paragraph(cls),
    }


def _schema(hint: Any, definitions: dict[str, dict[str, object]]) -> dict[str, object]:
    """Create the schema of the values of a type, with the short forms that files may have."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        number = next((m for m in hint.__metadata__ if isinstance(m, Number)), None)
        return _schema(parts[0], definitions) if number is None else _number(number)
    if origin in (Union, types.UnionType):
        made = [_schema(p, definitions) for p in parts if p is not type(None)]
        if type(None) not in parts:
            return {"anyOf": made}
        none: list[dict[str, object]] = [{"type": "null"}]
        return {"anyOf": made + none + [{"const": False}] * ({"type": "boolean"} not in made)}
    if origin is Literal:
        return {"enum": [*parts], "type": "string" if isinstance(parts[0], str) else "integer"}
    if origin is tuple and parts[-1] is ...:
        return {"items": _schema(parts[0], definitions), "type": "array"}
    if origin is tuple:
        items = [_schema(p, definitions) for p in parts]
        return {
            "maxItems": len(items), "minItems": len(items), "prefixItems": items, "type": "array",
        }  # fmt: skip
    if origin in (dict, Mapping):
        of_values = _schema(parts[1], definitions)
        return {"additionalProperties": of_values or True, "type": "object"}
    if hint in PLAIN:
        return PLAIN[hint]
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}  # It may contain itself.
        definitions[hint.__name__] = _class_schema(hint, definitions)
    first = next(iter(setting_fields(hint).values()))
    alone = _schema(first.hint, definitions)
    if "anyOf" in alone:  # A value alone is not false, which stands for no object at all.
        alone = alone | {"anyOf": [part for part in _parts(alone) if part != {"const": False}]}
    if first.description:
        alone = alone | {"description": first.description}
    return {"anyOf": [{"$ref": f"#/$defs/{hint.__name__}"}, alone]}


def _parts(schema: dict[str, Any]) -> list[dict[str, object]]:
    """Return the alternatives of a schema."""
    return list(schema["anyOf"])


def _number(number: Number) -> dict[str, object]:
    """Create the schema of a number within limits."""
    limits = {"minimum": number.low, "maximum": number.high}
    kind = "integer" if number.kind is int else "number"
    return {"type": kind} | {k: v for k, v in limits.items() if abs(v) < LARGEST}


def _has_default(cls: Any, name: str) -> bool:
    """Check whether a field has a default that is not created for each object."""
    return {f.name: f.default for f in dataclasses.fields(cls)}[name] is not dataclasses.MISSING


def _json(value: Any) -> Any:
    """Convert a default to values of JSON."""
    if dataclasses.is_dataclass(value):
        return {f.name: _json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_json(v) for v in value] if isinstance(value, tuple) else value
