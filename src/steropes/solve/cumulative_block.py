"""The thresholds' block of the Hessian, and what is left for β once it is eliminated.

Over (α, β) the Hessian is [[T, C], [C', V]], with C_k the (negative) weighted sum of the rows
that touch threshold k. Uncensored and one-sided rows make T tridiagonal; then C is never
stored: its rows are made, eliminated and multiplied out a few thousand at a time. Rows that
span several levels join distant thresholds; T is then factored as a sparse matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as splinalg

from ..backends.cpu import tridiagonal
from ..backends.threads import balanced_chunks
from ..design import RowMatrix
from ..likelihoods.cumulative import CumulativeLikelihood, Evaluation

__all__ = ["Block", "make_block"]

ENTRIES = 1 << 20  # of C that are held at once
POOL = 500  # groups of thresholds for `pooled_schur`
SMALL = 256  # columns up to which the Gram matrix fits the cache
GRAM_ENTRIES = 1 << 19  # of X that are weighted at once


def make_block(likelihood: CumulativeLikelihood, ev: Evaluation) -> Block | None:
    """The block at a point, or None where it is not positive definite."""
    kind = _Chain if likelihood.levels.chain else _Sparse
    block = kind(likelihood, ev)
    return block if block.positive else None


class Block(ABC):
    """T at one point, factored.

    Attributes
    ----------
    positive : bool
        Whether T is positive definite.
    """

    positive: bool

    def __init__(self, likelihood: CumulativeLikelihood, ev: Evaluation) -> None:
        self.likelihood: Any = likelihood
        self.ev: Any = ev
        self.u = likelihood.to_thresholds(ev.ua, ev.ub)
        self.K = likelihood.K

    # -- what the kinds supply ---------------------------------------------------------------

    @abstractmethod
    def solve(self, B: np.ndarray) -> np.ndarray:
        """T⁻¹ B for B (K,) or (K, m); B is left alone."""

    def solve_in_place(self, B: np.ndarray) -> np.ndarray:
        """T⁻¹ B, which may overwrite B (K, m), in C order."""
        return self.solve(B)

    @abstractmethod
    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of T⁻¹, (K,)."""

    @abstractmethod
    def schur(self, rows: RowMatrix) -> np.ndarray:
        """V − C' T⁻¹ C, (k, k): the information of β after α."""

    def without_rows(self) -> Block:
        """The same block as it can be kept and pickled: it only solves."""
        self.likelihood = self.ev = None
        return self

    def pooled_schur(self, rows: RowMatrix) -> np.ndarray:
        """S with neighbouring thresholds pooled: an approximation that is good for a step.

        Far cheaper where X is sparse, since only some hundred dense rows of C are left.
        """
        return self.schur(rows)

    # -- shared --------------------------------------------------------------------------------

    @property
    def v(self) -> np.ndarray:
        """Curvature of each row in its linear predictor, (n,)."""
        return self.ev.ua + self.ev.ub

    @abstractmethod
    def cross(self, rows: RowMatrix) -> np.ndarray:
        """C, (K, k)."""

    def cross_times(self, d_eta: np.ndarray) -> np.ndarray:
        """C d for X d = d_eta, (K,)."""
        ev = self.ev
        return -self.likelihood.to_thresholds(ev.ua * d_eta, ev.ub * d_eta)

    def project(self, t: np.ndarray) -> np.ndarray:
        """r with X' r = −C' t, (n,): what t in the thresholds means for the rows."""
        return self.likelihood.to_rows(t, self.ev.ua, self.ev.ub)

    def gram(self, rows: RowMatrix) -> np.ndarray:
        """V = X' diag(v) X."""
        v = self.v
        if rows.lines is not None or rows.dense is None:
            return rows.gram(v)
        G = weighted_gram(rows.dense, v, self.likelihood.backend.pool)
        out = np.empty_like(G)
        out[np.ix_(rows.dense_at, rows.dense_at)] = G
        return out


