"""Settings from TOML or JSON: dataclasses from plain values, and errors that name the line."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import json
import re
import types
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from steropes.errors import DataError
from steropes.studies.database.dates import calendar_date
from steropes.studies.report.plain_text import plain_text

__all__ = ["Source", "build", "convert", "must_be_list", "schema_of", "schema_part"]

Place = tuple[str | int, ...]
MOST_BYTES = 20_000_000  # of a specification; large published ones have two million
MOST_PARTS = 20  # of a dotted name; settings are nested five deep
HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
KEY = re.compile(r"^\s*([A-Za-z0-9_\-\"'.]+)\s*=")


class Source:
    """A text of settings, and where in it each value stands.

    Parameters
    ----------
    text : str
    name : str
        What messages call it.
    kind : "toml" or "json"
    """

    def __init__(self, text: str, name: str, kind: Literal["toml", "json"]) -> None:
        self.name, self.text = name, text
        if kind == "json":
            try:
                self.values = json.loads(text, object_pairs_hook=_once)
                # of a text of one line, such as values given as such, there is no telling
                self._lines = _json_lines(text) if "\n" in text.strip() else {}
            except json.JSONDecodeError as error:
                hint = _word_hint(text[error.pos :], "null")
                raise DataError(f"{name}, line {error.lineno}: {error.msg}{hint}") from None
            except RecursionError:
                raise DataError(f"{name}: lists are nested too deeply to be settings") from None
            except DataError as error:
                raise DataError(f"{name}: {error}") from None
            except ValueError:  # a number of thousands of digits
                raise DataError(f"{name}: a number has too many digits to be a setting") from None
        else:
            import tomllib

            _refuse_long_names(text, name)
            try:
                self.values = tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                raise DataError(f"{name}: {error}{_toml_hint(text, str(error))}") from None
            except RecursionError:
                raise DataError(f"{name}: lists are nested too deeply to be settings") from None
            except ValueError:
                raise DataError(f"{name}: a number has too many digits to be a setting") from None
            self._lines = _toml_lines(text)
        if not isinstance(self.values, dict):
            raise DataError(f"{name}: settings must be a table of names and values")
        self._check_values(self.values, ())

    def _check_values(self, value: Any, place: Place) -> None:
        """Refuse texts that would act on a terminal, and whole numbers beyond 64 bits."""
        if isinstance(value, str) and plain_text(value) != value:
            raise DataError(f"{self.where(place)}: the text has control characters; remove them")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise DataError(f"{self.where(place)}: the number does not fit into 64 bits")
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self._check_values(name, place)
                self._check_values(inner, (*place, name))
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                self._check_values(inner, (*place, number))

    @classmethod
    def read(cls, path: str | Path) -> Source:
        """Read a file; its ending says which kind it is."""
        path = Path(path)
        if path.suffix not in (".toml", ".json"):
            raise DataError(f"{path}: a specification is a .toml or a .json file")
        try:
            if path.stat().st_size > MOST_BYTES:
                raise DataError(f"{path}: no specification has more than {MOST_BYTES:,} bytes")
            text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise DataError(f"{path}, line {line}: not UTF-8; save the file in that") from None
        return cls(text, path.name, "toml" if path.suffix == ".toml" else "json")

    def where(self, place: Place) -> str:
        """The line of a value, for messages; of its table if it has none of its own."""
        at = place
        while at and at not in self._lines:
            at = at[:-1]
        named = ".".join(str(p) if isinstance(p, str) else f"[{p + 1}]" for p in place)
        line = f", line {self._lines[at]}" if at else ""
        return f"{self.name}{line}{f' ({named})' if named else ''}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON, in which each name may stand once; Python would take the last one."""
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the name {twice!r} is there twice in one table; remove one of the two")
    return table


