"""Terms of one person in one interval, from which the loops of pooled logistic kernels are made.

Interval weights u are None, for ones, or the tuple (values, start, scale, lower, upper) of
`IntervalWeights`: the weight of person i in interval k is
min(max(scale[i] values[start[i] + k], lower), upper).
"""

from __future__ import annotations

import math

from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from ..sums.compensated_sums import two_sum

__all__ = [
    "add_derivative",
    "add_loss",
    "has_weight",
    "log_odds",
    "log_odds_of_one",
    "residual",
    "share",
    "variance",
]


@njit(**ORDERED)
def share(u, i, k):
    """Return the weight of person i in interval k."""
    if u is None:
        return 1.0
    return min(max(u[2][i] * u[0][u[1][i] + k], u[3]), u[4])


@njit(**ORDERED, inline="always")
def has_weight(w, i):
    """Check whether person i has a weight in any replicate of w (n, B)."""
    counts = False
    for b in range(w.shape[1]):
        counts = counts or w[i, b] != 0.0
    return counts


@njit(**ORDERED, inline="always")
def log_odds(h, base, F, i, k, b):
    """Return the linear predictor of person i in interval k of replicate b; h (C, n, B)."""
    x = h[0, i, b] + base[k, b]
    for c in range(F.shape[1]):
        x += F[k, c] * h[c + 1, i, b]
    return x


@njit(**ORDERED, inline="always")
def log_odds_of_one(h, base, F, i, k):
    """Return the linear predictor of person i in interval k of one replicate; h (C, n)."""
    x = h[0, i] + base[k]
    for c in range(F.shape[1]):
        x += F[k, c] * h[c + 1, i]
    return x


@njit(**ORDERED)
def residual(x, y, e):
    """Return p − y, without cancellation where p is close to one; e = exp(−|x|)."""
    d = 1.0 / (1.0 + e)
    p = d if (x >= 0.0) == (y == 0.0) else e * d
    return p if y == 0.0 else -p


@njit(**ORDERED)
def variance(x):
    """Return p (1 − p) at the linear predictor x."""
    e = math.exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


@njit(**ORDERED, inline="always")
def add_derivative(r, g, F, i, k, b, p):
    """Add the derivative p in a linear predictor to those in h, r (C, n, B), and base, g (K, B)."""
    g[k, b] += p
    r[0, i, b] += p
    for c in range(F.shape[1]):
        r[c + 1, i, b] += F[k, c] * p


@njit(**ORDERED, inline="always")
def add_loss(loss, b, x):
    """Add to the loss (2, B): the sum, and the rounding errors of its additions."""
    loss[0, b], error = two_sum(loss[0, b], x)
    loss[1, b] += error
