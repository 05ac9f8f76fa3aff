"""Folders of finished fits, with which an interrupted call continues.

A result is a file of plain arrays and JSON (``.npz``, without pickled objects), so that reading a
folder executes no code. Symbolic links, and files or folders that another user owns or can write
to, are rejected.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import joblib
import numpy as np

from ..errors import DataError
from ..private_files import open_private, private_folder, refuse_foreign

__all__ = ["Packing", "ResultFolder"]

Result = TypeVar("Result")
Arrays = Mapping[str, np.ndarray]

# The name of the array that holds the JSON text.
FACTS = "facts"
# The flag that makes opening a symbolic link fail; Windows has neither it nor user numbers.
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class Packing(Generic[Result]):
    """Conversion of a result to arrays and JSON, and back.

    Attributes
    ----------
    pack : callable
        Converts a result to arrays of numbers by name, and an object that JSON can represent.
    unpack : callable
        The inverse; raises ``KeyError``, ``TypeError`` or ``ValueError`` for other contents.
    """

    pack: Callable[[Result], tuple[Arrays, Any]]
    unpack: Callable[[Arrays, Any], Result]


class ResultFolder(Generic[Result]):
    """A folder with one file for each result.

    Parameters
    ----------
    path : str or Path
        The folder; created with access for its owner only if it does not exist.

    Raises
    ------
    DataError
        The folder is a symbolic link, belongs to another user, or others can write to it.
    """

    def __init__(self, path: str | Path, packing: Packing[Result]) -> None:
        self.path, self.packing = Path(path), packing
        if self.path.exists() or self.path.is_symlink():
            refuse_foreign(self.path, self.path.lstat(), stat.S_ISDIR)
        private_folder(self.path, "*.npz")
        refuse_foreign(self.path, self.path.lstat(), stat.S_ISDIR)

    def file(self, key: object) -> Path:
        """Return the file of a key, which is any object that `joblib.hash` accepts."""
        return self.path / f"{joblib.hash(key)}.npz"

    def save(self, file: Path, result: Result) -> None:
        """Write a result atomically."""
        arrays, facts = self.packing.pack(result)
        contents: dict[str, Any] = {**arrays}
        contents[FACTS] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        part = file.with_suffix(".part")
        part.unlink(missing_ok=True)  # left by a process that was killed
        with os.fdopen(open_private(part, os.O_WRONLY | os.O_EXCL), "wb") as stream:
            np.savez(stream, **contents)
        part.replace(file)

    def load(self, file: Path) -> Result:
        """Read a result.

        Raises
        ------
        DataError
            The file is a symbolic link, belongs to another user, can be written by others, or has
            other contents.
        """
        try:
            handle = os.open(file, os.O_RDONLY | NO_LINKS)
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror}); remove it.") from None
        with os.fdopen(handle, "rb") as stream:
            refuse_foreign(file, os.fstat(handle), stat.S_ISREG)
            try:
                with np.load(stream, allow_pickle=False) as found:
                    arrays = {name: found[name] for name in found.files}
                facts = json.loads(arrays.pop(FACTS).tobytes())
                return self.packing.unpack(arrays, facts)
            except (
                ValueError, KeyError, TypeError, AttributeError, EOFError, OSError,
                zipfile.BadZipFile,
            ):  # fmt: skip
                raise DataError(
                    f"{file} does not contain a result of this version of steropes; remove it to "
                    "compute the result again."
                ) from None
