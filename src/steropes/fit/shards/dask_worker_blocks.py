"""Blocks of rows on the workers of a Dask cluster.

Each block is on one worker, which creates it from its recipe at the first call. A task contains the
call and the names of the blocks. If a worker lacks a block, for example because it replaces a lost
worker, the task reports this; recipe and stored data are then sent, and the call is repeated.
Losing a worker therefore costs only the time to recreate its blocks.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...errors import DataError
from ..dask_transfer import scatter_to_worker as scattered
from ..dask_transfer import wait_for_result, worker_addresses
from ..multi_fit_constants import TRANSFER
from .block_sources import BlockRecipe, BlockSummary, Source, summarize_block
from .row_block import BlockDataMissing, RowBlock

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

__all__ = ["DaskBlocks", "DaskCollection", "Traffic", "partitions", "summarize_blocks"]


_numbers = itertools.count()
# The blocks of this process as a worker.
_worker_blocks: dict[str, RowBlock] = {}
_lock = threading.Lock()


class DaskCollection(Protocol):
    """A data frame or an array of Dask."""

    def to_delayed(self) -> Sequence[Delayed] | np.ndarray:
        """Return a task for each partition."""


@dataclass
class Traffic:
    """Counts of the messages to and from the workers.

    Attributes
    ----------
    calls : int
        Number of calls to all blocks.
    sent, received : int
        Bytes of arrays, including those that blocks store.
    made : int
        Number of blocks created, including replacements of lost ones.
    """

    calls: int = 0
    sent: int = 0
    received: int = 0
    made: int = 0


@dataclass(frozen=True)
class _Task:
    """The blocks of one worker, with the arguments of a call."""

    numbers: list[int]
    tokens: list[str]
    own: list[tuple[object, ...]]


@dataclass(frozen=True, repr=False)
class _Message:
    """Data of a task, which workers do not write to their logs if the task fails.

    Dask 2024.8, for example, logs the first 1,000 characters of the arguments.
    """

    contents: Any


class DaskBlocks:
    """Blocks on the workers of a Dask cluster; see `Blocks`.

    Attributes
    ----------
    traffic : Traffic
    """

    def __init__(self, client: Client, recipes: Sequence[BlockRecipe], rows: list[int]) -> None:
        self.client, self.rows, self.traffic = client, rows, Traffic()
        self.device = "cpu"
        self._recipes = list(recipes)
        name = f"{client.id}-{next(_numbers)}"
        self._tokens = [f"{name}-{k}" for k in range(len(recipes))]
        self._kept: dict[str, Sequence[Any]] = {}
        self._dropped: list[str] = []
        there = worker_addresses(client)
        self._address = [there[k % len(there)] for k in range(len(recipes))]
        weakref.finalize(self, _release_blocks, client, list(self._tokens)).atexit = False

    def keep(self, key: str, values: Sequence[object]) -> None:
        """See `Blocks.keep`; the data are sent when a call first needs them."""
        self._kept[key] = values
        if key in self._dropped:
            self._dropped.remove(key)

    def drop(self, key: str) -> None:
        """See `Blocks.drop`; the next call informs the blocks."""
        self._kept.pop(key, None)
        self._dropped.append(key)  # no message now, since the garbage collector may call this

    def limit(self, threads: int) -> None:
        """See `Blocks.limit`; ignored, as workers keep the threads that they were started with."""

    def call(
        self, method: str, common: tuple[object, ...], own: Sequence[tuple[object, ...]]
    ) -> list:
        """See `Blocks.call`."""
        self.traffic.calls += 1
        dropped, self._dropped = self._dropped, []
        out: dict[int, Any] = {}
        todo = list(range(len(self.rows)))
        for _ in range(TRANSFER.max_rounds):
            futures = [
                (address, self._submit(task, address, method, common, dropped))
                for address, task in self._by_worker(todo, own)
            ]
            missing: list[tuple[int, str, str]] = []
            for asked, future in futures:
                answers = wait_for_result(self.client, future, asked)
                if answers is None:
                    self._reassign(asked)
                for address, k, answer in answers or []:
                    self._address[k] = address
                    if isinstance(answer, _Missing):
                        missing.append((k, address, answer.key))
                    else:
                        out[k] = answer
                        self.traffic.received += _size(answer)
            todo = [k for k in range(len(self.rows)) if k not in out]
            if not todo:
                return [out[k] for k in range(len(self.rows))]
            dropped = []
            self._send_missing(missing)
        raise RuntimeError(f"blocks {todo} could not be computed: workers were lost repeatedly")

    # -- workers ---------------------------------------------------------------------------------

    def _reassign(self, address: str) -> None:
        """Assign the blocks of a lost worker to others."""
        there = worker_addresses(self.client)
        if address not in there:
            self._address = [
                there[k % len(there)] if at == address else at for k, at in enumerate(self._address)
            ]

    def _by_worker(
        self, todo: Sequence[int], own: Sequence[tuple[object, ...]]
    ) -> list[tuple[str, _Task]]:
        """Group the blocks of a call by worker."""
        groups: dict[str, _Task] = {}
        for k in todo:
            task = groups.setdefault(self._address[k], _Task([], [], []))
            task.numbers.append(k)
            task.tokens.append(self._tokens[k])
            task.own.append(own[k])
        return list(groups.items())

    def _submit(
        self, task: _Task, address: str, method: str, common: tuple[object, ...], dropped: list[str]
    ) -> Future:
        """Submit a call to the blocks of one worker; returns its future."""
        size = _size(task.own) + _size(common)
        self.traffic.sent += size
        sent: Any = _Message((task, method, common, dropped))
        if size > TRANSFER.max_scheduler_bytes:
            sent = scattered(self.client, sent)
        return self.client.submit(
            _run_on_worker,
            sent,
            workers=[address],
            allow_other_workers=True,
            pure=False,
            priority=10,
        )

    def _send_missing(self, missing: Sequence[tuple[int, str, str]]) -> None:
        """Send missing recipes or stored data to blocks."""
        futures = []
        for k, address, key in missing:
            if key:
                value = self._kept[key][k]
                self.traffic.sent += _size(value)
            else:
                value = self._recipes[k]
                self.traffic.made += 1
            sent: Any = _Message((self._tokens[k], key, value))
            if _size(value) > TRANSFER.max_scheduler_bytes:
                sent = scattered(self.client, sent, [address])
            future = self.client.submit(
                _store_on_worker, sent, workers=[address], allow_other_workers=True, pure=False
            )
            futures.append((address, future))
        for address, future in futures:
            wait_for_result(
                self.client, future, address
            )  # a block that is lost again is missing again


# -- on the worker ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Missing:
    """The answer of a worker that lacks a block, or the stored data ``key`` of a block."""

    key: str = field(default="")


def _run_on_worker(sent: _Message) -> list[tuple[str, int, object]]:
    """Call a method of blocks on this worker; returns address, block number and answer of each."""
    from distributed import get_worker

    task, method, common, dropped = sent.contents
    address, out = get_worker().address, list[tuple[str, int, object]]()
    for k, token, own in zip(task.numbers, task.tokens, task.own, strict=True):
        block = _worker_blocks.get(token)
        if block is None:
            out.append((address, k, _Missing()))
            continue
        for key in dropped:
            block.drop(key)
        try:
            out.append((address, k, getattr(block, method)(*common, *own)))
        except BlockDataMissing as lost:
            out.append((address, k, _Missing(str(lost.args[0]))))
    return out


def _store_on_worker(sent: _Message) -> None:
    """Create a block on this worker, or store data in it."""
    token, key, value = sent.contents
    if key:
        block = _worker_blocks.get(token)
        if block is not None:
            block.keep(key, value)
        return
    block = value.block(value.design())
    with _lock:
        _worker_blocks[token] = block


def _summarize_on_worker(number: int, sent: _Message) -> BlockSummary:
    """Summarise a block on this worker."""
    return summarize_block(number, *sent.contents)


def _delete_on_worker(tokens: Sequence[str]) -> None:
    """Delete blocks on this worker."""
    with _lock:
        for token in tokens:
            _worker_blocks.pop(token, None)


def _release_blocks(client: Client, tokens: Sequence[str]) -> None:
    """Delete blocks on all workers, if the cluster is still running."""
    if client.status == "running" and client.loop is not None:
        # Workers refuse functions that are not coroutines with wait=False.
        client.loop.add_callback(client._run, _delete_on_worker, tokens, on_error="ignore")


# -- from collections ------------------------------------------------------------------------------


def summarize_blocks(
    client: Client, sources: Sequence[Source], counted: Sequence[np.ndarray] | None = None
) -> list[BlockSummary]:
    """Summarise all blocks on the workers; see `summarize_block`."""
    rows: Sequence[np.ndarray | None] = [None] * len(sources) if counted is None else counted
    out: dict[int, BlockSummary] = {}
    for _ in range(TRANSFER.max_rounds):
        futures = {
            k: client.submit(
                _summarize_on_worker, k, scattered(client, _Message((source, rows[k]))), pure=False
            )
            for k, source in enumerate(sources)
            if k not in out
        }
        for k, future in futures.items():
            read = wait_for_result(client, future)
            if read is not None:
                out[k] = read
        if len(out) == len(sources):
            return [out[k] for k in range(len(sources))]
    raise RuntimeError("blocks could not be read: workers were lost repeatedly")


def partitions(collection: DaskCollection) -> list[Callable[[], object]]:
    """Return functions that compute the partitions of a collection, in order of rows."""
    parts = collection.to_delayed()
    if isinstance(parts, np.ndarray):
        if parts.ndim == 2 and parts.shape[1] > 1:
            raise DataError(
                "The array's blocks do not contain whole rows; rechunk it: X.rechunk({1: -1})."
            )
        parts = parts.ravel().tolist()
    return [partial(_compute, part) for part in parts]


def _compute(part: Delayed) -> object:
    """Compute one partition of a collection in this thread."""
    return part.compute(scheduler="synchronous")


def _size(x: object) -> int:
    """Count the bytes of the arrays in a message."""
    if isinstance(x, np.ndarray):
        return int(x.nbytes)
    if isinstance(x, dict):
        return sum(_size(v) for v in x.values())
    if isinstance(x, list | tuple):
        return sum(_size(v) for v in x)
    if isinstance(x, partial):
        return _size(x.args)
    parts = getattr(x, "__dict__", None)
    return 0 if parts is None or isinstance(x, type) else _size(parts)
