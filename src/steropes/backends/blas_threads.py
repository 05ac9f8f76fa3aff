"""BLAS on one thread while there is work of ours, whichever threads it is in.

Some libraries have one number of threads for the process (OpenBLAS as NumPy's and SciPy's wheels
bring it), others one for each thread (MKL, all that use OpenMP). The first kind is limited once for
everybody, the second in every thread that works. With a save and a restore for each user of the
first kind, of two that overlap the first to leave would set the other's threads free, and the
second would leave the limit of one behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

__all__ = ["limit_this_thread", "single_threaded_blas"]


class _User:
    """Somebody who needs BLAS to keep to one thread, and the thread in which that is."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class _Limit:
    """Some libraries on one thread as long as there are users.

    Users are held weakly, so that one who was interrupted in the midst of leaving is forgotten
    with its frame.
    """

    def __init__(self) -> None:
        self.users: weakref.WeakSet[_User] = weakref.WeakSet()
        self._before: list[tuple[LibController, int]] = []
        self._held = False

    def enter(self, user: _User, libraries: list[LibController]) -> None:
        """Count a user in; the first one sets the limit."""
        self.users.add(user)
        if not self._held:
            self._before = [(library, library.num_threads) for library in libraries]
            self._held = True
            for library in libraries:
                library.set_num_threads(1)

    def leave(self, user: _User) -> None:
        """Count a user out; the last one brings back what was there before the first."""
        self.users.discard(user)
        if self._held and not len(self.users):
            for library, n in self._before:
                library.set_num_threads(n)
            self._held = False


class _OfThisThread(threading.local):
    """The limit in this thread."""

    def __init__(self) -> None:
        self.limit = _Limit()


class _Blas:
    """The BLAS libraries of this process, and who needs them on one thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._everybody = _Limit()
        self._own = _OfThisThread()
        self._shared: list[LibController] | None = None
        self._by_thread: list[LibController] = []

    def enter(self, user: _User) -> None:
        with self._lock:
            if self._shared is None:
                self._find()
            _take_control()
            self._everybody.enter(user, self._shared or [])
        self.enter_thread(user)

    def enter_thread(self, user: _User) -> None:
        """Limit the libraries that have a number of threads for each thread, in this one."""
        if self._by_thread:
            self._own.limit.enter(user, self._by_thread)

    def leave(self, user: _User) -> None:
        if self._by_thread:
            self._own.limit.leave(user)
        with self._lock:
            _take_control()
            self._everybody.leave(user)
            _take_control()

    def _find(self) -> None:
        import scipy.linalg  # noqa: F401  # loads SciPy's own BLAS, to be held too

        found = ThreadpoolController().select(user_api="blas").lib_controllers
        self._by_thread = [x for x in found if _counts_by_thread(x)]
        self._shared = [x for x in found if not _counts_by_thread(x)]

    def after_fork(self) -> None:
        """In a child process only the thread that forked goes on."""
        self._lock = threading.RLock()
        for user in list(self._everybody.users):
            if user.thread != threading.get_ident():
                self._everybody.users.discard(user)


def _counts_by_thread(library: LibController) -> bool:
    if library.internal_api == "openblas":
        return library.info()["threading_layer"] == "openmp"
    return library.internal_api == "mkl"


def _take_control() -> None:
    """Let this thread set OpenBLAS's limit; threadpoolctl reserves it for the first that did.

    Elsewhere it would be ignored without a word, as would, afterwards, what the user sets.
    """
    OpenBLASController.clear_controlling_thread(force=True)


_blas = _Blas()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_blas.after_fork)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread, whoever else does so in whichever thread; also a decorator.

    With another number of threads BLAS adds in another order, so its digits would depend on it.
    And its threads wait for each other by spinning: on cores that are busy, with the pool's chunks
    for one, a Cholesky factor of a hundred columns takes a thousand times longer.
    """
    user = _User()
    try:  # an interrupt can come anywhere
        _blas.enter(user)
        yield
    finally:
        _blas.leave(user)


def limit_this_thread() -> object:
    """Keep BLAS to one thread in a thread of the pool, for as long as the result is kept."""
    user = _User()
    _blas.enter_thread(user)
    return user
