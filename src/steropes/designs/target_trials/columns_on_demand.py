"""Columns of person-time for a fit, computed a block of rows at a time when they are used.

Person-time has the values already, often in short types. A table of numbers of double precision
would be most of the memory of an analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.design_matrix import Design
from steropes.design_matrix.column_storage import DenseBlock
from steropes.fit.shards import ShardedDesign

__all__ = ["columns_on_demand", "is_on_demand", "row_blocks", "rows_of"]

# Numbers up to which all columns are stored, in 64 MB, since computing them takes half of a fit.
MOST_STORED = 8_000_000
# Rows whose columns are in memory at a time otherwise, and the share of nonzero numbers below which
# all columns are stored too, because sparse columns take little memory.
ROWS_AT_ONCE = 65_536
SPARSE = 0.25
TURNED_AT_ONCE = 1024

# Returns all columns of some rows.
ReadColumns = Callable[[slice], list[NDArray]]


def columns_on_demand(
    names: Sequence[str], read: ReadColumns, n: int
) -> pd.DataFrame | ShardedDesign:
    """Return X of a fit: a table, or blocks of rows if the columns are long and dense.

    Parameters
    ----------
    names : sequence of str
    read : callable
        Maps a slice of rows to their columns.
    n : int
        Number of rows.
    """
    first = read(slice(0, min(n, ROWS_AT_ONCE)))
    share = np.mean([np.count_nonzero(x) / len(x) for x in first])
    if not is_on_demand(n, len(names)) or share < SPARSE:
        return pd.DataFrame(dict(zip(names, read(slice(0, n)), strict=True)), copy=False)
    blocks = [_Block(names, read, rows) for rows in row_blocks(n)]
    return ShardedDesign.from_blocks(blocks, memory=0.0)


def is_on_demand(n: int, p: int) -> bool:
    """Return whether p dense columns of n rows are computed when they are used."""
    return n * p > MOST_STORED


def rows_of(values: NDArray, at: NDArray) -> NDArray:
    """Return values at some places, as a view if these follow one another."""
    if len(at) and at[-1] - at[0] == len(at) - 1 and bool((at[1:] > at[:-1]).all()):
        return values[at[0] : at[-1] + 1]
    return values[at]


def row_blocks(n: int) -> list[slice]:
    """Divide n rows into those that are in memory at a time."""
    return [slice(a, min(a + ROWS_AT_ONCE, n)) for a in range(0, n, ROWS_AT_ONCE)]


@dataclass(frozen=True, repr=False)
class _Block:
    """Columns of some rows, which each call computes again."""

    names: Sequence[str]
    read: ReadColumns
    rows: slice

    def __call__(self) -> Design:
        p, n = len(self.names), self.rows.stop - self.rows.start
        values = np.empty((n, p))
        columns = self.read(self.rows)
        for a in range(0, n, TURNED_AT_ONCE):  # Columns become rows while they are in the cache.
            for j, x in enumerate(columns):
                values[a : a + TURNED_AT_ONCE, j] = x[a : a + TURNED_AT_ONCE]
        return Design([DenseBlock(values, np.zeros(p), np.ones(p))], self.names)
