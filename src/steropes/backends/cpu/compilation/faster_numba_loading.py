"""Reduction of Numba's start-up time: its tables are loaded once, before the first kernel.

Python's garbage collection is disabled while the tables are loaded and while a kernel is compiled.
These steps create several hundred thousand objects and hardly any garbage, so that a collection
would traverse all objects without freeing memory.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba import config
from numba.core import event

__all__ = ["load_compiler", "without_collection"]

_loaded = False
_stopped = False  # whether this module has disabled collections


def _disable_collection() -> bool:
    """Disable collections; return whether they were enabled."""
    global _stopped
    if not gc.isenabled():
        return False
    gc.disable()
    _stopped = True
    return True


def _enable_collection() -> None:
    """Enable collections again."""
    global _stopped
    _stopped = False
    gc.enable()


def _after_fork() -> None:
    """Enable collections in a forked child, where the thread that disabled them is missing."""
    if _stopped:
        _enable_collection()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection within a context.

    With several threads, the first one to enter enables it again.
    """
    before = _disable_collection()
    try:
        yield
    finally:
        if before:
            _enable_collection()


def load_compiler() -> None:
    """Load Numba's tables of types and functions, which the first kernel needs, cached or not.

    The tables are some hundred thousand objects, which remain in memory. Numba would load them with
    the first kernel, and Python would search all objects for garbage several times meanwhile. This
    search takes more than half of the time by which a first fit is slower than a second one.
    """
    global _loaded
    if _loaded or getattr(config, "DISABLE_JIT", False):
        return
    # These are internals of Numba, which may change; without them only the start is slower.
    with suppress(ImportError, AttributeError):
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.registry import cpu_target

        with global_compiler_lock, without_collection():
            if not _loaded:  # another thread may have been first
                cpu_target.target_context.refresh()
                event.register("numba:compile", _CompilationListener())
    _loaded = True


class _CompilationListener(event.Listener):
    """A listener that disables collections while a kernel of this library is compiled."""

    def __init__(self) -> None:
        """Start with no compilation in progress."""
        # The compilation of a kernel includes those of the kernels that it calls.
        self._before: list[bool] = []

    def on_start(self, compiling: event.Event) -> None:
        """Disable collections for a kernel of this library."""
        if _is_own_kernel(compiling):
            self._before.append(_disable_collection())

    def on_end(self, compiling: event.Event) -> None:
        """Enable collections again if they were enabled before."""
        if _is_own_kernel(compiling) and self._before.pop():
            _enable_collection()


def _is_own_kernel(compiling: event.Event) -> bool:
    """Return whether a compiled function belongs to this package."""
    function: Any = compiling.data["dispatcher"].py_func
    return str(function.__module__).partition(".")[0] == __name__.partition(".")[0]
