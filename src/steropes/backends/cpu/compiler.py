"""What Numba knows of NumPy, loaded once a process before the first kernel."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from numba import config

__all__ = ["load_compiler", "without_collection"]

_loaded = False


@contextmanager
def without_collection() -> Iterator[None]:
    """Let Python not look for cycles among objects meanwhile.

    Of several threads that are here at once the first to leave lets it look again.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


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
            cpu_target.target_context.refresh()
    _loaded = True
