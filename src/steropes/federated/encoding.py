"""Messages as bytes: JSON, or Parquet with one row an array."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import DataError
from .protocol import Message

__all__ = ["Format", "decode", "encode", "read_message", "write_message"]

Format = Literal["json", "parquet"]
HEAD = b"steropes"  # key of the plain values in a Parquet file's metadata


def encode(message: Message, kind: Format = "json") -> bytes:
    """A message as the bytes of a file."""
    if kind == "json":
        return json.dumps(message.to_dict()).encode()
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = message.to_dict()
    arrays = head.pop("arrays", {})
    table = pa.table(
        {
            "name": pa.array(list(arrays), pa.string()),
            "shape": pa.array([a["shape"] for a in arrays.values()], pa.list_(pa.int64())),
            "values": pa.array(
                [np.asarray(message.arrays[name], float).ravel() for name in arrays],
                pa.list_(pa.float64()),
            ),
        }
    ).replace_schema_metadata({HEAD: json.dumps(head).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def decode(content: bytes, where: str) -> Message:
    """Read a message; ``where`` is what errors call it.

    Raises
    ------
    DataError
        A file that is neither, cut off, or of another version.
    """
    message = Message.from_dict(_parsed(content, where), where)
    return message


def _parsed(content: bytes, where: str) -> Any:
    if content[:4] == b"PAR1":
        return _from_parquet(content, where)
    try:
        return json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataError(
            f"{where} cannot be read ({error}): it is neither JSON nor Parquet, or was cut off. "
            "Delete it and let the site answer again."
        ) from None


def _from_parquet(content: bytes, where: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(content))
        head = dict(json.loads((table.schema.metadata or {})[HEAD]))
        rows = table.to_pylist()
        arrays = {r["name"]: {"shape": r["shape"], "values": _numbers(r["values"])} for r in rows}
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{where} cannot be read as Parquet ({error}). Delete it and let the site answer again."
        ) from None
    return head if head.get("kind") == "refusal" else head | {"arrays": arrays}


def _numbers(values: list[float]) -> list[Any]:
    names = {np.inf: "Infinity", -np.inf: "-Infinity"}
    return ["NaN" if v != v else names.get(v, v) for v in values]


def read_message(path: Path) -> tuple[Message, int]:
    """Read a message from a file; returns it with its size in bytes."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    return decode(content, str(path)), len(content)


def write_message(message: Message, path: Path, kind: Format) -> Path:
    """Write a message, whole or not at all; returns its path."""
    path = path.with_suffix("." + kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # two may write at once
    part.write_bytes(encode(message, kind))
    part.replace(path)
    return path
