"""Files of settings in TOML or JSON, with the line of every value for error messages."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from steropes.designs.settings.value_checks import Place, place_name
from steropes.errors import DataError
from steropes.studies.formatting.text_safety import plain_text

__all__ = ["Source", "once_each"]

# The largest size of a specification; large published ones have two million bytes.
MOST_BYTES = 20_000_000
# The largest number of parts of a dotted name; settings are nested five deep.
MOST_PARTS = 20
HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
KEY = re.compile(r"^\s*([A-Za-z0-9_\-\"'.]+)\s*=")


class Source:
    """The values of a text of settings, and the line of each.

    Parameters
    ----------
    name : str
        Name of the file, for error messages.
    kind : {"toml", "json"}
    """

    def __init__(self, text: str, name: str, kind: Literal["toml", "json"]) -> None:
        self.name, self.text = name, text
        if kind == "json":
            try:
                self.values = json.loads(text, object_pairs_hook=once_each)
                # Lines are of no use in a text of one line, such as a mapping from Python.
                self._lines = _json_lines(text) if "\n" in text.strip() else {}
            except json.JSONDecodeError as error:
                hint = _word_hint(text[error.pos :], "null")
                raise DataError(f"{name}, line {error.lineno}: {error.msg}{hint}") from None
            except RecursionError:
                raise DataError(f"{name}: lists are nested too deeply to be settings") from None
            except DataError as error:
                raise DataError(f"{name}: {error}") from None
            except ValueError:  # A number has thousands of digits.
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

    def _check_values(self, value: object, place: Place) -> None:
        """Refuse texts with control characters, and whole numbers beyond 64 bits."""
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
        """Read a ``.toml`` or ``.json`` file."""
        path = Path(path)
        if path.suffix not in (".toml", ".json"):
            raise DataError(f"{path}: a specification is a .toml or a .json file")
        try:
            if path.stat().st_size > MOST_BYTES:
                raise DataError(f"{path}: no specification has more than {MOST_BYTES:,} bytes")
            text = path.read_text(encoding="utf-8-sig")  # Some editors begin a file with a mark.
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise DataError(f"{path}, line {line}: not UTF-8; save the file in UTF-8") from None
        return cls(text, path.name, "toml" if path.suffix == ".toml" else "json")

    def where(self, place: Place) -> str:
        """Describe the place of a value, with the line of the value or of its table."""
        values: Any = self.values
        known: list[str | int] = []
        for part in place:
            if isinstance(values, dict):  # Ids are numbers in settings and texts in files.
                known.append(str(part))
                values = values.get(str(part))
            elif isinstance(values, list) and isinstance(part, int) and part < len(values):
                known.append(part)
                values = values[part]
            else:  # A value alone stands for its table or list.
                break
        at = tuple(known)
        while at and at not in self._lines:
            at = at[:-1]
        named = place_name(tuple(known))
        line = f", line {self._lines[at]}" if at else ""
        return f"{self.name}{line}{f' ({named})' if named else ''}"


def once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Create a table of JSON; refuse repeated names, of which Python would take the last one."""
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the name {twice!r} occurs twice in one table; remove one of the two")
    return table


def _toml_hint(text: str, error: str) -> str:
    """Suggest a correction of text that is not TOML; empty if there is none."""
    place = re.search(r"at line (\d+), column (\d+)", error)
    if place is None:
        return ""
    line = text.splitlines()[int(place[1]) - 1]
    header = HEADER.match(line)
    if header and ("twice" in error or "overwrite" in error):
        return f": write [[{header[2]}]], with two pairs of brackets, for each one of several"
    return _word_hint(line[int(place[2]) - 1 :], "false")


def _word_hint(text: str, none: str) -> str:
    """Suggest the value that is meant by a word such as ``None``; empty if there is none."""
    word = re.match(r"\s*([A-Za-z]+)", text)
    meant = {"null": none, "none": none, "nil": none, "true": "true", "false": "false"}
    found = meant.get(word[1].lower()) if word else None
    if word is None or found is None or found == word[1]:
        return ""
    return f"; {word[1]} is not a value here, write {found}" + (" for none" * (found == none))


def _refuse_long_names(text: str, name: str) -> None:
    """Refuse dotted names of many parts, whose memory grows with the square of their number."""
    for number, line in enumerate(text.splitlines(), 1):
        before = line.partition("=")[0]
        if before.count(".") > MOST_PARTS and "," not in before and '"' not in before:
            raise DataError(f"{name}, line {number}: a name has more than {MOST_PARTS} parts")


def _toml_lines(text: str) -> dict[Place, int]:
    """Find the line of each table and key of a TOML text."""
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
    """Find the line of each name and each item of a list in a JSON text."""
    tokens = [(m[0], m.start()) for m in TOKEN.finditer(text)]
    ends = [m.start() for m in re.finditer("\n", text)]
    lines: dict[Place, int] = {}

    def walk(i: int, place: Place) -> int:
        """Visit the value that begins with token i; return the number of the token after it."""
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
