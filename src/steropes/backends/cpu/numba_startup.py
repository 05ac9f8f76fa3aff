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


def _stop() -> bool:
    """Disable collections; return whether they were enabled."""
    global _stopped
    if not gc.isenabled():
        return False
    gc.disable()
    _stopped = True
    return True


def _go_on() -> None:
    """Enable collections again."""
    global _stopped
    _stopped = False
    gc.enable()


def _after_fork() -> None:
    """Enable collections in a forked child, where the thread that disabled them is missing."""
    if _stopped:
        _go_on()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection within a context.

    With several threads, the first one to enter enables it again.
    """
    before = _stop()
    try:
        yield
    finally:
        if before:
            _go_on()


def load_compiler() -> None:
    """Load Numba's tables of types and functions, which the first kernel needs, cached or not.

    These are some hundred thousand objects that all stay. Numba loads them with the first kernel,
    and Python then looks for garbage among them, and all that there is, several times: that is more
    than half of the time that a first fit takes longer than a second one.
    """
    global _loaded
    if _loaded or getattr(config, "DISABLE_JIT", False):
        return
    with suppress(ImportError, AttributeError):  # no part of what Numba promises, nor needed
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.registry import cpu_target

        with global_compiler_lock, without_collection():
            if not _loaded:  # another thread may have been first
                cpu_target.target_context.refresh()
                event.register("numba:compile", _Quiet())
    _loaded = True


class _Quiet(event.Listener):
    """A listener that disables collections while a kernel of this library is compiled."""

    def __init__(self) -> None:
        self._before: list[bool] = []  # Numba compiles one kernel at a time, and those in it

    def on_start(self, compiling: event.Event) -> None:
        """Disable collections for a kernel of this library."""
        if _ours(compiling):
            self._before.append(_stop())

    def on_end(self, compiling: event.Event) -> None:
        """Enable collections again if they were enabled before."""
        if _ours(compiling) and self._before.pop():
            _go_on()


def _ours(compiling: event.Event) -> bool:
    """Return whether a compiled function belongs to this package."""
    function: Any = compiling.data["dispatcher"].py_func
    return str(function.__module__).partition(".")[0] == __name__.partition(".")[0]
