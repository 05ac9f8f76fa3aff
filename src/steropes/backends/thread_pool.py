"""A thread pool that maps functions over chunks that do not depend on it.

Chunks never depend on the number of threads, and partial results are added in the order of the
chunks, so no result depends on the number of threads. No other module starts threads.
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

__all__ = ["CHUNKS", "ThreadPool", "balanced_chunks", "count_threads", "number_of_chunks"]

# The number of entries below which waking threads takes longer than the work.
FEW = 1 << 16
# The number of chunks of more entries, fixed so that no result depends on the number of threads.
CHUNKS = 16
# The number of entries from which threads are always worthwhile.
MANY = 1 << 22
# The seconds of a chunk below which threads mostly wait for the interpreter.
SHORT = 8e-5
# The seconds of a chunk from which the first chunk is no longer timed.
LONG = 3e-4
# The seconds of remaining work from which threads are woken.
WORTH = 1e-3

# The last measured seconds per chunk of each function, by its code object.
_pace: dict[Any, float] = {}
_pools: dict[tuple[int, int], _Helpers] = {}
_inside = threading.local()


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``.

    None and -1 mean all cores available to this process, given its CPU affinity, the quota of its
    container (control group) and ``LOKY_MAX_CPU_COUNT``.
    """
    if n_jobs is None or n_jobs == -1:
        return _usable_cores(os.getpid())
    if not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise DataError(f"n_jobs must be None, -1 or at least 1, not {n_jobs!r}.")
    return int(n_jobs)


@lru_cache(maxsize=1)
def _usable_cores(process: int) -> int:
    """Return the number of cores available to a process; repeated after a fork."""
    from joblib import cpu_count

    return int(cpu_count())


class ThreadPool:
    """Run functions over chunks with helper threads, which are recreated after a fork."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = count_threads(n_jobs)

    @contextmanager
    def using(self, n_jobs: int | None) -> Iterator[None]:
        """Change the number of threads within a context; None leaves it unchanged."""
        before = self.n_threads
        if n_jobs is not None:
            self.n_threads = count_threads(n_jobs)
        try:
            yield
        finally:
            self.n_threads = before

    def map(self, function: Callable, chunks: Iterable[tuple], entries: int | None = None) -> list:
        """Return ``[function(*chunk) for chunk in chunks]``, in order.

        ``entries`` is the total number of values processed, if known. With few entries the chunks
        run sequentially in this thread. Otherwise the time of the first chunk decides, unless
        chunks of this function were long before.
        """
        chunks = list(chunks)
        # A chunk must not wait for threads of its own pool.
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
        """Map with helper threads, which take chunks, as this thread does, until none is left.

        Helpers that have not started by then are not awaited. A map thus costs the waking of a
        thread rather than a handover of the interpreter for each chunk.
        """
        key = (os.getpid(), self.n_threads)  # threads do not survive a fork
        helpers = _pools.setdefault(key, _Helpers())
        start, work = perf_counter(), _Work(function, chunks)
        count = min(self.n_threads, len(chunks)) - 1
        try:  # after an interrupt, no chunk may be left and the flag must be reset
            turns = helpers.called(work, count)
            _inside.pool = True
            work.do()
            for turn in turns:
                turn.close()
        finally:  # no calls, which another interrupt could hit
            work.stopped = True
            _inside.pool = False
        took = (perf_counter() - start) * (count + 1) / len(chunks)
        _pace[getattr(function, "__code__", None)] = took
        return work.results()


class _Helpers:
    """Helper threads, started when first needed.

    They share a queue and locks that are acquired in a single step of the interpreter. An interrupt
    therefore leaves no lock held, unlike in `concurrent.futures`, where the next call could wait
    forever.
    """

    def __init__(self) -> None:
        self.turns: SimpleQueue[_Turn | None] = SimpleQueue()
        self.threads: list[threading.Thread] = []

    def called(self, work: _Work, count: int) -> list[_Turn]:
        """Give the work to ``count`` threads; to fewer if no further thread can be started.

        This happens at a limit of threads, or during the interpreter's shutdown if a fit runs in a
        thread that the main thread did not join.
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
        """Take turns until the end, in a helper thread."""
        _inside.pool = True
        _inside.blas = limit_this_thread()
        while (turn := self.turns.get()) is not None:
            turn.take()
            del turn  # no reference to the work is kept while waiting

    def end(self) -> None:
        """Finish all queued turns and join the threads."""
        for _ in self.threads:
            self.turns.put(None)
        for thread in self.threads:
            thread.join()


@atexit.register
def _end() -> None:
    """Join the helpers before the interpreter shuts down, since kernels may still run."""
    for (process, _), helpers in list(_pools.items()):
        if process == os.getpid():
            helpers.end()


class _Turn:
    """An offer of work that one helper may accept until it is closed."""

    def __init__(self, work: _Work) -> None:
        self.work: _Work | None = work
        self.begun, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()

    def take(self) -> None:
        """Process chunks in a helper, unless the turn is closed."""
        work = self.work
        if work is None or not self.begun.acquire(blocking=False):
            return
        try:
            work.do()
        except BaseException as error:  # raised by the waiting thread; the helper survives
            work.failed[len(work.chunks)] = error
        finally:
            self.done.release()

    def close(self) -> None:
        """Wait for the helper that accepted the turn, or withdraw it."""
        if self.begun.acquire(blocking=False):
            self.work = None
        else:
            self.done.acquire()


class _Work:
    """Chunks that several threads process, each once."""

    def __init__(self, function: Callable, chunks: list[tuple]) -> None:
        self.function, self.chunks = function, chunks
        self.left = iter(range(len(chunks)))  # next() is a single step of the interpreter
        self.stopped = False  # whether no further chunk may be taken
        self.done: list[Any] = [None] * len(chunks)
        self.failed: dict[int, BaseException] = {}

    def do(self) -> None:
        """Process chunks until none is left."""
        for k in self.left:
            if self.stopped:
                return
            try:
                self.done[k] = self.function(*self.chunks[k])
            except Exception as error:  # reported by `results`
                self.failed[k] = error

    def results(self) -> list:
        """Return the results in the order of the chunks, or raise the first error."""
        if self.failed:
            error = self.failed[min(self.failed)]
            try:
                raise error
            finally:  # otherwise the traceback would keep this frame and its arrays alive
                self.failed.clear()
                del error
        return self.done


def number_of_chunks(entries: int) -> int:
    """Return into how many chunks work is cut: one for few entries, which no threads share."""
    return CHUNKS if entries >= FEW else 1


def balanced_chunks(cumulative: np.ndarray, n_chunks: int) -> list[tuple[int, int]]:
    """Cut ``len(cumulative) - 1`` items into ranges of nearly equal work.

    Parameters
    ----------
    cumulative : (m + 1,) array
        Cumulative work before each item, increasing, such as a sparse matrix's ``indptr``.
    n_chunks : int
        Upper bound on the number of ranges.
    """
    m = len(cumulative) - 1
    if m <= 0:
        return []
    if n_chunks <= 1:
        return [(0, m)]
    least = float(cumulative[0])
    goals = np.arange(1.0, n_chunks) * ((float(cumulative[-1]) - least) / n_chunks) + least
    edges = [0]
    for cut in (
        *np.searchsorted(cumulative, goals).tolist(),
        m,
    ):  # faster than NumPy for few values
        if edges[-1] < cut <= m:
            edges.append(cut)
    return list(zip(edges[:-1], edges[1:], strict=True))
