"""Columns of a sharded design, by rows in the model's order.

The operations transfer vectors as long as the rows. The solver's steps avoid them if the likelihood
is a sum over blocks (`ShardedTerm`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from ...backends.backend_interface import Backend
from ...design_matrix.design_interfaces import DesignLike
from ...solve.data_term.sharded.shard_messages import joined_rows, sum_in_order
from .block_interface import Blocks

__all__ = ["ShardedRows", "split_by_block"]


def split_by_block(x: np.ndarray, rows: Sequence[int]) -> list[np.ndarray]:
    """Split the rows of an array by block."""
    return np.split(x, np.cumsum(rows)[:-1])


class ShardedRows:
    """Columns of a sharded design by rows, without ``lines`` and ``dense``; see `RowsLike`.

    Parameters
    ----------
    chosen : (k,) int array
        The columns.
    order : (m,) int array or None
        The row of X of each row of the model, each at most once; None is the identity.
    """

    layout: ClassVar[Literal["rows"]] = "rows"
    lines = None
    dense = None

    def __init__(
        self, blocks: Blocks, chosen: np.ndarray, order: np.ndarray | None, backend: Backend
    ) -> None:
        self.blocks, self.order, self.backend = blocks, order, backend
        self.chosen = np.asarray(chosen, np.int64)
        self.n_x = int(sum(blocks.rows))
        self.n = self.n_x if order is None else len(order)
        self.k = len(self.chosen)
        self.sparse_at = self.dense_at = np.empty(0, np.int64)
        self._entries: int | None = None

    def grown(
        self, design: DesignLike, chosen: np.ndarray, order: np.ndarray | None
    ) -> ShardedRows:
        """See `RowsLike.grown`."""
        return ShardedRows(self.blocks, chosen, order, self.backend)

    def taken(self, people: np.ndarray) -> ShardedRows:
        """Return the columns for some rows of X, each at most once."""
        assert self.order is None
        return ShardedRows(self.blocks, self.chosen, people, self.backend)

    @property
    def entries(self) -> int:
        """See `RowsLike.entries`."""
        if self._entries is None:
            self._entries = int(sum(self._call_blocks("entries", ())))
        return self._entries

    def _call_blocks(self, method: str, common: tuple[object, ...], *own: np.ndarray) -> list:
        """Call a method of the blocks, each with its part of vectors over all rows."""
        rows = self.blocks.rows
        parts = [split_by_block(x, rows) for x in own]
        mine: list[tuple[object, ...]] = [tuple(p[i] for p in parts) for i in range(len(rows))]
        return self.blocks.call(method, (self.chosen, *common), mine)

    def _to_rows_of_x(self, x: np.ndarray) -> np.ndarray:
        """Reorder numbers of the model's rows to the rows of X, with zeros for absent rows."""
        if self.order is None:
            return x
        out = np.zeros((self.n_x, *x.shape[1:]), x.dtype)
        out[self.order] = x
        return out

    def matmul(self, D: np.ndarray) -> np.ndarray:
        """See `RowsLike.matmul`."""
        if self.k == 0:
            return np.zeros((self.n, D.shape[1]))
        out = joined_rows(self._call_blocks("row_products", (D,)), self.blocks.rows)
        return out if self.order is None else out[self.order]

    def rmatmul(self, R: np.ndarray) -> np.ndarray:
        """See `RowsLike.rmatmul`."""
        if self.k == 0:
            return np.zeros((0, R.shape[1]))
        return sum_in_order(self._call_blocks("row_transposed", (), self._to_rows_of_x(R)))

    def gram(self, v: np.ndarray, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `RowsLike.gram`."""
        strip = sum_in_order(self._call_blocks("gram", (first, rough), self._to_rows_of_x(v)))
        G = np.empty((self.k, self.k))
        G[first:] = strip
        return G

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """See `RowsLike.diagonal`."""
        return self.diagonals(v[:, None])[:, 0]

    def diagonals(self, V: np.ndarray) -> np.ndarray:
        """See `RowsLike.diagonals`."""
        return sum_in_order(self._call_blocks("diagonals", (), self._to_rows_of_x(V)))

    def sums(
        self, u: np.ndarray, pointers: np.ndarray, lines: np.ndarray | None = None
    ) -> np.ndarray:
        """See `RowsLike.sums`."""
        pointers = np.asarray(pointers)
        counts = np.maximum(np.diff(pointers), 0)
        segment = np.repeat(np.arange(len(counts)), counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        line = np.arange(len(segment)) - before + np.repeat(pointers[:-1], counts)
        row = line if lines is None else lines[line]
        row = row if self.order is None else self.order[row]
        weight = np.asarray(u)[line]
        mine, runs = [], []
        for at, here in self._in_blocks(row):
            touched, run = np.unique(segment[at], return_inverse=True)
            mine.append((len(touched), here, weight[at], run.reshape(-1)))
            runs.append(touched)
        out = np.zeros((len(counts), self.k))
        for touched, part in zip(runs, self.blocks.call("sums", (self.chosen,), mine), strict=True):
            out[touched] += part
        return out

    def _in_blocks(self, row: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Split rows of X by block: their positions in ``row``, and their numbers in the block."""
        cuts = np.concatenate([[0], np.cumsum(self.blocks.rows)])
        block = np.searchsorted(cuts, row, side="right") - 1
        found = [np.flatnonzero(block == b) for b in range(len(self.blocks.rows))]
        return [(at, row[at] - start) for at, start in zip(found, cuts[:-1], strict=True)]

    def between(self, first: int, last: int) -> np.ndarray:
        """See `RowsLike.between`; the blocks send the rows."""
        row = np.arange(first, last) if self.order is None else self.order[first:last]
        found = self._in_blocks(row)
        out = np.empty((len(row), self.k))
        parts = self.blocks.call("between", (self.chosen,), [(here,) for _, here in found])
        for (at, _), part in zip(found, parts, strict=True):
            out[at] = part
        return out
