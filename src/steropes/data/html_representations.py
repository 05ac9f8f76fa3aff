"""HTML representations of settings, curves and other results: a title and a table of facts."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sized
from typing import Any

__all__ = ["SHOWN_ROWS", "FieldsInHtml", "TextInHtml", "facts_html"]

# A value whose text is longer (in characters) is abbreviated.
MAX_WIDTH = 120
# Collections with more entries are described by their size.
MAX_LISTED = 12
# Displays of results have at most this many rows of a table.
SHOWN_ROWS = 20


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Format a title and named facts as HTML."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<p><b>{html.escape(title)}</b></p><table>{lines}</table>"


class TextInHtml:
    """Base class of results whose ``repr`` describes them without data of single people."""

    def _repr_html_(self) -> str:
        """Format the text of ``repr`` as HTML."""
        text = html.escape(repr(self))
        name = html.escape(type(self).__name__)
        return f"<p>{text.replace(name, f'<b>{name}</b>', 1)}</p>"


class FieldsInHtml:
    """Base class of dataclasses that are represented by a table of their fields."""

    def _repr_html_(self) -> str:
        """Format the fields as HTML; arrays and tables are described by their sizes."""
        fields: Any = self
        facts = {
            field.name: _describe(getattr(self, field.name))
            for field in dataclasses.fields(fields)
            if field.repr
        }
        return facts_html(type(self).__name__, facts)


def _describe(value: object) -> str:
    """Describe a value in one line, without the entries of arrays, tables and long collections."""
    if isinstance(value, str):
        return value if len(value) <= MAX_WIDTH else f"{value[:MAX_WIDTH]}…"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if shape := getattr(value, "shape", ()):
        return f"{type(value).__name__} of {' × '.join(f'{k:,}' for k in shape)}"
    plain = isinstance(value, Mapping | list | tuple | TextInHtml | FieldsInHtml)
    if isinstance(value, Sized) and (len(value) > MAX_LISTED or not plain):
        return f"{type(value).__name__} of {len(value):,}"  # may have an entry for each person
    if isinstance(value, Mapping):
        text = ", ".join(f"{name!r}: {_entry(of)}" for name, of in value.items())
        text = f"{{{text}}}"
    elif isinstance(value, list | tuple):
        first, last = ("[", "]") if isinstance(value, list) else ("(", ")")
        last = "," + last if isinstance(value, tuple) and len(value) == 1 else last
        text = first + ", ".join(map(_entry, value)) + last
    else:
        text = repr(value)
    return text if len(text) <= 2 * MAX_WIDTH else f"{text[: 2 * MAX_WIDTH]}…"


def _entry(value: object) -> str:
    """Describe an entry of a short collection."""
    return repr(value) if isinstance(value, str) else _describe(value)
