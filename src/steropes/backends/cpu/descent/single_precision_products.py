"""Products of a dense single-precision matrix with a few vectors at memory bandwidth.

BLAS first copies a matrix into tiles, which is worthwhile only for many vectors: with ten, its
product takes three times as long as reading the matrix. Here each entry is read once for eight
vectors that share a register. Single precision is used for sums of about a thousand terms at most;
these are added in double precision, in an order that depends only on the sizes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.simd_registers import (
    add,
    add_scaled,
    load,
    load_single,
    store,
    widen,
    zero_single,
)
from ..compilation.unchecked_indexing import entry

__all__ = ["Q", "add_products", "add_transposed_products", "side_by_side"]

# The number of vectors in a register.
Q = 8
# The number of terms summed in single precision in products with rows.
TERMS = 1024
# The number of terms summed in single precision in products with columns.
LINES = 512
TILE = 4096  # columns whose sums are in the cache


def side_by_side(z: np.ndarray, Q: int) -> np.ndarray:
    """Pack vectors (n, B) to (n, ⌈B / Q⌉, Q) in single precision."""
    n, B = z.shape
    blocks = -(-B // Q)
    out = np.zeros((n, blocks * Q), np.float32)
    out[:, :B] = z
    return out.reshape(n, blocks, Q)


def _products(Q):
    """Make the kernel for vectors in blocks of Q."""

    @njit(**OPTIONS)
    def kernel(A, Z, out, a0, a1):
        """out[a] += A[a] Z for the rows a0 … a1 of A (n, k); Z (k, blocks, Q) and out (n, …)."""
        for j0 in range(0, len(Z), TERMS):
            j1 = min(j0 + TERMS, len(Z))
            i = a0
            while i + 7 < a1:
                for b in range(Z.shape[1]):
                    s0, s1, s2, s3 = zero_single(Q), zero_single(Q), zero_single(Q), zero_single(Q)
                    s4, s5, s6, s7 = zero_single(Q), zero_single(Q), zero_single(Q), zero_single(Q)
                    for j in range(j0, j1):
                        z = load_single(Z, j, b, Q)
                        s0 = add_scaled(s0, A[i, j], z)
                        s1 = add_scaled(s1, A[i + 1, j], z)
                        s2 = add_scaled(s2, A[i + 2, j], z)
                        s3 = add_scaled(s3, A[i + 3, j], z)
                        s4 = add_scaled(s4, A[i + 4, j], z)
                        s5 = add_scaled(s5, A[i + 5, j], z)
                        s6 = add_scaled(s6, A[i + 6, j], z)
                        s7 = add_scaled(s7, A[i + 7, j], z)
                    store(out, i, b, add(load(out, i, b, Q), widen(s0)))
                    store(out, i + 1, b, add(load(out, i + 1, b, Q), widen(s1)))
                    store(out, i + 2, b, add(load(out, i + 2, b, Q), widen(s2)))
                    store(out, i + 3, b, add(load(out, i + 3, b, Q), widen(s3)))
                    store(out, i + 4, b, add(load(out, i + 4, b, Q), widen(s4)))
                    store(out, i + 5, b, add(load(out, i + 5, b, Q), widen(s5)))
                    store(out, i + 6, b, add(load(out, i + 6, b, Q), widen(s6)))
                    store(out, i + 7, b, add(load(out, i + 7, b, Q), widen(s7)))
                i += 8
            while i < a1:
                for b in range(Z.shape[1]):
                    s = zero_single(Q)
                    for j in range(j0, j1):
                        s = add_scaled(s, A[i, j], load_single(Z, j, b, Q))
                    store(out, i, b, add(load(out, i, b, Q), widen(s)))
                i += 1

    return kernel


def _transposed_products(Q):
    """Make the kernel for vectors in blocks of Q."""

    @njit(**OPTIONS)
    def kernel(A, rows, first, Z, out, i0, i1, sums):
        """out[i] += Σ_r A[rows[r], first + i] Z[r] for i from i0 to i1.

        Z is (len(rows), blocks, Q), out (columns, blocks, Q), and sums (TILE, 1, Q), single, to
        work in.
        """
        for a in range(i0, i1, TILE):
            c, width = first + a, min(TILE, i1 - a)
            for b in range(Z.shape[1]):
                for j0 in range(0, len(rows), LINES):
                    j1 = min(j0 + LINES, len(rows))
                    for i in range(width):
                        store(sums, i, 0, zero_single(Q))
                    j = j0
                    while j + 7 < j1:
                        A0, A1, A2, A3 = A[rows[j]], A[rows[j + 1]], A[rows[j + 2]], A[rows[j + 3]]
                        A4, A5, A6, A7 = (
                            A[rows[j + 4]], A[rows[j + 5]], A[rows[j + 6]], A[rows[j + 7]]
                        )  # fmt: skip
                        z0, z1 = load_single(Z, j, b, Q), load_single(Z, j + 1, b, Q)
                        z2, z3 = load_single(Z, j + 2, b, Q), load_single(Z, j + 3, b, Q)
                        z4, z5 = load_single(Z, j + 4, b, Q), load_single(Z, j + 5, b, Q)
                        z6, z7 = load_single(Z, j + 6, b, Q), load_single(Z, j + 7, b, Q)
                        for i in range(width):
                            s = add_scaled(load_single(sums, i, 0, Q), entry(A0, c + i), z0)
                            s = add_scaled(s, entry(A1, c + i), z1)
                            s = add_scaled(s, entry(A2, c + i), z2)
                            s = add_scaled(s, entry(A3, c + i), z3)
                            s = add_scaled(s, entry(A4, c + i), z4)
                            s = add_scaled(s, entry(A5, c + i), z5)
                            s = add_scaled(s, entry(A6, c + i), z6)
                            store(sums, i, 0, add_scaled(s, entry(A7, c + i), z7))
                        j += 8
                    while j < j1:
                        A0, z = A[rows[j]], load_single(Z, j, b, Q)
                        for i in range(width):
                            s = add_scaled(load_single(sums, i, 0, Q), entry(A0, c + i), z)
                            store(sums, i, 0, s)
                        j += 1
                    for i in range(width):
                        s = load_single(sums, i, 0, Q)
                        store(out, a + i, b, add(load(out, a + i, b, Q), widen(s)))

    return kernel


add_products = {8: _products(8), 16: _products(16)}
add_transposed_products = {8: _transposed_products(8), 16: _transposed_products(16)}
