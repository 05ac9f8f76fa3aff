"""One scale and one centre for columns whose rows are in several blocks.

A `Design` divides its columns by powers of two near their own size, and moves dense ones to their
own mean. Blocks of one X have to agree on both, so each says what its columns are like, and all are
given what follows from that together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .column_storage import Block, ConstantBlock, DenseBlock, SparseBlock, power_of_two
from .design_matrix import Design

__all__ = ["Moments", "moments_of", "pooled", "rescaled"]

NEAR = 8.0  # times as large or small, or sizes away, is near enough
CONSTANT = 1e-13  # a spread below that share of the mean is rounding


@dataclass(frozen=True)
class Moments:
    """What columns are like, in X's units.

    Attributes
    ----------
    n : int
        Rows.
    dense, ones : (p,) bool arrays
        Whether a column is stored with all its entries, and whether those stored are all one.
    mean, squares : (p,) arrays
        Of dense columns the mean, and the sum of squares about it; of the others zero, and the sum
        of squares.
    counts : (p,) int array
        Entries stored.
    """

    n: int
    dense: np.ndarray
    ones: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    counts: np.ndarray

    def scale(self, center: bool) -> np.ndarray:
        """The power of two near each column's size, (p,); dense ones about the mean."""
        n = max(self.n, 1)
        about = self.squares / np.where(self.dense, n, np.maximum(self.counts, 1))
        spread = np.sqrt(about)
        size = np.where(self.dense, np.sqrt(about + self.mean**2), spread)
        if center:
            flat = spread <= CONSTANT * np.abs(self.mean)
            size = np.where(self.dense & ~flat, spread, size)
        return np.where(self.ones, 1.0, power_of_two(size))

    def serves(self, other: Moments) -> bool:
        """Whether the scale and centre of these rows do as well for those of ``other``.

        Where some of a column's entries are far out they do not.
        """
        near = True
        for center in (False, True):
            ratio = self.scale(center) / other.scale(center)
            near &= bool(((ratio >= 1 / NEAR) & (ratio <= NEAR)).all())
        apart = np.abs(self.center() - other.center()) <= NEAR * other.scale(True)
        return near and bool(apart.all()) and np.array_equal(self.constant, other.constant)

    def center(self) -> np.ndarray:
        """What dense columns are moved by, (p,)."""
        return np.where(self.dense, self.mean, 0.0)

    @property
    def constant(self) -> np.ndarray:
        """Dense columns without any spread."""
        spread = np.sqrt(self.squares / max(self.n, 1))
        return self.dense & (spread <= CONSTANT * np.abs(self.mean))


def moments_of(design: Design, counted: np.ndarray | None = None) -> Moments:
    """The moments of a block's columns, by the rows ``counted`` (n,), bool; None is all."""
    parts = [_of_block(b, counted) for b in design.uncentered().blocks]
    joined = [np.concatenate([p[i] for p in parts]) for i in range(5)]
    return Moments(design.n if counted is None else int(counted.sum()), *joined)


def _of_block(b: Block, counted: np.ndarray | None) -> tuple[np.ndarray, ...]:
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
    """The moments of all rows.

    A column is dense if it is so in every block; otherwise it is not moved.
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
    """A block's columns, divided by ``scale`` after they were moved by ``center``, (p,) each.

    Only dense columns are moved; columns that are ``constant`` (p,) among all rows are zero then.
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
