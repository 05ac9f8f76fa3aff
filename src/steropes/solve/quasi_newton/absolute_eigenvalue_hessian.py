"""Modification of an indefinite Hessian so that its quadratic model has a minimum.

Newton steps along negative curvature lead to saddle points and maxima. Replacing each eigenvalue λ
by |λ| leaves those as fast as it approaches a minimum (Nocedal and Wright 2006, section 3.4). Where
the Hessian is positive definite, as around any minimum, it is unchanged and steps converge
quadratically.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from steropes.solve.hessian.profiled_hessian import MIN_EIGENVALUE

__all__ = ["make_positive_definite"]

# Smaller eigenvalues are raised to this share of the largest.
RAISED_EIGENVALUE = 1e-6


def make_positive_definite(S: np.ndarray, ridge: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return S if S + diag(ridge) is positive definite, and a modified S otherwise.

    Parameters
    ----------
    S : (k, k) array
        Symmetric.
    ridge : (k,) array
        Diagonal that the model adds to S, zero or more.
    size : (k,) array
        The Hessian's diagonal before cancellation, the scale of rounding and eigenvalues. It makes
        the result independent of the columns' units.

    Returns
    -------
    (k, k) array
        Without the ridge.
    """
    if len(S) == 0 or not np.isfinite(S).all():
        return S
    scale = size + ridge
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    E = S / root / root[:, None]
    E[np.diag_indices(len(S))] += ridge / root**2
    if linalg.eigvalsh(E, subset_by_index=[0, 0])[0] > MIN_EIGENVALUE:
        return S
    value, V = linalg.eigh(E)
    value = np.abs(value)
    value = np.maximum(value, RAISED_EIGENVALUE * value.max() if value.max() > 0 else 1.0)
    out = ((V * value) @ V.T) * root * root[:, None]
    out[np.diag_indices(len(S))] -= ridge
    result: np.ndarray = 0.5 * (out + out.T)
    return result