def weighted_gram(X: np.ndarray, v: np.ndarray, pool: Any) -> np.ndarray:
    """X' diag(v) X, summed in an order that the number of threads does not change."""
    n, k = X.shape
    G = np.zeros((k, k))
    step = max(256, -(-n // 16)) if k <= SMALL else max(256, GRAM_ENTRIES // k)

    def part(i0: int, i1: int) -> np.ndarray:
        if k > SMALL:
            return (X[i0:i1] * v[i0:i1, None]).T @ X[i0:i1]
        g = np.zeros((k, k))
        tridiagonal.gram_dense(X, v, g, i0, i1)
        return g

    for g in pool.map(part, [(i, min(i + step, n)) for i in range(0, n, step)]):
        G += g
    return np.tril(G) + np.tril(G, -1).T


class _Chain(Block):
    """T tridiagonal: diag(u) and a path with weights W."""

    def __init__(self, likelihood: CumulativeLikelihood, ev: Evaluation) -> None:
        super().__init__(likelihood, ev)
        self.W = np.zeros(self.K)
        tridiagonal.chain(likelihood.levels.low, likelihood.levels.up, ev.w, self.W)
        self.d = np.empty(self.K)
        self.positive = bool(tridiagonal.factor(self.u, self.W, self.d))

    def solve(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve`."""
        out = np.array(B, np.float64, order="C", copy=True, ndmin=2)
        out = out.T.copy() if B.ndim == 1 else out
        tridiagonal.solve(self.W, self.d, out)
        return out[:, 0] if B.ndim == 1 else out

    def solve_in_place(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve_in_place`."""
        tridiagonal.solve(self.W, self.d, B)
        return B

    def inverse_diagonal(self) -> np.ndarray:
        """See `Block.inverse_diagonal`."""
        out = np.empty(self.K)
        tridiagonal.inverse_diagonal(self.W, self.d, out)
        return out

    def _pieces(self, rows: RowMatrix, size: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield C a few thousand rows at a time: (k0, k1, C[k0:k1]); the array is reused."""
        store = np.empty((min(size, self.K), rows.k))
        for k0 in range(0, self.K, size):
            k1 = min(k0 + size, self.K)
            self._fill(rows, k0, k1, store[: k1 - k0])
            yield k0, k1, store[: k1 - k0]

    def _fill(self, rows: RowMatrix, k0: int, k1: int, out: np.ndarray) -> None:
        out[:] = 0.0
        pointers, ev = self.likelihood.levels.pointers, self.ev
        whole = rows.lines is None

        def part(a: int, b: int) -> None:
            a, b = a + k0, b + k0
            here = out[a - k0 : b - k0]
            if rows.dense is not None:
                D = here if whole else np.zeros((b - a, rows.dense.shape[1]))
                tridiagonal.cross_dense(rows.dense, ev.ua, ev.ub, pointers, a, b, D)
                if not whole:
                    here[:, rows.dense_at] = D
            if rows.lines is not None:
                x = rows.lines
                tridiagonal.cross_lines(
                    x.starts, x.ends, x.indices, x.data, ev.ua, ev.ub,
                    pointers, a, b, here,
                )  # fmt: skip

        self.likelihood.backend.pool.map(part, balanced_chunks(pointers[k0 : k1 + 1], 4))

    def schur(self, rows: RowMatrix) -> np.ndarray:
        """See `Block.schur`."""
        S = self.gram(rows)
        carry = np.zeros(rows.k)
        size = max(64, ENTRIES // max(rows.k, 1))
        ones = np.ones(min(size, self.K))
        for k0, _, Z in self._pieces(rows, size):
            tridiagonal.eliminate(Z, self.W, self.d, carry, k0)
            S -= weighted_gram(Z, ones, self.likelihood.backend.pool)
        return 0.5 * (S + S.T)

    def pooled_schur(self, rows: RowMatrix) -> np.ndarray:
        """See `Block.pooled_schur`."""
        # Finer towards the ends, where α is steep.
        place = 0.5 - 0.5 * np.cos(np.pi * np.arange(POOL) / POOL)
        first = np.unique((place * self.K).astype(np.int64))
        u, d = np.add.reduceat(self.u, first), np.empty(len(first))
        edges = np.append(first, self.K)
        if not (self.W[1:] > 0).all():
            return self.schur(rows)
        # From the middle of one group to the next the links are springs in a row.
        slack = np.concatenate([[0.0], np.cumsum(1.0 / self.W[1:])])
        middle = slack[(edges[:-1] + edges[1:] - 1) // 2]
        W = np.concatenate([[0.0], 1.0 / np.diff(middle)])
        if not tridiagonal.factor(u, W, d):
            return self.schur(rows)
        pointers, ev = self.likelihood.levels.pointers, self.ev
        Z = -rows.sums(ev.ua, pointers[edges]) - rows.sums(ev.ub, pointers[edges + 1])
        tridiagonal.eliminate(Z, W, d, np.zeros(rows.k), 0)
        S = self.gram(rows) - Z.T @ Z
        return 0.5 * (S + S.T)

    def cross(self, rows: RowMatrix) -> np.ndarray:
        """See `Block.cross`."""
        out = np.empty((self.K, rows.k))
        self._fill(rows, 0, self.K, out)
        return out


class _Sparse(Block):
    """T sparse: rows that span several levels join distant thresholds."""

    def __init__(self, likelihood: CumulativeLikelihood, ev: Evaluation) -> None:
        super().__init__(likelihood, ev)
        K, L = self.K, likelihood.levels
        inner = (L.low >= 0) & (L.up < K)
        i, j, w = L.low[inner], L.up[inner], ev.w[inner]
        W = sparse.coo_array((w, (i, j)), shape=(K, K)).tocsc()
        W = W + W.T
        degree = np.asarray(W.sum(axis=1)).ravel()
        T = sparse.csc_array(sparse.diags_array(self.u + degree) - W)
        self.T = T
        try:
            self._factor()
            self.positive = bool((self.lu.U.diagonal() > 0).all())
        except RuntimeError:  # exactly singular
            self.positive = False

    def _factor(self) -> None:
        # Symmetric mode, pivots on the diagonal: T is a diagonally dominant M-matrix.
        self.lu: Any = splinalg.splu(
            self.T, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "lu"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._factor()

    def solve(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve`."""
        return self.lu.solve(np.ascontiguousarray(B, np.float64))

    def inverse_diagonal(self) -> np.ndarray:
        """See `Block.inverse_diagonal`; one solve a threshold, some hundred at a time."""
        out = np.empty(self.K)
        for k0 in range(0, self.K, 256):
            k1 = min(k0 + 256, self.K)
            B = np.zeros((self.K, k1 - k0))
            B[np.arange(k0, k1), np.arange(k1 - k0)] = 1.0
            out[k0:k1] = self.lu.solve(B)[np.arange(k0, k1), np.arange(k1 - k0)]
        return out

    def schur(self, rows: RowMatrix) -> np.ndarray:
        """See `Block.schur`."""
        C = self.cross(rows)
        S = self.gram(rows) - C.T @ self.solve(C)
        return 0.5 * (S + S.T)

    def cross(self, rows: RowMatrix) -> np.ndarray:
        """See `Block.cross`."""
        L, K, n = self.likelihood.levels, self.K, self.likelihood.n
        out = np.zeros((K, rows.k))
        at = np.arange(n)
        for threshold, x in ((L.up, self.ev.ua), (L.low, self.ev.ub)):
            ok = (threshold >= 0) & (threshold < K)
            A = sparse.csr_array((-x[ok], (threshold[ok], at[ok])), shape=(K, n))
            if rows.dense is not None:
                out[:, rows.dense_at] += A @ rows.dense
            if rows.lines is not None:
                x_lines = rows.lines
                data = x_lines.data if x_lines.data.size else np.ones(len(x_lines.indices))
                indptr = np.append(x_lines.starts, x_lines.ends[-1:])
                X = sparse.csr_array(
                    (data, x_lines.indices.astype(np.int64), indptr), shape=(n, x_lines.width)
                )
                out += (A @ X).toarray()
        return out
