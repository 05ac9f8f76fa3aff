"""Kernels for the tridiagonal Hessian T of the thresholds of cumulative (ordinal) models.

T is diag(u) plus the Laplacian of a path with weights W: ``W[k]`` joins the entries k − 1 and k
(``W[0]`` is not used). With outcomes as dense as the rows W is of order n² and u of order one, so
the usual pivots W_k + W_{k+1} + u_k − W_k²/d lose everything; here the excess of each pivot over W
is carried instead, which only adds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ...kernel_cache import CACHE
from ..sums.compensated_sums import sum_of, two_sum

__all__ = [
    "accumulate",
    "chain",
    "cross_dense",
    "cross_lines",
    "eliminate",
    "factor",
    "gram_dense",
    "integrate",
    "inverse_diagonal",
    "retract",
    "solve",
]

OPTIONS: dict[str, Any] = {"nogil": True, "cache": CACHE, "error_model": "numpy"}
FAST: dict[str, Any] = {**OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**OPTIONS)
def factor(u, W, d):
    """Compute pivots d of T = L diag(d) L', L unit lower with −W[k]/d[k−1]; False if any d ≤ 0."""
    K = len(u)
    excess = 0.0
    for k in range(K):
        excess = u[k] + (W[k] * (excess / d[k - 1]) if k > 0 else 0.0)
        d[k] = excess + (W[k + 1] if k + 1 < K else 0.0)
        if not (d[k] > 0.0 and math.isfinite(d[k])):
            return False
    return True


@njit(**OPTIONS)
def solve(W, d, B):
    """Replace B (K, m) by T⁻¹ B."""
    K, m = B.shape
    for k in range(1, K):
        r = W[k] / d[k - 1]
        for j in range(m):
            B[k, j] += r * B[k - 1, j]
    for j in range(m):
        B[K - 1, j] /= d[K - 1]
    for k in range(K - 2, -1, -1):
        r, q = W[k + 1] / d[k], 1.0 / d[k]
        for j in range(m):
            B[k, j] = q * B[k, j] + r * B[k + 1, j]


@njit(**OPTIONS)
def inverse_diagonal(W, d, out):
    """Compute the diagonal of T⁻¹ from the last entry up, as sums of positive numbers."""
    K = len(d)
    out[K - 1] = 1.0 / d[K - 1]
    for k in range(K - 2, -1, -1):
        r = W[k + 1] / d[k]
        out[k] = 1.0 / d[k] + r * r * out[k + 1]


@njit(**OPTIONS)
def eliminate(C, W, d, carry, k0):
    """Compute rows k0 … of L⁻¹ C / √d in place; ``carry`` is the last row, undivided."""
    for i in range(len(C)):
        k = k0 + i
        r = W[k] / d[k - 1] if k > 0 else 0.0
        q = 1.0 / math.sqrt(d[k])
        for j in range(C.shape[1]):
            z = C[i, j] + r * carry[j]
            carry[j] = z
            C[i, j] = q * z


@njit(**FAST)
def gram_dense(X, v, G, i0, i1):
    """G[j, k] += Σ_i v_i x_ij x_ik for k ≤ j over the rows i0 … i1; for G that fits the cache.

    Four rows at a time: each entry of G is loaded and stored once for four products. Unlike
    BLAS it never waits for threads of its own.
    """
    p = X.shape[1]
    i = i0
    while i + 4 <= i1:
        for j in range(p):
            a, b = v[i] * X[i, j], v[i + 1] * X[i + 1, j]
            c, d = v[i + 2] * X[i + 2, j], v[i + 3] * X[i + 3, j]
            for k in range(j + 1):
                G[j, k] += (a * X[i, k] + b * X[i + 1, k]) + (c * X[i + 2, k] + d * X[i + 3, k])
        i += 4
    while i < i1:
        for j in range(p):
            a = v[i] * X[i, j]
            for k in range(j + 1):
                G[j, k] += a * X[i, k]
        i += 1


@njit(**FAST)
def cross_dense(X, rows, a, b, pointers, k0, k1, out):
    """out[k − k0] −= Σ a_i x_i (rows of level k) + Σ b_i x_i (rows of level k + 1).

    Row i of the levels is X[rows[i]].
    """
    p = X.shape[1]
    for s in range(k0, min(k1 + 1, len(pointers) - 1)):
        for i in range(pointers[s], pointers[s + 1]):
            r = rows[i]
            if s < k1:
                x = a[i]
                row = out[s - k0]
                for j in range(p):
                    row[j] -= x * X[r, j]
            if s > k0:
                x = b[i]
                row = out[s - k0 - 1]
                for j in range(p):
                    row[j] -= x * X[r, j]


@njit(**FAST)
def cross_lines(starts, ends, indices, data, rows, a, b, pointers, k0, k1, out):
    """Compute `cross_dense` for sparse rows."""
    for s in range(k0, min(k1 + 1, len(pointers) - 1)):
        for i in range(pointers[s], pointers[s + 1]):
            for k in range(starts[rows[i]], ends[rows[i]]):
                x = 1.0 if data.size == 0 else data[k]
                j = indices[k]
                if s < k1:
                    out[s - k0, j] -= a[i] * x
                if s > k0:
                    out[s - k0 - 1, j] -= b[i] * x


@njit(**OPTIONS)
def accumulate(low, up, x_up, x_low, out):
    """Add Σ x_up over rows with upper threshold k to out[k], and Σ x_low by the lower one."""
    K = len(out)
    lost = np.zeros(K)
    for i in range(len(low)):
        k = up[i]
        if k < K:
            out[k], error = two_sum(out[k], x_up[i])
            lost[k] += error
        k = low[i]
        if k >= 0:
            out[k], error = two_sum(out[k], x_low[i])
            lost[k] += error
    for k in range(K):
        out[k] = sum_of(out[k], lost[k])


@njit(**OPTIONS)
def chain(low, up, w, out):
    """out[k] += Σ w over rows between the thresholds k − 1 and k."""
    for i in range(len(low)):
        if low[i] >= 0 and up[i] < len(out):
            out[up[i]] += w[i]


@njit(**OPTIONS)
def integrate(start, at, delta, out):
    """out[k] with out[at] = start and differences delta[k] = out[k] − out[k−1], compensated."""
    K = len(delta)
    out[at] = start
    total, lost = start, 0.0
    for k in range(at + 1, K):
        y = delta[k] - lost
        t = total + y
        lost = (t - total) - y
        total = t
        out[k] = total
    total, lost = start, 0.0
    for k in range(at, 0, -1):
        y = -delta[k] - lost
        t = total + y
        lost = (t - total) - y
        total = t
        out[k - 1] = total


@njit(**OPTIONS)
def retract(delta, step, t, floor, out):
    """out = delta + t step where that leaves a share ``floor`` of delta, else a positive rest.

    The rest c²/(2c − x), with x = 1 + t step/delta and c the floor, meets the line at x = c
    with the same slope, so the path through out is smooth in t and its tangent is the step.
    """
    for k in range(len(delta)):
        x = 1.0 + t * step[k] / delta[k]
        out[k] = delta[k] * (x if x >= floor else floor * floor / (2.0 * floor - x))
