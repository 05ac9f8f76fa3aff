"""Cyclic coordinate descent on a quadratic model, in panels for replicates or for one replicate.

All replicates share the matrix; each has its own gradient, penalties and point. The caller updates
the gradients outside a panel by one matrix product.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.simd_registers import add_scaled, load, store

__all__ = ["descend_alone", "descend_panel", "panel_room"]


def panel_room(P, B, m):
    """Allocate arrays for a pass over P coordinates of B replicates with m eliminated columns."""
    blocks = (B + 7) >> 3
    return np.zeros((P, blocks, 8)), np.zeros((1, blocks, 8)), np.zeros((m, B))


@njit(**OPTIONS)
def descend_panel(G, Y, apart, a, s, y, h, l1, l2, U, t, c, rest, delta, S, step, updates):
    """Sweep the coordinates a … a + P − 1 of some replicates; return whether any changed.

    Minimises  s'δ + ½ δ'(A + U diag(c) U')δ + Σ l1 |y + δ|, coordinate by coordinate, where the
    slopes s include all smooth terms at y. The slopes of the panel are updated; those of other
    coordinates stay unchanged.

    Parameters
    ----------
    G : (k, w) array
        The matrix shared by replicates, in its first k columns.
    Y : (m, k) array
        Eliminated columns: A = G − Y'Y, except for ``apart``.
    apart : (k,) bool array
        Coordinates with rows and columns of A equal to those of the identity.
    s, y, h, l1, l2 : (k, B) arrays
        Slopes and point (both updated), total curvature of each coordinate (zero: it is skipped),
        ℓ1 penalties, and the separable part of the slope's change (ℓ2).
    U, t, c : (M, k, B), (M, B) and (M, B) arrays
        Rank-one terms of each replicate; t accumulates U'δ.
    rest : (k, B) array
        Violations of the optimality condition up to which a coordinate is skipped.
    delta : (P, B) array
        Output: the changes.
    S, step, updates : arrays
        Work arrays, see `panel_room`: slopes and changes in registers, and zeros that become Yδ.
        A kernel that receives arrays compiles several times faster than one that allocates them.
    """
    (P, B), M, m = delta.shape, len(U), len(Y)
    moved = False
    for j in range(P):
        for b in range(B):
            S[j, b >> 3, b & 7] = s[a + j, b]
    for j in range(P):
        i = a + j
        any_moved = False
        for b in range(B):
            change = 0.0
            if h[i, b] > 0.0:
                slope = s[i, b] if apart[i] else S[j, b >> 3, b & 7]
                for q in range(m):
                    slope -= Y[q, i] * updates[q, b]
                for q in range(M):
                    slope += c[q, b] * t[q, b] * U[q, i, b]
                at = y[i, b]
                if at > 0.0:
                    off = abs(slope + l1[i, b])
                elif at < 0.0:
                    off = abs(slope - l1[i, b])
                else:
                    off = abs(slope) - l1[i, b]
                if off > rest[i, b]:
                    z = h[i, b] * at - slope
                    to = 0.0
                    if z > l1[i, b]:
                        to = (z - l1[i, b]) / h[i, b]
                    elif z < -l1[i, b]:
                        to = (z + l1[i, b]) / h[i, b]
                    if to != at:
                        change = to - at
                        y[i, b] = to
                        any_moved = True
            delta[j, b] = change
            step[0, b >> 3, b & 7] = change
        if not any_moved:
            continue
        moved = True
        for b in range(B):
            for q in range(M):
                t[q, b] += U[q, i, b] * delta[j, b]
            for q in range(m):
                updates[q, b] += Y[q, i] * delta[j, b]
            if apart[i]:
                s[i, b] += (1.0 + l2[i, b]) * delta[j, b]
        if apart[i]:
            continue
        for block in range(S.shape[1]):
            r = load(step, 0, block, 8)
            for q in range(P):
                store(S, q, block, add_scaled(load(S, q, block, 8), np.float64(G[i, a + q]), r))
        for b in range(B):
            S[j, b >> 3, b & 7] += l2[i, b] * delta[j, b]
    for j in range(P):
        if not apart[a + j]:
            for b in range(B):
                slope = S[j, b >> 3, b & 7]
                for q in range(m):
                    slope -= Y[q, a + j] * updates[q, b]
                s[a + j, b] = slope
    return moved


@njit(**OPTIONS)
def descend_alone(G, V, c, f, apart, s, y, h, l1, l2, done, theirs):
    """Sweep all k coordinates of a single model; return whether any changed.

    As `descend_panel`, but that each change goes into all slopes at once, in double precision: for
    one replicate this costs no more than a product afterwards, and it avoids rounding.

    Parameters
    ----------
    G : (k, w) array
        The first k columns are used.
    V, c : (M, k) and (M,) arrays
        The matrix is G + V' diag(c) V, except for the coordinates f.
    f : (m,) int array
        Coordinates with rows and columns of G equal to those of the identity.
    apart : (k,) bool array
        Whether a coordinate is in f.
    s, y, h, l1, l2 : (k,) arrays
        Slopes and point (both updated), curvature, and penalties.
    done, theirs : (M,) and (m,) arrays
        Zeros that become Vδ and are added to the slopes at the end; slopes of ``f``.
    """
    k, M, m = len(s), len(V), len(f)
    moved = False
    for n in range(m + k):
        j = f[n] if n < m else n - m
        if h[j] <= 0.0 or (apart[j] and n >= m):
            continue
        slope = s[j]
        for q in range(M):
            slope += c[q] * V[q, j] * done[q]
        at = y[j]
        z = h[j] * at - slope
        over = abs(z) - l1[j]
        to = np.copysign(over, z) / h[j] if over > 0.0 else 0.0
        if to == at:
            continue
        moved = True
        step = to - at
        y[j] = to
        for q in range(M):
            done[q] += V[q, j] * step
        if n < m:
            theirs[n] += (1.0 + l2[j]) * step
            continue
        row = G[j]
        for i in range(k):
            s[i] += row[i] * step
        s[j] += l2[j] * step
    for q in range(m):
        s[f[q]] = theirs[q]
    for q in range(M):
        for i in range(k):
            s[i] += c[q] * V[q, i] * done[q]
    return moved
