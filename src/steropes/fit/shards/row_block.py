"""A block of rows where it is: products with its columns, and likelihoods of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ...backends.face import Backend, SparseLines
from ...design import Design
from ...design.face import DesignLike
from ...likelihoods import Likelihood
from ...likelihoods.cumulative import LevelPart
from ...likelihoods.risk_part import RiskPart
from ...solve.data_term import LevelShard, LocalShard, RiskShard, WorkingColumns
from ...solve.data_term.sharded.shard_messages import Answer, Request
from .symmetric_packing import pack_symmetric

__all__ = ["BlockDataMissing", "RowBlock"]

KEPT = 2  # sets of columns whose rows are kept


class BlockDataMissing(KeyError):
    """A block does not have what it was given: it is a new one, made again."""


class RowBlock:
    """Rows of X, with what they were given to keep.

    Parameters
    ----------
    design : Design
        These rows, with the scale and the centre of all.
    backend
    """

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self._kept: dict[str, Any] = {}
        self._shards: dict[str, LocalShard | RiskShard | LevelShard | None] = {}
        self._active: dict[bytes, WorkingColumns] = {}

    # -- what it keeps ---------------------------------------------------------------------------

    def keep(self, key: str, value: Any) -> None:
        """Take something to be used later."""
        self._kept[key] = value

    def drop(self, key: str) -> None:
        """Let it go."""
        self._kept.pop(key, None)
        self._shards.pop(key, None)
        for shard in self._shards.values():
            if shard is not None:
                shard.release(key)

    def _given(self, key: str) -> Any:
        if key not in self._kept:
            raise BlockDataMissing(key)
        return self._kept[key]

    def forget(self) -> None:
        """Let all go that can be made again."""
        self._shards.clear()
        self._active.clear()

    @property
    def bytes(self) -> int:
        """Of rows of columns that are kept, about."""
        active = [*self._active.values(), *(s.active for s in self._shards.values() if s)]
        return sum(10 * x.rows.entries for x in active)

    # -- a likelihood of its rows ----------------------------------------------------------------

    def answer(self, family: str, request: Request) -> Answer | None:
        """See `Shard.answer`, and `pack_symmetric`; None where the rows say nothing.

        ``family`` is the key under which a maker of the likelihood was given, and one of its
        columns where they are not X's.
        """
        if family not in self._shards:
            maker, make_columns = self._given(family)
            rows = maker(self.backend)
            self._shards[family] = None if rows is None else self._shard(rows, make_columns)
        shard = self._shards[family]
        if shard is None:
            return None
        for key in request.replicates():
            if not shard.knows(key):
                shard.bind(key, *self._given(key))
        return pack_symmetric(shard.answer(request))

    def _shard(
        self,
        rows: Likelihood | RiskPart | LevelPart,
        make_columns: Callable[[Design], DesignLike] | None,
    ) -> LocalShard | RiskShard | LevelShard:
        design = self.design if make_columns is None else make_columns(self.design)
        if isinstance(rows, RiskPart):
            return RiskShard(design, rows)
        if isinstance(rows, LevelPart):
            return LevelShard(design, rows)
        return LocalShard(design, rows)

    # -- products --------------------------------------------------------------------------------

    def _rows(self, chosen: np.ndarray) -> Any:
        """Columns by rows, those of the last sets being kept."""
        key = chosen.tobytes()
        if key not in self._active:
            grows = [k for k in self._active if k and key.startswith(k)]
            active = (
                self._active.pop(max(grows, key=len))
                if grows
                else WorkingColumns(self.design, None, self.backend)
            )
            active.become(chosen)
            self._active[key] = active
            while len(self._active) > KEPT:
                del self._active[next(iter(self._active))]
        return self._active[key].rows

    def products(self, chosen: np.ndarray, D: np.ndarray) -> np.ndarray:
        """X[:, chosen] D, (rows, B)."""
        whole = np.zeros((self.design.p, D.shape[1]))
        whole[chosen] = D
        return np.asarray(self.backend.to_host(self.design.matmul(whole, self.backend)))

    def row_products(self, chosen: np.ndarray, D: np.ndarray) -> np.ndarray:
        """The same for columns that are worked on."""
        return np.asarray(self.backend.to_host(self._rows(chosen).matmul(D)))

    def transposed(self, chosen: np.ndarray | None, R: np.ndarray) -> np.ndarray:
        """X[:, chosen]' R; None is all columns."""
        return np.asarray(self.backend.to_host(self.design.rmatmul(R, self.backend, chosen)))

    def row_transposed(self, chosen: np.ndarray, R: np.ndarray) -> np.ndarray:
        """The same for columns that are worked on."""
        return np.asarray(self.backend.to_host(self._rows(chosen).rmatmul(R)))

    def gram(self, chosen: np.ndarray, first: int, rough: bool, v: np.ndarray) -> np.ndarray:
        """See `RowsLike.gram`: rows from ``first`` on."""
        return np.asarray(self.backend.to_host(self._rows(chosen).gram(v, first, rough)))[first:]

    def diagonals(self, chosen: np.ndarray, V: np.ndarray) -> np.ndarray:
        """See `RowsLike.diagonals`."""
        return np.asarray(self.backend.to_host(self._rows(chosen).diagonals(V)))

    def sums(
        self, chosen: np.ndarray, segments: int, row: np.ndarray, u: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """Σ u x of the rows of each segment, (segments, k): x of ``row``, to segment ``at``."""
        rows = self._rows(chosen)
        out = np.zeros((segments, rows.k))
        A = sparse.csr_array((u, (at, np.arange(len(row)))), shape=(segments, len(row)))
        if rows.dense is not None:
            out[:, rows.dense_at] += A @ rows.dense[row]
        if rows.lines is not None:
            out += (A @ _of_lines(rows.lines, row)).toarray()
        return out

    def between(self, chosen: np.ndarray, row: np.ndarray) -> np.ndarray:
        """The rows ``row`` as they are, (rows, k)."""
        rows = self._rows(chosen)
        out = np.zeros((len(row), rows.k))
        if rows.lines is not None:
            out += _of_lines(rows.lines, row).toarray()
        if rows.dense is not None:
            out[:, rows.dense_at] = rows.dense[row]
        return out

    def entries(self, chosen: np.ndarray) -> int:
        """Stored entries of columns that are worked on."""
        return int(self._rows(chosen).entries)


def _of_lines(lines: SparseLines, row: np.ndarray) -> sparse.csr_array:
    """Some lines as a matrix."""
    counts = np.asarray(lines.ends - lines.starts)[row]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    entry = np.arange(indptr[-1]) + np.repeat(lines.starts[row] - indptr[:-1], counts)
    data = lines.data[entry] if lines.data.size else np.ones(len(entry))
    return sparse.csr_array(
        (data, lines.indices[entry].astype(np.int64), indptr), (len(row), lines.width)
    )
