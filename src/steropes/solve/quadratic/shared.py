"""The matrix that replicates share, with the few columns without penalty eliminated."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ...backends.cpu.told import add_told, moved_rows
from ...backends.tall import column_max, row_any
from ...backends.threads import ThreadPool
from . import products

__all__ = ["Part", "SharedMatrix", "as_precision"]

FEW = 32  # columns without penalty that are eliminated
STRIPE = 256  # rows of the matrix that are worked on at once
SPARE = 1.3  # coordinates in a part for each one that is wanted, before there is another
MOST = 0.7  # share of the coordinates that are not zero up to which a product is by them alone
ALONE = 0.9  # the same of one replicate
WHOLE = 0.6  # share of the coordinates from which on a part is no smaller than the whole


def as_precision(x: np.ndarray, dtype: np.dtype | type) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (k, B) in units of their largest entries, which fit any precision, and the units."""
    size = column_max(np.abs(x))
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    return (x / size).astype(dtype), size


class SharedMatrix:
    """A Hessian G in coordinates in which the columns without penalty stand alone.

    With G_ff = LL' and Y = L⁻¹ G_fr the new coordinates are e = L'σ_f d_f + Y σ_r d_r, whose
    Hessian is the identity, and that of the others is the Schur complement G_rr − Y'Y, that of
    centred columns. An intercept is correlated with every column that is not centred, which is
    what makes coordinate descent slow. The factors σ drop out, so replicates still share it.
    G is not changed, and Y'Y is never stored.

    Parameters
    ----------
    G : (k, w) array
        Symmetric, in single or double precision, in the first k columns; what is behind them is
        not looked at.
    free : (k,) bool array
        Columns without any penalty.
    pool : ThreadPool
    """

    def __init__(self, G: np.ndarray, free: np.ndarray, pool: ThreadPool) -> None:
        self.rows, self.pool, self.k = G, pool, len(G)
        self.G = G = G[:, : len(G)]
        f = np.flatnonzero(free)
        if len(f) > FEW or len(f) == len(G):
            f = f[:0]
        self.L = np.empty((0, 0))
        if len(f):
            try:
                block = G[np.ix_(f, f)].astype(np.float64)
                self.L = linalg.cholesky(block, lower=True, check_finite=False)
            except linalg.LinAlgError:  # nearly flat among themselves: descent takes them as is
                f = f[:0]
        self.f = f
        self.Y = np.zeros((len(f), self.k))
        if len(f):
            rows = G[f].astype(np.float64)
            Y = linalg.solve_triangular(self.L, rows, lower=True, check_finite=False)
            self.Y = np.ascontiguousarray(Y)
            self.Y[:, f] = 0.0
        self.diagonal = np.diagonal(G).astype(np.float64) - (self.Y**2).sum(axis=0)
        self.diagonal[f] = 1.0
        self.apart = np.isin(np.arange(self.k), f)

    def times(self, x: np.ndarray) -> np.ndarray:
        """The matrix times x (k, B)."""
        f, G = self.f, self.G
        z, size = as_precision(x, G.dtype)
        z[f] = 0.0
        some = np.flatnonzero(row_any(z))
        if len(some) > (MOST if x.shape[1] > 1 else ALONE) * self.k:
            out = products.times(self.rows, z, self.pool)
        else:
            out = products.transposed_times(self.rows, z[some], self.pool, (0, self.k), some)
        out *= size
        if len(f):
            out -= self.Y.T @ (self.Y @ x)
            out[f] = x[f]
        return out

    def tell(self, a: int, b: int, delta: np.ndarray, s: np.ndarray) -> None:
        """Add to the slopes s (k, B) of all others what changes of the coordinates a … b are."""
        k, B = s.shape
        if b - a == k:
            return
        if not products.by_memory(self.G, B):
            s += self._spread(a, b, delta)
            return
        Q, P = products.width(B), b - a
        Z, rows = np.zeros((P, -(-B // Q), Q), np.float32), np.empty(P, np.int64)
        size = np.empty(B)
        n = moved_rows(delta, self.apart, a, Z, rows, size)
        t = self.Y[:, a:b] @ delta

        def add(sums: np.ndarray, i: int, j: int) -> None:
            add_told(sums, size, self.Y, t, self.apart, a, b, i, j, s)

        products.of_rows(self.rows, Z[:n], rows[:n], (0, k), self.pool, add)

    def _spread(self, a: int, b: int, delta: np.ndarray) -> np.ndarray:
        delta = delta.copy()
        delta[self.f[(self.f >= a) & (self.f < b)] - a] = 0.0
        z, size = as_precision(delta, self.G.dtype)
        some = np.flatnonzero(row_any(z))
        out = products.transposed_times(self.rows, z[some], self.pool, (0, self.k), a + some)
        out *= size
        if len(self.f):
            out -= self.Y.T @ (self.Y[:, a:b] @ delta)
        out[self.f] = 0.0
        out[a:b] = 0.0
        return out

    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """Rows and columns ``at``, in a precision of one's own."""
        A: np.ndarray = np.empty((len(at), len(at)), dtype)

        def stripe(a: int, b: int) -> None:
            A[a:b] = self.between(at[a:b], at, dtype)

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])
        inside = np.flatnonzero(self.apart[at])
        A[inside, inside] = 1.0
        return A

    def lower_part(self, at: np.ndarray, size: np.ndarray, out: np.ndarray) -> None:
        """Rows and columns ``at`` as far as ``out`` (n, m) goes, in units of ``size``.

        Of the first m rows the lower triangle.
        """
        m = out.shape[1]

        def stripe(a: int, b: int) -> None:
            j = min(b, m)
            out[a:b, :j] = self.between(at[a:b], at[:j], out.dtype)
            out[a:b, :j] *= (1.0 / size[a:b, None]).astype(out.dtype)
            out[a:b, :j] *= (1.0 / size[:j]).astype(out.dtype)

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])

    def between(self, rows: np.ndarray, columns: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
        """Entries of some rows and columns, in a precision of one's own.

        Those of what is eliminated are zero, on the diagonal too.
        """
        A = np.take(self.G[rows], columns, axis=1).astype(dtype, copy=False)
        if len(self.f):
            A -= self.Y[:, rows].astype(dtype, copy=False).T @ self.Y[:, columns].astype(
                dtype, copy=False
            )
            A[self.apart[rows]] = 0.0
            A[:, self.apart[columns]] = 0.0
        return A

    def taken(self, at: np.ndarray, last: Part | None, whole: float = WHOLE) -> Part:
        """The matrix of some coordinates, or of a few more where ``last`` has them already.

        From a share ``whole`` of all on it is the whole one.
        """
        mine = self.apart.copy()
        mine[at] = True
        at = np.flatnonzero(mine)
        if last is not None and len(last.at) <= SPARE * len(at):
            mine[last.at] = False
            if not mine.any():
                return last
        if len(at) > whole * self.k:
            return Part(np.arange(self.k), self)
        G = np.empty((len(at), len(at)), self.G.dtype)

        def stripe(a: int, b: int) -> None:
            np.take(self.G[at[a:b]], at, axis=1, out=G[a:b])

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])
        return Part(at, self._cut(at, G))

    def _cut(self, at: np.ndarray, G: np.ndarray) -> SharedMatrix:
        """The matrix of coordinates ``at``, with those that were eliminated among them."""
        out = copy.copy(self)
        out.G, out.rows, out.k = G, G, len(at)
        out.f = np.searchsorted(at, self.f)
        out.Y, out.diagonal = np.ascontiguousarray(self.Y[:, at]), self.diagonal[at]
        out.apart = self.apart[at]
        return out

    # -- the change of coordinates -------------------------------------------------------------

    def gradient(self, g: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """A gradient in d as one in the new coordinates."""
        if not len(self.f):
            return g
        out = g.copy()
        z = linalg.solve_triangular(self.L, g[self.f] / sigma[self.f], lower=True)
        out -= sigma * (self.Y.T @ z)
        out[self.f] = z
        return out

    def step(self, d: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """A step d in the new coordinates."""
        if not len(self.f):
            return d
        out = d.copy()
        out[self.f] = self.L.T @ (sigma[self.f] * d[self.f]) + self.Y @ (sigma * d)
        return out

    def back(self, d: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """A step of the new coordinates in d."""
        if not len(self.f):
            return d
        out = d.copy()
        e = d[self.f] - self.Y @ (sigma * d)
        e = linalg.solve_triangular(self.L, e, lower=True, trans="T", check_finite=False)
        out[self.f] = e / sigma[self.f]  # whoever steps looks whether it is finite
        return out

    def own(self, sigma: np.ndarray) -> np.ndarray:
        """σ in the new coordinates."""
        if not len(self.f):
            return sigma
        out = np.array(sigma)
        out[self.f] = 1.0
        return out


class Part(NamedTuple):
    """A matrix of some coordinates.

    Attributes
    ----------
    at : int array
        The coordinates, ascending.
    shared : SharedMatrix
    """

    at: np.ndarray
    shared: SharedMatrix
