"""Loops over people and the intervals of each: nothing of size people × intervals is stored.

The linear predictor of person i in interval k is  h[0, i] + Σ_q F[k, q] h[q+1, i] + base[k].
Person i is at risk in the intervals first[i] … last[i] − 1 and, where event[i] is one, has the
event in the last of them. Replicates are the last dimension of h, base and w.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from ..sums.compensated_sums import two_sum
from .person_interval_terms import (
    add_derivative,
    add_loss,
    has_weight,
    log_odds,
    log_odds_of_one,
    residual,
    share,
    variance,
)

__all__ = [
    "REACH",
    "curvature",
    "evaluate",
    "evaluate_constant",
    "moments",
    "scatter_range",
    "survival",
    "third_derivative",
    "value",
    "value_constant",
]

REACH = 200.0
LARGE = 1e200  # times exp(REACH) it does not overflow
GATHER = 500  # factors in (1, 2] that a product may gather before it could overflow


@njit(**ORDERED)
def evaluate(h, base, F, first, last, event, w, r, loss, g, i0, i1):
    """Add the loss (2, B) and its derivative in base, g (K, B); set that in h, r (C, n, B).

    The two rows of the loss are the sum and the rounding errors of its additions.

    Σ log(1 + e^−|η|) is kept as one product less 1, so a person costs one logarithm and small
    terms keep their digits.
    """
    B = w.shape[1]
    product = np.empty(B)
    total = np.empty(B)
    for i in range(i0, i1):
        for b in range(B):
            for c in range(r.shape[0]):
                r[c, i, b] = 0.0
        if not has_weight(w, i):
            continue
        for b in range(B):
            product[b] = 0.0
            total[b] = 0.0
        a, z = first[i], last[i]
        for k in range(a, z):
            y = 1.0 if (event[i] != 0 and k == z - 1) else 0.0
            for b in range(B):
                x = log_odds(h, base, F, i, k, b)
                e = math.exp(-abs(x))
                product[b] += e + product[b] * e
                total[b] += max(x, 0.0) - y * x
                add_derivative(r, g, F, i, k, b, w[i, b] * residual(x, y, e))
            if (k - a) % GATHER == GATHER - 1:
                _take_logarithms(total, product)
        _take_logarithms(total, product)
        for b in range(B):
            add_loss(loss, b, w[i, b] * total[b])


@njit(**ORDERED, inline="always")
def _take_logarithms(total, product):
    """Add the logarithms of 1 + product to total, (B,) each, and start the products again."""
    for b in range(len(total)):
        total[b] += math.log1p(product[b])
        product[b] = 0.0


@njit(**ORDERED)
def value(h, base, F, first, last, event, w, loss, i0, i1):
    """Add the loss (2, B) as `evaluate` does, without derivatives."""
    B = w.shape[1]
    product = np.empty(B)
    total = np.empty(B)
    for i in range(i0, i1):
        if not has_weight(w, i):
            continue
        for b in range(B):
            product[b] = 0.0
            total[b] = 0.0
        a, z = first[i], last[i]
        for k in range(a, z):
            y = 1.0 if (event[i] != 0 and k == z - 1) else 0.0
            for b in range(B):
                x = log_odds(h, base, F, i, k, b)
                e = math.exp(-abs(x))
                product[b] += e + product[b] * e
                total[b] += max(x, 0.0) - y * x
            if (k - a) % GATHER == GATHER - 1:
                _take_logarithms(total, product)
        _take_logarithms(total, product)
        for b in range(B):
            add_loss(loss, b, w[i, b] * total[b])


@njit(**ORDERED)
def evaluate_constant(h, base, A, first, last, event, w, r, loss, g, i0, i1):
    """`evaluate` where no effect changes with time: h and r (n, B), A = exp(base).

    Then exp η_ik = exp(h_i) exp(base_k), and the loop over intervals is free of exponentials.
    |h| + |base| must stay below REACH.
    """
    B = w.shape[1]
    product = np.empty(B)
    total = np.empty(B)
    s = np.empty(B)
    E = np.empty(B)
    for i in range(i0, i1):
        counts = False
        for b in range(B):
            r[i, b] = 0.0
            counts = counts or w[i, b] != 0.0
        a, z = first[i], last[i]
        if not counts or a >= z:
            continue
        for b in range(B):
            product[b] = 0.0
            total[b] = 0.0
            s[b] = 0.0
            E[b] = math.exp(h[i, b])
        stop = z - 1 if event[i] != 0 else z
        for k in range(a, stop):
            far = False
            for b in range(B):
                u = E[b] * A[k, b]
                p = u / (1.0 + u)
                product[b] += u + product[b] * u
                far |= product[b] > LARGE
                s[b] += p
                g[k, b] += w[i, b] * p
            if far:
                for b in range(B):
                    total[b] += math.log1p(product[b])
                    product[b] = 0.0
        if event[i] != 0:
            for b in range(B):
                u = E[b] * A[stop, b]
                product[b] += u + product[b] * u
                total[b] -= h[i, b] + base[stop, b]
                q = 1.0 / (1.0 + u)  # p − 1 would lose digits where p is close to one
                s[b] -= q
                g[stop, b] -= w[i, b] * q
        for b in range(B):
            x = w[i, b] * (total[b] + math.log1p(product[b]))
            loss[0, b], error = two_sum(loss[0, b], x)
            loss[1, b] += error
            r[i, b] = w[i, b] * s[b]


@njit(**ORDERED)
def value_constant(h, base, A, first, last, event, w, loss, i0, i1):
    """`value` where no effect changes with time; see `evaluate_constant`."""
    B = w.shape[1]
    product = np.empty(B)
    total = np.empty(B)
    E = np.empty(B)
    for i in range(i0, i1):
        counts = False
        for b in range(B):
            counts = counts or w[i, b] != 0.0
        a, z = first[i], last[i]
        if not counts or a >= z:
            continue
        for b in range(B):
            product[b] = 0.0
            total[b] = 0.0
            E[b] = math.exp(h[i, b])
        for k in range(a, z):
            far = False
            for b in range(B):
                u = E[b] * A[k, b]
                product[b] += u + product[b] * u
                far |= product[b] > LARGE
            if far:
                for b in range(B):
                    total[b] += math.log1p(product[b])
                    product[b] = 0.0
        if event[i] != 0:
            for b in range(B):
                total[b] -= h[i, b] + base[z - 1, b]
        for b in range(B):
            x = w[i, b] * (total[b] + math.log1p(product[b]))
            loss[0, b], error = two_sum(loss[0, b], x)
            loss[1, b] += error


@njit(**ORDERED)
def _odds_of_intervals(base):
    """Return exp(base), (K,), and the largest |base|; zeros where the exponential is too large."""
    A = np.zeros(len(base))
    largest = 0.0
    for k in range(len(base)):
        largest = max(largest, abs(base[k]))
    if largest < REACH:
        for k in range(len(base)):
            A[k] = math.exp(base[k])
    return A, largest


@njit(**ORDERED)
def curvature(h, base, F, first, last, w, u, V, g, i0, i1):
    """Compute one replicate's curvature in the linear predictors of people and in the baseline.

    With v_ik = w_i p_ik (1 − p_ik), sets V (C (C+1) / 2, n) to Σ_k f_c f_d v_ik for the pairs of
    channels c ≤ d, f_0 = 1, and adds Σ_i v_ik to g (K,). h (C, n), base (K,), w (n,). Weights of
    intervals u multiply v_ik; see `person_interval_terms`.
    """
    C = F.shape[1] + 1
    f = np.ones(C)
    A, largest = _odds_of_intervals(base)
    for i in range(i0, i1):
        for pair in range(len(V)):
            V[pair, i] = 0.0
        if w[i] == 0.0:
            continue
        if C == 1 and abs(h[0, i]) + largest < REACH:  # No exponential of an interval.
            E = math.exp(h[0, i])
            for k in range(first[i], last[i]):
                odds = E * A[k]
                v = w[i] * share(u, i, k) * (odds / ((1.0 + odds) * (1.0 + odds)))
                g[k] += v
                V[0, i] += v
            continue
        for k in range(first[i], last[i]):
            x = h[0, i] + base[k]
            for c in range(1, C):
                f[c] = F[k, c - 1]
                x += f[c] * h[c, i]
            v = w[i] * share(u, i, k) * variance(x)
            g[k] += v
            pair = 0
            for c in range(C):
                for d in range(c, C):
                    V[pair, i] += f[c] * f[d] * v
                    pair += 1


@njit(**ORDERED)
def moments(h, base, F, basis, first, last, w, u, c, S, i0, i1):
    """Set S (i1 − i0, M) to Σ_k f_c(k) basis[k, m] v_ik for channel c.

    An empty basis stands for the identity, which gives the terms of the sum one by one.
    """
    M = basis.shape[1]
    A, largest = _odds_of_intervals(base)
    for i in range(i0, i1):
        s = S[i - i0]
        s[:] = 0.0
        if w[i] == 0.0:
            continue
        fast = F.shape[1] == 0 and abs(h[0, i]) + largest < REACH
        E = math.exp(h[0, i]) if fast else 0.0
        for k in range(first[i], last[i]):
            if fast:
                odds = E * A[k]
                v = w[i] * share(u, i, k) * (odds / ((1.0 + odds) * (1.0 + odds)))
            else:
                v = w[i] * share(u, i, k) * variance(log_odds_of_one(h, base, F, i, k))
            if c > 0:
                v *= F[k, c - 1]
            if basis.size == 0:
                s[k] = v
            else:
                for m in range(M):
                    s[m] += basis[k, m] * v


@njit(**ORDERED)
def scatter_range(starts, ends, indices, data, S, lo, hi, out, i0, i1):
    """out[j, lo_i:hi_i] += x_ij S[i − i0, lo_i:hi_i] for the rows i0 … i1."""
    for i in range(i0, i1):
        s = S[i - i0]
        a, z = lo[i], hi[i]
        for entry in range(starts[i], ends[i]):
            row = out[indices[entry]]
            if data.size == 0:
                for m in range(a, z):
                    row[m] += s[m]
            else:
                x = data[entry]
                for m in range(a, z):
                    row[m] += x * s[m]


@njit(**ORDERED)
def survival(h, base, F, ended, out, i0, i1):
    """out[i, j] = Π_{k < ended[j]} (1 − p_ik), ended increasing; h (C, n), base (K,)."""
    for i in range(i0, i1):
        total = 0.0
        j = 0
        while j < len(ended) and ended[j] == 0:
            out[i, j] = 1.0
            j += 1
        k = 0
        while j < len(ended):
            x = log_odds_of_one(h, base, F, i, k)
            total += max(x, 0.0) + math.log1p(math.exp(-abs(x)))
            k += 1
            while j < len(ended) and ended[j] == k:
                out[i, j] = math.exp(-total)
                j += 1


@njit(**ORDERED)
def third_derivative(h, base, F, first, last, w, u, own, at_time, r, g, i0, i1):
    """Set r (C, n) and add g (K,): v (1 − 2p) Σ_l z_ikl² in each person's intervals.

    h (C, n), base (K,), and w (n,) are of one replicate; the directions are own (C, n, L) and
    at_time (K, L), with z_ik = Σ_c f_c(k) own_ic + at_time_k.
    """
    Q, L = F.shape[1], at_time.shape[1]
    z = np.empty(L)
    for i in range(i0, i1):
        for c in range(Q + 1):
            r[c, i] = 0.0
        if w[i] == 0.0:
            continue
        for k in range(first[i], last[i]):
            x = log_odds_of_one(h, base, F, i, k)
            e = math.exp(-abs(x))
            d = 1.0 / (1.0 + e)
            # w p (1 − p) (1 − 2p) where x ≥ 0
            t = w[i] * share(u, i, k) * e * d * d * (e - 1.0) * d
            if x < 0.0:
                t = -t
            size = 0.0
            for j in range(L):
                z[j] = own[0, i, j] + at_time[k, j]
            for c in range(Q):
                for j in range(L):
                    z[j] += F[k, c] * own[c + 1, i, j]
            for j in range(L):
                size += z[j] * z[j]
            t *= size
            r[0, i] += t
            for c in range(Q):
                r[c + 1, i] += F[k, c] * t
            g[k] += t
