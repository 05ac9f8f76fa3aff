"""Cyclic coordinate descent on a quadratic model of the penalised loss, in its Gram form.

A replicate's Hessian is  diag(σ) G diag(σ) + Σ_m c_m u_m u_m':  G is shared, the rest its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .sparse import OPTIONS

__all__ = ["LANES", "descend", "descend_lanes"]

LANES = 4  # replicates that share a read of the Gram matrix: a thread each for two blocks of four


@njit(**OPTIONS)
def descend(G, sigma, g, beta, l1, l2, unit, U, c, d, tolerance, max_sweeps):
    """Minimise  g'd + ½ d'Hd + Σ l1 |β+d| + ½ Σ l2 (β+d)²  over d, in place.

    Sweeps over all coordinates alternate with sweeps over those that are not zero, as in
    Friedman, Hastie and Tibshirani (2010, §2.6). Vectors are (k,), U is (k, M) and c (M,).
    Returns the sweeps done and the largest change of the model's gradient in the last sweep,
    |δ_j| h_j, in units of ``unit``: at or below ``tolerance`` the model is solved.
    """
    k, M = U.shape
    q = np.zeros(k)  # G diag(σ) d: the gradient's change is σ times that
    t = np.zeros(M)  # c ∘ U'd
    for j in range(k):
        if d[j] != 0.0:
            x = sigma[j] * d[j]
            for m in range(k):
                q[m] += x * G[j, m]
            for m in range(M):
                t[m] += c[m] * d[j] * U[j, m]
    full = True
    largest = 0.0
    sweeps = 0
    while sweeps < max_sweeps:
        sweeps += 1
        largest = 0.0
        for j in range(k):
            at = beta[j] + d[j]
            if not full and at == 0.0:
                continue
            h = sigma[j] ** 2 * G[j, j] + l2[j]
            own = 0.0
            for m in range(M):
                own += U[j, m] * t[m]
                h += c[m] * U[j, m] ** 2
            if not h > 0.0:
                continue
            z = h * at - g[j] - sigma[j] * q[j] - own - l2[j] * at
            if z > l1[j]:
                to = (z - l1[j]) / h
            elif z < -l1[j]:
                to = (z + l1[j]) / h
            else:
                to = 0.0
            delta = to - at
            if delta != 0.0:
                d[j] = to - beta[j]
                x = sigma[j] * delta
                row = G[j]
                for m in range(k):
                    q[m] += x * row[m]
                for m in range(M):
                    t[m] += c[m] * delta * U[j, m]
                size = abs(delta) * h / unit[j]
                if size > largest:
                    largest = size
        if largest <= tolerance:
            if full:
                break
            full = True
        else:
            full = False
    return sweeps, largest


@njit(**OPTIONS)
def descend_lanes(G, sigma, g, beta, l1, l2, unit, U, c, d, tolerance, max_sweeps):
    """The same for four replicates (k, 4) that share G: a row of it is read once for all.

    U is (k, M, 4) and c (M, 4). A replicate rests once a full sweep has changed it by no more
    than its ``tolerance``.
    """
    k, M = U.shape[0], U.shape[1]
    q = np.zeros(g.shape)
    t = np.zeros(c.shape)
    s = np.empty(LANES)
    h = np.empty(LANES)
    z = np.empty(LANES)
    for j in range(k):
        for b in range(LANES):
            s[b] = sigma[j, b] * d[j, b]
        if s.any():
            for m in range(k):
                for b in range(LANES):
                    q[m, b] += s[b] * G[j, m]
            for m in range(M):
                for b in range(LANES):
                    t[m, b] += c[m, b] * d[j, b] * U[j, m, b]
    done = np.zeros(LANES, np.bool_)
    largest = np.zeros(LANES)
    full = True
    for _ in range(max_sweeps):
        largest[:] = 0.0
        for j in range(k):
            rest = not full
            for b in range(LANES):
                at = beta[j, b] + d[j, b]
                if at != 0.0:
                    rest = False
                h[b] = sigma[j, b] ** 2 * G[j, j] + l2[j, b]
                z[b] = -g[j, b] - sigma[j, b] * q[j, b] - l2[j, b] * at
            if rest:
                continue
            for m in range(M):
                for b in range(LANES):
                    h[b] += c[m, b] * U[j, m, b] ** 2
                    z[b] -= U[j, m, b] * t[m, b]
            moved = False
            for b in range(LANES):
                s[b] = 0.0
                at = beta[j, b] + d[j, b]
                if done[b] or not h[b] > 0.0 or (not full and at == 0.0):
                    continue
                x = z[b] + h[b] * at
                if x > l1[j, b]:
                    to = (x - l1[j, b]) / h[b]
                elif x < -l1[j, b]:
                    to = (x + l1[j, b]) / h[b]
                else:
                    to = 0.0
                delta = to - at
                if delta != 0.0:
                    d[j, b] = to - beta[j, b]
                    s[b] = delta
                    moved = True
                    largest[b] = max(largest[b], abs(delta) * h[b] / unit[j, b])
            if moved:
                for m in range(M):
                    for b in range(LANES):
                        t[m, b] += c[m, b] * s[b] * U[j, m, b]
                for b in range(LANES):
                    s[b] *= sigma[j, b]
                row = G[j]
                for m in range(k):
                    for b in range(LANES):
                        q[m, b] += s[b] * row[m]
        settled = True
        for b in range(LANES):
            if largest[b] > tolerance[b]:
                settled = False
            elif full:
                done[b] = True
        if settled and full:
            break
        full = settled
