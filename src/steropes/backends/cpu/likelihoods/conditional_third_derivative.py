"""Third derivatives of the exact conditional likelihood by Taylor series of second order.

The inclusion probabilities π(η + t z) of `conditional_bernoulli` are computed as power series in t:
each number is (value, first, second coefficient), and products are truncated after t². The second
coefficient of π is half of D³L[z, z, ·], obtained without subtraction.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from .conditional_bernoulli import _block, _collect, _largest, _tilt

__all__ = ["differentiate_twice"]


@njit(**ORDERED)
def _mix(to, a, b, f, g):
    """Compute to = a f + b g as series."""
    x = a[0] * f[2] + a[1] * f[1] + a[2] * f[0] + b[0] * g[2] + b[1] * g[1] + b[2] * g[0]
    y = a[0] * f[1] + a[1] * f[0] + b[0] * g[1] + b[1] * g[0]
    to[0] = a[0] * f[0] + b[0] * g[0]
    to[1], to[2] = y, x


@njit(**ORDERED)
def _advance(f, to, p, q, d, low, done, zero):
    """Advance by one row: ``to`` is the distribution over low … of the sum of ``done`` + 1 rows."""
    top = min(done, d)
    if done < d:
        _mix(to[done + 1], p, q, f[done], zero)
    if low == 0:
        _mix(to[0], q, p, f[0], zero)
    for k in range(max(low, 1), top + 1):
        _mix(to[k], q, p, f[k], f[k - 1])


@njit(**ORDERED)
def _second(P, Q, n, d, out, F, C, g):
    """Set out to the t² coefficients of P(row i is 1 | S = d), for d from 1 to n − 1.

    The passes are those of `conditional_bernoulli._inclusion`, with power series as numbers.
    """
    L = len(F) - 1
    blocks = -(-n // L)
    zero = np.zeros(3)
    C[0], g[:] = 0.0, 0.0
    C[0, 0, 0] = 1.0
    for block in range(blocks - 1):
        F[0, : d + 1] = C[block, : d + 1]
        for j in range(L):
            i = block * L + j
            low = max(0, d - (n - i - 1))
            _advance(F[j & 1], F[1 - (j & 1)], P[i], Q[i], d, low, i, zero)
        C[block + 1, : d + 1] = F[L & 1, : d + 1]
    g[d, 0] = 1.0
    total, s, product = np.zeros(3), np.zeros(3), np.zeros(3)
    for block in range(blocks - 1, -1, -1):
        start = block * L
        stop = min(start + L, n)
        F[0, : d + 1] = C[block, : d + 1]
        for i in range(start, stop):
            j = i - start
            _advance(F[j], F[j + 1], P[i], Q[i], d, max(0, d - (n - i - 1)), i, zero)
        if stop == n:
            total[:] = F[n - start, d]
        for i in range(stop - 1, start - 1, -1):
            f = F[i - start]
            low, high = max(0, d - (n - i)), min(i, d)
            s[:] = 0.0
            for m in range(low, min(high, d - 1) + 1):
                _mix(product, f[m], zero, g[m + 1], zero)
                s += product
            _mix(product, P[i], zero, s, zero)
            first = product[0] / total[0]  # the quotient of the series, term by term
            then = (product[1] - first * total[1]) / total[0]
            out[i] = (product[2] - first * total[2] - then * total[1]) / total[0]
            for m in range(low, min(high, d - 1) + 1):
                _mix(g[m], Q[i], P[i], g[m], g[m + 1])
            if high == d:
                _mix(g[d], Q[i], zero, g[d], zero)


@njit(**ORDERED)
def differentiate_twice(eta, w, case, pointers, Z, out, s0, s1):
    """Add weight × Σ_c d²π(η + t z_c)/dt² over the columns of Z (n, C) to out (n,).

    Rows of weight zero are absent. A constant within a stratum changes nothing and is taken out
    of z first.
    """
    most = _largest(pointers, s0, s1)
    rows = np.empty(most, np.int64)
    x, p, q, second = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    P, Q = np.empty((most, 3)), np.empty((most, 3))
    for s in range(s0, s1):
        n, d = _collect(eta, w, case, pointers[s], pointers[s + 1], 0, rows, x)
        if d == 0 or d == n:
            continue
        weight = w[rows[0], 0]
        _tilt(x, n, d, p, q)
        flip = 2 * d > n  # choosing the others is the same, with −η
        if flip:
            d = n - d
        L = _block(n, d)
        F = np.empty((L + 1, d + 1, 3))
        C = np.empty((-(-n // L), d + 1, 3))
        g = np.empty((d + 1, 3))
        variance = 0.0
        for i in range(n):
            variance += p[i] * q[i]
        for c in range(Z.shape[1]):
            mean, same = 0.0, True
            for i in range(n):
                mean += p[i] * q[i] * Z[rows[i], c]
                same = same and Z[rows[i], c] == Z[rows[0], c]
            if same:
                continue
            mean = mean / variance if variance > 0.0 else Z[rows[0], c]
            for i in range(n):
                z = Z[rows[i], c] - mean
                a = p[i] * q[i] * z
                b = 0.5 * a * (q[i] - p[i]) * z
                own, other = (Q[i], P[i]) if flip else (P[i], Q[i])
                own[0], own[1], own[2] = p[i], a, b
                other[0], other[1], other[2] = q[i], -a, -b
            _second(P, Q, n, d, second, F, C, g)
            for i in range(n):
                change = 2.0 * weight * second[i]
                out[rows[i]] += -change if flip else change
