"""The one place with threads: a pool over chunks that are fixed by the problem.

The chunks never depend on the number of threads and partial results are added in the order
of the chunks, so no result depends on the number of threads either.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral

import numpy as np

from ..errors import DataError
from .blas import limit_this_thread, single_threaded_blas

__all__ = ["ThreadPool", "balanced_chunks", "count_threads"]

FEW = 1 << 16  # to hand sixteen chunks to threads takes longer than some 60,000 additions

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
        not worth waking threads for, and the same chunks run here, one after another.
        """
        chunks = list(chunks)
        # Work that is itself a chunk must not wait for a thread of its own pool.
        if getattr(_inside, "pool", False):
            return [function(*chunk) for chunk in chunks]
        few = self.n_threads == 1 or len(chunks) <= 1 or (entries is not None and entries < FEW)
        with single_threaded_blas():
            return [function(*chunk) for chunk in chunks] if few else self._map(function, chunks)

    def _map(self, function: Callable, chunks: list[tuple]) -> list:
        key = (os.getpid(), self.n_threads)  # an executor does not survive a fork
        if key not in _pools:  # of two made at once one is dropped, before it has a thread
            _pools.setdefault(
                key,
                ThreadPoolExecutor(
                    self.n_threads, thread_name_prefix="steropes", initializer=_enter
                ),
            )
        return list(_pools[key].map(lambda chunk: function(*chunk), chunks))


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
