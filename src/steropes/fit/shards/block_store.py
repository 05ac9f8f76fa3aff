"""The sources of a design's blocks of rows, and the blocks created from them on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...design_matrix.column_checks import refuse_extreme
from ...design_matrix.scaling_across_shards import Moments, pooled
from ...errors import DataError
from .block_interface import Blocks
from .block_sources import BlockRecipe, BlockSummary, FunctionSource, Source, summarize_block
from .local_blocks import LocalBlocks
from .recreated_blocks import RecreatedBlocks
from .sharded_columns_by_row import split_by_block

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["BlockStore"]


@dataclass
class BlockStore:
    """The sources of the blocks, and the blocks created from them with a common scale.

    Attributes
    ----------
    sources : list of Source
        Where the rows of each block are read from.
    client : Client or None
        The Dask cluster that holds the blocks; None for blocks in this process.
    folder : Path or None
        The folder for blocks in files; None for blocks in memory.
    memory : float or None
        Bytes of active columns that blocks in files may keep; see `LocalBlocks`. 0 without a
        folder creates blocks anew for every call; see `RecreatedBlocks`.
    names : list of str
        Names of the columns.
    moments : Moments
        Moments of the columns, which determine their scale and centre.
    nnz : int
        Number of stored entries of all blocks.
    made : dict of (bool, bool) to Blocks
        The created blocks by (centred, with intercept).
    """

    sources: list[Source]
    client: Client | None
    folder: Path | None
    memory: float | None
    names: list[str]
    rows: list[int]
    moments: Moments
    nnz: int
    made: dict[tuple[bool, bool], Blocks] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sources: list[Source],
        names: Sequence[str] | None,
        client: Client | None,
        folder: str | Path | None,
        memory: float | None,
    ) -> BlockStore:
        """Summarise the blocks, and check that their columns agree."""
        if not sources:
            raise DataError("A sharded design needs at least one block of rows.")
        if client is not None and folder is not None:
            raise DataError("folder is for blocks in this process; omit it if client is given.")
        recreated = memory == 0 and all(isinstance(s, FunctionSource) for s in sources)
        if memory is not None and folder is None and (client is not None or not recreated):
            raise DataError(
                "memory applies to blocks in files, for which folder is needed too; memory=0 to "
                "blocks that are functions, in this process."
            )
        found = _summarized(client, sources)
        names = _common_names(found) if names is None else [str(s) for s in names]
        if len(names) != len(found[0].names):
            raise DataError(f"{len(names)} names for {len(found[0].names)} columns.")
        moments = pooled([s.moments for s in found])
        refuse_extreme(moments.scale(center=False), names)
        place = None if folder is None else Path(folder)
        return cls(
            sources, client, place, memory, names, [s.moments.n for s in found], moments,
            sum(s.entries for s in found),
        )  # fmt: skip

    def blocks(self, center: bool, intercept: bool) -> Blocks:
        """Return the blocks with a common scale, creating them at the first call."""
        key = center, intercept
        if key not in self.made:
            scale, middle = self.moments.scale(center), np.zeros(len(self.names))
            constant = np.zeros(len(self.names), bool)
            if center:
                middle, constant = self.moments.center(), self.moments.constant
            recipes = [
                BlockRecipe(s, self.names, scale, middle, constant, intercept, self._threads)
                for s in self.sources
            ]
            self.made[key] = self._place(recipes)
        return self.made[key]

    def scaled_by_rows(self, counted: np.ndarray | None) -> BlockStore:
        """Return a store with the scale and centre of the rows ``counted``, (n,) bool.

        The same store is returned if scale and centre of all rows suit these rows, which is the
        usual case; see `Moments.suits`.
        """
        if counted is None or not counted.any():
            return self
        parts = split_by_block(counted, self.rows)
        own = pooled([s.moments for s in _summarized(self.client, self.sources, parts)])
        if self.moments.suits(own):
            return self
        return replace(self, moments=own, made={})

    @property
    def _threads(self) -> int | None:
        """The threads of a worker; None for blocks in this process."""
        return None if self.client is None else min(self.client.nthreads().values(), default=1)

    def _place(self, recipes: list[BlockRecipe]) -> Blocks:
        """Create the blocks in this process or on the cluster's workers."""
        if self.client is None and self.folder is None and self.memory is not None:
            return RecreatedBlocks(recipes, self.rows)
        if self.client is None:
            return LocalBlocks(recipes, self.rows, self.folder, self.memory)
        from .dask_worker_blocks import DaskBlocks

        return DaskBlocks(self.client, recipes, self.rows)


def _summarized(
    client: Client | None, sources: list[Source], counted: Sequence[np.ndarray] | None = None
) -> list[BlockSummary]:
    """Summarise all blocks, in this process or on the workers; see `summarize_block`."""
    if client is not None:
        from .dask_worker_blocks import summarize_blocks

        return summarize_blocks(client, sources, counted)
    if counted is None:
        return [summarize_block(k, s) for k, s in enumerate(sources)]
    return [summarize_block(k, s, c) for k, (s, c) in enumerate(zip(sources, counted, strict=True))]


def _common_names(found: Sequence[BlockSummary]) -> list[str]:
    """Return the column names of the first block; raise an error if others differ."""
    first = found[0].names
    for k, one in enumerate(found):
        if len(one.names) != len(first):
            raise DataError(
                f"Block {k} has {len(one.names)} columns, and the first one {len(first)}."
            )
        if one.names != first:
            j = next(j for j, (a, b) in enumerate(zip(one.names, first, strict=True)) if a != b)
            raise DataError(
                f"Column {j} of block {k} is {one.names[j]!r}, and {first[j]!r} in the first one."
            )
    return first
