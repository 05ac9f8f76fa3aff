"""The minimum over a group of columns with very different units.

Eigenvalues of the group's block of the Hessian are accurate to the rounding error of the largest,
which destroys those of columns in small units. A factor of the block, scaled to a unit diagonal,
loses nothing.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = ["group_minimum", "is_ill_scaled"]

# At this ratio of diagonal entries eigenvalues have lost half of their digits.
ILL_SCALED = 1e8


def is_ill_scaled(h: np.ndarray) -> bool:
    """Return whether the diagonal (m,) of a group's block is too uneven for eigenvalues."""
    return bool(h.min() > 0 and h.max() > ILL_SCALED * h.min())


def group_minimum(H: np.ndarray, s: np.ndarray, theta: np.ndarray, lam: float) -> np.ndarray:
    """Minimise the quadratic with slope s at θ and Hessian H, plus λ‖θ‖, over θ (m,).

    Where θ ≠ 0 it solves (H + λ/ρ) θ = −r, with r the slope at zero and ρ its norm. The ratio of
    the solution's norm to ρ decreases with ρ, which is found by bisection.
    """
    r = s - H @ theta
    size = float(np.linalg.norm(r))
    if size <= lam:
        return np.zeros(len(r))
    h = np.diag(H)

    def at(rho: float) -> np.ndarray:
        root = np.sqrt(h + lam / rho)
        M = H / root / root[:, None]
        M[np.diag_indices(len(r))] = 1.0
        return -linalg.cho_solve(linalg.cho_factor(M), r / root) / root

    try:
        # (size − λ) / trace ≤ ρ, as H's largest eigenvalue is below its trace
        low = np.log((size - lam) / h.sum())
        high = low + 1.0
        while np.linalg.norm(at(np.exp(high))) > np.exp(high):
            low, high = high, high + 2.0 * (high - low)
        for _ in range(200):  # It ends earlier if no double lies between.
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if np.linalg.norm(at(np.exp(middle))) > np.exp(middle):
                low = middle
            else:
                high = middle
        return at(np.exp(high))
    except linalg.LinAlgError:
        return theta
