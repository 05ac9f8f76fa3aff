"""A Cholesky factor in tiles: all threads work on it, and its bits do not depend on how many."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ...backends.threads import ThreadPool

__all__ = ["Cholesky"]

TILE = 256
STRIPES = 8  # parts of a panel that go side by side


class Cholesky:
    """A = L L' of a symmetric positive definite matrix, or the first m columns of L.

    What is left of the others is their Schur complement, A_rr − A_rm A_mm⁻¹ A_mr.

    Parameters
    ----------
    A : (n, n) array
        Its lower triangle is overwritten.
    pool : ThreadPool
    m : int, optional
        Columns to eliminate; all of them without it.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where the block of the first m is not positive definite in its own precision.
    """

    def __init__(self, A: np.ndarray, pool: ThreadPool, m: int | None = None) -> None:
        self.L = A
        self.m = len(A) if m is None else m
        self.pool = pool
        self.tiles = [(a, min(a + TILE, self.m)) for a in range(0, self.m, TILE)]
        self.inverses: list[np.ndarray] = []  # of the diagonal tiles
        for a, b in self.tiles:
            self._tile(a, b)
        self._complement(self.m)

    def _tile(self, a: int, b: int) -> None:
        """Columns a … b of L, of all rows below."""
        L, n = self.L, len(self.L)
        if a:  # left-looking: a panel is written once

            def update(i: int, j: int) -> None:
                L[i:j, a:b] -= L[i:j, :a] @ L[a:b, :a].T

            self.pool.map(update, _stripes(a, n))
        tile = linalg.cholesky(L[a:b, a:b], lower=True, check_finite=False)
        inverse = linalg.solve_triangular(
            tile, np.eye(b - a, dtype=L.dtype), lower=True, check_finite=False
        )
        L[a:b, a:b] = tile
        self.inverses.append(inverse)

        def scale(i: int, j: int) -> None:
            L[i:j, a:b] = L[i:j, a:b] @ inverse.T

        self.pool.map(scale, _stripes(b, n))

    def _complement(self, first: int) -> None:
        """Take from rows that are not eliminated, ``first`` and later, what the others explain."""
        L, m, n = self.L, self.m, len(self.L)

        def update(i: int, j: int) -> None:
            L[i:j, m:j] -= L[i:j, :m] @ L[m:j, :m].T

        if m:
            self.pool.map(update, [(i, min(i + TILE, n)) for i in range(first, n, TILE)])

    def append(self, A: np.ndarray, first: int) -> None:
        """Go on with a larger matrix, whose rows ``first`` and later have not been worked on.

        Parameters
        ----------
        A : (n, n) array
            Its first rows are those of ``L``.
        """
        self.L = A
        new = A[first:]
        for (a, b), inverse in zip(self.tiles, self.inverses, strict=True):
            if a:
                new[:, a:b] -= new[:, :a] @ A[a:b, :a].T
            new[:, a:b] = new[:, a:b] @ inverse.T
        self._complement(first)

    @property
    def complement(self) -> np.ndarray:
        """The Schur complement of what is not eliminated; of it the lower triangle."""
        return self.L[self.m :, self.m :]

    def forward(self, Z: np.ndarray) -> None:
        """From R (n, B) to L⁻¹R, and what is left of the rows that are not eliminated, in place."""
        L, m = self.L, self.m
        for (a, b), inverse in zip(self.tiles, self.inverses, strict=True):
            if a:
                Z[a:b] -= L[a:b, :a] @ Z[:a]
            Z[a:b] = inverse @ Z[a:b]

        def below(i: int, j: int) -> None:
            Z[i:j] -= L[i:j, :m] @ Z[:m]

        self.pool.map(below, _stripes(m, len(L)) if m else [], (len(L) - m) * m)

    def backward(self, Z: np.ndarray) -> None:
        """From L⁻¹R, below it the solution of what is not eliminated, to A⁻¹R, in place."""
        L, m = self.L, self.m

        def above(i: int, j: int) -> None:
            Z[i:j] -= L[m:, i:j].T @ Z[m:]

        self.pool.map(above, self.tiles if m < len(L) else [], (len(L) - m) * m)
        for (a, b), inverse in zip(self.tiles[::-1], self.inverses[::-1], strict=True):
            if b < m:
                Z[a:b] -= L[b:m, a:b].T @ Z[b:m]
            Z[a:b] = inverse.T @ Z[a:b]

    def solve(self, R: np.ndarray) -> np.ndarray:
        """A⁻¹ R for R (n, B), in the factor's precision, where all is eliminated."""
        Z = R.astype(self.L.dtype)
        self.forward(Z)
        self.backward(Z)
        return Z


def _stripes(a: int, n: int) -> list[tuple[int, int]]:
    size = max(TILE, -(-(n - a) // STRIPES))
    return [(i, min(i + size, n)) for i in range(a, n, size)]
