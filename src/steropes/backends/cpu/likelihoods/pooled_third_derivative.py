"""Third derivative of the pooled logistic likelihood; see `pooled_logistic_kernels`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED

__all__ = ["third_derivative"]


@njit(**ORDERED)
def third_derivative(h, base, F, first, last, w, own, at_time, r, g, i0, i1):
    """Set r (C, n) and add g (K,): v (1 − 2p) Σ_l z_ikl² in each person's intervals.

    h (C, n), base (K,), and w (n,) are of one replicate; the directions are own (C, n, L) and
    at_time (K, L), with z_ik = Σ_c f_c(k) own_ic + at_time_k.
    """
    Q, L = F.shape[1], at_time.shape[1]
    z = np.empty(L)
    for i in range(i0, i1):
        for c in range(Q + 1):
            r[c, i] = 0.0
        if w[i] == 0.0:
            continue
        for k in range(first[i], last[i]):
            x = h[0, i] + base[k]
            for c in range(Q):
                x += F[k, c] * h[c + 1, i]
            e = math.exp(-abs(x))
            d = 1.0 / (1.0 + e)
            t = w[i] * e * d * d * (e - 1.0) * d  # w p (1 − p) (1 − 2p) where x ≥ 0
            if x < 0.0:
                t = -t
            size = 0.0
            for j in range(L):
                z[j] = own[0, i, j] + at_time[k, j]
            for c in range(Q):
                for j in range(L):
                    z[j] += F[k, c] * own[c + 1, i, j]
            for j in range(L):
                size += z[j] * z[j]
            t *= size
            r[0, i] += t
            for c in range(Q):
                r[c + 1, i] += F[k, c] * t
            g[k] += t
