"""Columns of pooled logistic models that a fit works on, stored by rows for the solver."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import ClassVar, Literal, Protocol

import numpy as np

from ..backends.backend_interface import Array, Backend
from .column_storage import DenseBlock
from .design_interfaces import PlainDesign

__all__ = ["ChannelColumns", "ChannelRows"]


class ChannelColumns(Protocol):
    """The parts of a `ChannelDesign` that its rows need."""

    n: int
    M: int
    X: PlainDesign
    baseline: DenseBlock
    source: np.ndarray
    own: np.ndarray
    rest: np.ndarray

    @property
    def n_eta(self) -> int:
        """Number of rows of η."""

    def split(self, chosen: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (channel, positions in ``chosen``, columns of X), first for the baseline (−1)."""

    def rest_coefficients(self, effect: np.ndarray) -> np.ndarray:
        """Return the coefficient of each r_q in the columns after the baseline, (R, e)."""


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
    own, rest : list of arrays
        For each channel, ``own`` of its columns, (e, 1), and their entries r_q in the rows of the
        baseline, (K, e); empty if there are none.
    """

    layout: ClassVar[Literal["channels"]] = "channels"

    def __init__(self, design: ChannelColumns, chosen: np.ndarray, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self.chosen = np.asarray(chosen, np.int64)
        self.n, self.k = design.n_eta, len(self.chosen)
        parts = list(design.split(self.chosen))
        _, self.baseline_at, columns = parts[0]
        values = np.ascontiguousarray(design.baseline.values[:, columns])
        self.baseline = backend.asarray(values)
        effects = self.chosen[self.chosen >= design.M] - design.M
        distinct, first = np.unique(design.source[effects], return_index=True)
        by = np.argsort(first, kind="stable")
        number = np.full(design.X.p, -1, np.int64)
        number[distinct[by]] = np.arange(len(by))
        self.X = design.X.by_rows(distinct[by], None, backend)
        self.lines = self.X.lines
        self.places = [(at, number[columns]) for _, at, columns in parts[1:]]
        self.own, self.rest = [], []
        for at, _ in self.places if self.has_rest else ():
            effect = self.chosen[at] - design.M
            self.own.append(backend.asarray(design.own[effect][:, None]))
            self.rest.append(backend.asarray(design.rest @ design.rest_coefficients(effect)))

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

    def matmul(self, D: Array) -> Array:
        """Compute η: (k, B) → (n_eta, B)."""
        n, xp = self.design.n, self.backend.xp
        out = xp.zeros((self.n, D.shape[1]))
        base = out[len(self.places) * n :]
        base += self.baseline @ D[self.baseline_at]
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                d = xp.zeros((self.X.k, D.shape[1]))
                d[columns] = D[at] * self.own[c] if self.has_rest else D[at]
                out[c * n : (c + 1) * n] = self.X.matmul(d)
                if self.has_rest:
                    base += self.rest[c] @ D[at]
        return out

    def rmatmul(self, R: Array) -> Array:
        """Multiply the transpose with R: (n_eta, B) → (k, B)."""
        n = self.design.n
        out = self.backend.xp.zeros((self.k, R.shape[1]))
        base = R[len(self.places) * n :]
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                product = self.X.rmatmul(R[c * n : (c + 1) * n])[columns]
                if self.has_rest:
                    product = self.own[c] * product + self.rest[c].T @ base
                out[at] = product
        out[self.baseline_at] = self.baseline.T @ base
        return out

    def diagonal(self, v: Array) -> Array:
        """Compute Σ v x² of each column over the rows of η, (k,)."""
        n = self.design.n
        out = self.backend.xp.zeros(self.k)
        base = v[len(self.places) * n :]
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                squares = self.X.diagonal(v[c * n : (c + 1) * n])[columns]
                if self.has_rest:
                    squares = self.own[c][:, 0] ** 2 * squares + base @ self.rest[c] ** 2
                out[at] = squares
        out[self.baseline_at] = base @ self.baseline**2
        return out

    def extended(self) -> ChannelRows:
        """Move the entries in the rows of the baseline to separate columns r_q at the end."""
        out, backend = copy.copy(self), self.backend
        R = self.design.rest.shape[1]
        out.k = self.k + R
        rest = backend.asarray(self.design.rest)
        out.baseline = backend.xp.concatenate([self.baseline, rest], axis=1)
        out.baseline_at = np.append(self.baseline_at, self.k + np.arange(R))
        return out

    def fold(self, H: Array) -> Array:
        """Convert a Hessian over the `extended` columns to one over these columns, (k, k)."""
        design, asarray, k = self.design, self.backend.asarray, self.k
        at = np.flatnonzero(self.chosen >= design.M)
        effect = self.chosen[at] - design.M
        factors, coefficients = np.ones(k), np.zeros((k, design.rest.shape[1]))
        factors[at], coefficients[at] = design.own[effect], design.rest_coefficients(effect).T
        own, mine = asarray(factors), asarray(coefficients)
        cross = own[:, None] * H[:k, k:] @ mine.T
        return own[:, None] * own * H[:k, :k] + cross + cross.T + mine @ H[k:, k:] @ mine.T
