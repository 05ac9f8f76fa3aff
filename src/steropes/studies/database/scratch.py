"""A temporary folder that no ended process leaves behind for long, however it ended.

A process that is killed outright (``kill -9``, out of memory) removes nothing. So the folder holds
a file that its process keeps locked; the system drops the lock with the process, and the next
study that starts removes every folder whose file it can lock itself. Numbers of processes would
not do: they are used again, and mean nothing across containers that share a folder.
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

# Not on Windows, where a lock of this kind does not exist.
fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

__all__ = ["ScratchFolder"]

PREFIX, HATCHING, LOCK = "steropes-", ".steropes-", ".in-use"


class ScratchFolder:
    """A temporary folder, removed by :meth:`cleanup`, or by a later one if its process is killed.

    Parameters
    ----------
    parent : str or Path, optional
        Where to make it. Default: the system's folder for temporary files.
    """

    def __init__(self, parent: str | Path | None = None) -> None:
        home = Path(tempfile.gettempdir() if parent is None else parent)
        remove_leftovers(home)
        try:  # it gets the name that others look for once it is locked, not before
            hatching = Path(tempfile.mkdtemp(prefix=HATCHING, dir=home))
        except OSError as error:
            raise DataError(
                f"cannot make a temporary folder in {home}: {error.strerror}; "
                "the variable TMPDIR says where to make it"
            ) from error
        self._lock = os.open(hatching / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = home / (PREFIX + hatching.name.removeprefix(HATCHING))
        hatching.rename(self.path)
        self._open, self._owner = True, os.getpid()

    def cleanup(self) -> None:
        """Remove the folder and what is in it; a second time does nothing."""
        if self._open and os.getpid() == self._owner:  # not in a fork of its process
            self._open = False
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.cleanup()


def remove_leftovers(home: Path) -> None:
    """Remove the folders of processes that have ended; those of others, and of others' users, stay.

    A folder without the file is not one of these.
    """
    if fcntl is None:
        return
    for lock in home.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.parent.lstat().st_uid != os.getuid():
                continue
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # gone meanwhile
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # its process lives
            pass
        finally:
            os.close(handle)
