"""The matrix of a model over time: X, the columns whose effects change, and the baseline.

A person has C linear predictors, one a *channel*: h_0 = X β, and h_q = X γ_q for each function
of time f_q, so that η_ik = h_i0 + Σ_q f_q(k) h_iq + (baseline b)_k. The model's η is these
stacked, C blocks of n rows, and then K rows of the baseline's own: linear in all coefficients,
so the solver needs to know nothing of time. Each channel reads the same X.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .blocks import DenseBlock, power_of_two
from .design import Design

__all__ = ["ChannelDesign", "ChannelRows"]


class ChannelDesign(Design):
    """Columns: the baseline's, then X, then the chosen columns of X times functions of time.

    Parameters
    ----------
    X : Design
        (n, p).
    basis : (K, M) array
        Baseline.
    functions : (K, Q) array
        f_q(k).
    pairs : sequence of (int, int)
        Column of X and number of the function for each changing effect.
    names : sequence of str
        Of all M + p + len(pairs) coefficients.

    Attributes
    ----------
    scaled : (K, Q) array
        The functions divided by powers of two near their size.
    """

    def __init__(self, X: Design, basis, functions, pairs, names: Sequence[str]) -> None:
        self.X = X
        self.n = X.n
        self.K, self.M = basis.shape
        self.Q = functions.shape[1]
        self.baseline = DenseBlock.standardized(basis, center=False)
        phi = power_of_two(np.sqrt(np.mean(functions**2, axis=0)))
        self.scaled = np.ascontiguousarray(functions / phi)
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        # Of each column behind the baseline's: its column of X and its channel.
        self.source = np.concatenate([np.arange(X.p), pairs[:, 0]])
        self.channel = np.concatenate([np.zeros(X.p, np.int64), pairs[:, 1] + 1])
        self.p = self.M + len(self.source)
        effects = X.scale[self.source] * np.append(1.0, phi)[self.channel]
        self.scale = np.concatenate([self.baseline.scale, effects])
        self.names = list(names)

    @property
    def C(self) -> int:
        """Channels."""
        return self.Q + 1

    @property
    def n_eta(self) -> int:
        """Rows of η."""
        return self.C * self.n + self.K

    @property
    def nnz(self) -> int:
        """Stored entries of X."""
        return self.X.nnz

    @property
    def center(self) -> np.ndarray:
        """Nothing was subtracted from any column."""
        return np.zeros(self.p)

    def centered(self) -> Design:
        """Return the design itself: a shift of X would shift the baseline over time too."""
        return self

    def split(self, chosen: np.ndarray):
        """Yield (channel, places in ``chosen``, columns of X), and first the baseline's."""
        chosen = np.asarray(chosen)
        at = np.flatnonzero(chosen < self.M)
        yield -1, at, chosen[at]
        effect = np.where(chosen >= self.M, chosen - self.M, 0)
        of = np.where(chosen >= self.M, self.channel[effect], -1)
        for c in range(self.C):
            at = np.flatnonzero(of == c)
            yield c, at, self.source[effect[at]]

    def rmatmul(self, R: np.ndarray, backend, chosen: np.ndarray | None = None) -> np.ndarray:
        """The transpose times R (n_eta, B) in the scaled columns: (len(chosen), B)."""
        chosen = np.arange(self.p) if chosen is None else chosen
        out = backend.xp.zeros((len(chosen), R.shape[1]))
        for c, at, columns in self.split(chosen):
            if len(at) == 0:
                continue
            if c < 0:
                out[at] = self.baseline.values[:, columns].T @ R[self.C * self.n :]
            else:
                part = R[c * self.n : (c + 1) * self.n]
                out[at] = self.X.rmatmul(part, backend, columns)
        return out

    def matmul(self, D: np.ndarray, backend) -> np.ndarray:
        """Linear predictors of all rows of η: D (p, B) → (n_eta, B)."""
        out = backend.xp.zeros((self.n_eta, D.shape[1]))
        for c, at, columns in self.split(np.arange(self.p)):
            if c < 0:
                out[self.C * self.n :] = self.baseline.values[:, columns] @ D[at]
            else:
                whole = np.zeros((self.X.p, D.shape[1]))
                whole[columns] = D[at]
                out[c * self.n : (c + 1) * self.n] = self.X.matmul(whole, backend)
        return out

    def by_rows(self, chosen: np.ndarray, order: np.ndarray | None, backend) -> ChannelRows:
        """Chosen columns by rows."""
        return ChannelRows(self, chosen, backend)


class ChannelRows:
    """Chosen columns of a `ChannelDesign`; the channels share one copy of the rows of X.

    Attributes
    ----------
    X : RowMatrix
        The columns of X that occur in any channel, in the order in which they first occur.
    places : list of (int array, int array)
        For each channel, where its columns are among ``chosen`` and in ``X``.
    baseline_at, baseline : (M',) int array, (K, M') array
        Where the baseline's columns are among ``chosen``, and the columns.
    """

    dense = None

    def __init__(self, design: ChannelDesign, chosen: np.ndarray, backend) -> None:
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

    def matmul(self, D: np.ndarray) -> np.ndarray:
        """η: (k, B) → (n_eta, B)."""
        n = self.design.n
        out = self.backend.xp.zeros((self.n, D.shape[1]))
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                d = self.backend.xp.zeros((self.X.k, D.shape[1]))
                d[columns] = D[at]
                out[c * n : (c + 1) * n] = self.X.matmul(d)
        out[len(self.places) * n :] = self.baseline @ D[self.baseline_at]
        return out

    def rmatmul(self, R: np.ndarray) -> np.ndarray:
        """The transpose: (n_eta, B) → (k, B)."""
        n = self.design.n
        out = self.backend.xp.zeros((self.k, R.shape[1]))
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                out[at] = self.X.rmatmul(R[c * n : (c + 1) * n])[columns]
        out[self.baseline_at] = self.baseline.T @ R[len(self.places) * n :]
        return out

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """Σ v x² of each column over the rows of η, (k,)."""
        n = self.design.n
        out = self.backend.xp.zeros(self.k)
        for c, (at, columns) in enumerate(self.places):
            if len(at):
                out[at] = self.X.diagonal(v[c * n : (c + 1) * n])[columns]
        out[self.baseline_at] = v[len(self.places) * n :] @ self.baseline**2
        return out
