"""A request's id: a digest of all that is asked, which a site in any language can make again.

It is of text in which numbers are the bits of a double, so that nothing hangs on how a language
writes them. It tells a request that was changed or cut from one that was not; it is no signature,
as whoever changes a request on purpose can make the id that goes with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import DataError

__all__ = ["digest", "digested_text"]


def digested_text(
    schema: str, study: str, round_: int, ask: str, values: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> str:  # fmt: skip
    """The lines whose SHA-256 begins with the id; see the page on the protocol."""
    lines = [schema, f"study {study}", f"round {round_}", f"ask {ask}"]
    lines += [f"value {name} {_value(name, values[name])}" for name in sorted(values)]
    for name in sorted(arrays):
        x = np.asarray(arrays[name], np.float64)
        lines.append(f"array {name} {'x'.join(map(str, x.shape))} {_bits(x)}")
    return "".join(f"{line}\n" for line in lines)


def digest(
    schema: str, study: str, round_: int, ask: str, values: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> str:  # fmt: skip
    """The first 32 hexadecimal digits of the text's SHA-256."""
    text = digested_text(schema, study, round_, ask, values, arrays)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _value(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return _bits(np.array(float(value)))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    raise DataError(f"a request's {name!r} must be a number, text, or a list of texts")


def _bits(x: np.ndarray) -> str:
    """Doubles as 16 hexadecimal digits each, the sign's first; −0 is 0, and NaN is one number."""
    x = np.where(np.isnan(x), np.nan, x + 0.0)
    return x.astype(">f8").tobytes().hex()
