"""The one place with threads: a pool over chunks that are fixed by the problem.

The chunks never depend on the number of threads and partial results are added in the order
of the chunks, so no result depends on the number of threads either.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from numbers import Integral
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import DataError
from .blas_threads import limit_this_thread, single_threaded_blas

__all__ = ["ThreadPool", "balanced_chunks", "count_threads"]

FEW = 1 << 16  # to wake threads takes longer than some 60,000 additions
MANY = 1 << 22  # and these are worth it, whatever is done with them
SHORT = 8e-5  # seconds: of shorter chunks threads spend more on waiting for the interpreter
LONG = 3e-4  # seconds: of such a chunk the others need not be measured
WORTH = 1e-3  # seconds of work from which on threads are woken

_pace: dict[Any, float] = {}  # what a chunk of a function took when it was last measured, by code
_pools: dict[tuple[int, int], _Helpers] = {}
_inside = threading.local()


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads meant by ``n_jobs``.

    None and -1 mean all the cores that this process may use: those that it is bound to, within
    the quota of its container (control group) and ``LOKY_MAX_CPU_COUNT``.
    """
    if n_jobs is None or n_jobs == -1:
        return _usable_cores(os.getpid())
    if not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise DataError(f"n_jobs must be None, -1 or at least 1, not {n_jobs!r}.")
    return int(n_jobs)


@lru_cache(maxsize=1)
def _usable_cores(process: int) -> int:
    """Return the number of cores that a process may use; a child after a fork looks again."""
    from joblib import cpu_count

    return int(cpu_count())


class ThreadPool:
    """Run a function over chunks; one set of helpers a process, made again after a fork."""

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
        key = (os.getpid(), self.n_threads)  # threads do not survive a fork
        helpers = _pools.setdefault(key, _Helpers())
        start, work = perf_counter(), _Work(function, chunks)
        count = min(self.n_threads, len(chunks)) - 1
        try:  # from here on, so that an interrupt leaves neither chunks to take nor the flag set
            turns = helpers.called(work, count)
            _inside.pool = True
            work.do()
            for turn in turns:
                turn.close()
        finally:  # no calls, in which there could be another interrupt
            work.stopped = True
            _inside.pool = False
        took = (perf_counter() - start) * (count + 1) / len(chunks)
        _pace[getattr(function, "__code__", None)] = took
        return work.results()


class _Helpers:
    """Threads that do work beside those who call them; started when they are first wanted.

    All that they share is a queue and locks of one step of the interpreter each. An interrupt
    leaves none of these held, as it can those of `concurrent.futures`, for which whoever fits next
    would wait for ever.
    """

    def __init__(self) -> None:
        self.turns: SimpleQueue[_Turn | None] = SimpleQueue()
        self.threads: list[threading.Thread] = []

    def called(self, work: _Work, count: int) -> list[_Turn]:
        """As many turns as there can be: at the interpreter's end, or at a limit of threads, none.

        The first is met by a fit in a thread that the main one did not wait for.
        """
        with suppress(RuntimeError):
            while len(self.threads) < count:
                name = f"steropes_{len(self.threads)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                thread.start()
                self.threads.append(thread)
        turns = [_Turn(work) for _ in self.threads[:count]]
        for turn in turns:
            self.turns.put(turn)
        return turns

    def _serve(self) -> None:
        _inside.pool = True
        _inside.blas = limit_this_thread()
        while (turn := self.turns.get()) is not None:
            turn.take()
            del turn  # nobody's work is kept while waiting

    def end(self) -> None:
        """Let them finish what they do."""
        for _ in self.threads:
            self.turns.put(None)
        for thread in self.threads:
            thread.join()


@atexit.register
def _end() -> None:
    """Kernels must not be under way where the interpreter takes down what they are made of."""
    for (process, _), helpers in list(_pools.items()):
        if process == os.getpid():
            helpers.end()


class _Turn:
    """What a helper may take up, unless it comes too late."""

    def __init__(self, work: _Work) -> None:
        self.work: _Work | None = work
        self.begun, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()

    def take(self) -> None:
        """Do it, for a helper."""
        work = self.work
        if work is None or not self.begun.acquire(blocking=False):
            return
        try:
            work.do()
        except BaseException as error:  # for who waits: the helper stays
            work.failed[len(work.chunks)] = error
        finally:
            self.done.release()

    def close(self) -> None:
        """Wait for the helper who took it, or let nobody take it any more."""
        if self.begun.acquire(blocking=False):
            self.work = None
        else:
            self.done.acquire()


class _Work:
    """Chunks that several threads take from, each once."""

    def __init__(self, function: Callable, chunks: list[tuple]) -> None:
        self.function, self.chunks = function, chunks
        self.left = iter(range(len(chunks)))  # its next() is one step of the interpreter
        self.stopped = False  # whether there is nothing to take any more
        self.done: list[Any] = [None] * len(chunks)
        self.failed: dict[int, BaseException] = {}

    def do(self) -> None:
        """Take chunks until none is left."""
        for k in self.left:
            if self.stopped:
                return
            try:
                self.done[k] = self.function(*self.chunks[k])
            except Exception as error:  # the others' results may be none, but not their errors
                self.failed[k] = error

    def results(self) -> list:
        """In the order of the chunks; the first error of these is raised."""
        if self.failed:
            error = self.failed[min(self.failed)]
            try:
                raise error
            finally:  # or its traceback, in which this frame is, would keep it and all their arrays
                self.failed.clear()
                del error
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
    edges = [0]
    for cut in (*np.searchsorted(cumulative, goals).tolist(), m):  # NumPy takes longer over so few
        if edges[-1] < cut <= m:
            edges.append(cut)
    return list(zip(edges[:-1], edges[1:], strict=True))
