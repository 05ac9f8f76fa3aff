"""A Cholesky factor in tiles: all threads work on it, and its bits do not depend on how many."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ...backends.threads import ThreadPool

__all__ = ["Cholesky"]

TILE = 256
STRIPES = 8  # parts of a panel that go side by side


class Cholesky:
    """A = L L' of a symmetric positive definite matrix.

    Parameters
    ----------
    A : (n, n) array
        Its lower triangle is overwritten with L.
    pool : ThreadPool

    Raises
    ------
    numpy.linalg.LinAlgError
        Where A is not positive definite in its own precision.
    """

    def __init__(self, A: np.ndarray, pool: ThreadPool) -> None:
        self.L = L = A
        n = len(A)
        self.tiles = [(a, min(a + TILE, n)) for a in range(0, n, TILE)]
        self.inverses: list[np.ndarray] = []  # of the diagonal tiles
        for a, b in self.tiles:
            if a:  # left-looking: a panel is written once

                def update(i: int, j: int, a: int = a, b: int = b) -> None:
                    L[i:j, a:b] -= L[i:j, :a] @ L[a:b, :a].T

                pool.map(update, _stripes(a, n))
            tile = linalg.cholesky(L[a:b, a:b], lower=True, check_finite=False)
            inverse = linalg.solve_triangular(
                tile, np.eye(b - a, dtype=L.dtype), lower=True, check_finite=False
            )
            L[a:b, a:b] = tile
            self.inverses.append(inverse)

            def scale(
                i: int, j: int, a: int = a, b: int = b, inverse: np.ndarray = inverse
            ) -> None:
                L[i:j, a:b] = L[i:j, a:b] @ inverse.T

            pool.map(scale, _stripes(b, n))

    def solve(self, R: np.ndarray) -> np.ndarray:
        """A⁻¹ R for R (n, B), in the factor's precision."""
        Z = R.astype(self.L.dtype)
        for (a, b), inverse in zip(self.tiles, self.inverses, strict=True):
            if a:
                Z[a:b] -= self.L[a:b, :a] @ Z[:a]
            Z[a:b] = inverse @ Z[a:b]
        for (a, b), inverse in zip(self.tiles[::-1], self.inverses[::-1], strict=True):
            if b < len(Z):
                Z[a:b] -= self.L[b:, a:b].T @ Z[b:]
            Z[a:b] = inverse.T @ Z[a:b]
        return Z


def _stripes(a: int, n: int) -> list[tuple[int, int]]:
    size = max(TILE, -(-(n - a) // STRIPES))
    return [(i, min(i + size, n)) for i in range(a, n, size)]
