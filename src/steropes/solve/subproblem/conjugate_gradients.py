"""Newton steps on the replicates' supports by preconditioned conjugate gradients.

Products and solves take all replicates at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.reductions_of_tall_arrays import column_any, column_sum, columns
from .low_rank_hessian_terms import LowRank
from .reduced_hessian import ReducedHessian

__all__ = ["support_steps"]


def support_steps(
    shared: ReducedHessian, low: LowRank, l2: np.ndarray, support: np.ndarray, residual: np.ndarray,
    enough: np.ndarray, inverse: Callable[[np.ndarray, np.ndarray], np.ndarray],
    exact: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """Solve (A + low + diag(l2)) p = residual approximately on each replicate's support.

    Parameters
    ----------
    support : (k, B) bool array
    residual : (k, B) array
    enough : (k, B) array
        Residuals below this are small enough.
    inverse : callable
        The preconditioner: takes (k, b) vectors and the indices of their replicates, and multiplies
        approximately by A⁻¹ on each replicate's support.
    exact : (B,) array
        Relative residual at which to stop.

    Returns
    -------
    p : (k, B) array
        Zero outside of the support.
    Hp : (k, B) array
        The matrices times p, in all coordinates.
    iterations : int
    """
    P, HP = np.zeros(residual.shape), np.zeros(residual.shape)
    at = np.arange(residual.shape[1])  # Replicates that have not converged.
    r = np.where(support, residual, 0.0)
    z = inverse(r, at) * support
    v, p, Hp = z.copy(), np.zeros(r.shape), np.zeros(r.shape)
    rz = column_sum(r * z)
    aim = np.square(exact) * rz
    iterations = 0
    while iterations < shared.policy.max_iterations:
        go = (rz > aim) & column_any(np.abs(r) > enough)
        if not go.all():
            P[:, at], HP[:, at] = p, Hp
            at, aim, rz = at[go], aim[go], rz[go]
            some = np.flatnonzero(go)
            r, v, p, Hp, enough, support, l2 = (
                columns(x, some) for x in (r, v, p, Hp, enough, support, l2)
            )
            low = low.lanes(go)
        if not len(at):
            break
        iterations += 1
        q = shared.times(v) + l2 * v + low.product(v)
        curve = column_sum(v * q)
        a = np.where(curve > 0, rz / np.where(curve > 0, curve, 1.0), 0.0)
        p += a * v
        Hp += a * q
        r -= a * q * support
        z = inverse(r, at) * support
        new = np.where(curve > 0, column_sum(r * z), 0.0)
        v = z + new / np.where(rz > 0, rz, 1.0) * v
        rz = new
    P[:, at], HP[:, at] = p, Hp
    return P, HP, iterations
