"""The minimum over a group whose columns are in very different units.

Eigenvalues of its block of the Hessian are found to the rounding of the largest, in which those of
columns in small units are lost. A factor of the block with ones on its diagonal loses nothing.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = ["group_minimum", "is_uneven"]

UNEVEN = 1e8  # ratio of diagonal entries beyond which eigenvalues have lost half of their digits
HALVINGS = 200  # at most, of an interval of the norm's logarithm


def is_uneven(h: np.ndarray) -> bool:
    """Whether the diagonal (m,) of a group's block is too uneven for its eigenvalues."""
    return bool(h.min() > 0 and h.max() > UNEVEN * h.min())


def group_minimum(H: np.ndarray, s: np.ndarray, theta: np.ndarray, lam: float) -> np.ndarray:
    """Minimise the quadratic with slope s at θ and Hessian H, and λ‖θ‖, over θ (m,).

    Where θ ≠ 0 it solves (H + λ/ρ) θ = −r, r being the slope at zero, and its norm is ρ. The
    norm of the solution over ρ falls with ρ, which is found between bounds by halving.
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
        for _ in range(HALVINGS):
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