def _toml_hint(text: str, error: str) -> str:
    """What is probably meant where TOML cannot be read; empty if there is no telling."""
    place = re.search(r"at line (\d+), column (\d+)", error)
    if place is None:
        return ""
    line = text.splitlines()[int(place[1]) - 1]
    header = HEADER.match(line)
    if header and ("twice" in error or "overwrite" in error):
        return f": write [[{header[2]}]], with two pairs of brackets, for each one of several"
    return _word_hint(line[int(place[2]) - 1 :], "false")


def _word_hint(text: str, none: str) -> str:
    """What is meant by a word of another language that stands in the place of a value."""
    word = re.match(r"\s*([A-Za-z]+)", text)
    meant = {"null": none, "none": none, "nil": none, "true": "true", "false": "false"}
    found = meant.get(word[1].lower()) if word else None
    if word is None or found is None or found == word[1]:
        return ""
    return f"; {word[1]} is not a value here, write {found}" + (" for none" * (found == none))


def _refuse_long_names(text: str, name: str) -> None:
    """Refuse names of tables and settings of many parts, which take memory as their square."""
    for number, line in enumerate(text.splitlines(), 1):
        before = line.partition("=")[0]
        if before.count(".") > MOST_PARTS and "," not in before and '"' not in before:
            raise DataError(f"{name}, line {number}: a name has more than {MOST_PARTS} parts")


