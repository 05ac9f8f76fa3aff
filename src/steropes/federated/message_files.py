"""Messages as JSON files of limited size, which are never links and never overwritten."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from ..errors import DataError
from ..private_files import open_private
from .messages import Message

__all__ = [
    "LARGEST_FILE",
    "decode",
    "encode",
    "read_bytes",
    "read_json",
    "read_message",
    "write_new",
]

# The largest size of a file in bytes; parsed, a file of numbers needs ten times as much memory.
LARGEST_FILE = 64 << 20


def encode(message: Message) -> bytes:
    """Encode a message as the bytes of a file."""
    return json.dumps(message.to_dict(), allow_nan=False).encode()


def decode(content: bytes, where: str) -> Message:
    """Decode a message; ``where`` names it in errors.

    Raises
    ------
    DataError
        The content is too large, truncated, or of another version.
    """
    if len(content) > LARGEST_FILE:
        raise DataError(f"{where} has more than {LARGEST_FILE >> 20} MB, which no message needs")
    try:
        given = json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataError(
            f"{where} cannot be read ({error}): it is not JSON, or was truncated. Delete it and "
            "let the site answer again."
        ) from None
    except ValueError:  # an integer with more digits than Python converts
        raise DataError(f"{where} has a number with too many digits") from None
    return Message.from_dict(given, where)


def read_bytes(path: Path) -> bytes:
    """Read a regular file of limited size, without following a link."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        at = os.open(path, flags)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(at)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"{path} is not a regular file")
        if found.st_size > LARGEST_FILE:
            raise DataError(f"{path} has more than {LARGEST_FILE >> 20} MB, which no message needs")
        with open(at, "rb", closefd=False) as file:
            return file.read(LARGEST_FILE + 1)
    finally:
        os.close(at)


def read_json(path: Path) -> object:
    """Read a JSON file."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def read_message(path: Path) -> tuple[Message, int]:
    """Read a message from a file; returns it with its size in bytes."""
    content = read_bytes(path)
    return decode(content, str(path)), len(content)


def write_new(path: Path, content: bytes, private: bool = False) -> Path:
    """Write a new file atomically.

    Parameters
    ----------
    private : bool
        Whether only its owner can read it.

    Raises
    ------
    DataError
        A file or link of this name exists.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

    def new(name: Path) -> int:
        return open_private(name, flags) if private else os.open(name, flags, 0o666)

    with os.fdopen(new(part), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        raise DataError(f"{path} exists already and is not overwritten") from None
    except OSError:  # a file system without links
        with os.fdopen(new(path), "wb") as file:
            file.write(content)
    finally:
        part.unlink()
    return path
