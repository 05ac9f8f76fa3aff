"""Transfer of data to and from the workers of a Dask cluster, which may be lost meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from .multi_fit_constants import TRANSFER

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["scatter_to_worker", "wait_for_result", "worker_addresses"]


def scatter_to_worker(client: Client, value: object, to: Sequence[str] | None = None) -> Any:
    """Scatter a value to one worker and return its future.

    The value is not broadcast, since a broadcast never returns if a worker dies meanwhile, and Dask
    soon removes copies that no task needs.

    Parameters
    ----------
    to : sequence of str, optional
        Addresses of workers. One of them receives the value, or any other if all are lost.

    Raises
    ------
    RuntimeError
        No worker appears within the timeout.
    """
    for left in reversed(range(TRANSFER.max_rounds)):
        try:
            return client.scatter([value], workers=to, hash=False, timeout=TRANSFER.poll_seconds)[0]
        except (OSError, KeyError):  # the worker was lost meanwhile, or is no longer registered
            to = None
            if not left:
                raise
            worker_addresses(client)


def wait_for_result(client: Client, future: Future, address: str | None = None) -> Any:
    """Wait for the result of a task; None if the task or its data were lost with a worker.

    If all workers are lost at once, Dask never reassigns a task that prefers one worker but allows
    others. The existence of the preferred worker is therefore checked at intervals.

    Parameters
    ----------
    address : str, optional
        Address of the worker that the task prefers.

    Raises
    ------
    RuntimeError
        No worker appears within the timeout.
    """
    while True:
        try:
            return future.result(timeout=TRANSFER.poll_seconds)
        except CancelledError:
            return None
        except TimeoutError:
            if future.status == "error":  # raised by the task itself
                raise
            if address is not None and address not in worker_addresses(client):
                future.cancel()
                return None


def worker_addresses(client: Client) -> list[str]:
    """Return the sorted addresses of the workers; wait for a first one if necessary.

    Raises
    ------
    RuntimeError
        No worker appears within the timeout.
    """
    there = _addresses(client)
    if not there:
        try:
            client.wait_for_workers(1, timeout=TRANSFER.worker_timeout)
        except TimeoutError as error:
            raise RuntimeError(
                "The Dask cluster has no workers, and none started in "
                f"{TRANSFER.worker_timeout:.0f} seconds; start some and fit again."
            ) from error
        there = _addresses(client)
    return there


def _addresses(client: Client) -> list[str]:
    """Return the sorted addresses of the current workers."""
    return sorted(client.scheduler_info(n_workers=-1)["workers"])
