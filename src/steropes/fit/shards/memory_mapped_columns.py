"""Columns of a block in files that are mapped into memory and released after use."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...backends.cpu import NO_DATA
from ...design import Design
from ...design.column_storage import Block, DenseBlock, SparseBlock
from ...private_files import open_private, private_folder

__all__ = ["MappedDesign", "write_design"]


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