def _toml_lines(text: str) -> dict[Place, int]:
    """The line on which each table and key stands."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := HEADER.match(line):
            table = ()
            names = [n.strip().strip("\"'") for n in found[2].split(".")]
            for i, name in enumerate(names):
                table = (*table, name)
                if i == len(names) - 1 and found[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    table = (*table, counts[table])
            lines[table] = number
        elif found := KEY.match(line):
            names = [n.strip().strip("\"'") for n in found[1].split(".")]
            lines.setdefault((*table, *names), number)
    return lines


def _json_lines(text: str) -> dict[Place, int]:
    """The line on which each name, or value of a list, stands in a JSON text."""
    tokens = [(m[0], m.start()) for m in TOKEN.finditer(text)]
    ends = [m.start() for m in re.finditer("\n", text)]
    lines: dict[Place, int] = {}

    def walk(i: int, place: Place) -> int:
        """Go through the value that begins with a token; returns the token after it."""
        token, start = tokens[i]
        lines.setdefault(place, bisect_left(ends, start) + 1)
        i += 1
        if token not in ("{", "["):
            return i
        for n in itertools.count():
            if tokens[i][0] in ("}", "]"):
                return i + 1
            if tokens[i][0] == ",":
                i += 1
            at: Place = (*place, n)
            if token == "{":
                at = (*place, json.loads(tokens[i][0]))
                lines[at] = bisect_left(ends, tokens[i][1]) + 1
                i += 2
            i = walk(i, at)
        raise AssertionError

    walk(0, ())
    return lines


def build(cls: type, values: Any, source: Source, place: Place = ()) -> Any:
    """Build a dataclass from plain values.

    Raises
    ------
    DataError
        A name that the class does not have, a value of another type, or one that the class
        itself refuses; with the line.
    """
    if not isinstance(values, Mapping):
        raise DataError(f"{source.where(place)}: must be a table, not {values!r}")
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    made = {}
    for name, value in values.items():
        if name not in fields:
            known = ", ".join(fields)
            raise DataError(
                f"{source.where((*place, name))}: there is no setting {name!r}; there are {known}"
            )
        made[name] = convert(hints[name], value, source, (*place, name))
    required = [
        f.name
        for f in fields.values()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    gone = [name for name in required if name not in made]
    if gone:
        raise DataError(f"{source.where(place)}: {gone[0]} is missing")
    try:
        return cls(**made)
    except DataError as error:
        raise DataError(f"{source.where(place)}: {error}") from None


def convert(hint: Any, value: Any, source: Source, place: Place) -> Any:
    """A value of the type that a field has."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        options = [a for a in arguments if a is not type(None)]
        if value is False and bool not in options and type(None) in arguments:
            return None  # TOML has no null: `propensity = false` is none
        for option in options[:-1]:
            try:
                return convert(option, value, source, place)
            except DataError:
                continue
        return convert(options[-1], value, source, place)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _table(hint, value, source, place)
    if origin is tuple:
        inner = arguments[0]
        if isinstance(value, Mapping) and len(place) == 1 and dataclasses.is_dataclass(inner):
            raise DataError(f"{source.where(place)}: {must_be_list(str(place[0]))}")
        if not isinstance(value, list | tuple):
            value = [value]
        return tuple(convert(inner, v, source, (*place, i)) for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise DataError(f"{source.where(place)}: {_must_be_table(value, place)}")
        found: dict[Any, Any] = {}
        for k, v in value.items():
            key = int(k) if arguments[0] is int and re.fullmatch(r"-?\d+", str(k)) else k
            key = convert(arguments[0], key, source, (*place, k))
            if key in found:
                raise DataError(f"{source.where((*place, k))}: {key} is defined twice")
            found[key] = convert(arguments[1], v, source, (*place, k))
        return found
    if origin is Literal:
        if value not in arguments:
            allowed = ", ".join(map(repr, arguments))
            raise DataError(f"{source.where(place)}: must be one of {allowed}, not {value!r}")
        return value
    return _scalar(hint, value, source, place)


def _table(cls: type, value: Any, source: Source, place: Place) -> Any:
    """A dataclass from a table, or from the value of its first field alone, such as an id."""
    if isinstance(value, Mapping):
        return build(cls, value, source, place)
    if isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
        raise DataError(f"{source.where(place)}: {_must_be_table(value, place)}")
    first = dataclasses.fields(cls)[0].name
    try:
        return build(cls, {first: value}, source, place)
    except DataError as error:
        if not isinstance(value, bool | str) or not place or isinstance(place[-1], int):
            raise
        raise DataError(
            f"{error}; {place[-1]} may be a table of settings, {first} alone, or (where there may "
            "be none) false"
        ) from None


def must_be_list(name: str) -> str:
    """That several tables of a name may be given, with the brackets that make a list of them."""
    return (
        f"must be a list of tables: write [[{name}]], with two pairs of brackets, for each of them "
        "(in JSON a list of objects)"
    )


def _must_be_table(value: Any, place: Place) -> str:
    """That a value must be a table, with the brackets of one where it is a list of tables."""
    if isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
        name = ".".join(str(p) for p in place)
        return f"must be one table: write [{name}], with one pair of brackets (in JSON an object)"
    return f"must be a table, not {value!r}"


def _scalar(hint: Any, value: Any, source: Source, place: Place) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is dt.date:
        try:
            return calendar_date("the value", value)
        except DataError as error:
            raise DataError(f"{source.where(place)}: {error}") from None
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if hint in names and (
        not isinstance(value, hint) or (hint is not bool and isinstance(value, bool))
    ):
        raise DataError(f"{source.where(place)}: must be {names[hint]}, not {value!r}")
    return value


def schema_of(cls: type) -> dict[str, Any]:
    """The JSON Schema of a dataclass and of those in it."""
    definitions: dict[str, Any] = {}
    root = schema_part(cls, definitions)
    name = root["$ref"].rsplit("/", 1)[1]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **definitions.pop(name),
        "$defs": definitions,
    }


def schema_part(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a type; those of its dataclasses are added to ``definitions``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_part(a, definitions) for a in arguments]}
    if origin is tuple:
        return {"type": "array", "items": schema_part(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_part(arguments[1], definitions)}
    if origin is Literal:
        return {"enum": list(arguments)}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            hints = get_type_hints(hint)
            properties, required = {}, []
            for f in dataclasses.fields(hint):
                properties[f.name] = schema_part(hints[f.name], definitions)
                if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                    required.append(f.name)
            definitions[hint.__name__] = {
                "type": "object",
                "description": (hint.__doc__ or "").strip().splitlines()[0],
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if hint is dt.date:
        return {"type": "string", "format": "date"}
    kinds = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
    return {"type": kinds[hint]}
