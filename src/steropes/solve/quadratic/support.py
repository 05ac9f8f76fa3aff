"""Newton's step on the replicates' supports: conjugate gradients with one factor for all.

Products and solves take all replicates at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .low_rank import LowRank
from .shared import SharedMatrix

__all__ = ["ITERATIONS", "support_steps"]

ITERATIONS = 16
EXACT = 0.2  # of the residual: as far as a step is solved


def support_steps(
    shared: SharedMatrix, low: LowRank, l2: np.ndarray, support: np.ndarray, residual: np.ndarray,
    enough: np.ndarray, inverse: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """Steps p with (A + low + diag(l2)) p = residual on each replicate's support, nearly.

    Parameters
    ----------
    support : (k, B) bool array
    residual : (k, B) array
    enough : (k, B) array
        A residual of this size is as good as none.
    inverse : callable
        Takes (k, B) nearly to A⁻¹ of it, each replicate's on its own support: what to precondition
        by.

    Returns
    -------
    p : (k, B) array
        Zero outside of the support.
    Hp : (k, B) array
        The matrices times p, everywhere.
    iterations : int
    """
    r = np.where(support, residual, 0.0)
    p, Hp = np.zeros(r.shape), np.zeros(r.shape)
    z = inverse(r) * support
    v = z.copy()
    rz = (r * z).sum(axis=0)
    aim = EXACT**2 * rz
    iterations = 0
    for _ in range(ITERATIONS):
        if not (rz > aim).any():
            break
        iterations += 1
        q = shared.times(v) + l2 * v + low.product(v)
        curve = (v * q).sum(axis=0)
        go = (rz > aim) & (curve > 0)
        if not go.any():
            break
        a = np.where(go, rz / np.where(go, curve, 1.0), 0.0)
        p += a * v
        Hp += a * q
        r -= a * q * support
        if (np.abs(r) <= enough).all():
            break
        z = inverse(r) * support
        new = (r * z).sum(axis=0)
        v = z + np.where(go, new / np.where(rz > 0, rz, 1.0), 0.0) * v
        rz = np.where(go, new, 0.0)
    return p, Hp, iterations
