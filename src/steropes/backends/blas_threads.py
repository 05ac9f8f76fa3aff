"""Restriction of BLAS to one thread while the library computes, in any thread.

Some libraries have one thread count per process (OpenBLAS in the wheels of NumPy and SciPy), others
one per thread (MKL and all libraries that use OpenMP). The first kind is limited once for all
users, the second in every working thread. If each user of the first kind saved and restored the
count, then of two overlapping users the first to leave would lift the limit of the other, and the
second would leave a limit of one behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

__all__ = ["limit_this_thread", "single_threaded_blas"]


class _User:
    """A caller that needs single-threaded BLAS, and its thread."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class _Limit:
    """A limit of libraries to one thread while it is in use.

    Users are referenced weakly, so that a user with an interrupted exit disappears with its frame.
    """

    def __init__(self) -> None:
        self.users: weakref.WeakSet[_User] = weakref.WeakSet()
        self._before: list[tuple[LibController, int]] = []
        self._held = False

    def enter(self, user: _User, libraries: list[LibController]) -> None:
        """Add a user; the first one sets the limit."""
        self.users.add(user)
        if not self._held:
            _take_control()
            self._before = [(library, library.num_threads) for library in libraries]
            self._held = True
            for library in libraries:
                library.set_num_threads(1)

    def leave(self, user: _User) -> None:
        """Remove a user; the last one restores the previous thread counts."""
        self.users.discard(user)
        if self._held and not len(self.users):
            _take_control()
            for library, n in self._before:
                library.set_num_threads(n)
            self._held = False
            _take_control()


class _OfThisThread(threading.local):
    """The limit of the current thread."""

    def __init__(self) -> None:
        self.limit = _Limit()


class _Blas:
    """The BLAS libraries of this process and their users."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._everybody = _Limit()
        self._own = _OfThisThread()
        self._shared: list[LibController] | None = None
        self._by_thread: list[LibController] = []

    def enter(self, user: _User) -> None:
        """Limit all libraries for a user."""
        with self._lock:
            if self._shared is None:
                self._find()
            self._everybody.enter(user, self._shared or [])
        self.enter_thread(user)

    def enter_thread(self, user: _User) -> None:
        """Limit the libraries with one thread count per thread, in the current thread."""
        if self._by_thread:
            self._own.limit.enter(user, self._by_thread)

    def leave(self, user: _User) -> None:
        """Release the limits of a user."""
        if self._by_thread:
            self._own.limit.leave(user)
        with self._lock:
            self._everybody.leave(user)

    def _find(self) -> None:
        """Find the loaded BLAS libraries."""
        import_module("scipy.linalg")  # SciPy's own BLAS is found only once it is loaded.
        found = ThreadpoolController().select(user_api="blas").lib_controllers
        self._by_thread = [x for x in found if _counts_by_thread(x)]
        self._shared = [x for x in found if not _counts_by_thread(x)]

    def after_fork(self) -> None:
        """Forget users in other threads, which do not exist in a forked child."""
        self._lock = threading.RLock()
        for user in list(self._everybody.users):
            if user.thread != threading.get_ident():
                self._everybody.users.discard(user)


def _counts_by_thread(library: LibController) -> bool:
    """Return whether a library has one thread count per thread."""
    if library.internal_api == "openblas":
        return library.info()["threading_layer"] == "openmp"
    return library.internal_api == "mkl"


def _take_control() -> None:
    """Let this thread set the limit of OpenBLAS.

    threadpoolctl reserves this for the first thread that set a limit, and silently ignores others,
    including later settings of the user.
    """
    OpenBLASController.clear_controlling_thread(force=True)


_blas = _Blas()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_blas.after_fork)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Restrict BLAS to one thread within a context or decorated function.

    Contexts may overlap in any threads. The order of BLAS's sums, and thus the digits, would depend
    on the number of threads. Moreover, its threads wait for each other by spinning: on busy cores,
    for example with chunks of the pool, a Cholesky factorisation of a hundred columns takes a
    thousand times longer.
    """
    user = _User()
    try:  # an interrupt can come anywhere
        _blas.enter(user)
        yield
    finally:
        _blas.leave(user)


def limit_this_thread() -> object:
    """Restrict BLAS to one thread in the current thread while the result is referenced."""
    user = _User()
    _blas.enter_thread(user)
    return user
