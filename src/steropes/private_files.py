"""Files about single people, which only their owner can read.

Such a file has the mode 0600 from its first byte, whatever the umask, and a folder for such files
0700. All parts of the library that store data of people create them here. Windows has no such
modes: its files have the permissions of their folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import DataError

__all__ = ["open_private", "private_draft", "private_folder", "refuse_foreign", "restrict"]

FILE, FOLDER = 0o600, 0o700
# Links are not followed, and Windows does not translate line ends.
CREATE = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# Drafts of a process that was killed are removed after this many seconds.
ABANDONED = 3600.0


def private_folder(path: str | Path, mark: str | None = None) -> Path:
    """Create a folder that only its owner can enter, with the folders above it.

    An existing folder of this user is closed to others if it is empty or holds earlier files of the
    same kind. A folder with other contents keeps its mode, so that no one loses access to them; the
    files that are created in it are private themselves.

    Parameters
    ----------
    path : str or Path
        The folder.
    mark : str, optional
        Pattern of the names of earlier files of the same kind.

    Returns
    -------
    Path
        The folder.
    """
    path = Path(path)
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            folder.mkdir(mode=FOLDER)
    path.mkdir(mode=FOLDER, exist_ok=True)  # refuses a file of this name
    if not path.is_symlink() and (
        not any(path.iterdir()) or (mark is not None and any(path.glob(mark)))
    ):
        restrict(path, FOLDER)
    return path


def restrict(path: str | Path, mode: int = FILE) -> None:
    """Withdraw the permissions of others for a file or folder of this user.

    Parameters
    ----------
    path : str or Path
        A link is not followed, and a path of another user is left as it is.
    mode : int
        The permissions that may remain.
    """
    if not hasattr(os, "getuid"):
        return
    found = os.lstat(path)
    if found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode):
        os.chmod(path, stat.S_IMODE(found.st_mode) & mode)


def open_private(path: str | Path, flags: int, dir_fd: int | None = None) -> int:
    """Open a file for writing that only its owner can read; create it if necessary.

    Parameters
    ----------
    path : str or Path
        A symbolic link is refused.
    flags : int
        Flags of `os.open` in addition to those that create the file.
    dir_fd : int, optional
        Descriptor of the folder that a relative path starts from. Default: the working folder.

    Returns
    -------
    int
        The file descriptor, for `os.fdopen`.

    Raises
    ------
    OSError
        The file cannot be opened.
    """
    handle = os.open(path, flags | CREATE, FILE, dir_fd=dir_fd)
    if hasattr(os, "getuid"):
        found = os.fstat(handle)
        if found.st_uid == os.getuid() and found.st_mode & 0o077:  # it existed
            os.fchmod(handle, stat.S_IMODE(found.st_mode) & FILE)
    return handle


@contextlib.contextmanager
def private_draft(path: str | Path) -> Iterator[Path]:
    """Yield a path for a draft of a private file, which replaces the file at the end.

    The draft is in a private folder of its own next to the file, so that programs that create files
    by themselves, such as DuckDB with its log and its temporary files, open no door either. If the
    block raises, the earlier file remains.

    Parameters
    ----------
    path : str or Path
        The file.
    """
    path = Path(path)
    prefix = f".{path.name}.draft-"
    for left in path.parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.lstat().st_mtime > ABANDONED:
                shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        draft = folder / path.name
        yield draft
        restrict(draft)
        os.replace(draft, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refuse_foreign(path: Path, found: os.stat_result, kind: Callable[[int], bool]) -> None:
    """Refuse a file or folder of results that somebody else could have written.

    Parameters
    ----------
    path : Path
        For the message.
    found : os.stat_result
        From ``os.lstat``, or ``os.fstat`` of the open file.
    kind : callable
        `stat.S_ISREG` or `stat.S_ISDIR`.

    Raises
    ------
    DataError
        It is of another kind or a symbolic link, belongs to another user, or others can write to
        it.
    """
    if not kind(found.st_mode):
        raise DataError(
            f"{path} is a symbolic link, or not a regular file or folder; give another path."
        )
    if sys.platform == "win32":
        return
    if found.st_uid != os.getuid():
        raise DataError(f"{path} belongs to another user, who could change results in it.")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DataError(f"Others can write to {path}; forbid it first: chmod go-w '{path}'.")
