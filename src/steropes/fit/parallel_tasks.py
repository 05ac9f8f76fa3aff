"""Many fits of the same data as tasks of the configured joblib backend.

`joblib.parallel_config(backend="dask")`, or ``"ray"``, ``"loky"``, ``"threading"``, chooses the
backend. The data are sent to each worker once: by Dask's scatter, through Ray's object store, or
as a file on this machine that the processes map into memory; a task itself carries only its number.
If a Dask worker is lost, its tasks run again, and the data are sent again if it held the only copy.
Finished results can be kept in a folder, from which an interrupted call continues. Without a
configured backend the tasks run one by one in this process; so do tasks over blocks of rows, which
have workers already.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from .dask_transfer import PAUSE, ROUNDS, scatter_to_worker
from .result_folder import ResultFolder

__all__ = ["has_parallel_backend", "run_tasks"]

WAVE = 4  # tasks a worker, where results come only when all of a call are done (Ray)

_known: dict[str, Any] = {}  # of this process, where it is a worker


def has_parallel_backend() -> bool:
    """Whether joblib has been told where tasks run."""
    backend, jobs = get_active_backend()
    return not (type(backend).__name__ == "LokyBackend" and jobs is None)


def run_tasks(
    function: Callable[[Any, Any], Any],
    common: Any,
    tasks: Sequence[Any],
    store: ResultFolder[Any] | None = None,
    key: Any = None,
    here: bool = False,
) -> Iterator[Any]:
    """Yield ``function(common, task)`` for each task, in their order.

    Parameters
    ----------
    function : callable
        Of a module, so that workers find it.
    common : object
        What all tasks read; pickled once for a worker.
    tasks : sequence
    store : ResultFolder, optional
        Each result is written to it when it is there; results that it has are not computed again.
    key : object, optional
        With ``store``: what the results depend on, as `joblib.hash` takes it.
    here : bool
        Whether tasks run in this process, one by one, whatever joblib has been told.
    """
    files: list[Path | None] = [None] * len(tasks)
    if store is not None:
        files = [store.file((key, task)) for task in tasks]
    todo = [k for k, file in enumerate(files) if file is None or not os.path.lexists(file)]
    here = here or not has_parallel_backend()
    with _closing(_computed(function, common, [tasks[k] for k in todo], here)) as fresh:
        early: dict[int, Any] = {}
        waiting = set(todo)
        for k, file in enumerate(files):
            if store is not None and file is not None and k not in waiting:
                yield store.load(file)
                continue
            while k not in early:
                at, result = next(fresh)
                at_file = files[todo[at]]
                if store is not None and at_file is not None:
                    store.save(at_file, result)
                early[todo[at]] = result
            yield early.pop(k)


def _computed(
    function: Callable[[Any, Any], Any], common: Any, tasks: Sequence[Any], here: bool
) -> Generator[tuple[int, Any]]:
    """Results with the numbers of their tasks, as they come where the backend can tell."""
    if here or not tasks:
        for k, task in enumerate(tasks):
            yield k, function(common, task)
        return
    backend, jobs = get_active_backend()
    jobs = -1 if jobs is None else jobs
    at_once = backend.supports_return_generator
    how = "generator_unordered" if at_once else "list"
    with _placed(common) as put, joblib.Parallel(n_jobs=jobs, return_as=how) as parallel:
        todo = list(range(len(tasks)))
        wave = len(tasks) if at_once else max(WAVE * backend.effective_n_jobs(jobs), 1)
        for _ in range(ROUNDS):
            place, lost = put(), []
            for a in range(0, len(todo), wave):
                # in a tuple, as joblib would scatter a large array, and lose it with a worker
                calls = [
                    joblib.delayed(_do)(function, place, k, (tasks[k],)) for k in todo[a : a + wave]
                ]
                for k, result in parallel(calls):
                    if isinstance(result, _Lost):
                        lost.append(k)
                    else:
                        yield k, result
            if not lost:
                return
            todo = sorted(lost)
    raise RuntimeError(f"{len(todo)} fits could not be done: workers keep being lost")


@contextmanager
def _closing(results: Generator[tuple[int, Any]]) -> Iterator[Iterator[tuple[int, Any]]]:
    """Let go of results at the end; joblib would warn of those that an interruption leaves."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()


class _Lost(Exception):
    """The data went with a worker; also what a task then has for a result."""


def _do(
    function: Callable[[Any, Any], Any], place: Callable[[], Any], number: int, task: tuple[Any]
) -> tuple[int, Any]:
    """A task, on its worker."""
    try:
        common = place()
    except _Lost as lost:
        return number, lost
    return number, function(common, task[0])


@contextmanager
def _placed(common: Any) -> Iterator[Callable[[], Callable[[], Any]]]:
    """Yield a function that puts the data where workers find them.

    It returns a small callable that gives them there; called again, the data are put anew where
    they may have been lost.
    """
    backend, _ = get_active_backend()
    kind, token = type(backend).__name__, uuid.uuid4().hex
    if kind in ("ThreadingBackend", "SequentialBackend"):
        there: Callable[[], Any] = _Here(common)
        yield lambda: there
    elif kind == "DaskDistributedBackend":
        held: list[Any] = []  # Dask forgets what no future is held of
        _known[token] = common  # joblib does a single thread's tasks in this process

        def put() -> _OnDask:
            held[:] = [scatter_to_worker(backend.client, common)]
            return _OnDask(token, held[0].key)

        try:
            yield put
        finally:
            _known.pop(token, None)
    elif kind == "RayBackend":
        import ray

        there = _OnRay(token, ray.put(common))
        yield lambda: there
    else:
        folder = tempfile.mkdtemp(prefix="steropes-")
        try:
            file = Path(folder) / "common.joblib"
            joblib.dump(common, file)
            there = _InFile(token, str(file))
            yield lambda: there
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Here:
    """The data themselves: workers are threads."""

    def __init__(self, common: Any) -> None:
        self.common = common

    def __call__(self) -> Any:
        return self.common


class _Elsewhere(ABC):
    """A name for data that a worker gets once."""

    def __init__(self, token: str, where: Any) -> None:
        self.token, self.where = token, where

    def __call__(self) -> Any:
        if self.token not in _known:
            _known.clear()  # one at a time is enough
            _known[self.token] = self.found()
        return _known[self.token]

    @abstractmethod
    def found(self) -> Any:
        """The data, on the worker."""


class _InFile(_Elsewhere):
    def found(self) -> Any:
        return joblib.load(self.where, mmap_mode="r")


class _OnDask(_Elsewhere):
    def found(self) -> Any:
        from distributed import Future, get_client, get_worker

        with suppress(KeyError):
            return get_worker().data[self.where]
        client = get_client()  # the copy is on another worker
        # Nobody would tell this worker of a key that it names itself: without a state it is awaited
        # for ever.
        made: Any = Future  # whose annotation of ``state`` is of something else
        future = made(self.where, client, state="memory")
        while any(client.who_has([future]).values()):
            with suppress(TimeoutError):
                try:
                    return future.result(timeout=PAUSE)
                except CancelledError:
                    break
        raise _Lost


class _OnRay(_Elsewhere):
    def found(self) -> Any:
        import ray

        return ray.get(self.where)
