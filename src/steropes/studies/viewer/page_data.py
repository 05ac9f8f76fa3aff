"""Data of the page: columns of tables as JSON, compressed and as text that HTML cannot misread."""

from __future__ import annotations

import base64
import gzip
import json
import math
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.viewer.view_definition import Column, View

__all__ = ["encoded", "view_record"]

DIGITS = 6  # Significant digits of numbers, more than released estimates have.
TEXTS = ("text", "choice", "long")
# Types of packed columns, from the smallest; all browsers in use are little-endian.
WHOLE = ("<i1", "<i2", "<i4")
FLOAT = "<f8"
LENGTH, ALIGNMENT = 4, 8  # Bytes of the description's length, and of the widest type.


def view_record(view: View) -> dict[str, Any]:
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
        "columns": [[c.name, c.title, c.kind, int(c.important)] for c in view.columns],
        "rows": len(data),
        "data": {name: _column(data[name], kinds.get(name)) for name in data.columns},
    }


def encoded(record: dict[str, Any]) -> str:
    """Compress a record and encode it in the letters of base64.

    The numbers of a column are binary, so that browsers read them without parsing: first the length
    of a description in JSON, then the description, then the columns. No text of the data, such as
    "</script>", can end the element that contains the letters.
    """
    described: dict[str, dict[str, Any]] = {}
    parts: list[bytes] = []
    size = 0
    for name, column in record["data"].items():
        packed, about = _packed(column)
        described[name] = {**about, "offset": size}
        padding = -len(packed) % ALIGNMENT
        parts.append(packed + bytes(padding))
        size += len(packed) + padding
    text = json.dumps(
        {**record, "data": described}, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()
    text += b" " * (-(len(text) + LENGTH) % ALIGNMENT)
    whole = len(text).to_bytes(LENGTH, "little") + text + b"".join(parts)
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode()


def _packed(column: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Pack a column in the smallest type: whole numbers, multiples of a decimal unit, or floats.

    Missing numbers are the smallest number of a type of whole numbers, and NaN among floats.
    """
    if "texts" in column:
        kind = _smallest(0, len(column["texts"]))
        at = np.asarray(column["at"], kind)
        return at.tobytes(), {"texts": column["texts"], "type": kind}
    x = np.array([math.nan if v is None else float(v) for v in column["numbers"]], float)
    known = x[~np.isnan(x)]
    if np.isfinite(known).all():
        for digits in range(DIGITS + 1):
            scaled = np.round(known * 10**digits)
            if (scaled / 10**digits == known).all():
                low, high = (scaled.min(), scaled.max()) if len(known) else (0, 0)
                if max(-low, high) >= 2**31:
                    break
                kind = _smallest(low, high)
                whole = np.full(len(x), np.iinfo(kind).min, kind)
                whole[~np.isnan(x)] = scaled.astype(kind)
                return whole.tobytes(), {"type": kind, "scale": 10**digits}
    return x.tobytes(), {"type": FLOAT}


def _smallest(low: float, high: float) -> str:
    """Return the smallest type of whole numbers that also has a number for missing ones."""
    return next(t for t in WHOLE if np.iinfo(t).min < low and high <= np.iinfo(t).max)


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
