"""Blocks of rows that are created anew for every call, so that one is in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence

from .block_sources import BlockRecipe

__all__ = ["RecreatedBlocks"]


class RecreatedBlocks:
    """Blocks in this process that are released after each call; see `Blocks`.

    A call costs the creation of all blocks, so that this is for blocks that are computed or read
    faster than they are multiplied.
    """

    def __init__(self, recipes: Sequence[BlockRecipe], rows: list[int]) -> None:
        self.rows, self.device = rows, "cpu"
        self._recipes = list(recipes)
        self._kept: dict[str, Sequence[object]] = {}
        self._threads: int | None = None

    def keep(self, key: str, values: Sequence[object]) -> None:
        """See `Blocks.keep`."""
        self._kept[key] = list(values)

    def drop(self, key: str) -> None:
        """See `Blocks.drop`."""
        self._kept.pop(key, None)

    def limit(self, threads: int) -> None:
        """See `Blocks.limit`."""
        self._threads = threads

    def call(
        self, method: str, common: tuple[object, ...], own: Sequence[tuple[object, ...]]
    ) -> list:
        """See `Blocks.call`."""
        if method == "use_device":  # Applied to each block as it is created.
            return [None] * len(self.rows)
        return [self._call_one(k, method, common, mine) for k, mine in enumerate(own)]

    def _call_one(
        self, k: int, method: str, common: tuple[object, ...], own: tuple[object, ...]
    ) -> object:
        """Create a block with its stored data, call it, and release it."""
        recipe = self._recipes[k]
        block = recipe.block(recipe.design())
        if self._threads is not None:
            block.backend.pool.n_threads = self._threads
        if self.device != "cpu":
            block.use_device(self.device)
        for key, values in self._kept.items():
            block.keep(key, values[k])
        return getattr(block, method)(*common, *own)
