"""Data on their way to the workers of a Dask cluster and back, some of which may be gone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

__all__ = ["PAUSE", "ROUNDS", "scatter_to_worker", "wait_for_result", "worker_addresses"]

ROUNDS = 20  # times that something is scatter_to_worker while workers come and go
PAUSE = 5.0  # seconds after which one asks whether what one waits for can still come
PATIENCE = 60.0  # seconds without any worker


def scatter_to_worker(client: Any, value: Any, to: Sequence[str] | None = None) -> Any:
    """Scatter a value to one worker; returns its future.

    It is not broadcast: that would wait for ever for a worker that dies meanwhile, and Dask soon
    removes copies that no task waits for.

    Parameters
    ----------
    client : dask.distributed.Client
    value : object
    to : sequence of str, optional
        Addresses of workers, of which one gets it; where they are gone, any other.

    Raises
    ------
    RuntimeError
        Where no worker is there, and none comes.
    """
    for left in reversed(range(ROUNDS)):
        try:
            return client.scatter([value], workers=to, hash=False, timeout=PAUSE)[0]
        except (OSError, KeyError):  # the worker was lost meanwhile, or is known no more
            to = None
            if not left:
                raise
            worker_addresses(client)


def wait_for_result(client: Any, future: Any, address: str | None = None) -> Any:
    """Wait for what a task returns; None where the task, or its message, went with a worker.

    A task that was meant for one worker, others being allowed, is not given to those that come
    after all were lost at once: Dask leaves it without a worker for ever. So its address is looked
    for from time to time.

    Parameters
    ----------
    client : dask.distributed.Client
    future : dask.distributed.Future
    address : str, optional
        Of the worker that the task was meant for.

    Raises
    ------
    RuntimeError
        Where no worker is there, and none comes.
    """
    while True:
        try:
            return future.result(timeout=PAUSE)
        except CancelledError:
            return None
        except TimeoutError:
            if future.status == "error":  # the task's own
                raise
            if address is not None and address not in worker_addresses(client):
                future.cancel()
                return None


def worker_addresses(client: Any) -> list[str]:
    """Addresses, in an order; where there are none, some are awaited for a while.

    Raises
    ------
    RuntimeError
        Where none come.
    """
    there = _addresses(client)
    if not there:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise RuntimeError(
                f"The Dask cluster has no workers, and none came in {PATIENCE:.0f} seconds; "
                "start some and fit again."
            ) from error
        there = _addresses(client)
    return there


def _addresses(client: Any) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])
