"""Shards of this process, asked one after the other."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .shard_messages import Answer, Request, Shard

__all__ = ["LocalShards", "ShardBindings"]


class ShardBindings:
    """Reference-counted keys of replicates, derived from their weights and offsets."""

    def __init__(self) -> None:
        self.uses: Counter[str] = Counter()

    def take(self, weights: np.ndarray, offset: np.ndarray | None, B: int) -> tuple[str, bool]:
        """Return the key of replicates and whether it is new."""
        digest = hashlib.blake2b(digest_size=12)
        for x in (weights, offset):
            digest.update(b"none" if x is None else str(x.shape).encode())
            digest.update(b"" if x is None else np.ascontiguousarray(x).tobytes())
        key = f"{B}-{digest.hexdigest()}"
        self.uses[key] += 1
        return key, self.uses[key] == 1

    def drop(self, key: str) -> bool:
        """Release one use of a key; return whether it was the last one."""
        self.uses[key] -= 1
        if self.uses[key] > 0:
            return False
        del self.uses[key]
        return True


class LocalShards:
    """Shards in this process; see `Shards`."""

    def __init__(self, shards: Sequence[Shard], rows: Sequence[int]) -> None:
        self.shards = list(shards)
        self.cuts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self.rows = int(self.cuts[-1])
        self.bindings = ShardBindings()

    def bind(self, weights: np.ndarray, offset: np.ndarray | None, B: int) -> str:
        """See `Shards.bind`."""
        weights = np.broadcast_to(weights, (self.rows, B))
        key, new = self.bindings.take(weights, offset, B)
        if new:
            for shard, a, b in zip(self.shards, self.cuts[:-1], self.cuts[1:], strict=True):
                shard.bind(key, weights[a:b], None if offset is None else offset[a:b])
        return key

    def release(self, key: str) -> None:
        """See `Shards.release`."""
        if self.bindings.drop(key):
            for shard in self.shards:
                shard.release(key)

    def ask(self, request: Request) -> list[Answer]:
        """See `Shards.ask`."""
        return [shard.answer(request) for shard in self.shards]
