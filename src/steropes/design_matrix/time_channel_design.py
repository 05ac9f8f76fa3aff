"""The design of pooled models over time: X, time-varying effects and the baseline.

A person has C linear predictors, called *channels*: h_0 = X β, and h_q = X γ_q for each function of
time f_q, so that η_ik = h_i0 + Σ_q f_q(k) h_iq + (baseline b)_k. The η of the model stacks them in
C blocks of n rows, followed by K rows of the baseline. It is linear in all coefficients, so the
solver needs no notion of time. All channels use the same X.

Columns far from zero are centred without changing the model: with x = z + c,

    f_q x = f_q z + c f_q,    f_q = basis a_q + r_q,

the baseline absorbs c a_q. The remainder c r_q outside the span of the baseline becomes entries of
the column in the rows of the baseline. Every baseline contains the constant f_0 = 1, so r_0 = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ..backends.backend_interface import Array, Backend
from .column_storage import DenseBlock, power_of_two
from .design_interfaces import PlainDesign
from .pooled_logistic_rows import ChannelRows
from .storage_and_scaling_constants import SCALES

__all__ = ["ChannelArguments", "ChannelDesign", "ChannelRows"]

# The basis, functions, pairs and names of a `ChannelDesign`.
ChannelArguments = tuple[
    np.ndarray, np.ndarray, Sequence[tuple[int, int]] | np.ndarray, Sequence[str]
]


class ChannelDesign:
    """The columns of the baseline, of X, and of time-varying effects.

    Parameters
    ----------
    X : Design or ShardedDesign
        Covariates, (n, p).
    basis : (K, M) array
        Columns of the baseline.
    functions : (K, Q) array
        Functions of time f_q(k).
    pairs : sequence of (int, int)
        Column of X and number of the function for each time-varying effect.
    names : sequence of str
        Names of all M + p + len(pairs) coefficients.

    Attributes
    ----------
    scaled : (K, Q) array
        The functions divided by powers of two near their size.
    held : (M, C) array
        a_q in the scaled columns.
    rest : (K, R) array
        The nonzero r_q of centred columns.
    rest_at : (p + len(pairs),) int array
        Number of the r_q of each column after the baseline, or −1.
    own, along : (p + len(pairs),) arrays
        A column is ``own`` times z in its channel plus ``along`` times its r_q.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self,
        X: PlainDesign,
        basis: np.ndarray,
        functions: np.ndarray,
        pairs: Sequence[tuple[int, int]] | np.ndarray,
        names: Sequence[str],
    ) -> None:
        self._arguments = (basis, functions, pairs, names)
        self.X = X
        self.n = X.n
        self.K, self.M = basis.shape
        self.Q = functions.shape[1]
        self.baseline = DenseBlock.standardized(basis, center=False)
        phi = power_of_two(np.sqrt(np.mean(functions**2, axis=0)))
        self.scaled = np.ascontiguousarray(functions / phi)
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        # The column of X and the channel of each column after the baseline.
        self.source = np.concatenate([np.arange(X.p), pairs[:, 0]])
        self.channel = np.concatenate([np.zeros(X.p, np.int64), pairs[:, 1] + 1])
        self.p = self.M + len(self.source)
        self.shift = (X.center / X.scale)[self.source]
        self.held, left = self._along_baseline()
        self.rest, self.rest_at = self._beside_baseline(left)
        self.own, self.along = np.ones(len(self.shift)), np.zeros(len(self.shift))
        at = self.rest_at >= 0
        size = np.sqrt(np.mean(self.rest**2, axis=0))[self.rest_at[at]]
        self.own[at] = 1 / power_of_two(np.hypot(1.0, self.shift[at] * size))
        self.along[at] = (self.shift * self.own)[at]
        effects = X.scale[self.source] * np.append(1.0, phi)[self.channel] / self.own
        self.scale = np.concatenate([self.baseline.scale, effects])
        self.names = list(names)

    def _along_baseline(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Project f_q onto the baseline: a_q, and remainders (K, C) or None."""
        if not self.shift.any():
            return np.zeros((self.M, self.C)), None
        f = np.column_stack([np.ones(self.K), self.scaled])
        basis = self.baseline.values
        own = np.diag(basis) if basis.shape[0] == basis.shape[1] else np.zeros(0)
        if own.all() and np.array_equal(basis, np.diag(own)):  # one intercept per interval
            return (f / own[:, None] if len(own) else np.zeros((self.M, self.C))), None
        held = np.linalg.lstsq(basis, f, rcond=None)[0]
        rest = f - basis @ held
        rest[:, np.abs(rest).max(axis=0) <= SCALES.spanned_share * np.abs(f).max(axis=0)] = 0.0
        return held, rest

    def _beside_baseline(self, left: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Select the remainders r_q of centred columns and number them by column."""
        if left is None:
            return np.empty((self.K, 0)), np.full(len(self.shift), -1)
        own = np.isin(np.arange(self.C), self.channel[self.shift != 0])
        concerned = np.flatnonzero(left.any(axis=0) & own)
        number = np.full(self.C, -1)
        number[concerned] = np.arange(len(concerned))
        rest_at = np.where(self.shift != 0, number[self.channel], -1)
        return np.ascontiguousarray(left[:, concerned]), rest_at

    @property
    def arguments(self) -> ChannelArguments:
        """Constructor arguments other than X."""
        return self._arguments

    @property
    def C(self) -> int:
        """Number of channels."""
        return self.Q + 1

    @property
    def n_eta(self) -> int:
        """Number of rows of η."""
        return self.C * self.n + self.K

    @property
    def nnz(self) -> int:
        """Number of stored entries of X."""
        return self.X.nnz

    @property
    def center(self) -> np.ndarray:
        """Zero for every column, since the baseline absorbs centres."""
        return np.zeros(self.p)

    def centers_at(self, beta: np.ndarray) -> np.ndarray:
        """Return zero, (1,), since the baseline absorbs the contribution of the centres."""
        return np.zeros(1)

    def centered(self, counted: np.ndarray | None = None) -> ChannelDesign:
        """Return the same design over a centred X; the baseline absorbs the shift."""
        return ChannelDesign(self.X.centered(counted), *self._arguments)

    def uncentered(self) -> ChannelDesign:
        """Return the same design with X as the user gave it."""
        return ChannelDesign(self.X.uncentered(), *self._arguments)

    def uncentered_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Convert coefficients (p,) or (p, m) to a baseline at X = 0 instead of the centres."""
        out = np.array(beta, np.float64)
        if self.shift.any():
            scale = (self.scale * np.append(np.ones(self.M), self.own))[self.M :]
            moved = (out[self.M :].T * (scale * self.shift)).T
            total = np.zeros((self.C, *out.shape[1:]))
            np.add.at(total, self.channel, moved)
            out[: self.M] -= ((self.held @ total).T / self.baseline.scale).T
        return out

    def split(self, chosen: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (channel, positions in ``chosen``, columns of X), first for the baseline (−1)."""
        chosen = np.asarray(chosen)
        at = np.flatnonzero(chosen < self.M)
        yield -1, at, chosen[at]
        later = np.flatnonzero(chosen >= self.M)
        effect = chosen[later] - self.M
        for c in range(self.C):
            of = self.channel[effect] == c
            yield c, later[of], self.source[effect[of]]

    def rmatmul(self, R: Array, backend: Backend, chosen: np.ndarray | None = None) -> Array:
        """Multiply the transpose with R (n_eta, B) in the scaled columns, (len(chosen), B)."""
        chosen = np.arange(self.p) if chosen is None else np.asarray(chosen)
        asarray = backend.asarray
        out = backend.xp.zeros((len(chosen), R.shape[1]))
        base = R[self.C * self.n :]
        for c, at, columns in self.split(chosen):
            if len(at) == 0:
                continue
            if c < 0:
                out[at] = asarray(self.baseline.values[:, columns]).T @ base
                continue
            product = self.X.rmatmul(R[c * self.n : (c + 1) * self.n], backend, columns)
            if self.rest.shape[1]:
                effect = chosen[at] - self.M
                rest = asarray(self.rest @ self.rest_coefficients(effect))
                product = asarray(self.own[effect][:, None]) * product + rest.T @ base
            out[at] = product
        return out

    def matmul(self, D: np.ndarray, backend: Backend) -> Array:
        """Compute the linear predictors of all rows of η: D (p, B) → (n_eta, B)."""
        D = np.asarray(backend.to_host(D))
        out = backend.xp.zeros((self.n_eta, D.shape[1]))
        base = np.zeros((self.K, D.shape[1]))
        for c, at, columns in self.split(np.arange(self.p)):
            if c < 0:
                base += self.baseline.values[:, columns] @ D[at]
            else:
                effect = at - self.M
                whole = np.zeros((self.X.p, D.shape[1]))
                whole[columns] = D[at] * self.own[effect][:, None]
                out[c * self.n : (c + 1) * self.n] = self.X.matmul(whole, backend)
                if self.rest.shape[1]:
                    base += self.rest @ (self.rest_coefficients(effect) @ D[at])
        out[self.C * self.n :] = backend.asarray(base)
        return out

    def rest_coefficients(self, effect: np.ndarray) -> np.ndarray:
        """Return the coefficient of each r_q in the columns after the baseline, (R, e)."""
        out = np.zeros((self.rest.shape[1], len(effect)))
        at = np.flatnonzero(self.rest_at[effect] >= 0)
        out[self.rest_at[effect[at]], at] = self.along[effect[at]]
        return out

    def by_rows(
        self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend
    ) -> ChannelRows:
        """Store chosen columns by rows."""
        return ChannelRows(self, chosen, backend)
