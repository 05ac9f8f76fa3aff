"""A temporary folder that is eventually removed, however its process ends.

A process that is killed (``kill -9``, out of memory) removes nothing. Therefore the folder contains
a file that its process keeps locked. The system releases the lock with the process, and the next
study removes every folder whose file it can lock. Process ids would not serve, because they are
reused and have no meaning across containers that share a folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.private_files import open_private

# Windows has no locks of this kind.
fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

__all__ = ["ScratchFolder"]

PREFIX, HATCHING, LOCK = "steropes-", ".steropes-", ".in-use"


class ScratchFolder:
    """A temporary folder, removed by :meth:`cleanup`, or by a later one if its process is killed.

    Parameters
    ----------
    parent : str or Path, optional
        Folder in which it is created. Default: the system's folder for temporary files.
    """

    def __init__(self, parent: str | Path | None = None) -> None:
        home = Path(tempfile.gettempdir() if parent is None else parent)
        remove_leftovers(home)
        try:  # The folder gets its final name only once it is locked.
            hatching = Path(tempfile.mkdtemp(prefix=HATCHING, dir=home))
        except OSError as error:
            raise DataError(
                f"cannot create a temporary folder in {home}: {error.strerror}; "
                "the variable TMPDIR sets another place"
            ) from error
        self._lock = open_private(hatching / LOCK, os.O_RDWR)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = home / (PREFIX + hatching.name.removeprefix(HATCHING))
        hatching.rename(self.path)
        self._open, self._owner = True, os.getpid()

    def cleanup(self) -> None:
        """Remove the folder with its contents; further calls do nothing."""
        if self._open and os.getpid() == self._owner:  # A fork must not remove it.
            self._open = False
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.cleanup()


def remove_leftovers(home: Path) -> None:
    """Remove the folders of ended processes of the same user.

    A folder without the lock file is ignored.
    """
    if fcntl is None:
        return
    for lock in home.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.parent.lstat().st_uid != os.getuid():
                continue
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # Removed in the meantime.
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # The process is running.
            pass
        finally:
            os.close(handle)
