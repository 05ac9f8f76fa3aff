"""Cyclic coordinate descent on a quadratic model of the penalised loss, in its Gram form."""

from __future__ import annotations

import numpy as np
from numba import njit

from .sparse import OPTIONS

__all__ = ["LANES", "descend", "descend_lanes"]

LANES = 4  # replicates that share a read of the Gram matrix: a thread each for two blocks of four


@njit(**OPTIONS)
def descend(G, scale, g, beta, l1, l2, unit, d, tolerance, max_sweeps):
    """Minimise  g'd + scale/2 d'Gd + Σ l1 |β+d| + ½ Σ l2 (β+d)²  over d, in place.

    Sweeps over all coordinates alternate with sweeps over those that are not zero, as in
    Friedman, Hastie and Tibshirani (2010, §2.6). Returns the sweeps done and the largest
    change of the model's gradient in the last sweep, |δ_j| h_j, in units of ``unit`` (k,):
    at or below ``tolerance`` the model is solved.
    """
    k = len(g)
    q = g.copy()
    for j in range(k):
        if d[j] != 0.0:
            for m in range(k):
                q[m] += scale * d[j] * G[j, m]
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
            h = scale * G[j, j] + l2[j]
            if not h > 0.0:
                continue
            z = h * at - q[j] - l2[j] * at
            if z > l1[j]:
                to = (z - l1[j]) / h
            elif z < -l1[j]:
                to = (z + l1[j]) / h
            else:
                to = 0.0
            delta = to - at
            if delta != 0.0:
                d[j] = to - beta[j]
                x = scale * delta
                row = G[j]
                for m in range(k):
                    q[m] += x * row[m]
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
def descend_lanes(G, sigma, g, beta, l1, l2, unit, d, tolerance, max_sweeps):
    """The same for four replicates (k, 4) that share G: a row of it is read once for all.

    Their Hessians are diag(σ) G diag(σ) with σ (k, 4). A replicate rests once a full sweep has
    changed it by no more than its ``tolerance``.
    """
    k = len(g)
    q = np.zeros(g.shape)  # G diag(σ) d: the gradient's change is σ times that
    s = np.empty(LANES)
    for j in range(k):
        for b in range(LANES):
            s[b] = sigma[j, b] * d[j, b]
        if s.any():
            for m in range(k):
                for b in range(LANES):
                    q[m, b] += s[b] * G[j, m]
    done = np.zeros(LANES, np.bool_)
    largest = np.zeros(LANES)
    full = True
    for _ in range(max_sweeps):
        largest[:] = 0.0
        for j in range(k):
            moved = False
            for b in range(LANES):
                s[b] = 0.0
                at = beta[j, b] + d[j, b]
                h = sigma[j, b] ** 2 * G[j, j] + l2[j, b]
                if done[b] or not h > 0.0 or (not full and at == 0.0):
                    continue
                z = h * at - g[j, b] - sigma[j, b] * q[j, b] - l2[j, b] * at
                if z > l1[j, b]:
                    to = (z - l1[j, b]) / h
                elif z < -l1[j, b]:
                    to = (z + l1[j, b]) / h
                else:
                    to = 0.0
                delta = to - at
                if delta != 0.0:
                    d[j, b] = to - beta[j, b]
                    s[b] = sigma[j, b] * delta
                    moved = True
                    largest[b] = max(largest[b], abs(delta) * h / unit[j, b])
            if moved:
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
