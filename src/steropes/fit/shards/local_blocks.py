"""Blocks of rows in this process, in memory or in files that are read when needed."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from ...private_files import private_folder
from ..multi_fit_constants import TRANSFER
from .block_sources import BlockRecipe
from .memory_mapped_columns import MappedDesign, write_design
from .row_block import RowBlock

__all__ = ["LocalBlocks"]


class LocalBlocks:
    """Blocks in this process that are called one after another; see `Blocks`.

    Parameters
    ----------
    folder : path, optional
        Folder for the blocks' files; None keeps them in memory.
    memory : float, optional
        Bytes of memory for columns of the working set if blocks are in files.
    """

    def __init__(
        self,
        recipes: Sequence[BlockRecipe],
        rows: list[int],
        folder: Path | None = None,
        memory: float | None = None,
    ) -> None:
        self.rows, self.device = rows, "cpu"
        self._maps: list[MappedDesign | None] = []
        self._blocks: list[RowBlock] = []
        self._allowed = (TRANSFER.max_active_bytes if memory is None else memory) / len(recipes)
        if folder is None:
            for recipe in recipes:
                self._maps.append(None)
                self._blocks.append(recipe.block(recipe.design()))
            return
        private_folder(folder)
        place = Path(tempfile.mkdtemp(prefix="blocks-", dir=folder))
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        for k, recipe in enumerate(recipes):
            write_design(recipe.design(), place / f"{k:06d}")
            mapped = MappedDesign(place / f"{k:06d}", recipe.names)
            self._maps.append(mapped)
            self._blocks.append(recipe.block(mapped.design))
            mapped.release()  # The creation of the block has read the whole file.

    def keep(self, key: str, values: Sequence[object]) -> None:
        """See `Blocks.keep`."""
        for block, value in zip(self._blocks, values, strict=True):
            block.keep(key, value)

    def drop(self, key: str) -> None:
        """See `Blocks.drop`."""
        for block in self._blocks:
            block.drop(key)

    def limit(self, threads: int) -> None:
        """See `Blocks.limit`."""
        for block in self._blocks:
            block.backend.pool.n_threads = threads

    def call(
        self, method: str, common: tuple[object, ...], own: Sequence[tuple[object, ...]]
    ) -> list:
        """See `Blocks.call`."""
        out = []
        for block, mapped, mine in zip(self._blocks, self._maps, own, strict=True):
            out.append(getattr(block, method)(*common, *mine))
            if mapped is not None:
                mapped.release()
                if block.bytes > self._allowed:
                    block.forget()  # Columns by rows are created again when needed.
        return out
