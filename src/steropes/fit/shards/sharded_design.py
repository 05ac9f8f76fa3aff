"""A design whose rows are in blocks: on disk, in other processes, or both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...backends.face import Backend
from ...design import as_design
from ...design.common_scale import Moments, pooled
from ...design.estimate import Columns, Estimated
from ...design.words import refuse_extreme
from ...errors import DataError
from .block_sources import (
    BlockRecipe,
    BlockSummary,
    FunctionSource,
    MatrixSource,
    Source,
    parquet_sources,
    summarize_block,
)
from .local_blocks import LocalBlocks
from .protocols import Blocks
from .sharded_rows import ShardedRows, split

__all__ = ["ShardedDesign"]

ROWS = 250_000  # of a block, about, where nobody says


@dataclass
class _Store:
    """The blocks as they were read, and as models want them."""

    sources: list[Source]
    client: Any
    folder: Path | None
    memory: float | None
    names: list[str]
    rows: list[int]
    moments: Moments
    nnz: int
    made: dict[tuple[bool, bool], Blocks] = field(default_factory=dict)

    def blocks(self, center: bool, intercept: bool) -> Blocks:
        """The blocks with a scale in common, made when they are first asked for."""
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

    def by(self, counted: np.ndarray | None) -> _Store:
        """The blocks with the scale and centre of the rows ``counted`` (n,), bool.

        The same blocks where those of all rows are near enough, as nearly always.
        """
        if counted is None or not counted.any():
            return self
        parts = split(counted, self.rows)
        own = pooled([s.moments for s in _summarized(self.client, self.sources, parts)])
        if self.moments.serves(own):
            return self
        return replace(self, moments=own, made={})

    @property
    def _threads(self) -> int | None:
        return None if self.client is None else min(self.client.nthreads().values(), default=1)

    def _place(self, recipes: list[BlockRecipe]) -> Blocks:
        if self.client is None:
            return LocalBlocks(recipes, self.rows, self.folder, self.memory)
        from .dask_blocks import DaskBlocks

        return DaskBlocks(self.client, recipes, self.rows)


class ShardedDesign(Estimated):
    """The matrix X in blocks of rows, of which each is where it can be worked on.

    Estimators take it as X. What they ask of rows they ask of the blocks, and add up in the order
    of the blocks, so the result is that of one machine to the last digits that the order of a sum
    allows, and to the last bit the same wherever the blocks are.

    FunctionSource by `from_parquet`, `from_blocks` and `from_dask`.

    Attributes
    ----------
    n, p : int
        Rows, columns.
    names : list of str
    nnz : int
        Stored entries.
    """

    plain: ClassVar[bool] = False  # columns cannot be read one by one

    def __init__(self, store: _Store, center: bool = False, intercept: bool = False) -> None:
        if not isinstance(store, _Store):
            raise DataError(
                "Blocks of rows are given as ShardedDesign.from_blocks(blocks), files as "
                "ShardedDesign.from_parquet(path), a Dask collection as "
                "ShardedDesign.from_dask(collection, client)."
            )
        self._store, self._centered, self._intercept = store, center, intercept
        self.n = int(sum(store.rows))
        self.names = [*(["intercept"] if intercept else []), *store.names]
        self.p = len(self.names)
        own = store.moments.scale(center)
        self.scale = np.append(1.0, own) if intercept else own
        self.nnz = store.nnz + (self.n if intercept else 0)

    # -- made of -------------------------------------------------------------------------------

    @classmethod
    def from_parquet(
        cls,
        path: str | Path | Iterable[str | Path],
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        rows: int = ROWS,
        client: Any = None,
        folder: str | Path | None = None,
        memory: float | None = None,
    ) -> ShardedDesign:
        """Columns of Parquet files.

        Parameters
        ----------
        path : path, or sequence of paths
            Files, or folders whose ``*.parquet`` files are taken by name.
        columns : sequence of str, optional
            Those of X; default all that are not in ``exclude``.
        exclude : sequence of str
            Those that are not X's: outcome, weights, strata. `read` gets them.
        rows : int
            Rows of a block, about; blocks are whole row groups, so that a person's or a stratum's
            rows are whole in a block where they are so in the row groups.
        client : dask.distributed.Client, optional
            Blocks are read, kept and worked on by its workers, who must see the files. Default:
            by this process.
        folder : path, optional
            Without a client: blocks are kept in files there and read when they are worked on, so
            that X may be larger than memory. The files are removed with the design.
        memory : float, optional
            With ``folder``: bytes that may be kept in memory of the columns that are worked on;
            default 2 GB. What does not fit is read from the files at each step.

        Raises
        ------
        DataError
            Files or columns that are not there, and what `as_design` refuses.
        """
        return cls._of(
            list(parquet_sources(path, columns, exclude, rows)), None, client, folder, memory
        )

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[Any],
        *,
        names: Sequence[str] | None = None,
        client: Any = None,
        folder: str | Path | None = None,
        memory: float | None = None,
    ) -> ShardedDesign:
        """Blocks one below the other.

        Parameters
        ----------
        blocks : iterable of matrices, tables or functions
            Each with the same columns: what estimators take as X, or a function without arguments
            that returns it, whenever it is called (with a client: on the worker).
        names : sequence of str, optional
            Of the columns, instead of their own.
        client, folder, memory
            As in `from_parquet`.
        """
        sources: list[Source] = [
            FunctionSource(block) if callable(block) else _given(number, block, names)
            for number, block in enumerate(blocks)
        ]
        return cls._of(sources, names, client, folder, memory)

    @classmethod
    def from_dask(cls, collection: Any, client: Any) -> ShardedDesign:
        """A Dask data frame or array (in blocks of rows), one block a partition.

        Parameters
        ----------
        collection : dask.dataframe.DataFrame or dask.array.Array
            Workers compute their partitions, again where one is lost; not yet persisted.
        client : dask.distributed.Client
        """
        from .dask_blocks import partitions

        return cls._of(
            [FunctionSource(part) for part in partitions(collection)], None, client, None, None
        )

    @classmethod
    def _of(
        cls,
        sources: list[Source],
        names: Sequence[str] | None,
        client: Any,
        folder: str | Path | None,
        memory: float | None,
    ) -> ShardedDesign:
        if not sources:
            raise DataError("A sharded design needs at least one block of rows.")
        if client is not None and folder is not None:
            raise DataError("folder is for blocks of this process; leave it out beside client.")
        if memory is not None and folder is None:
            raise DataError("memory says what a design in a folder may keep; give folder too.")
        found = _summarized(client, sources)
        names = _same_names(found) if names is None else [str(s) for s in names]
        if len(names) != len(found[0].names):
            raise DataError(f"{len(names)} names for {len(found[0].names)} columns.")
        moments = pooled([s.moments for s in found])
        refuse_extreme(moments.scale(False), names)
        place = None if folder is None else Path(folder)
        store = _Store(
            sources, client, place, memory, names, [s.moments.n for s in found], moments,
            sum(s.entries for s in found),
        )  # fmt: skip
        return cls(store)

    # -- what users ask ------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self.n, self.p

    @property
    def rows(self) -> list[int]:
        """How many rows each block has."""
        return list(self._store.rows)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"ShardedDesign({self.n} x {self.p} in {len(self.rows)} blocks)"

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Refused: the rows are in blocks because they do not fit, or are elsewhere."""
        raise DataError(
            "A ShardedDesign is for fit, predict and score; here rows in memory are needed. Give "
            "those that matter as a table or matrix."
        )

    def read(self, column: str) -> np.ndarray:
        """Values (n,) of a column of the files, such as the outcome, in the order of the rows."""
        return np.concatenate([s.column(column) for s in self._store.sources])

    def stored(self) -> Columns:
        """Entries of each column."""
        m = self._store.moments
        return Columns(self.n, m.counts, ~m.ones)

    # -- what models ask: see `DesignLike` -------------------------------------------------------

    @property
    def blocks(self) -> Blocks:
        """The blocks, with the scale and the centre of all."""
        return self._store.blocks(self._centered, self._intercept)

    @property
    def center(self) -> np.ndarray:
        """See `DesignLike.center`."""
        own = self._store.moments.center() if self._centered else np.zeros(len(self._store.names))
        return np.append(0.0, own) if self._intercept else own

    def centered(self, counted: np.ndarray | None = None) -> ShardedDesign:
        """The same design with dense columns centred; see `Design.centered`."""
        return ShardedDesign(self._store.by(counted), True, self._intercept)

    def scaled_by(self, counted: np.ndarray) -> ShardedDesign:
        """See `Design.scaled_by`."""
        return ShardedDesign(self._store.by(counted), self._centered, self._intercept)

    def uncentered(self) -> ShardedDesign:
        """The same design with every column as the user gave it."""
        return ShardedDesign(self._store, False, self._intercept)

    def with_intercept(self) -> ShardedDesign:
        """The same design with a column of ones in front."""
        return ShardedDesign(self._store, self._centered, True)

    def centers_at(self, beta: np.ndarray) -> np.ndarray:
        """See `DesignLike.centers_at`."""
        return np.array([self.center @ beta])

    def uncentered_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """See `DesignLike.uncentered_coefficients`."""
        out = np.array(beta, np.float64)
        if self._intercept:
            out[0] -= self.center @ out
        return out

    def matmul(self, D: np.ndarray, backend: Backend) -> np.ndarray:
        """See `DesignLike.matmul`; n × B numbers come back from the blocks."""
        D = np.asarray(D)
        chosen = np.flatnonzero(np.any(D != 0, axis=1))
        blocks = self.blocks
        own: list[tuple[Any, ...]] = [()] * len(blocks.rows)
        return np.concatenate(blocks.call("products", (chosen, D[chosen]), own))

    def rmatmul(
        self, R: np.ndarray, backend: Backend, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """See `DesignLike.rmatmul`; n × B numbers go to the blocks."""
        blocks = self.blocks
        parts = blocks.call("transposed", (chosen,), [(r,) for r in split(R, blocks.rows)])
        return _total(parts)

    def by_rows(self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend) -> Any:
        """See `DesignLike.by_rows`."""
        return ShardedRows(self.blocks, chosen, order, backend)


def _given(number: int, block: Any, names: Sequence[str] | None) -> MatrixSource:
    """Read a block that is a matrix or table; a refusal names the block."""
    try:
        return MatrixSource(as_design(block, names))
    except DataError as error:
        raise DataError(f"Block {number}: {error}") from None


def _summarized(
    client: Any, sources: list[Source], counted: Sequence[np.ndarray] | None = None
) -> list[BlockSummary]:
    """What blocks say of themselves, wherever they are; see `summarize_block`."""
    if client is not None:
        from .dask_blocks import summarize_blocks

        return summarize_blocks(client, sources, counted)
    if counted is None:
        return [summarize_block(k, s) for k, s in enumerate(sources)]
    return [summarize_block(k, s, c) for k, (s, c) in enumerate(zip(sources, counted, strict=True))]


def _total(parts: Sequence[np.ndarray]) -> np.ndarray:
    out = np.array(parts[0], np.float64)
    for part in parts[1:]:
        out += part
    return out


def _same_names(found: Sequence[BlockSummary]) -> list[str]:
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
