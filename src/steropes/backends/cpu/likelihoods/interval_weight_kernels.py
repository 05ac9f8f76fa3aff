"""The pooled logistic loss with weights of single intervals of people (`person_interval_terms`)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from .person_interval_terms import add_derivative, add_loss, has_weight, log_odds, residual, share

__all__ = ["evaluate_weighted", "value_weighted"]


@njit(**ORDERED)
def evaluate_weighted(h, base, F, first, last, event, w, u, r, loss, g, i0, i1):
    """Add the loss (2, B) and its derivative in base, g (K, B); set that in h, r (C, n, B).

    See `steropes.backends.cpu.likelihoods.pooled_logistic_kernels.evaluate`. Each interval has its
    own logarithm, since intervals with different weights have no common product.
    """
    B = w.shape[1]
    total = np.empty(B)
    for i in range(i0, i1):
        for b in range(B):
            total[b] = 0.0
            for c in range(r.shape[0]):
                r[c, i, b] = 0.0
        if not has_weight(w, i):
            continue
        a, z = first[i], last[i]
        for k in range(a, z):
            y = 1.0 if (event[i] != 0 and k == z - 1) else 0.0
            s = share(u, i, k)
            for b in range(B):
                x = log_odds(h, base, F, i, k, b)
                e = math.exp(-abs(x))
                total[b] += s * (math.log1p(e) + max(x, 0.0) - y * x)
                add_derivative(r, g, F, i, k, b, w[i, b] * s * residual(x, y, e))
        for b in range(B):
            add_loss(loss, b, w[i, b] * total[b])


@njit(**ORDERED)
def value_weighted(h, base, F, first, last, event, w, u, loss, i0, i1):
    """Add the loss (2, B) as `evaluate_weighted` does, without derivatives."""
    B = w.shape[1]
    total = np.empty(B)
    for i in range(i0, i1):
        if not has_weight(w, i):
            continue
        for b in range(B):
            total[b] = 0.0
        a, z = first[i], last[i]
        for k in range(a, z):
            y = 1.0 if (event[i] != 0 and k == z - 1) else 0.0
            s = share(u, i, k)
            for b in range(B):
                x = log_odds(h, base, F, i, k, b)
                total[b] += s * (math.log1p(math.exp(-abs(x))) + max(x, 0.0) - y * x)
        for b in range(B):
            add_loss(loss, b, w[i, b] * total[b])
