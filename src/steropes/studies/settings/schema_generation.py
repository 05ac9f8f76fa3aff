"""JSON Schemas of settings, with descriptions from the docstrings of their classes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from steropes.studies.settings.setting_fields import field_descriptions, first_paragraph

__all__ = ["schema_of"]

NO_DEFAULT = ("default", None)


def schema_of(cls: type) -> dict[str, object]:
    """Create the JSON Schema of files with the settings of a class.

    Instead of a table the value of its first field alone is valid, and ``false`` instead of null.
    """
    made = TypeAdapter(cls).json_schema(schema_generator=_DescribedSchema)
    definitions = made.pop("$defs", {})
    if "$ref" in made:
        made = definitions.pop(cls.__name__)
    parts = {name: _with_short_forms(part, definitions) for name, part in definitions.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_with_short_forms(made, definitions),
        "title": cls.__name__,
        "$defs": parts,
    }


class _DescribedSchema(GenerateJsonSchema):
    """A generator of schemas that describes classes and fields by their docstrings."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, object]:
        """Add the descriptions to the schema of a dataclass."""
        made, described = super().dataclass_schema(schema), field_descriptions(schema["cls"])
        for name, part in made["properties"].items():
            part.pop("title", None)
            if described.get(name):
                part["description"] = described[name]
        made.pop("title", None)
        return made | {"description": first_paragraph(schema["cls"])}


def _with_short_forms(node: object, definitions: dict[str, Any]) -> Any:
    """Add the forms that files may have: a first field alone, and false for null."""
    if isinstance(node, list):
        return [_with_short_forms(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        properties = definitions[node["$ref"].rsplit("/", 1)[1]]["properties"]
        first = {k: v for k, v in next(iter(properties.values())).items() if k != "default"}
        others = {k: v for k, v in node.items() if k != "$ref"}
        return {"anyOf": [{"$ref": node["$ref"]}, first], **others}
    made = {k: _with_short_forms(v, definitions) for k, v in node.items() if (k, v) != NO_DEFAULT}
    if {"type": "null"} in made.get("anyOf", ()) and {"type": "boolean"} not in made["anyOf"]:
        made["anyOf"].append({"const": False})
    return made
