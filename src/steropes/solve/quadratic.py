"""Minimise the quadratic model of one replicate: coordinate descent, or Cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ..backends.cpu.descent import descend

__all__ = ["minimize_quadratic"]

SWEEPS = 60


def minimize_quadratic(
    G: Any, scale: float, g: Any, beta: Any, l1: Any, l2: Any, unit: Any, tolerance: float
) -> Any:
    """Return the step d that minimises  g'd + scale/2 d'Gd + Σ l1|β+d| + ½ Σ l2 (β+d)².

    Parameters
    ----------
    G : (k, k) array
        Hessian, symmetric.
    g : (k,) array
        Gradient of the loss at β.
    beta, l1, l2 : (k,) arrays
    unit : (k,) array
        Size of one unit of violation for each coordinate (`certificate.units`).
    tolerance : float
        Largest change of the model's gradient, in units, at which the descent stops.
    """
    if not l1.any():
        d = _solve(G, scale, g + l2 * beta, l2, np.arange(len(g)))
        if d is not None:
            return d
    d = np.zeros(len(g))
    for _ in range(4):
        _, largest = descend(G, scale, g, beta, l1, l2, unit, d, tolerance, SWEEPS)
        if largest <= tolerance:
            break
        _polish(G, scale, g, beta, l1, l2, d)
    return d


def _solve(G, scale, q, l2, support):
    """Newton's step on some coordinates, or None where the matrix is not positive definite."""
    H = G[np.ix_(support, support)] if len(support) < len(G) else G.copy()
    H *= scale
    H[np.diag_indices(len(H))] += l2[support]
    size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    H /= size
    H /= size[:, None]
    try:  # in place: H is symmetric, so its transpose is the column-major H that LAPACK wants
        factor = linalg.cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if np.diag(factor[0]).min() < 1e-7:  # nearly singular: its step would be noise
        return None
    return -linalg.cho_solve(factor, q[support] / size, check_finite=False) / size


def _polish(G, scale, g, beta, l1, l2, d):
    """Jump to the minimum with today's signs, as far as no coefficient changes its sign.

    Coordinate descent is slow along correlated columns, which is where this jump is exact.
    """
    at = beta + d
    support = np.flatnonzero((at != 0) | (l1 == 0))
    if len(support) == 0:
        return
    sign = np.sign(at[support]) * l1[support]
    q = g + scale * (G @ d) + l2 * at
    q[support] += sign
    step = _solve(G, scale, q, l2, support)
    if step is None:
        return
    old = at[support]
    crossing = (old * (old + step) < 0) & (l1[support] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(crossing, -old / step, 1.0)
    t = float(limits.min(initial=1.0))
    d[support] += t * step
    stopped = crossing & (limits <= t)
    d[support[stopped]] = -beta[support[stopped]]  # exactly zero
