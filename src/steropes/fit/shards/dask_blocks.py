"""Blocks on the workers of a Dask cluster.

Each block is on one worker, which makes it from its recipe when it is first asked. A task brings
what is asked, and the names of blocks that should be there; it says so where one is not, as on a
worker that has taken a lost one's place, and the block is sent, with all that it was given to keep,
and asked again. So a worker that dies costs the time of making its blocks anew.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...errors import DataError
from ..dask_transfer import ROUNDS, wait_for_result, worker_addresses
from ..dask_transfer import scatter_to_worker as scattered
from .block_sources import BlockRecipe, BlockSummary, Source, summarize_block
from .row_block import BlockDataMissing, RowBlock

__all__ = ["DaskBlocks", "Traffic", "partitions", "summarize_blocks"]

LARGE = 1_000_000  # bytes of a message from which on it does not go by way of the scheduler

_numbers = itertools.count()
_here: dict[str, RowBlock] = {}  # of this process, where it is a worker
_lock = threading.Lock()


@dataclass
class Traffic:
    """What went to the workers and came back.

    Attributes
    ----------
    calls : int
        Times that all blocks were asked.
    sent, received : int
        Bytes of arrays, those that were given to be kept among them.
    made : int
        Blocks made, the first time and in place of lost ones.
    """

    calls: int = 0
    sent: int = 0
    received: int = 0
    made: int = 0


@dataclass(frozen=True)
class _Task:
    """Blocks that a worker is asked at once."""

    numbers: list[int]
    tokens: list[str]
    own: list[tuple[Any, ...]]


class DaskBlocks:
    """See `Blocks`.

    Parameters
    ----------
    client : dask.distributed.Client
    recipes : sequence of BlockRecipe
    rows : list of int

    Attributes
    ----------
    traffic : Traffic
    """

    def __init__(self, client: Any, recipes: Sequence[BlockRecipe], rows: list[int]) -> None:
        self.client, self.rows, self.traffic = client, rows, Traffic()
        self._recipes = list(recipes)
        name = f"{client.id}-{next(_numbers)}"
        self._tokens = [f"{name}-{k}" for k in range(len(recipes))]
        self._kept: dict[str, Sequence[Any]] = {}
        self._dropped: list[str] = []
        there = worker_addresses(client)
        self._at = [there[k % len(there)] for k in range(len(recipes))]
        weakref.finalize(self, _let_go, client, list(self._tokens)).atexit = False

    def keep(self, key: str, values: Sequence[Any]) -> None:
        """See `Blocks.keep`; a block gets it when it is first asked for what needs it."""
        self._kept[key] = values
        if key in self._dropped:
            self._dropped.remove(key)

    def drop(self, key: str) -> None:
        """See `Blocks.drop`; blocks hear of it with the next call."""
        self._kept.pop(key, None)
        self._dropped.append(key)  # not now: this may be called by the collector of garbage

    def limit(self, threads: int) -> None:
        """See `Blocks.limit`: workers take the threads that they were started with."""

    def call(self, method: str, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]]) -> list:
        """See `Blocks.call`."""
        self.traffic.calls += 1
        dropped, self._dropped = self._dropped, []
        out: dict[int, Any] = {}
        todo = list(range(len(self.rows)))
        for _ in range(ROUNDS):
            futures = [
                (address, self._submit(task, address, method, common, dropped))
                for address, task in self._by_worker(todo, own)
            ]
            lacking: list[tuple[int, str, str]] = []
            for asked, future in futures:
                answers = wait_for_result(self.client, future, asked)
                if answers is None:
                    self._leave(asked)
                for address, k, answer in answers or []:
                    self._at[k] = address
                    if isinstance(answer, _Lacks):
                        lacking.append((k, address, answer.key))
                    else:
                        out[k] = answer
                        self.traffic.received += _size(answer)
            todo = [k for k in range(len(self.rows)) if k not in out]
            if not todo:
                return [out[k] for k in range(len(self.rows))]
            dropped = []
            self._send(lacking)
        raise RuntimeError(f"blocks {todo} could not be worked on: workers keep being lost")

    # -- workers ---------------------------------------------------------------------------------

    def _leave(self, address: str) -> None:
        """Let blocks be asked where there is a worker, if theirs is gone."""
        there = worker_addresses(self.client)
        if address not in there:
            self._at = [
                there[k % len(there)] if at == address else at for k, at in enumerate(self._at)
            ]

    def _by_worker(
        self, todo: Sequence[int], own: Sequence[tuple[Any, ...]]
    ) -> list[tuple[str, _Task]]:
        groups: dict[str, _Task] = {}
        for k in todo:
            task = groups.setdefault(self._at[k], _Task([], [], []))
            task.numbers.append(k)
            task.tokens.append(self._tokens[k])
            task.own.append(own[k])
        return list(groups.items())

    def _submit(
        self, task: _Task, address: str, method: str, common: tuple[Any, ...], dropped: list[str]
    ) -> Any:
        size = _size(task.own) + _size(common)
        self.traffic.sent += size
        sent: Any = (task, method, common, dropped)
        if size > LARGE:
            sent = scattered(self.client, sent)
        return self.client.submit(
            _run, sent, workers=[address], allow_other_workers=True, pure=False, priority=10
        )

    def _send(self, lacking: Sequence[tuple[int, str, str]]) -> None:
        """Give blocks what they lack: a recipe, or what they were to keep."""
        futures = []
        for k, address, key in lacking:
            if key:
                value = self._kept[key][k]
                self.traffic.sent += _size(value)
            else:
                value = self._recipes[k]
                self.traffic.made += 1
            sent: Any = (self._tokens[k], key, value)
            if _size(value) > LARGE:
                sent = scattered(self.client, sent, [address])
            future = self.client.submit(
                _give, sent, workers=[address], allow_other_workers=True, pure=False
            )
            futures.append((address, future))
        for address, future in futures:
            wait_for_result(
                self.client, future, address
            )  # a block that is lost again is lacking again


# -- on the worker ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lacks:
    """A block is not there, or has not what ``key`` says."""

    key: str = field(default="")


def _run(sent: Any) -> list[tuple[str, int, Any]]:
    """Ask the blocks of this worker."""
    from distributed import get_worker

    task, method, common, dropped = sent
    address, out = get_worker().address, []
    for k, token, own in zip(task.numbers, task.tokens, task.own, strict=True):
        block = _here.get(token)
        if block is None:
            out.append((address, k, _Lacks()))
            continue
        for key in dropped:
            block.drop(key)
        try:
            out.append((address, k, getattr(block, method)(*common, *own)))
        except BlockDataMissing as lost:
            out.append((address, k, _Lacks(str(lost.args[0]))))
    return out


def _give(sent: Any) -> None:
    """Make a block, or give it something to keep."""
    token, key, value = sent
    if key:
        block = _here.get(token)
        if block is not None:
            block.keep(key, value)
        return
    block = value.block(value.design())
    with _lock:
        _here[token] = block


def _forget(tokens: Sequence[str]) -> None:
    with _lock:
        for token in tokens:
            _here.pop(token, None)


def _let_go(client: Any, tokens: Sequence[str]) -> None:
    """Let the workers forget blocks, if there are still some."""
    if client.status == "running":
        client.loop.add_callback(client._run, _forget, tokens, wait=False, on_error="ignore")


# -- from collections ------------------------------------------------------------------------------


def summarize_blocks(
    client: Any, sources: Sequence[Source], counted: Sequence[np.ndarray] | None = None
) -> list[BlockSummary]:
    """Let the workers read all blocks for the first time, or again: see `summarize_block`."""
    rows: Sequence[np.ndarray | None] = [None] * len(sources) if counted is None else counted
    out: dict[int, BlockSummary] = {}
    for _ in range(ROUNDS):
        futures = {
            k: client.submit(summarize_block, k, scattered(client, source), rows[k], pure=False)
            for k, source in enumerate(sources)
            if k not in out
        }
        for k, future in futures.items():
            read = wait_for_result(client, future)
            if read is not None:
                out[k] = read
        if len(out) == len(sources):
            return [out[k] for k in range(len(sources))]
    raise RuntimeError("blocks could not be read: workers keep being lost")


def partitions(collection: Any) -> list[Any]:
    """Functions that compute the parts of a collection, from the first rows to the last."""
    parts = collection.to_delayed()
    if isinstance(parts, np.ndarray):
        if parts.ndim == 2 and parts.shape[1] > 1:
            raise DataError(
                "The array's blocks are not of whole rows; rechunk it: X.rechunk({1: -1})."
            )
        parts = parts.ravel().tolist()
    return [partial(_compute, part) for part in parts]


def _compute(part: Any) -> Any:
    return part.compute(scheduler="synchronous")


def _size(x: Any) -> int:
    """Bytes of the arrays in a message."""
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
