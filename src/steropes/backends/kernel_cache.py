"""Where compiled kernels are kept between processes: a folder that can be written, or nowhere.

Numba keeps compiled code beside the source, or in a folder of the user's, and refuses to import a
kernel where it can write to neither, as in a container with a read-only root and no home.
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

config: Any = numba_config  # a module whose settings are made at run time


def _probe() -> None:
    """Stand for the kernels when the cache is tried; it is never compiled."""


def _can_cache() -> bool:
    """Return whether Numba finds a folder for the compiled code of this package."""
    try:
        njit(cache=True)(_probe)
    except RuntimeError:  # "cannot cache function …: no locator available"
        return False
    return True


def _own_folder() -> Path | None:
    """Make a private folder for this user in the temporary directory, if that is possible.

    Compiled code is executed when it is read, so a folder that belongs to somebody else, that
    others can write to, or that is a symbolic link is not used.
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
    """Choose the folder; return whether kernels can be kept at all."""
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
