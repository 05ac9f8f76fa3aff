"""Exact minimisation of one replicate's model for fixed signs of its coefficients.

Used where conjugate gradients stall. Coefficients that reach zero are dropped, and the step is
repeated without them. If there are more columns than the rows can distinguish, the minimum is not
unique, but the ℓ1 norm decreases along the null directions. Such steps are taken with a regularised
matrix until enough columns have been dropped.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .low_rank_hessian_terms import LowRank
from .reduced_hessian import ReducedHessian

__all__ = ["MIN_PIVOT", "Factor", "cholesky_factor", "cholesky_solve", "fixed_sign_minimum"]

# A matrix with a unit diagonal is regular if no pivot of its factor is below this.
MIN_PIVOT = 1e-7


Factor = tuple[np.ndarray, bool]  # as of `scipy.linalg.cho_factor`


def cholesky_factor(H: np.ndarray) -> Factor | None:
    """Factor H, which has a unit diagonal and is overwritten; None if it is nearly singular."""
    try:  # H is symmetric, so its transpose is the column-major matrix that LAPACK overwrites.
        factor: Factor = linalg.cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if np.diag(factor[0]).min(initial=1.0) < MIN_PIVOT:  # The step would be noise.
        return None
    return factor


def cholesky_solve(H: np.ndarray, q: np.ndarray) -> np.ndarray | None:
    """Return −H⁻¹q, or None if H, which has a unit diagonal, is nearly singular.

    H is overwritten.
    """
    factor = cholesky_factor(H)
    return None if factor is None else -linalg.cho_solve(factor, q, check_finite=False)


def fixed_sign_minimum(
    shared: ReducedHessian, low: LowRank, l1: np.ndarray, l2: np.ndarray, y: np.ndarray,
    slope: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return the new point (k,) of one replicate.

    Parameters
    ----------
    low : LowRank
        Of that replicate alone.
    l1, l2, y, slope : (k,) arrays
        Penalties, the point, and the slopes of all smooth terms there.
    """
    y, slope = y.copy(), slope.copy()
    added = shared.rounding
    signs = np.sign(y)
    left = shared.policy.max_exact_work
    first = np.flatnonzero((y != 0) | (l1 == 0))
    # The matrix of the first support, of which later ones are subsets.
    A = _matrix(shared, low, l2, first)
    while left > 0:
        support = np.flatnonzero((y != 0) | (l1 == 0))
        if len(support) == 0:
            return y
        q = (slope + signs * l1)[support]
        H, size = _scaled(A, np.searchsorted(first, support))
        regular = H.copy() if l1.any() else None
        step = cholesky_solve(H, q / size)
        if step is None and regular is not None:
            regular[np.diag_indices(len(regular))] += added
            step = cholesky_solve(regular, q / size)
        if step is None:
            return y
        step /= size
        old = y[support]
        crossing = (old * (old + step) < 0) & (l1[support] > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where(crossing, -old / step, 1.0)
        t = float(limits.min(initial=1.0))
        y[support] = old + t * step
        stopped = crossing & (limits <= t)
        y[support[stopped]] = 0.0
        left -= len(support) ** 3 + 1
        if not stopped.any():
            return y
        d = np.zeros((len(y), 1))
        d[support, 0] = y[support] - old
        slope += (shared.times(d) + low.product(d))[:, 0] + l2 * d[:, 0]
    return y


def _matrix(
    shared: ReducedHessian, low: LowRank, l2: np.ndarray, support: np.ndarray
) -> np.ndarray:
    """Return the replicate's matrix on some coordinates."""
    H = shared.part(support, np.float64)
    if len(low.U):
        U = low.U[:, support, 0]
        H += (U * low.c[:, :1]).T @ U
    H[np.diag_indices(len(H))] += l2[support]
    return H


def _scaled(A: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of a matrix, scaled to a unit diagonal, and the scales."""
    H = A[np.ix_(at, at)]
    h = np.diag(H)
    size = np.sqrt(np.where(h > 0, h, 1.0))
    H /= size
    H /= size[:, None]
    return H, size
