"""The quadratic model of a working set too wide for its Gram matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.cpu import NO_DATA, Lines
from ...backends.cpu.column_descent import sweep_columns
from ...design.blocks import DenseBlock, SparseBlock
from ...design.face import ColumnStore

__all__ = ["ColumnModel", "Columns"]

SWEEPS = 100


class Columns:
    """The working set's columns as X stores them, for coordinate descent on their entries.

    Of the curvature's rank-one terms only their sum's direction is kept, for likelihoods that do
    not change when η is shifted: X' diag(v) X − m m' / Σv with m = X' v, the covariance that the
    weights v give the columns. The line search sees to the rest.

    Parameters
    ----------
    design : ColumnStore
    W : (k,) int array
    order : (m,) int array or None
        The row of X for each row of the model.
    """

    def __init__(self, design: ColumnStore, W: np.ndarray, order: np.ndarray | None) -> None:
        self.n, self.order = design.n, order
        self.pieces = []
        for block, local, at in design.columns(W):
            if isinstance(block, SparseBlock):
                lines = block.taken(local)
            else:  # as sparse columns without a gap
                every = np.arange(self.n, dtype=np.int64)
                data = NO_DATA
                if isinstance(block, DenseBlock):
                    data = np.ascontiguousarray(block.values[:, local].T).ravel()
                starts = np.arange(len(local)) * self.n
                lines = Lines(starts, starts + self.n, np.tile(every, len(local)), data, self.n)
            self.pieces.append((lines, np.ascontiguousarray(at)))

    def model(self, v: np.ndarray, centered: bool, backend: Any) -> ColumnModel:
        """The model for a likelihood's diagonal v (m,), in the model's rows.

        Parameters
        ----------
        centered : bool
            Whether there are rank-one terms.
        """
        if self.order is not None:
            v = np.bincount(self.order, v, minlength=self.n)
        v = np.ascontiguousarray(v)
        k = sum(len(at) for _, at in self.pieces)
        h, m = np.empty(k), np.zeros(k)
        c = 1.0 / max(float(v.sum()), 1e-300) if centered else 0.0
        sent = backend.asarray(v[:, None])
        for piece, at in self.pieces:
            lines = backend.lines(piece)
            squared = lines._replace(data=lines.data**2)
            h[at] = backend.to_host(backend.gather(squared, sent))[:, 0]
            if centered:
                m[at] = backend.to_host(backend.gather(lines, sent))[:, 0]
        return ColumnModel(self, v, m, c, np.maximum(h - c * m * m, 0.0))


class ColumnModel:
    """X' diag(v) X − c m m' over the columns; h is its diagonal."""

    def __init__(
        self, columns: Columns, v: np.ndarray, m: np.ndarray, c: float, h: np.ndarray
    ) -> None:
        self.columns, self.v, self.m, self.c, self.h = columns, v, m, c, h

    def minimize(
        self, g: Any, beta: Any, l1: Any, l2: Any, unit: Any, tolerance: float
    ) -> np.ndarray:
        """Return the step that minimises the model, as `Quadratic.minimize` does."""
        vectors = [np.ascontiguousarray(x) for x in (g, beta, l1, l2, unit)]
        d, z = np.zeros(len(g)), np.zeros(self.columns.n)
        full = True
        for _ in range(SWEEPS):
            largest = 0.0
            for x, at in self.columns.pieces:
                change = sweep_columns(
                    x.starts, x.ends, x.indices, x.data, at, self.v, self.h, vectors[0], self.m,
                    self.c, *vectors[1:], d, z, full,
                )  # fmt: skip
                largest = max(largest, change)
            if largest <= tolerance and full:
                break
            full = largest <= tolerance
        return d
