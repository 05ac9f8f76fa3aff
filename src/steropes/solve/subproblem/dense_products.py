"""Multithreaded products of a large dense matrix with a few vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.cpu.descent.single_precision_products import (
    TILE,
    add_products,
    add_transposed_products,
    side_by_side,
)
from ...backends.thread_pool import ThreadPool
from ..work_sizes import SIZES, pieces

__all__ = ["by_memory", "of_rows", "times", "transposed_times", "width"]


def times(A: np.ndarray, z: np.ndarray, pool: ThreadPool) -> np.ndarray:
    """Compute A[:, :k] z of vectors z (k, B) of A's precision, (n, B) in double precision."""
    n, (k, B) = len(A), z.shape
    stripes = pieces(SIZES.dense_task_rows, n)
    if by_memory(A, B):
        Q = width(B)
        Z, sums, kernel = side_by_side(z, Q), np.zeros((n, -(-B // Q), Q)), add_products[Q]
        pool.map(lambda a, b: kernel(A, Z, sums, a, b), stripes, n * k)
        return sums.reshape(n, sums.shape[1] * Q)[:, :B]
    out = np.empty((n, B))

    def part(a: int, b: int) -> None:
        out[a:b] = A[a:b, :k] @ z

    pool.map(part, stripes, n * k)
    return out


def transposed_times(
    A: np.ndarray, z: np.ndarray, pool: ThreadPool, columns: tuple[int, int],
    rows: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Compute A[rows, first:last]' z of vectors z (len(rows), B), in double precision."""
    (first, last), (n, B) = columns, z.shape
    k = last - first
    if by_memory(A, B):
        at = np.arange(n) if rows is None else rows
        return of_rows(A, side_by_side(z, width(B)), at, columns, pool)[:, :B]

    def part(a: int, b: int) -> np.ndarray:
        """Multiply some rows transposed with their part of z."""
        if rows is None:
            return A[a:b, first:last].T @ z[a:b]
        total = np.zeros((k, B), A.dtype)
        for i in range(a, b, SIZES.dense_cached_rows):
            at = slice(i, min(i + SIZES.dense_cached_rows, b))
            total += A[rows[at], first:last].T @ z[at]
        return total

    size = max(SIZES.dense_task_rows, -(-n // SIZES.dense_partial_sums))
    out = np.zeros((k, B))
    for total in pool.map(part, pieces(size, n), n * k):
        out += total
    return out


def of_rows(
    A: np.ndarray, Z: np.ndarray, rows: np.ndarray, columns: tuple[int, int], pool: ThreadPool,
    take: Callable[[np.ndarray, int, int], None] | None = None,
) -> np.ndarray:  # fmt: skip
    """Compute A[rows, first:last]' Z of packed vectors Z (rows, blocks, Q).

    Returns a (last − first, blocks · Q) array. Each part of it is passed to ``take``, with its
    first and last row, as soon as it is complete.
    """
    first, last = columns
    k, (blocks, Q) = last - first, Z.shape[1:]
    sums, kernel = np.zeros((k, blocks, Q)), add_transposed_products[Q]
    size = min(TILE, 64 * -(-k // (64 * SIZES.dense_column_parts)))
    whole = sums.reshape(k, blocks * Q)

    def stripe(i: int, j: int) -> None:
        kernel(A, rows, first, Z, sums, i, j, np.empty((TILE, 1, Q), np.float32))
        if take is not None:
            take(whole, i, j)

    pool.map(stripe, pieces(size, k), len(rows) * k)
    return whole


def by_memory(A: np.ndarray, B: int) -> bool:
    """Return whether BLAS is slower than memory for B vectors."""
    return A.dtype == np.float32 and 1 < B <= SIZES.max_dense_vectors


def width(B: int) -> int:
    """Return how many vectors are processed in a register at once."""
    return 16 if 8 < B <= 16 else 8
