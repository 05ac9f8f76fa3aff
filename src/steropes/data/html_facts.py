"""HTML representations of settings, curves and other results: a title and a table of facts."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

__all__ = ["FieldsInHtml", "TextInHtml", "facts_html"]

# A value whose text is longer (in characters) is abbreviated.
MAX_WIDTH = 120
# Collections with more entries are described by their size.
MAX_LISTED = 12


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
    """Describe a value in one line, without the entries of arrays and tables."""
    if isinstance(value, np.ndarray | pd.DataFrame | pd.Series | sparse.sparray):
        shape = " × ".join(f"{k:,}" for k in value.shape)
        return f"{type(value).__name__} of {shape}"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str):
        return value if len(value) <= MAX_WIDTH else f"{value[:MAX_WIDTH]}…"
    if isinstance(value, Mapping | Sequence | set | frozenset) and len(value) > MAX_LISTED:
        return f"{type(value).__name__} of {len(value):,}"  # may have an entry for each person
    text = repr(value)
    return text if len(text) <= 2 * MAX_WIDTH else f"{text[: 2 * MAX_WIDTH]}…"
