"""The text of a specification as parsed JSON, with faults of the text as sentences."""

from __future__ import annotations

import json
from pathlib import Path

from steropes.errors import DataError
from steropes.studies.settings.settings_reader import once_each

__all__ = ["parsed_json", "specification_values"]

MOST_BYTES = 100_000_000  # Published specifications have up to two million bytes.


def specification_values(path: str | Path) -> dict[str, object]:
    """Read the file of a specification.

    Parameters
    ----------
    path : str or Path
        A JSON file.

    Raises
    ------
    DataError
        The file cannot be read, or is not a JSON object.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path}: no specification has more than {MOST_BYTES:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    values = parsed_json(_decoded(content, path), str(path))
    if not isinstance(values, dict):
        raise DataError(f"{path}: a specification is a JSON object, not a {_kind(values)}")
    return values


def _decoded(content: bytes, path: Path) -> str:
    """Decode a text in UTF-8, or as R on Windows writes it."""
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise DataError(f"{path}: the file is neither UTF-8 nor Windows-1252")


def parsed_json(text: str, name: str) -> object:
    """Parse JSON; a name that occurs twice in one object is an error.

    Raises
    ------
    DataError
        The text is not JSON; the message begins with ``name``.
    """
    try:
        return json.loads(text, object_pairs_hook=once_each, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        ended = " (the text ends too early)" if error.pos >= len(text.rstrip()) else ""
        raise DataError(f"{name}, line {error.lineno}: {error.msg}{ended}") from None
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except RecursionError:
        raise DataError(f"{name}: the JSON is nested too deeply") from None
    except ValueError:  # A number has thousands of digits.
        raise DataError(f"{name}: a number has too many digits") from None


def _refuse_constant(word: str) -> object:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise DataError(f"{word} is not a value of JSON")


def _kind(value: object) -> str:
    """Name the JSON type of a value."""
    names = {list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
