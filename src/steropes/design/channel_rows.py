"""The working columns of a `ChannelDesign`, stored by rows for the solver."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import ClassVar, Literal, Protocol

import numpy as np

from ..backends.protocols import Backend
from .column_storage import DenseBlock
from .protocols import PlainDesign

__all__ = ["ChannelColumns", "ChannelRows"]


class ChannelColumns(Protocol):
    """The parts of a `ChannelDesign` that its rows need."""

    n: int
    M: int
    X: PlainDesign
    baseline: DenseBlock
    source: np.ndarray
    own: np.ndarray
    along: np.ndarray
    rest: np.ndarray
    rest_at: np.ndarray

    @property
    def n_eta(self) -> int:
        """Number of rows of η."""

    def split(self, chosen: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (channel, positions in ``chosen``, columns of X), first for the baseline (−1)."""

    def add_rest(
        self, out: np.ndarray, at: np.ndarray, effect: np.ndarray, rest: np.ndarray
    ) -> None:
        """Convert products with z to products with the columns, given those with the r_q."""

    def rest_coefficients(self, effect: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Compute the coefficients of the r_q from those of the columns, (R, B)."""


class ChannelRows:
    """Chosen columns of a `ChannelDesign`, with one copy of the rows of X for all channels.

    Attributes
    ----------
    X : RowMatrix
        The columns of X that occur in any channel, in the order of first occurrence.
    places : list of (int array, int array)
        Positions of each channel's columns in ``chosen`` and in ``X``.
    baseline_at, baseline : (M',) int array, (K, M') array
        Positions of the baseline's columns in ``chosen``, and their values.
    """

    layout: ClassVar[Literal["channels"]] = "channels"

    def __init__(self, design: ChannelColumns, chosen: np.ndarray, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self.chosen = np.asarray(chosen, np.int64)
        self.n, self.k = design.n_eta, len(self.chosen)
        parts = list(design.split(self.chosen))
        _, self.baseline_at, columns = parts[0]
        self.baseline = np.ascontiguousarray(design.baseline.values[:, columns])
        effects = self.chosen[self.chosen >= design.M] - design.M
        distinct, first = np.unique(design.source[effects], return_index=True)
        by = np.argsort(first, kind="stable")
        number = np.full(design.X.p, -1, np.int64)
        number[distinct[by]] = np.arange(len(by))
        self.X = design.X.by_rows(distinct[by], None, backend)
        self.lines = self.X.lines
        self.places = [(at, number[columns]) for _, at, columns in parts[1:]]

    @property
    def has_rest(self) -> bool:
        """Whether columns of X have entries in the rows of the baseline."""
        return bool(self.design.rest.shape[1])

    @property
    def entries(self) -> int:
        """Number of stored entries of the rows of X."""
        return self.X.entries

    def grown(
        self, design: ChannelColumns, chosen: np.ndarray, order: np.ndarray | None
    ) -> ChannelRows:
        """Build the rows of ``chosen``, which begins with the present columns."""
        return ChannelRows(design, chosen, self.backend)

    def matmul(self, D: np.ndarray) -> np.ndarray:
        """Compute η: (k, B) → (n_eta, B)."""
        n, design = self.design.n, self.design
        out = self.backend.xp.zeros((self.n, D.shape[1]))
        base = out[len(self.places) * n :]
        base += self.baseline @ D[self.baseline_at]
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                effect = self.chosen[at] - design.M
                d = self.backend.xp.zeros((self.X.k, D.shape[1]))
                d[columns] = D[at] * design.own[effect][:, None] if self.has_rest else D[at]
                out[c * n : (c + 1) * n] = self.X.matmul(d)
                if self.has_rest:
                    base += design.rest @ design.rest_coefficients(effect, D[at])
        return out

    def rmatmul(self, R: np.ndarray) -> np.ndarray:
        """Multiply the transpose with R: (n_eta, B) → (k, B)."""
        n, design = self.design.n, self.design
        out = self.backend.xp.zeros((self.k, R.shape[1]))
        base = R[len(self.places) * n :]
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                out[at] = self.X.rmatmul(R[c * n : (c + 1) * n])[columns]
                if self.has_rest:
                    design.add_rest(out, at, self.chosen[at] - design.M, design.rest.T @ base)
        out[self.baseline_at] = self.baseline.T @ base
        return out

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """Compute Σ v x² of each column over the rows of η, (k,)."""
        n, design = self.design.n, self.design
        out = self.backend.xp.zeros(self.k)
        base = v[len(self.places) * n :]
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                out[at] = self.X.diagonal(v[c * n : (c + 1) * n])[columns]
                if self.has_rest:
                    effect = self.chosen[at] - design.M
                    squares = np.append(base @ design.rest**2, 0.0)[design.rest_at[effect]]
                    out[at] = (
                        design.own[effect] ** 2 * out[at] + design.along[effect] ** 2 * squares
                    )
        out[self.baseline_at] = base @ self.baseline**2
        return out

    def extended(self) -> ChannelRows:
        """Move the entries in the rows of the baseline to separate columns r_q at the end."""
        out = copy.copy(self)
        R = self.design.rest.shape[1]
        out.k = self.k + R
        out.baseline = np.ascontiguousarray(np.hstack([self.baseline, self.design.rest]))
        out.baseline_at = np.append(self.baseline_at, self.k + np.arange(R))
        return out

    def fold(self, H: np.ndarray) -> np.ndarray:
        """Convert a Hessian over the `extended` columns to one over these columns, (k, k)."""
        design = self.design
        own, along = np.ones(self.k), np.zeros(self.k)
        at = np.flatnonzero(self.chosen >= design.M)
        effect = self.chosen[at] - design.M
        own[at], along[at] = design.own[effect], design.along[effect]
        mine = np.zeros((self.k, design.rest.shape[1]))
        has = design.rest_at[effect] >= 0
        mine[at[has], design.rest_at[effect[has]]] = along[at[has]]
        k = self.k
        cross = own[:, None] * H[:k, k:] @ mine.T
        return own[:, None] * own * H[:k, :k] + cross + cross.T + mine @ H[k:, k:] @ mine.T
