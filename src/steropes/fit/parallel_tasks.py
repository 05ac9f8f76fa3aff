"""Many fits of the same data as tasks of the configured joblib backend.

`joblib.parallel_config(backend="dask")`, or ``"ray"``, ``"loky"``, ``"threading"``, chooses the
backend. The data are sent to each worker once: by Dask's scatter, through Ray's object store, or
as a file on this machine that the processes map into memory; a task itself carries only its number.
If a Dask worker is lost, its tasks run again, and the data are sent again if it held the only copy.
Finished results can be kept in a folder, so that an interrupted call continues. Without a
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
from typing import Any, Generic, TypeVar

import joblib
from joblib.parallel import get_active_backend

from ..private_files import open_private
from .dask_transfer import scatter_to_worker
from .fit_checkpoints import ResultFolder
from .multi_fit_constants import REPLICATES, TRANSFER

__all__ = ["has_parallel_backend", "run_tasks"]


# The data that this process has received as a worker.
_worker_data: dict[str, Any] = {}

Common = TypeVar("Common")
Task = TypeVar("Task")
Result = TypeVar("Result")


def has_parallel_backend() -> bool:
    """Return whether a joblib backend has been configured."""
    backend, jobs = get_active_backend()
    return not (type(backend).__name__ == "LokyBackend" and jobs is None)


def run_tasks(
    function: Callable[[Common, Task], Result],
    common: Common,
    tasks: Sequence[Task],
    store: ResultFolder[Result] | None = None,
    key: object = None,
    in_process: bool = False,
) -> Iterator[Result]:
    """Yield ``function(common, task)`` for each task, in order.

    Parameters
    ----------
    function : callable
        A function of a module, so that workers can import it.
    common : object
        Data that all tasks read; sent to each worker once.
    store : ResultFolder, optional
        Folder to which each result is written; results that it contains are not recomputed.
    key : object, optional
        With ``store``, the inputs on which the results depend, as an argument of `joblib.hash`.
    in_process : bool
        Whether tasks run one by one in this process even if a joblib backend is configured.
    """
    files: list[Path | None] = [None] * len(tasks)
    if store is not None:
        files = [store.file((key, task)) for task in tasks]
    todo = [k for k, file in enumerate(files) if file is None or not os.path.lexists(file)]
    in_process = in_process or not has_parallel_backend()
    with _closing(_compute(function, common, [tasks[k] for k in todo], in_process)) as fresh:
        early: dict[int, Result] = {}
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


def _compute(
    function: Callable[[Common, Task], Result],
    common: Common,
    tasks: Sequence[Task],
    in_process: bool,
) -> Generator[tuple[int, Result]]:
    """Yield task numbers and results, in order of completion if the backend supports it."""
    if in_process or not tasks:
        for k, task in enumerate(tasks):
            yield k, function(common, task)
        return
    backend, jobs = get_active_backend()
    jobs = -1 if jobs is None else jobs
    at_once = backend.supports_return_generator
    how = "generator_unordered" if at_once else "list"
    with _distributed(common) as put, joblib.Parallel(n_jobs=jobs, return_as=how) as parallel:
        todo = list(range(len(tasks)))
        wave = (
            len(tasks)
            if at_once
            else max(REPLICATES.tasks_per_worker * backend.effective_n_jobs(jobs), 1)
        )
        for _ in range(TRANSFER.max_rounds):
            place, lost = put(), []
            for a in range(0, len(todo), wave):
                # Tasks are wrapped in tuples: joblib would scatter a large array and lose it with
                # a worker.
                calls = [
                    joblib.delayed(_run_task)(function, place, k, (tasks[k],))
                    for k in todo[a : a + wave]
                ]
                for k, result in parallel(calls):
                    if isinstance(result, _DataLost):
                        lost.append(k)
                    else:
                        yield k, result
            if not lost:
                return
            todo = sorted(lost)
    raise RuntimeError(f"{len(todo)} fits could not be computed: workers were lost repeatedly")


@contextmanager
def _closing(results: Generator[tuple[int, Result]]) -> Iterator[Iterator[tuple[int, Result]]]:
    """Close a generator of results without joblib's warning about unfinished ones."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()


