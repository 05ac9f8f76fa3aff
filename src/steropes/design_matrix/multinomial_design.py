"""The design of models with a linear predictor for each class of the outcome.

A row of X has C linear predictors, the channels of the classes: h_c = X β_c, with an intercept in
X. The η of the model stacks them in C blocks of n rows, so that the design is the Kronecker product
of the identity and X, of which some columns are left out: those of a reference class. X is stored
once.

A constant that is added to all channels of a row changes no probability. The intercepts of the
other classes therefore absorb the centres of the columns of X, also those of the reference class,
which has no intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ..backends.backend_interface import Backend
from .column_storage import DenseBlock
from .design_interfaces import PlainDesign
from .pooled_logistic_rows import ChannelRows

__all__ = ["ClassDesign"]


class ClassDesign:
    """Chosen columns of X in chosen channels.

    Parameters
    ----------
    X : Design
        Covariates, with an intercept as the first column if ``intercept``.
    source, channel : (p,) int arrays
        Column of X and class of each coefficient; those of intercepts come first.
    C : int
        Number of classes.
    names : list of str
        Names of the coefficients.
    intercept : bool
        Whether the first column of X is an intercept.

    Attributes
    ----------
    M : int
        Always zero: there is no baseline.
    """

    plain: ClassVar[bool] = False
    M = 0

    def __init__(
        self,
        X: PlainDesign,
        source: np.ndarray,
        channel: np.ndarray,
        C: int,
        names: list[str],
        intercept: bool,
    ) -> None:
        self._arguments = (source, channel, C, names, intercept)
        self.X: PlainDesign = X
        self.n, self.C = X.n, C
        self.source, self.channel = np.asarray(source, np.int64), np.asarray(channel, np.int64)
        self.p, self.names, self.intercept = len(self.source), names, intercept
        self.scale = X.scale[self.source]
        # The parts of `ChannelRows` that only a baseline has.
        self.baseline = DenseBlock(np.zeros((0, 0)), np.zeros(0), np.ones(0))
        self.own, self.rest = np.ones(self.p), np.zeros((0, 0))

    @property
    def n_eta(self) -> int:
        """Number of rows of η."""
        return self.C * self.n

    @property
    def nnz(self) -> int:
        """Number of stored entries of X."""
        return self.X.nnz

    @property
    def center(self) -> np.ndarray:
        """Zero for every column, since the intercepts absorb centres."""
        return np.zeros(self.p)

    def centers_at(self, beta: np.ndarray) -> np.ndarray:
        """Return zero, (1,), since the intercepts absorb the contribution of the centres."""
        return np.zeros(1)

    def with_x(self, X: PlainDesign) -> ClassDesign:
        """Return the same design with other storage of X."""
        return ClassDesign(X, *self._arguments)

    def uncentered(self) -> ClassDesign:
        """Return the same design with X as the user gave it."""
        return self.with_x(self.X.uncentered())

    def uncentered_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Convert coefficients (p,) or (p, m) to intercepts at X = 0 instead of the centres."""
        out = np.array(beta, np.float64)
        shift = self.X.center[self.source]
        if self.intercept and shift.any():
            total = np.zeros((self.C, *out.shape[1:]))
            np.add.at(total, self.channel, (out.T * shift).T)
            at = np.flatnonzero(self.source == 0)
            without = np.setdiff1d(np.arange(self.C), self.channel[at])
            if len(without):  # the class without an intercept
                total = total - total[without[0]]
            out[at] -= total[self.channel[at]]
        return out

    def split(self, chosen: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (channel, positions in ``chosen``, columns of X), first no baseline (−1)."""
        chosen = np.asarray(chosen, np.int64)
        yield -1, np.empty(0, np.int64), np.empty(0, np.int64)
        for c in range(self.C):
            at = np.flatnonzero(self.channel[chosen] == c)
            yield c, at, self.source[chosen[at]]

    def rmatmul(
        self, R: np.ndarray, backend: Backend, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """Multiply the transpose with R (n_eta, B) in the scaled columns, (len(chosen), B)."""
        chosen = np.arange(self.p) if chosen is None else np.asarray(chosen)
        out = backend.xp.zeros((len(chosen), R.shape[1]))
        for c, at, columns in self.split(chosen):
            if len(at):
                part = backend.xp.ascontiguousarray(R[c * self.n : (c + 1) * self.n])
                out[at] = self.X.rmatmul(part, backend, columns)
        return out

    def matmul(self, D: np.ndarray, backend: Backend) -> np.ndarray:
        """Compute the linear predictors of all rows of η: D (p, B) → (n_eta, B)."""
        out = backend.xp.zeros((self.n_eta, D.shape[1]))
        for c, at, columns in self.split(np.arange(self.p)):
            if len(at):
                whole = np.zeros((self.X.p, D.shape[1]))
                whole[columns] = backend.to_host(D)[at]
                out[c * self.n : (c + 1) * self.n] = self.X.matmul(whole, backend)
        return out

    def by_rows(
        self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend
    ) -> ChannelRows:
        """Store chosen columns by rows."""
        return ChannelRows(self, chosen, backend)

    def rest_coefficients(self, effect: np.ndarray) -> np.ndarray:
        """Return nothing, (0, e), because there is no baseline."""
        return np.zeros((0, len(effect)))
