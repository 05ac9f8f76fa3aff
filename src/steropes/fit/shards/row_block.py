"""A block of rows in its own process: products with its columns, and likelihoods of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ...backends import get_backend
from ...backends.backend_interface import Backend, SparseLines
from ...design_matrix import Design
from ...design_matrix.design_interfaces import DesignLike, RowsLike
from ...design_matrix.device_design import on_device
from ...likelihoods import Likelihood
from ...likelihoods.cumulative import ShardLevels
from ...likelihoods.shard_risk_sets import ShardRiskSets
from ...solve.data_term import LevelShard, LocalShard, RiskShard, WorkingColumns
from ...solve.data_term.sharded.shard_messages import Answer, Request
from ..multi_fit_constants import TRANSFER
from .symmetric_packing import pack_symmetric

__all__ = ["BlockDataMissing", "RowBlock"]


class BlockDataMissing(KeyError):
    """A block lacks data that it was given, because it has been recreated."""


class RowBlock:
    """A block of rows of X, with data stored for later calls.

    Parameters
    ----------
    design : Design
        The rows, with the scale and the centre that all blocks share.
    """

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self._kept: dict[str, Any] = {}
        self._shards: dict[str, LocalShard | RiskShard | LevelShard | None] = {}
        self._active: dict[bytes, WorkingColumns] = {}

    def use_device(self, device: str) -> None:
        """Compute products with X on a device from now on; likelihoods stay on the host."""
        threads = self.backend.pool.n_threads
        plain = Design(self.design.blocks, self.design.names)
        self.forget()
        self.design = on_device(plain, get_backend(device, threads, plain.nnz))

    # -- stored data -----------------------------------------------------------------------------

    def keep(self, key: str, value: object) -> None:
        """Store data for later calls."""
        self._kept[key] = value

    def drop(self, key: str) -> None:
        """Delete stored data and everything that depends on it."""
        self._kept.pop(key, None)
        self._shards.pop(key, None)
        for shard in self._shards.values():
            if shard is not None:
                shard.release(key)

    def _require(self, key: str) -> Any:
        """Return stored data; raise `BlockDataMissing` if they are missing."""
        if key not in self._kept:
            raise BlockDataMissing(key)
        return self._kept[key]

    def forget(self) -> None:
        """Delete everything that can be recomputed."""
        self._shards.clear()
        self._active.clear()

    @property
    def bytes(self) -> int:
        """Approximate memory of the columns that are kept by rows."""
        active = [*self._active.values(), *(s.active for s in self._shards.values() if s)]
        return sum(10 * x.rows.entries for x in active)

    # -- a likelihood of its rows ----------------------------------------------------------------

    def answer(self, family: str, request: Request) -> Answer | None:
        """Answer a request packed by `pack_symmetric`; None if no row contributes.

        ``family`` is the key of a function that creates the likelihood, and of one that creates the
        model's columns if these are not those of X. See `Shard.answer`.
        """
        if family not in self._shards:
            maker, make_columns = self._require(family)
            rows = maker(self.backend)
            self._shards[family] = None if rows is None else self._shard(rows, make_columns)
        shard = self._shards[family]
        if shard is None:
            return None
        for key in request.replicates():
            if not shard.knows(key):
                shard.bind(key, *self._require(key))
        return pack_symmetric(shard.answer(request))

    def _shard(
        self,
        rows: Likelihood | ShardRiskSets | ShardLevels,
        make_columns: Callable[[Design], DesignLike] | None,
    ) -> LocalShard | RiskShard | LevelShard:
        """Create the shard that fits the type of the likelihood."""
        design = self.design if make_columns is None else make_columns(self.design)
        if isinstance(rows, ShardRiskSets):
            return RiskShard(design, rows)
        if isinstance(rows, ShardLevels):
            return LevelShard(design, rows)
        return LocalShard(design, rows)

    # -- products --------------------------------------------------------------------------------

    def _rows(self, chosen: np.ndarray) -> RowsLike:
        """Return columns by rows, using those of recent column sets."""
        key = chosen.tobytes()
        if key not in self._active:
            grows = [k for k in self._active if k and key.startswith(k)]
            active = (
                self._active.pop(max(grows, key=len))
                if grows
                else WorkingColumns(self.design, None, self.backend)
            )
            active.set_columns(chosen)
            self._active[key] = active
            while len(self._active) > TRANSFER.max_column_sets:
                del self._active[next(iter(self._active))]
        rows = self._active[key].rows
        assert rows.layout == "rows"  # columns of a plain design
        return rows

    def products(self, chosen: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Compute X[:, chosen] D, (rows, B), column by column."""
        whole = np.zeros((self.design.p, D.shape[1]))
        whole[chosen] = D
        return np.asarray(self.backend.to_host(self.design.matmul(whole, self.backend)))

    def row_products(self, chosen: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Compute X[:, chosen] D, (rows, B), for columns of the working set."""
        return np.asarray(self.backend.to_host(self._rows(chosen).matmul(D)))

    def transposed(self, chosen: np.ndarray | None, R: np.ndarray) -> np.ndarray:
        """Compute X[:, chosen]' R; None means all columns."""
        return np.asarray(self.backend.to_host(self.design.rmatmul(R, self.backend, chosen)))

    def row_transposed(self, chosen: np.ndarray, R: np.ndarray) -> np.ndarray:
        """Compute X[:, chosen]' R for columns of the working set."""
        return np.asarray(self.backend.to_host(self._rows(chosen).rmatmul(R)))

    def gram(self, chosen: np.ndarray, first: int, rough: bool, v: np.ndarray) -> np.ndarray:
        """See `RowsLike.gram`; returns the rows from ``first`` on."""
        return np.asarray(self.backend.to_host(self._rows(chosen).gram(v, first, rough)))[first:]

    def diagonals(self, chosen: np.ndarray, V: np.ndarray) -> np.ndarray:
        """See `RowsLike.diagonals`."""
        return np.asarray(self.backend.to_host(self._rows(chosen).diagonals(V)))

    def sums(
        self, chosen: np.ndarray, segments: int, row: np.ndarray, u: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """Sum u x over the rows ``row`` by their segments ``at``, (segments, k)."""
        rows = self._rows(chosen)
        if rows.lines is None and rows.dense is None:  # on a device
            return np.asarray(rows.sums(u, np.searchsorted(at, np.arange(segments + 1)), row))
        out = np.zeros((segments, rows.k))
        A = sparse.csr_array((u, (at, np.arange(len(row)))), shape=(segments, len(row)))
        if rows.dense is not None:
            out[:, rows.dense_at] += A @ rows.dense[row]
        if rows.lines is not None:
            out += (A @ _lines_to_csr(rows.lines, row)).toarray()
        return out

    def between(self, chosen: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return the rows ``row`` as a dense array, (rows, k)."""
        rows = self._rows(chosen)
        if rows.lines is None and rows.dense is None:  # on a device
            return rows.taken(row).between(0, len(row))
        out = np.zeros((len(row), rows.k))
        if rows.lines is not None:
            out += _lines_to_csr(rows.lines, row).toarray()
        if rows.dense is not None:
            out[:, rows.dense_at] = rows.dense[row]
        return out

    def entries(self, chosen: np.ndarray) -> int:
        """Count the stored entries of columns of the working set."""
        return int(self._rows(chosen).entries)


def _lines_to_csr(lines: SparseLines, row: np.ndarray) -> sparse.csr_array:
    """Convert some sparse lines to a matrix."""
    counts = np.asarray(lines.ends - lines.starts)[row]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    entry = np.arange(indptr[-1]) + np.repeat(lines.starts[row] - indptr[:-1], counts)
    data = lines.data[entry] if lines.data.size else np.ones(len(entry))
    return sparse.csr_array(
        (data, lines.indices[entry].astype(np.int64), indptr), (len(row), lines.width)
    )
