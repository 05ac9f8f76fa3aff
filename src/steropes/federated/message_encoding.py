"""Encoding of the fields of messages as JSON, and checks of fields that are read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np

from ..errors import DataError

__all__ = [
    "NOT_FINITE",
    "Kind",
    "Value",
    "array_of_plain",
    "bits",
    "bits_of_value",
    "bytes_of_text",
    "checked_values",
    "one_of",
    "plain_array",
    "refuse_fields",
    "sorted_items",
]

# The kinds of messages.
Kind = Literal["request", "answer", "refusal", "withdrawal"]
# A plain value of a message.
Value = str | int | float | bool | list[Any]
T = TypeVar("T")
# Numbers that JSON cannot represent.
NOT_FINITE = {"Infinity": np.inf, "-Infinity": -np.inf}


def sorted_items(given: Mapping[str, T]) -> list[tuple[str, T]]:
    """Return the items of a mapping in the order of their names."""
    return sorted(given.items())


def bits(x: np.ndarray) -> str:
    """Convert doubles to 16 hexadecimal digits each, most significant first; −0 becomes 0."""
    return (x + 0.0).astype(">f8").tobytes().hex()


def bits_of_value(name: str, value: Value) -> str:
    """Convert a plain value to its text in the digest."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return bits(np.array(float(value)))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    raise DataError(f"a message's {name!r} must be a number, text, or a list of texts")


def refuse_fields(given: Mapping[str, object], kind: Kind, where: str) -> None:
    """Raise `DataError` for fields that are missing, of another type, or not allowed."""
    needed = {"schema": str, "kind": str, "study": str, "round": int, "ask": str}
    if kind == "request":
        needed |= {"id": str, "values": dict, "arrays": dict}
    else:
        needed |= {"site": str, "request": str, "signature": str}
    if kind == "answer":
        needed |= {"values": dict, "arrays": dict, "sums": str}
    if kind == "refusal":
        needed |= {"reasons": list}
    for name, of in needed.items():
        if not isinstance(given.get(name), of) or isinstance(given[name], bool):
            raise DataError(f"{where}: {name!r} is missing, or not of type {of.__name__}")
    odd = [name for name in given if name not in needed]
    if odd:
        raise DataError(f"{where}: a message of kind {kind!r} has no {odd[0]!r}")
    reasons = given.get("reasons", [""])
    if not isinstance(reasons, list) or not reasons or not all(isinstance(r, str) for r in reasons):
        raise DataError(f"{where}: 'reasons' must be one or more sentences")


def one_of(given: Mapping[str, object], name: str, allowed: tuple[T, ...], where: str) -> T:
    """Return a field that must have one of some values."""
    found = given.get(name)
    if found not in allowed:
        known = ", ".join(map(repr, allowed))
        raise DataError(f"{where}: {name!r} must be one of {known}, not {found!r}")
    return allowed[allowed.index(found)]


def checked_values(given: dict[str, Value], where: str) -> dict[str, Value]:
    """Validate plain values."""
    for name, value in given.items():
        try:
            bits_of_value(name, value)
        except (DataError, OverflowError):
            raise DataError(
                f"{where}: {name!r} must be a number, text, or a list of texts"
            ) from None
    return given


def bytes_of_text(given: Mapping[str, str], name: str, where: str) -> bytes:
    """Decode a field of bytes in base64."""
    try:
        return base64.b64decode(given.get(name, ""), validate=True)
    except (ValueError, binascii.Error):
        raise DataError(f"{where}: {name!r} must be bytes in base64") from None


def plain_array(x: np.ndarray) -> dict[str, list]:
    """Convert an array to its shape and values, which keep all digits."""
    x = np.asarray(x)
    flat = x.ravel().tolist()
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        flat = [v if np.isfinite(v) else ("Infinity" if v > 0 else "-Infinity") for v in flat]
    return {"shape": list(x.shape), "values": flat}


def array_of_plain(given: object, where: str) -> np.ndarray:
    """Create an array from its shape and values."""
    if not (isinstance(given, dict) and {"shape", "values"} <= given.keys()):
        raise DataError(f"{where}: an array is an object with shape and values")
    try:
        flat = [NOT_FINITE[v] if isinstance(v, str) else v for v in given["values"]]
        shape = given["shape"]
        if not all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in shape):
            raise TypeError("the shape is not of whole numbers")
        if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in flat):
            raise TypeError("not all are numbers")
        whole = all(isinstance(v, int) for v in flat)
        out = np.array(flat, np.int64 if whole and flat else np.float64)
        if np.isnan(out).any():
            raise ValueError("NaN is not a number of a message")
        return out.reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: its values do not make an array of its shape ({error})"
        ) from None
