"""Block coordinate descent on a quadratic with norms of groups of coordinates."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS

__all__ = ["group_sweeps"]

# The maximum number of Newton steps for the norm of a group.
STEPS = 60


@njit(**OPTIONS)
def _norm(q, w, lam, m):
    """Solve Σ q² / (w ρ + λ)² = 1 for ρ > 0, the norm of a group's minimum.

    Newton's method on the root of that sum's inverse, which is nearly linear in ρ and comes from
    below (Moré and Sorensen 1983, for trust regions).
    """
    rho = 0.0
    for _ in range(STEPS):
        total, slope = 0.0, 0.0
        for k in range(m):
            d = w[k] * rho + lam
            a = q[k] * q[k] / (d * d)
            total += a
            slope += a * w[k] / d
        f = 1.0 / np.sqrt(total) - 1.0
        if f >= -1e-15 or slope <= 0.0:
            break
        rho -= f * total * np.sqrt(total) / slope
    return rho


@njit(**OPTIONS)
def group_sweeps(H, s, theta, index, pointers, values, vectors, starts, lam, sweeps):
    """Minimise ½ θ'Hθ + c'θ + Σ_g λ_g ‖θ_g‖ over one group after the other.

    Parameters
    ----------
    H : (k, k) array
    s : (k,) array
        Hθ + c, kept.
    theta : (k,) array
        Changed.
    index, pointers : int arrays
        Coordinates of each group.
    values : array
        Eigenvalues of the groups' blocks of H, in the order of ``index``.
    vectors, starts : arrays
        Their eigenvectors, m × m by rows for each group, and where those begin.
    lam : (groups,) array
    sweeps : int
    """
    k = len(theta)
    most = 1
    for g in range(len(lam)):
        most = max(most, pointers[g + 1] - pointers[g])
    r, q, new = np.empty(most), np.empty(most), np.empty(most)
    for _ in range(sweeps):
        for g in range(len(lam)):
            a, m = pointers[g], pointers[g + 1] - pointers[g]
            size = 0.0
            for i in range(m):
                r[i] = s[index[a + i]]
                for j in range(m):
                    r[i] -= H[index[a + i], index[a + j]] * theta[index[a + j]]
                size += r[i] * r[i]
                new[i] = 0.0
            size = np.sqrt(size)
            if size > lam[g]:
                if m == 1:
                    h = H[index[a], index[a]]
                    shrunken = size - lam[g]
                    new[0] = theta[index[a]] if h <= 0.0 else -np.sign(r[0]) * shrunken / h
                else:
                    V = vectors[starts[g] : starts[g] + m * m].reshape(m, m)
                    w = values[a : a + m]
                    for j in range(m):
                        q[j] = 0.0
                        for i in range(m):
                            q[j] += V[i, j] * r[i]
                    rho = _norm(q, w, lam[g], m)
                    for j in range(m):
                        x = -rho * q[j] / (w[j] * rho + lam[g])
                        for i in range(m):
                            new[i] += V[i, j] * x
            for i in range(m):
                at = index[a + i]
                d = new[i] - theta[at]
                if d != 0.0:
                    theta[at] = new[i]
                    for row in range(k):
                        s[row] += H[at, row] * d
