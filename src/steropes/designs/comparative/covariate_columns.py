"""The covariates of people by column: moments under weights, extremes and single columns."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from steropes.design_matrix import Design, as_design
from steropes.design_matrix.column_storage import Block, DenseBlock, SparseBlock
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.covariates.weighted_moments import Moments, sparse_chunks
from steropes.designs.values.table_reading import in_memory

__all__ = ["CovariateColumns"]

# Numbers of dense values that are copied at a time, and of columns at least: rows are read from
# memory in lines of eight numbers, so that single columns would read seven others, too.
VALUES_AT_ONCE, LINE = 1_000_000, 4


@dataclass(frozen=True)
class _Part:
    """Neighbouring columns in one storage: dense (n, k), or sparse by column.

    ``values`` of dense columns and of sparse ones with values are divided by ``scale``.
    """

    at: NDArray
    scale: NDArray
    values: NDArray
    rows: NDArray | None = None
    ends: NDArray | None = None

    def chunks(self, n: int) -> Iterator[tuple[NDArray, Any]]:
        """Yield positions and columns in X's units: arrays (n, m) or sparse arrays (n, m)."""
        if self.rows is None or self.ends is None:
            step = max(LINE, VALUES_AT_ONCE // max(n, 1))
            for a in range(0, len(self.at), step):
                some = slice(a, a + step)
                yield self.at[some], self.values[:, some] * self.scale[some]
            return
        for at, x in sparse_chunks(n, self.ends, self.rows, self.values, self.scale):
            yield self.at[at], x


class CovariateColumns:
    """Covariates of n people, with a column for each level of a column of labels.

    Parameters
    ----------
    X : array, sparse matrix, data frame, relation, Design or Covariates, shape (n, p)
        As in `steropes.as_design`, which checks it; relations and lazy frames are read.

    Attributes
    ----------
    source : array, sparse matrix, data frame or Design
        X as it was given.
    coded : Design
        The columns as models have them.
    design : Design
        The columns. Models leave out the first level of a column of labels; this design has it.
    names : list of str
        Names of the columns, such as ``race[white]`` for a level.
    n : int
        Number of people.
    factors : dict of str to int array
        Positions of the levels of each column of labels.
    """

    def __init__(self, X: Any) -> None:
        if isinstance(X, Covariates):
            self.source, self.coded = X.matrix(), X.design()
        else:
            self.source = in_memory(X)
            self.coded = as_design(self.source)
        self.design, self.factors = _with_all_levels(self.coded)
        self.n, self.names = self.design.n, self.design.names
        self._parts: list[_Part] = []
        start = 0
        for block in self.design.blocks:
            at = np.arange(start, start + block.p)
            start += block.p
            if isinstance(block, SparseBlock):
                self._parts.append(_Part(at, block.scale, block.data, block.indices, block.indptr))
            elif isinstance(block, DenseBlock):
                self._parts.append(_Part(at, block.scale, block.values))

    @classmethod
    def of(cls, X: Any) -> CovariateColumns:
        """Return the columns of X, which may be such an object already."""
        return X if isinstance(X, cls) else cls(X)

    @property
    def p(self) -> int:
        """Number of columns."""
        return len(self.names)

    def without_source(self) -> CovariateColumns:
        """Return the same columns without X, which the user may change or no longer need."""
        kept = copy.copy(self)
        kept.source = None
        return kept

    def chunks(self) -> Iterator[tuple[NDArray, Any]]:
        """Yield positions of columns with their values, as arrays or sparse arrays (n, m)."""
        for part in self._parts:
            yield from part.chunks(self.n)

    def moments(self, shares: NDArray) -> Moments:
        """Compute means and variances under weights that sum to one, (n, k)."""
        return Moments.of(self.chunks(), self.p, shares)

    def extremes(self, rows: NDArray) -> tuple[NDArray, NDArray]:
        """Return the least and the largest value of each column in some rows, (p,) each.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,)
        """
        least, most = np.empty(self.p), np.empty(self.p)
        size = int(np.count_nonzero(rows))
        for at, x in self.chunks():
            if not sp.issparse(x):
                least[at], most[at] = x[rows].min(axis=0), x[rows].max(axis=0)
                continue
            used = rows[x.indices]
            column = np.repeat(np.arange(x.shape[1]), np.diff(x.indptr))[used]
            low, high = np.full(x.shape[1], np.inf), np.full(x.shape[1], -np.inf)
            np.minimum.at(low, column, x.data[used])
            np.maximum.at(high, column, x.data[used])
            zeros = np.bincount(column, minlength=x.shape[1]) < size
            least[at] = np.where(zeros, np.minimum(low, 0.0), low)
            most[at] = np.where(zeros, np.maximum(high, 0.0), high)
        return least, most

    def column(self, j: int) -> NDArray:
        """Return the values of one column, (n,)."""
        for part in self._parts:
            local = np.flatnonzero(part.at == j)
            if not len(local):
                continue
            k = int(local[0])
            if part.rows is None or part.ends is None:
                return np.asarray(part.values[:, k] * part.scale[k])
            out, own = np.zeros(self.n), slice(int(part.ends[k]), int(part.ends[k + 1]))
            out[part.rows[own]] = part.scale[k] * (part.values[own] if len(part.values) else 1.0)
            return out
        raise IndexError(j)

    @property
    def variables(self) -> list[str]:
        """Names of the columns of the table, in which a column of labels is one."""
        of = {int(j): name for name, own in self.factors.items() for j in own}
        return list(dict.fromkeys(of.get(j, name) for j, name in enumerate(self.names)))

    def variable(self, name: str) -> NDArray:
        """Return the values of a column of the table, (n,): numbers, or codes of labels."""
        if name not in self.factors:
            return self.column(self.names.index(name))
        codes = np.zeros(self.n, dtype=np.int64)
        for k, j in enumerate(self.factors[name]):
            codes[self.column(int(j)) != 0] = k
        return codes

    def dense(self) -> NDArray:
        """Return all columns, (n, p)."""
        out = np.empty((self.n, self.p))
        for at, x in self.chunks():
            out[:, at] = x.toarray() if sp.issparse(x) else x
        return out

    @cached_property
    def binary(self) -> NDArray:
        """Whether all values of a column are 0 or 1, (p,) bool."""
        binary = np.ones(self.p, dtype=bool)
        for part in self._parts:
            if part.rows is not None and not len(part.values):
                continue  # Indicators hold positions only.
            for at, x in part.chunks(self.n):
                if sp.issparse(x):
                    other = np.flatnonzero((x.data != 0) & (x.data != 1))
                    found = np.searchsorted(x.indptr, other, side="right") - 1
                    binary[at[found]] = False
                else:
                    binary[at] = ((x == 0) | (x == 1)).all(axis=0)
        return binary


def _with_all_levels(design: Design) -> tuple[Design, dict[str, NDArray]]:
    """Add the first levels of columns of labels, and return the positions of all levels."""
    coding = design.coding
    if coding is None:
        return design, {}
    blocks: list[Block] = []
    names: list[str] = []
    factors: dict[str, NDArray] = {}
    labels = {int(coding.positions[j][0]): j for j in coding.levels}
    for block, start in zip(design.blocks, design.block_start, strict=False):
        j = labels.get(int(start))
        if j is None or not isinstance(block, SparseBlock):
            names += design.names[start : start + block.p]
            blocks.append(block)
            continue
        others = np.ones(design.n, dtype=bool)
        others[block.indices] = False
        rows = np.flatnonzero(others).astype(block.indices.dtype)
        first = SparseBlock.indicator(design.n, np.array([0, len(rows)]), rows, ascending=True)
        column = coding.columns[j]
        factors[column] = len(names) + np.arange(1 + block.p)
        names += [f"{column}[{level}]" for level in coding.levels[j]]
        blocks += [first, block]
    return Design(blocks, names), factors
