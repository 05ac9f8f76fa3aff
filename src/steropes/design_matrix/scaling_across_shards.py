"""A common scale and centre for columns with rows in several shards.

A `Design` divides its columns by powers of two near their size and centres dense columns at their
mean. The shards of one X must agree on both, so each computes the moments of its columns, and all
receive the scale and centre that follow from the pooled moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .column_storage import Block, ConstantBlock, DenseBlock, SparseBlock, power_of_two
from .design_of_column_blocks import Design
from .storage_and_scaling_constants import SCALES

__all__ = ["Moments", "moments_of", "pooled", "rescaled"]


@dataclass(frozen=True)
class Moments:
    """Moments of columns in the units of X.

    Attributes
    ----------
    n : int
        Number of rows.
    dense, ones : (p,) bool arrays
        Whether a column is stored as dense, and whether all stored entries are one.
    mean, squares : (p,) arrays
        For dense columns, the mean and the sum of squares about it; for others, zero and the sum of
        squares.
    counts : (p,) int array
        Number of stored entries.
    """

    n: int
    dense: np.ndarray
    ones: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    counts: np.ndarray

    def scale(self, center: bool) -> np.ndarray:
        """Compute the power of two near each column's size, (p,), about the mean if centred."""
        n = max(self.n, 1)
        about = self.squares / np.where(self.dense, n, np.maximum(self.counts, 1))
        spread = np.sqrt(about)
        size = np.where(self.dense, np.sqrt(about + self.mean**2), spread)
        if center:
            flat = spread <= SCALES.constant_share * np.abs(self.mean)
            size = np.where(self.dense & ~flat, spread, size)
        return np.where(self.ones, 1.0, power_of_two(size))

    def suits(self, other: Moments) -> bool:
        """Return whether the scale and centre of these rows also suit those of ``other``.

        They do not if a column has extreme entries in only one of them.
        """
        near = True
        for center in (False, True):
            ratio = self.scale(center) / other.scale(center)
            near &= bool(((ratio >= 1 / SCALES.near) & (ratio <= SCALES.near)).all())
        apart = np.abs(self.center() - other.center()) <= SCALES.near * other.scale(True)
        return near and bool(apart.all()) and np.array_equal(self.constant, other.constant)

    def center(self) -> np.ndarray:
        """Return the centre of each column, (p,), zero for sparse ones."""
        return np.where(self.dense, self.mean, 0.0)

    @property
    def constant(self) -> np.ndarray:
        """Whether each column is dense and constant, (p,)."""
        spread = np.sqrt(self.squares / max(self.n, 1))
        return self.dense & (spread <= SCALES.constant_share * np.abs(self.mean))


def moments_of(design: Design, counted: np.ndarray | None = None) -> Moments:
    """Compute the moments of columns over the rows ``counted`` (n,), bool; None means all."""
    parts = [_of_block(b, counted) for b in design.uncentered().blocks]
    joined = [np.concatenate([p[i] for p in parts]) for i in range(5)]
    return Moments(design.n if counted is None else int(counted.sum()), *joined)


def _of_block(b: Block, counted: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Compute dense, ones, mean, squares and counts of the columns of a block."""
    p = b.p
    if isinstance(b, DenseBlock):
        values = b.values if counted is None else b.values[counted]
        mean = values.mean(axis=0) if len(values) else np.zeros(p)
        away = values - mean
        square = np.einsum("ij,ij->j", away, away) * b.scale**2
        every = np.full(p, len(values), np.int64)
        return np.ones(p, bool), np.zeros(p, bool), mean * b.scale, square, every
    if isinstance(b, ConstantBlock):
        raise ValueError("moments are of X's own columns, before there is an intercept")
    counts = np.diff(b.indptr)
    column = np.repeat(np.arange(p), counts)
    there = slice(None) if counted is None else counted[b.indices[: len(column)]]
    counts = np.bincount(column[there], minlength=p)
    square = counts.astype(np.float64)
    if len(b.data):
        data = b.data[: len(column)][there]
        square = np.bincount(column[there], data**2, minlength=p) * b.scale**2
    ones = np.full(p, len(b.data) == 0) & (b.scale == 1.0)
    return np.zeros(p, bool), ones, np.zeros(p), square, counts


def pooled(parts: Sequence[Moments]) -> Moments:
    """Pool the moments of shards.

    A column that is not dense in every shard is not centred.
    """
    dense = np.logical_and.reduce([m.dense for m in parts])
    ones = np.logical_and.reduce([m.ones | (m.counts == 0) for m in parts])
    n, mean, squares = 0, np.zeros(len(dense)), np.zeros(len(dense))
    raw, counts = np.zeros(len(dense)), np.zeros(len(dense), np.int64)
    for m in parts:  # Chan, Golub and LeVeque (1983), eq. 2.1
        away = m.mean - mean
        total = max(n + m.n, 1)
        squares = squares + m.squares + away**2 * (n * m.n / total)
        mean = mean + away * (m.n / total)
        raw += np.where(m.dense, m.squares + m.n * m.mean**2, m.squares)
        n, counts = n + m.n, counts + m.counts
    return Moments(
        n, dense, ones & ~dense, np.where(dense, mean, 0.0), np.where(dense, squares, raw), counts
    )


def rescaled(design: Design, scale: np.ndarray, center: np.ndarray, constant: np.ndarray) -> Design:
    """Centre the columns at ``center`` and divide them by ``scale``, (p,) each.

    Only dense columns are centred. Columns that are ``constant`` (p,) over all rows become zero.
    """
    blocks: list[Block] = []
    first = 0
    for b in design.uncentered().blocks:
        at = slice(first, first + b.p)
        first += b.p
        s, c = scale[at], center[at]
        if isinstance(b, DenseBlock):
            values = b.values * (b.scale / s)
            values -= c / s
            values[:, constant[at] & (c != 0)] = 0.0
            blocks.append(DenseBlock(values, c.copy(), s.copy()))
        elif isinstance(b, SparseBlock):
            times = b.scale / s
            data = b.data
            if len(data) or (times != 1.0).any():
                column = np.repeat(np.arange(b.p), np.diff(b.indptr))
                data = (data if len(data) else 1.0) * times[column]
            blocks.append(replace(b, data=data, scale=s.copy()))
        else:
            blocks.append(b)
    return Design(blocks, design.names)
