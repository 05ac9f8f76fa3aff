"""Data on their way to the workers of a Dask cluster, some of which may be gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ROUNDS", "sent"]

ROUNDS = 20  # times that something is sent while workers come and go


def sent(client: Any, value: Any, workers: Sequence[str] | None = None) -> Any:
    """Scatter a value to one worker; returns its future.

    It is not broadcast: that would wait for ever for a worker that dies meanwhile, and Dask soon
    removes copies that no task waits for.

    Parameters
    ----------
    client : dask.distributed.Client
    value : object
    workers : sequence of str, optional
        Addresses, of which one gets it; where they are gone, any other.
    """
    for left in reversed(range(ROUNDS)):
        try:
            return client.scatter([value], workers=workers, hash=False)[0]
        except (OSError, KeyError):  # the worker was lost meanwhile, or is known no more
            workers = None
            if not left:
                raise
