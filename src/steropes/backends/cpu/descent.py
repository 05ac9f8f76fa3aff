"""Cyclic coordinate descent on one block of a quadratic model, for replicates side by side.

All replicates share the matrix; each has its own gradient, penalties and point. What a block's
changes do to the gradients outside of the block is one matrix product, which the caller does.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .sparse import OPTIONS

__all__ = ["descend_block"]


@njit(**OPTIONS)
def descend_block(A, s, y, h, l1, l2, U, t, c, delta):
    """One pass over the m coordinates of a block; returns whether any coordinate moved.

    Minimises  s'δ + ½ δ'(A + U diag(c) U')δ + Σ l1 |y + δ|, coordinate by coordinate, where the
    slopes s hold all smooth terms at y.

    Parameters
    ----------
    A : (m, m) array
        The block of the matrix that the replicates share.
    s, y, h, l1, l2 : (m, B) arrays
        Slopes and point (both updated), curvature of each coordinate in all (zero: it rests),
        penalties in ℓ1 and the part of the slope's change that is a coordinate's own (ℓ2).
    U, t, c : (M, m, B), (M, B) and (M, B) arrays
        Replicates' own rank-one terms; t collects U'δ.
    delta : (m, B) array
        The changes, written.
    """
    m, B = s.shape
    M = len(U)
    step = np.empty(B)
    moved = False
    for j in range(m):
        any_moved = False
        for b in range(B):
            step[b] = 0.0
            if h[j, b] > 0.0:
                slope = s[j, b]
                for q in range(M):
                    slope += c[q, b] * t[q, b] * U[q, j, b]
                at = y[j, b]
                z = h[j, b] * at - slope
                to = 0.0
                if z > l1[j, b]:
                    to = (z - l1[j, b]) / h[j, b]
                elif z < -l1[j, b]:
                    to = (z + l1[j, b]) / h[j, b]
                if to != at:
                    step[b] = to - at
                    y[j, b] = to
                    any_moved = True
            delta[j, b] = step[b]
        if any_moved:
            moved = True
            for q in range(M):
                for b in range(B):
                    t[q, b] += U[q, j, b] * step[b]
            for i in range(m):
                a = A[j, i]
                for b in range(B):
                    s[i, b] += a * step[b]
            for b in range(B):
                s[j, b] += l2[j, b] * step[b]
    return moved
