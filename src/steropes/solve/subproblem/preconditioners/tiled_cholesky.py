"""A tiled, multithreaded Cholesky factor that is the same for any number of threads."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ....backends.thread_pool import ThreadPool
from ...work_sizes import SIZES, pieces
from .. import dense_products

__all__ = ["Cholesky"]


class Cholesky:
    """A = L L' of a symmetric positive definite matrix, or the first m columns of L.

    Parameters
    ----------
    A : (n, m) array
        Its first m columns, of which the lower triangle is overwritten.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the block of the first m is not positive definite in its precision.
    """

    def __init__(self, A: np.ndarray, pool: ThreadPool) -> None:
        self.L = A
        self.m = A.shape[1]
        self.pool = pool
        self.tiles = pieces(SIZES.tile_columns, self.m)
        self.inverses: list[np.ndarray] = []  # Inverses of the diagonal tiles.
        for a, b in self.tiles:
            self._tile(a, b)

    def _tile(self, a: int, b: int) -> None:
        """Compute columns a … b of L, in all rows from a on."""
        L, n = self.L, len(self.L)
        if a:  # Left-looking, so that each panel is written once.

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

    def append(self, A: np.ndarray, first: int) -> None:
        """Extend the factor to a larger matrix with new rows from ``first`` on.

        Parameters
        ----------
        A : (n, m) array
            Its first rows are those of ``L``.
        """
        self.L = A

        def some(i: int, j: int) -> None:
            new = A[i:j]
            for (a, b), inverse in zip(self.tiles, self.inverses, strict=True):
                if a:
                    new[:, a:b] -= new[:, :a] @ A[a:b, :a].T
                new[:, a:b] = new[:, a:b] @ inverse.T

        self.pool.map(some, _stripes(first, len(A)))

    def forward(self, Z: np.ndarray) -> None:
        """Replace R (n, B) by L⁻¹R in the eliminated rows."""
        for (a, b), inverse in zip(self.tiles, self.inverses, strict=True):
            if a:
                Z[a:b] -= dense_products.times(self.L[a:b], Z[:a], self.pool)
            Z[a:b] = inverse @ Z[a:b]

    def down(self, Z: np.ndarray) -> None:
        """Subtract from the other rows the part that L⁻¹R explains."""
        if 0 < self.m < len(self.L):
            Z[self.m :] -= dense_products.times(self.L[self.m :], Z[: self.m], self.pool)

    def up(self, Z: np.ndarray) -> None:
        """Subtract from L⁻¹R the part that the solution of the other rows explains."""
        L, m = self.L, self.m
        if 0 < m < len(L):
            Z[:m] -= dense_products.transposed_times(L[m:], Z[m:], self.pool, (0, m))

    def backward(self, Z: np.ndarray) -> None:
        """Replace L⁻¹R by A⁻¹R in the eliminated rows."""
        L, m = self.L, self.m
        for (a, b), inverse in zip(self.tiles[::-1], self.inverses[::-1], strict=True):
            if b < m:
                Z[a:b] -= dense_products.transposed_times(L[b:m], Z[b:m], self.pool, (a, b))
            Z[a:b] = inverse.T @ Z[a:b]

    def units(self, at: np.ndarray) -> tuple[int, np.ndarray]:
        """Compute columns of L⁻¹ at some eliminated rows; return their first row and the rest.

        The work decreases with the position of the rows.
        """
        L, m = self.L, self.m
        first = int(at.min()) // SIZES.tile_columns * SIZES.tile_columns
        E = np.zeros((m - first, len(at)), L.dtype)
        E[at - first, np.arange(len(at))] = 1.0

        def some(i: int, j: int) -> None:
            """Solve with the factor's tiles for some right-hand sides."""
            Z = E[:, i:j]
            start = int(at[i:j].min()) // SIZES.tile_columns * SIZES.tile_columns
            for (a, b), inverse in zip(self.tiles, self.inverses, strict=True):
                if a > start:
                    Z[a - first : b - first] -= L[a:b, start:a] @ Z[start - first : a - first]
                if a >= start:
                    Z[a - first : b - first] = inverse @ Z[a - first : b - first]

        self.pool.map(some, pieces(SIZES.tile_task_vectors, len(at)))
        return first, E


def _stripes(a: int, n: int) -> list[tuple[int, int]]:
    """Divide rows a … n into tasks."""
    size = max(SIZES.tile_columns, -(-(n - a) // SIZES.tile_stripes))
    return pieces(size, n, a)
