"""Blocks of rows in this process, in memory or in files that are read when needed."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...backends.cpu import NO_DATA
from ...design_matrix import Design
from ...design_matrix.column_storage import Block, DenseBlock, SparseBlock
from ...private_files import open_private, private_folder
from ..multi_fit_constants import TRANSFER
from .block_sources import BlockRecipe
from .row_block import RowBlock

__all__ = ["LocalBlocks"]


def write_design(design: Design, folder: Path) -> None:
    """Write the columns of a design without an intercept, one array a file."""
    private_folder(folder)
    kinds = []
    for k, b in enumerate(design.blocks):
        if isinstance(b, DenseBlock):
            kinds.append("dense")
            arrays = {"values": b.values, "center": b.center, "scale": b.scale}
        elif isinstance(b, SparseBlock):
            kinds.append("sparse")
            arrays = {"indptr": b.indptr, "indices": b.indices, "data": b.data, "scale": b.scale}
        else:
            raise ValueError("an intercept is not written")
        for name, x in arrays.items():
            path = folder / f"{k}-{name}.npy"
            with os.fdopen(open_private(path, os.O_WRONLY | os.O_EXCL), "wb") as columns:
                np.save(columns, np.ascontiguousarray(x))
    with os.fdopen(open_private(folder / "kinds.json", os.O_WRONLY | os.O_EXCL), "w") as file:
        json.dump({"n": design.n, "kinds": kinds}, file)


class MappedDesign:
    """A design with memory maps of files written by `write_design` as its large arrays.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.

    Attributes
    ----------
    design : Design
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._maps: list[Any] = []
        about = json.loads((folder / "kinds.json").read_text())
        blocks: list[Block] = []
        for k, kind in enumerate(about["kinds"]):

            def small(name: str, k: int = k) -> np.ndarray:
                return np.asarray(np.load(folder / f"{k}-{name}.npy"))

            if kind == "dense":
                values = self._map(folder / f"{k}-values.npy")
                blocks.append(DenseBlock(values, small("center"), small("scale")))
            else:
                indices = self._map(folder / f"{k}-indices.npy")
                data = self._map(folder / f"{k}-data.npy")
                data = data if len(data) else NO_DATA
                at = small("indptr")
                blocks.append(SparseBlock(about["n"], at, indices, data, small("scale")))
        self.design = Design(blocks, names)

    def _map(self, path: Path) -> np.ndarray:
        """Map an array into memory, or load it if it is smaller than a page."""
        whole = np.load(path) if path.stat().st_size < 4096 else np.load(path, mmap_mode="c")
        if isinstance(whole, np.memmap):
            self._maps.append(whole)
        return np.asarray(whole)

    def release(self) -> None:
        """Release the pages that were read; they are read again when needed."""
        for x in self._maps:
            x._mmap.madvise(mmap.MADV_DONTNEED)


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
