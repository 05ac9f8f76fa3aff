"""A Hessian of a loss that is not convex, made one whose model has a minimum.

Newton's steps along negative curvature go to saddles and maxima. With |λ| in the place of each
eigenvalue λ they leave those as quickly as they come to a minimum (Nocedal and Wright 2006,
section 3.4); where the model is convex already, which it is around any minimum, nothing is changed
and the steps contract quadratically.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = ["make_positive_definite"]

SINGULAR = 1e-10  # least eigenvalue, of a matrix with ones on its diagonal, that is positive
LEAST = 1e-6  # of the largest: to which smaller eigenvalues are raised


def make_positive_definite(S: np.ndarray, ridge: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return S where S + diag(ridge) is positive definite, and otherwise S made so.

    Parameters
    ----------
    S : (k, k) array
        Symmetric.
    ridge : (k,) array
        What the model has on its diagonal beside S, zero or more.
    size : (k,) array
        A Hessian's diagonal before anything cancels, in which rounding and eigenvalues are
        counted: free of the columns' units.

    Returns
    -------
    (k, k) array
        The ridge is not in it.
    """
    if len(S) == 0 or not np.isfinite(S).all():
        return S
    scale = size + ridge
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    E = S / root / root[:, None]
    E[np.diag_indices(len(S))] += ridge / root**2
    if linalg.eigvalsh(E, subset_by_index=[0, 0])[0] > SINGULAR:
        return S
    value, V = linalg.eigh(E)
    value = np.abs(value)
    value = np.maximum(value, LEAST * value.max() if value.max() > 0 else 1.0)
    out = ((V * value) @ V.T) * root * root[:, None]
    out[np.diag_indices(len(S))] -= ridge
    result: np.ndarray = 0.5 * (out + out.T)
    return result
