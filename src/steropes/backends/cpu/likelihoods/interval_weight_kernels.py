"""Weights of single intervals of people, and the pooled logistic loss under them.

Interval weights u are None, for ones, or the tuple (values, start, scale, lower, upper) of
`IntervalWeights`: the weight of person i in interval k is
min(max(scale[i] values[start[i] + k], lower), upper).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from ..sums.compensated_sums import two_sum

__all__ = ["evaluate_weighted", "share", "value_weighted"]


@njit(**ORDERED)
def share(u, i, k):
    """Return the weight of person i in interval k."""
    if u is None:
        return 1.0
    return min(max(u[2][i] * u[0][u[1][i] + k], u[3]), u[4])


@njit(**ORDERED)
def evaluate_weighted(h, base, F, first, last, event, w, u, r, loss, g, i0, i1):
    """Add the loss (2, B) and its derivative in base, g (K, B); set that in h, r (C, n, B).

    See `steropes.backends.cpu.likelihoods.pooled_logistic_kernels.evaluate`. Each interval has its
    own logarithm, since intervals with different weights have no common product.
    """
    B = w.shape[1]
    Q = F.shape[1]
    total = np.empty(B)
    for i in range(i0, i1):
        counts = False
        for b in range(B):
            total[b] = 0.0
            counts = counts or w[i, b] != 0.0
            for c in range(Q + 1):
                r[c, i, b] = 0.0
        if not counts:
            continue
        a, z = first[i], last[i]
        for k in range(a, z):
            y = 1.0 if (event[i] != 0 and k == z - 1) else 0.0
            s = share(u, i, k)
            for b in range(B):
                x = h[0, i, b] + base[k, b]
                for c in range(Q):
                    x += F[k, c] * h[c + 1, i, b]
                e = math.exp(-abs(x))
                d = 1.0 / (1.0 + e)
                # p − y, without cancellation where p is close to one.
                p = d if (x >= 0.0) == (y == 0.0) else e * d
                total[b] += s * (math.log1p(e) + max(x, 0.0) - y * x)
                p = w[i, b] * s * (p if y == 0.0 else -p)
                g[k, b] += p
                r[0, i, b] += p
                for c in range(Q):
                    r[c + 1, i, b] += F[k, c] * p
        for b in range(B):
            loss[0, b], error = two_sum(loss[0, b], w[i, b] * total[b])
            loss[1, b] += error


@njit(**ORDERED)
def value_weighted(h, base, F, first, last, event, w, u, loss, i0, i1):
    """Add the loss (2, B) as `evaluate_weighted` does, without derivatives."""
    B = w.shape[1]
    Q = F.shape[1]
    total = np.empty(B)
    for i in range(i0, i1):
        counts = False
        for b in range(B):
            total[b] = 0.0
            counts = counts or w[i, b] != 0.0
        if not counts:
            continue
        a, z = first[i], last[i]
        for k in range(a, z):
            y = 1.0 if (event[i] != 0 and k == z - 1) else 0.0
            s = share(u, i, k)
            for b in range(B):
                x = h[0, i, b] + base[k, b]
                for c in range(Q):
                    x += F[k, c] * h[c + 1, i, b]
                total[b] += s * (math.log1p(math.exp(-abs(x))) + max(x, 0.0) - y * x)
        for b in range(B):
            loss[0, b], error = two_sum(loss[0, b], w[i, b] * total[b])
            loss[1, b] += error
