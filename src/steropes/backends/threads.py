"""The one place with threads: a pool over chunks that are fixed by the problem.

The chunks never depend on the number of threads and partial results are added in the order
of the chunks, so no result depends on the number of threads either.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import DataError
from .blas import limit_this_thread, single_threaded_blas

__all__ = ["ThreadPool", "balanced_chunks", "count_threads"]

FEW = 1 << 16  # to wake threads takes longer than some 60,000 additions
MANY = 1 << 22  # and these are worth it, whatever is done with them
SHORT = 8e-5  # seconds: of shorter chunks threads spend more on waiting for the interpreter
LONG = 3e-4  # seconds: of such a chunk the others need not be measured
WORTH = 1e-3  # seconds of work from which on threads are woken

_pace: dict[Any, float] = {}  # what a chunk of a function took when it was last measured, by code
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_inside = threading.local()


def _enter() -> None:
    _inside.pool = True
    _inside.blas = limit_this_thread()


def count_threads(n_jobs: int | None) -> int:
    """Threads meant by ``n_jobs``: None and -1 are all the cores this process may use."""
    if n_jobs is None or n_jobs == -1:
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:  # macOS, Windows
            return os.cpu_count() or 1
    if not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise DataError(f"n_jobs must be None, -1 or at least 1, not {n_jobs!r}.")
    return int(n_jobs)


class ThreadPool:
    """Run a function over chunks; one executor a process, made again after a fork."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = count_threads(n_jobs)

    @contextmanager
    def using(self, n_jobs: int | None) -> Iterator[None]:
        """Let it have another number of threads for a while; None leaves it as it is."""
        before = self.n_threads
        if n_jobs is not None:
            self.n_threads = count_threads(n_jobs)
        try:
            yield
        finally:
            self.n_threads = before

    def map(self, function: Callable, chunks: Iterable[tuple], entries: int | None = None) -> list:
        """Return ``[function(*chunk) for chunk in chunks]``, in order.

        ``entries`` is how many numbers are looked at in all, where that is known: a few of them are
        not worth waking threads for, and the same chunks run here, one after another. Otherwise the
        first chunk's time tells, unless they were long the last time.
        """
        chunks = list(chunks)
        # Work that is itself a chunk must not wait for a thread of its own pool.
        if getattr(_inside, "pool", False):
            return [function(*chunk) for chunk in chunks]
        few = self.n_threads == 1 or len(chunks) <= 1 or (entries is not None and entries < FEW)
        with single_threaded_blas():
            if few:
                return [function(*chunk) for chunk in chunks]
            code = getattr(function, "__code__", None)
            known = entries is not None and entries >= MANY
            if known or _pace.get(code, 0.0) >= LONG:
                return self._map(function, chunks)
            start = perf_counter()
            first = [function(*chunks[0])]
            took, rest = perf_counter() - start, chunks[1:]
            _pace[code] = took
            if took < SHORT or took * len(rest) < WORTH:
                return first + [function(*chunk) for chunk in rest]
            return first + self._map(function, rest)

    def _map(self, function: Callable, chunks: list[tuple]) -> list:
        """The same with helpers: threads that take chunks, as this one does, until none is left.

        A helper that has not come by then is not waited for. So a map costs the waking of a thread
        and not, sixteen times, the handing over of a chunk and of the interpreter.
        """
        key = (os.getpid(), self.n_threads)  # an executor does not survive a fork
        if key not in _pools:  # of two made at once one is dropped, before it has a thread
            _pools.setdefault(
                key,
                ThreadPoolExecutor(
                    self.n_threads, thread_name_prefix="steropes", initializer=_enter
                ),
            )
        start, work = perf_counter(), _Work(function, chunks)
        count = min(self.n_threads, len(chunks)) - 1
        try:  # from here on, so that an interrupt leaves neither chunks to take nor the flag set
            helpers = _called(_pools[key], work.do, count)
            _inside.pool = True
            work.do()
            for helper in helpers:
                if not helper.cancel():
                    helper.result()
        finally:
            work.stop()
            _inside.pool = False
        took = (perf_counter() - start) * (count + 1) / len(chunks)
        _pace[getattr(function, "__code__", None)] = took
        return work.results()


def _called(pool: ThreadPoolExecutor, do: Callable[[], None], count: int) -> list[Future[None]]:
    """As many helpers as there can be: at the interpreter's end, or at a limit of threads, none.

    The first is met by a fit in a thread that the main one did not wait for.
    """
    helpers: list[Future[None]] = []
    with suppress(RuntimeError):
        for _ in range(count):
            helpers.append(pool.submit(do))
    return helpers


class _Work:
    """Chunks that several threads take from, each once."""

    def __init__(self, function: Callable, chunks: list[tuple]) -> None:
        self.function, self.chunks = function, chunks
        self.left = iter(range(len(chunks)))  # its next() is one step of the interpreter
        self.stopped = False
        self.done: list[Any] = [None] * len(chunks)
        self.failed: dict[int, Exception] = {}

    def do(self) -> None:
        """Take chunks until none is left."""
        for k in self.left:
            if self.stopped:
                return
            try:
                self.done[k] = self.function(*self.chunks[k])
            except Exception as error:  # the others' results may be none, but not their errors
                self.failed[k] = error

    def stop(self) -> None:
        """Leave nothing to take."""
        self.stopped = True

    def results(self) -> list:
        """In the order of the chunks; the first error of these is raised."""
        if self.failed:
            raise self.failed[min(self.failed)]
        return self.done


def balanced_chunks(cumulative: np.ndarray, n_chunks: int) -> list[tuple[int, int]]:
    """Cut ``len(cumulative) - 1`` items into ranges of nearly equal work.

    Parameters
    ----------
    cumulative : (m + 1,) array
        Work done before each item, increasing; an index pointer of a sparse matrix serves.
    n_chunks : int
        Upper bound on the number of ranges.
    """
    m = len(cumulative) - 1
    if m <= 0:
        return []
    goals = np.linspace(float(cumulative[0]), float(cumulative[-1]), max(1, n_chunks) + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(cumulative, goals), [m]]))
    cuts = np.clip(cuts, 0, m)
    return [(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True) if b > a]
