"""The cache folder of compiled kernels, or none if no folder is writable.

Numba stores compiled code next to the source or in a folder of the user, and raises at the import
of a kernel if neither is writable, as in a container with a read-only root and no home.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config as numba_config

__all__ = ["CACHE"]

config: Any = numba_config  # settings are created at run time


def _probe() -> None:
    """Serve as a test function for the cache; it is never compiled."""


def _can_cache() -> bool:
    """Return whether Numba finds a folder for the compiled code of this package."""
    try:
        njit(cache=True)(_probe)
    except RuntimeError:  # "cannot cache function …: no locator available"
        return False
    return True


def _own_folder() -> Path | None:
    """Make a private folder for this user in the temporary directory, if that is possible.

    Compiled code is executed when it is loaded, so folders that belong to another user, are
    writable by others or are symbolic links are not used.
    """
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"steropes-kernels-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:  # no temporary directory can be written either
        return None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    return folder if private and found.st_uid == os.getuid() else None


def _prepare() -> bool:
    """Choose the folder; return whether kernels can be cached."""
    if _can_cache():
        return True
    folder = _own_folder()
    if folder is None:
        return False
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    if _can_cache():
        return True
    config.CACHE_DIR = before
    return False


# The ``cache`` option of every kernel.
CACHE: bool = _prepare()
