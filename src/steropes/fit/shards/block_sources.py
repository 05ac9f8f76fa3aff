"""Sources of blocks of rows, which can be read repeatedly and by any process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...backends import host_backend
from ...design_matrix import Design, design_of_numbers
from ...design_matrix.scaling_across_shards import Moments, moments_of, rescaled
from ...errors import DataError
from .row_block import RowBlock

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "BlockRecipe",
    "BlockSummary",
    "FunctionSource",
    "MatrixSource",
    "ParquetSource",
    "Source",
    "parquet_sources",
    "summarize_block",
]


class Source(Protocol):
    """A source of rows of X."""

    def load(self) -> object:
        """Return a matrix or table of numbers that `as_design` accepts."""

    def column(self, name: str) -> np.ndarray:
        """Return one column of the table, which need not belong to X."""


@dataclass(frozen=True)
class MatrixSource:
    """A matrix in memory."""

    design: Design

    def load(self) -> object:
        """See `Source.load`."""
        return self.design

    def column(self, name: str) -> np.ndarray:
        """See `Source.column`."""
        raise DataError("X was given as matrices, so there are no other columns to read.")


@dataclass(frozen=True)
class FunctionSource:
    """A function without arguments that returns the same matrix or table at each call."""

    make: Callable[[], Any]

    def load(self) -> object:
        """See `Source.load`."""
        return self.make()

    def column(self, name: str) -> np.ndarray:
        """See `Source.column`."""
        table = self.make()
        try:
            return np.asarray(table[name])
        except (KeyError, IndexError, TypeError, ValueError):
            raise DataError(f"The blocks have no column {name!r}.") from None


@dataclass(frozen=True)
class ParquetSource:
    """A range of row groups of a Parquet file."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]

    def load(self) -> object:
        """See `Source.load`."""
        return self._table(self.columns)

    def column(self, name: str) -> np.ndarray:
        """See `Source.column`."""
        from pyarrow import ArrowInvalid

        try:
            table = self._table((name,))
        except (KeyError, ArrowInvalid):
            table = None
        if table is None or name not in table.column_names:
            raise DataError(f"{self.path} has no column {name!r}.")
        return np.asarray(table.column(name).to_numpy())

    def _table(self, columns: Sequence[str]) -> pyarrow.Table:
        """Read some columns of the row groups."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            return file.read_row_groups(list(self.groups), columns=list(columns))


def parquet_sources(
    paths: str | Path | Iterable[str | Path],
    columns: Sequence[str] | None,
    exclude: Sequence[str],
    rows: int,
) -> list[ParquetSource]:
    """Divide Parquet files, or those of folders in order of names, into ranges of row groups."""
    import pyarrow.parquet as pq

    if isinstance(paths, str | Path):
        paths = [paths]
    files: list[Path] = []
    for path in map(Path, paths):
        files += sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"There is no Parquet file in {', '.join(map(str, paths))}.")
    out = []
    wanted: tuple[str, ...] | None = None if columns is None else tuple(columns)
    for path in files:
        if not path.exists():
            raise DataError(f"There is no file {path}.")
        meta = pq.read_metadata(path)
        there = meta.schema.to_arrow_schema().names
        lacking = [c for c in (*(wanted or ()), *exclude) if c not in there]
        if lacking:
            raise DataError(f"{path} has no column {lacking[0]!r}.")
        if wanted is None:
            wanted = tuple(c for c in there if c not in set(exclude))
        counts = np.array([meta.row_group(g).num_rows for g in range(meta.num_row_groups)])
        if counts.sum() == 0:
            continue
        number = (np.cumsum(counts) - counts) // max(rows, 1)
        for block in np.unique(number):
            groups = tuple(int(g) for g in np.flatnonzero(number == block))
            out.append(ParquetSource(str(path.absolute()), groups, wanted))
    if not out:
        raise DataError("The Parquet files have no rows.")
    return out


@dataclass(frozen=True)
class BlockSummary:
    """Properties of a block that determine the common scale of the columns."""

    names: list[str]
    moments: Moments
    entries: int


def summarize_block(number: int, source: Source, counted: np.ndarray | None = None) -> BlockSummary:
    """Read a block and summarise it, or only its rows ``counted``, (n,) bool."""
    try:
        design = design_of_numbers(source.load())
    except DataError as error:
        raise DataError(f"RowBlock {number}: {error}") from None
    return BlockSummary(design.names, moments_of(design, counted), design.nnz)


@dataclass(frozen=True)
class BlockRecipe:
    """A recipe that creates a block, repeatedly if necessary.

    Attributes
    ----------
    names : sequence of str
        Names of X's columns.
    scale, center : (p,) arrays
        Scale and centre of X's columns.
    constant : (p,) bool array
        Dense columns that do not vary.
    intercept : bool
        Whether a column of ones is inserted in front.
    threads : int or None
        Number of threads of the block's backend.
    """

    source: Source
    names: Sequence[str]
    scale: np.ndarray
    center: np.ndarray
    constant: np.ndarray
    intercept: bool
    threads: int | None

    def design(self) -> Design:
        """Create the block's columns with the common scale, without an intercept."""
        design = design_of_numbers(self.source.load(), self.names, copy=False)
        return rescaled(design, self.scale, self.center, self.constant)

    def block(self, design: Design) -> RowBlock:
        """Create the block from its columns, which may be memory maps."""
        if self.intercept:
            design = design.with_intercept()
        return RowBlock(design, host_backend(self.threads))