class _DataLost(Exception):
    """The data were lost with a worker; also the result of a task in this case."""


def _run_task(
    function: Callable[[Common, Task], Result],
    place: Callable[[], Common],
    number: int,
    task: tuple[Task],
) -> tuple[int, Result | _DataLost]:
    """Run one task on its worker."""
    try:
        common = place()
    except _DataLost as lost:
        return number, lost
    return number, function(common, task[0])


@contextmanager
def _distributed(common: Common) -> Iterator[Callable[[], Callable[[], Common]]]:
    """Yield a function that distributes the data to workers.

    It returns a small callable that retrieves the data on a worker. Calling the function again
    distributes data again that may have been lost.
    """
    backend, _ = get_active_backend()
    kind, token = type(backend).__name__, uuid.uuid4().hex
    if kind in ("ThreadingBackend", "SequentialBackend"):
        there: Callable[[], Common] = _InMemory(common)
        yield lambda: there
    elif kind == "DaskDistributedBackend":
        held: list[Any] = []  # keeps the future alive, without which Dask deletes the data
        _worker_data[token] = common  # joblib runs a single thread's tasks in this process

        def put() -> _OnDask[Common]:
            held[:] = [scatter_to_worker(backend.client, common)]
            return _OnDask(token, held[0].key)

        try:
            yield put
        finally:
            _worker_data.pop(token, None)
    elif kind == "RayBackend":
        import ray

        there = _OnRay(token, ray.put(common))
        yield lambda: there
    else:
        folder = tempfile.mkdtemp(prefix="steropes-")
        try:
            file = Path(folder) / "common.joblib"
            with os.fdopen(open_private(file, os.O_WRONLY | os.O_EXCL), "wb") as stream:
                joblib.dump(common, stream)
            there = _InFile(token, str(file))
            yield lambda: there
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _InMemory(Generic[Common]):
    """Data in memory, for workers that are threads."""

    def __init__(self, common: Common) -> None:
        self.common = common

    def __call__(self) -> Common:
        """Return the data."""
        return self.common


class _RemoteData(ABC, Generic[Common]):
    """A reference to data that a worker loads once."""

    def __init__(self, token: str, where: Any) -> None:
        self.token, self.where = token, where

    def __call__(self) -> Common:
        """Return the data, loading them at the first call on this worker."""
        if self.token not in _worker_data:
            _worker_data.clear()  # keep the data of one call only
            _worker_data[self.token] = self.load()
        return _worker_data[self.token]

    @abstractmethod
    def load(self) -> Common:
        """Load the data on the worker."""


class _InFile(_RemoteData[Common]):
    """Data in a file that processes on this machine map into memory."""

    def load(self) -> Common:
        """See `_RemoteData.load`."""
        return joblib.load(self.where, mmap_mode="r")


class _OnDask(_RemoteData[Common]):
    """Data that were scattered to a worker of a Dask cluster."""

    def load(self) -> Common:
        """See `_RemoteData.load`."""
        from distributed import Future, get_client, get_worker

        with suppress(KeyError):
            kept: Any = get_worker().data[self.where]
            return kept
        client = get_client()  # the copy is on another worker
        # The scheduler does not notify this worker about a future that it creates itself, so a
        # future without a state would wait forever.
        made: Any = Future  # the annotation of its parameter ``state`` is too narrow
        future = made(self.where, client, state="memory")
        while any(client.who_has([future]).values()):
            with suppress(TimeoutError):
                try:
                    return future.result(timeout=TRANSFER.poll_seconds)
                except CancelledError:
                    break
        raise _DataLost


class _OnRay(_RemoteData[Common]):
    """Data in Ray's object store."""

    def load(self) -> Common:
        """See `_RemoteData.load`."""
        import ray

        return ray.get(self.where)
