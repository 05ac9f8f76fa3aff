"""Coordinate descent on a quadratic with ℓ1 terms and limits of the coordinates."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS

__all__ = ["limited_sweeps"]


@njit(**OPTIONS)
def limited_sweeps(H, s, theta, l1, lower, upper, held, sweeps):
    """Minimise ½ θ'Hθ + c'θ + Σ λ_j |θ_j| within limits by coordinate descent.

    Parameters
    ----------
    H : (k, k) array
    s : (k,) array
        Hθ + c, kept.
    theta : (k,) array
        Changed.
    l1, lower, upper : (k,) arrays
    held : (k,) bool array
        Coordinates that do not change.
    sweeps : int
    """
    k = len(theta)
    for _ in range(sweeps):
        for j in range(k):
            if held[j]:
                continue
            h = H[j, j]
            if h <= 0.0:  # Without curvature there is no minimum unless λ exceeds the slope.
                new = 0.0 if abs(s[j]) < l1[j] else theta[j]
            else:
                r = s[j] - h * theta[j]
                size = abs(r) - l1[j]
                new = -np.sign(r) * size / h if size > 0.0 else 0.0
                new = min(max(new, lower[j]), upper[j])
            d = new - theta[j]
            if d != 0.0:
                theta[j] = new
                for row in range(k):
                    s[row] += H[j, row] * d
