"""Cyclic coordinate descent on a quadratic model: in blocks for replicates, or one alone.

All replicates share the matrix; each has its own gradient, penalties and point. What a block's
changes do to the gradients outside of the block is one matrix product, which the caller does.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .sparse import OPTIONS

__all__ = ["descend_alone", "descend_block"]


@njit(**OPTIONS)
def descend_block(A, s, y, h, l1, l2, U, t, c, rest, delta):
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
    rest : (m, B) array
        A coordinate that violates its optimality condition by no more stays where it is.
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
                if at > 0.0:
                    off = abs(slope + l1[j, b])
                elif at < 0.0:
                    off = abs(slope - l1[j, b])
                else:
                    off = abs(slope) - l1[j, b]
                if off <= rest[j, b]:
                    delta[j, b] = 0.0
                    continue
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


@njit(**OPTIONS)
def descend_alone(G, Y, f, s, y, h, l1, l2, U, c):
    """One pass over all k coordinates of a single model; returns whether any coordinate moved.

    As `descend_block`, but that each change goes into all slopes at once, in double precision: for
    one replicate that is no more work than a product afterwards, and nothing is rounded on the way.

    Parameters
    ----------
    G : (k, k) array
    Y : (m, k) array
        The matrix is G − Y'Y,
    f : (m,) int array
        but for these coordinates, whose rows and columns are those of the identity.
    s, y, h, l1, l2 : (k,) arrays
        Slopes and point (both updated), curvature, and penalties.
    U, c : (M, k) and (M,) arrays
        Rank-one terms of the replicate's own.
    """
    k, M = len(s), len(U)
    with_Y, with_U = np.zeros(len(f)), np.zeros(M)  # Yδ and Uδ: into the slopes at the end
    theirs = s[f]
    outside = np.zeros(k, np.bool_)
    outside[f] = True
    moved = False
    for n in range(len(f) + k):
        j = f[n] if n < len(f) else n - len(f)
        if h[j] <= 0.0 or (outside[j] and n >= len(f)):
            continue
        slope = s[j]
        for q in range(len(f)):
            slope -= Y[q, j] * with_Y[q]
        for q in range(M):
            slope += c[q] * U[q, j] * with_U[q]
        at = y[j]
        z = h[j] * at - slope
        to = 0.0
        if z > l1[j]:
            to = (z - l1[j]) / h[j]
        elif z < -l1[j]:
            to = (z + l1[j]) / h[j]
        if to == at:
            continue
        moved = True
        step = to - at
        y[j] = to
        for q in range(M):
            with_U[q] += U[q, j] * step
        if n < len(f):
            theirs[n] += (1.0 + l2[j]) * step
            continue
        for q in range(len(f)):
            with_Y[q] += Y[q, j] * step
        row = G[j]
        for i in range(k):
            s[i] += row[i] * step
        s[j] += l2[j] * step
    for q in range(len(f)):
        for i in range(k):
            s[i] -= Y[q, i] * with_Y[q]
    for q in range(len(f)):
        s[f[q]] = theirs[q]
    for q in range(M):
        for i in range(k):
            s[i] += c[q] * U[q, i] * with_U[q]
    return moved
