"""Messages as JSON files of limited size, which are never links and never overwritten."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..errors import DataError
from ..private_files import open_private
from .messages import Message

__all__ = [
    "LARGEST_FILE",
    "FileIsThereError",
    "decode",
    "encode",
    "read_bytes",
    "read_json",
    "read_message",
    "remove",
    "write_new",
]

# The largest size of a file in bytes; parsed, a file of numbers needs ten times as much memory.
LARGEST_FILE = 64 << 20


class FileIsThereError(DataError):
    """A new file has the name of one that exists."""


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


# Windows has no descriptors of folders; there each folder is only examined before it is used.
BY_DESCRIPTOR = {os.open, os.mkdir, os.link, os.unlink} <= os.supports_dir_fd
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def _opened(path: Path, root: Path | None, make: bool = False) -> Iterator[tuple[int | None, Path]]:
    """Open the folder of a file, and yield its descriptor and the file's path relative to it.

    No folder below ``root`` may be a link, so that others who can write there cannot lead a reader
    or writer to another place. By default the folder of the file is the root, which may be one.
    """
    root = path.parent if root is None else root
    if not path.is_relative_to(root) or ".." in path.relative_to(root).parts:
        raise DataError(f"{path} is not in {root}")
    if make:
        root.mkdir(parents=True, exist_ok=True)
    if not BY_DESCRIPTOR:
        for folder in reversed([p for p in path.parents if p != root and p.is_relative_to(root)]):
            if make and not folder.is_symlink():
                folder.mkdir(exist_ok=True)
            if folder.is_symlink() or not folder.is_dir():
                raise DataError(f"{folder} is a link, or not a folder; links are not followed")
        yield None, path
        return
    at, parts = root, path.parent.relative_to(root).parts
    with ExitStack() as held:
        try:
            handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, handle)
            for part in parts:
                at = at / part
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                flags = os.O_RDONLY | os.O_DIRECTORY | NO_LINKS
                handle = os.open(part, flags, dir_fd=handle)
                held.callback(os.close, handle)
        except OSError as error:
            if at.is_symlink() and at != root:
                raise DataError(f"{at} is a link, and links are not followed: remove it") from None
            raise DataError(f"{at} cannot be opened: {error.strerror}") from None
        yield handle, Path(path.name)


def read_bytes(path: Path, root: Path | None = None) -> bytes:
    """Read a regular file of limited size, without following a link.

    Parameters
    ----------
    root : Path, optional
        A folder above the file, below which no folder may be a link.
    """
    with _opened(path, root) as (folder, name):
        try:
            flags = os.O_RDONLY | NO_LINKS | getattr(os, "O_NONBLOCK", 0)
            at = os.open(name, flags, dir_fd=folder)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(at)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"{path} is not a regular file")
        content = b""
        if found.st_size <= LARGEST_FILE:
            with open(at, "rb", closefd=False) as file:
                content = file.read(LARGEST_FILE + 1)
    finally:
        os.close(at)
    if max(found.st_size, len(content)) > LARGEST_FILE:
        raise DataError(f"{path} has more than {LARGEST_FILE >> 20} MB, which no message needs")
    return content


def read_json(path: Path, root: Path | None = None) -> object:
    """Read a JSON file."""
    try:
        return json.loads(read_bytes(path, root))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def read_message(path: Path, root: Path | None = None) -> tuple[Message, int]:
    """Read a message from a file; returns it with its size in bytes."""
    content = read_bytes(path, root)
    return decode(content, str(path)), len(content)


def write_new(path: Path, content: bytes, private: bool = False, root: Path | None = None) -> Path:
    """Write a new file atomically.

    Parameters
    ----------
    private : bool
        Whether only its owner can read it.
    root : Path, optional
        A folder above the file, below which no folder may be a link.

    Raises
    ------
    FileIsThereError
        A file or link of this name exists.
    DataError
        The content is too large to be read, or a folder is a link.
    """
    if len(content) > LARGEST_FILE:
        raise DataError(
            f"{path} would have more than {LARGEST_FILE >> 20} MB, and nobody would read it: the "
            "plan has too many columns, times or points"
        )
    part = Path(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS
    with _opened(path, root, make=True) as (folder, name):
        draft = name.with_name(part.name)

        def new(name: Path) -> int:
            if private:
                return open_private(name, flags, dir_fd=folder)
            return os.open(name, flags, 0o666, dir_fd=folder)

        with os.fdopen(new(draft), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise FileIsThereError(f"{path} exists already and is not overwritten") from None
        except OSError:  # a file system without links
            try:
                handle = new(name)
            except FileExistsError:
                raise FileIsThereError(f"{path} exists already and is not overwritten") from None
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        finally:
            os.unlink(draft, dir_fd=folder)
    return path


def remove(path: Path, root: Path) -> None:
    """Remove a file below a folder, without following a link."""
    with _opened(path, root) as (folder, name):
        os.unlink(name, dir_fd=folder)
