"""Data of the page: columns of tables as JSON, compressed and as text that HTML cannot misread."""

from __future__ import annotations

import base64
import gzip
import json
import math
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.report.plain_text import plain_text
from steropes.studies.viewer.views import Column, View

__all__ = ["decoded", "encoded", "view_record"]

DIGITS = 6  # Significant digits of numbers, more than released estimates have.
TEXTS = ("text", "choice", "long")


def view_record(view: View) -> dict[str, object]:
    """Return a view as values for JSON: its description, and its data by columns.

    A column of texts is a list of distinct texts and the place of each row's text in it. Missing
    numbers are None and infinite ones texts.
    """
    data, kinds = view.data(), {c.name: c for c in view.columns}
    return {
        "name": view.name,
        "title": view.title,
        "group": view.group,
        "intro": view.intro,
        "chart": view.chart,
        "columns": [[c.name, c.title, c.kind] for c in view.columns],
        "rows": len(data),
        "data": {name: _column(data[name], kinds.get(name)) for name in data.columns},
    }


def encoded(record: dict[str, object]) -> str:
    """Compress a record and encode it in the letters of base64.

    No text of the data, such as "</script>", can then end the element that contains it.
    """
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def decoded(text: str) -> dict[str, object]:
    """Decode a record that `encoded` made."""
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(text)))
    return found


def _column(values: pd.Series, described: Column | None) -> dict[str, Any]:
    """Encode the values of a column."""
    kind = "text" if described is None else described.kind
    if kind in TEXTS or (kind == "id" and not pd.api.types.is_numeric_dtype(values)):
        codes, unique = pd.factorize(values, use_na_sentinel=True)
        return {"texts": [plain_text(str(v)) for v in unique], "at": codes.tolist()}
    return {"numbers": _numbers(values)}


def _numbers(values: pd.Series) -> list[object]:
    """Round numbers to significant digits; whole numbers stay whole."""
    x = pd.to_numeric(values).astype(float).to_numpy(dtype=float, na_value=math.nan)
    finite = np.isfinite(x)
    whole = finite & (x == np.round(x)) & (np.abs(x) < 2**53)
    found: list[Any] = []
    for value, is_finite, is_whole in zip(x.tolist(), finite, whole, strict=True):
        if is_whole:
            found.append(int(value))
        elif is_finite:
            found.append(float(f"{value:.{DIGITS}g}"))
        else:
            found.append(None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    return found
