"""The conditional Bernoulli distribution: independent 0/1 draws given their sum.

A stratum of n rows with d cases has the conditional likelihood Π_cases e^η / e_d(e^η), with e_d
the elementary symmetric polynomial (the sum over all ways to choose d of the n rows; Gail, Lubin
and Rubinstein 1981). Here the rows are first *tilted*: with x_i = η_i + θ, p_i = 1/(1 + e^−x_i)
and θ such that Σ p_i ≈ d,

    e_d(e^η) Π_i (1 − p_i) e^{θ d} = P(S = d),    S the sum of independent Bernoulli(p_i),

so that −log likelihood = Σ_cases log(1 + e^−x) + Σ_others log(1 + e^x) + log P(S = d), whatever
θ. Probabilities cannot overflow, P(S = d) is near its distribution's mode and cannot underflow,
and every sum is one of positive terms. The inclusion probabilities π_i come from a forward and a
backward pass (Chen, Dempster and Liu 1994); only every √n-th state of the forward pass is kept,
so that a stratum takes O(d √n) memory and O(d (n − d)) time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED

__all__ = ["differentiate", "evaluate", "spread"]

# The number of states (n × d) of the forward pass up to which all of them are stored.
SMALL = 1 << 16
# The complex step: its square underflows to zero, but its products do not.
H = 1e-40


@njit(**ORDERED)
def _tilt(x, n, d, p, q):
    """Add θ to x so that Σ p is within a quarter (and a quarter deviation) of d; fill p and q.

    q = 1 − p without its cancellation. Newton's method inside a bracket.
    """
    low, high, middle = np.inf, -np.inf, 0.0
    for i in range(n):
        low = min(low, x[i])
        high = max(high, x[i])
        middle += x[i] / n
    logit = np.log(d) - np.log(n - d)
    a, b = logit - high, logit - low  # Σ p ≤ d at a, ≥ d at b
    theta = 0.5 * (a + b) if b - a > 8.0 else logit - middle
    for _ in range(200):
        mean, variance = 0.0, 0.0
        for i in range(n):
            t = x[i] + theta
            e = np.exp(-abs(t))
            p[i] = (1.0 if t >= 0.0 else e) / (1.0 + e)
            q[i] = (e if t >= 0.0 else 1.0) / (1.0 + e)
            mean += p[i]
            variance += p[i] * q[i]
        gap = mean - d
        if abs(gap) <= 0.25 + 0.25 * np.sqrt(variance):
            break
        if gap > 0.0:
            b = theta
        else:
            a = theta
        step = theta - gap / variance if variance > 0.0 else np.inf
        theta = step if a < step < b else 0.5 * (a + b)
    for i in range(n):
        x[i] += theta


@njit(**ORDERED)
def _advance(f, to, p, q, d, low, done):
    """Advance by one row: ``to`` is the distribution over low … of the sum of ``done`` + 1 rows."""
    top = min(done, d)
    if done < d:
        to[done + 1] = p * f[done]
    if low == 0:
        to[0] = q * f[0]
    for k in range(max(low, 1), top + 1):
        to[k] = q * f[k] + p * f[k - 1]


@njit(**ORDERED)
def _inclusion(p, q, n, d, pi, F, C, g):
    """Return P(S = d) and fill pi with P(row i is 1 | S = d), for d from 1 to n − 1.

    F (L + 1, d + 1) holds the forward states of one block of L rows, C (blocks, d + 1) those at
    the blocks' starts. Only sums that can still end at d are computed. Arguments may be complex, as
    in `differentiate`.
    """
    L = len(F) - 1
    blocks = -(-n // L)
    for k in range(d + 1):
        C[0, k] = 0.0
        g[k] = 0.0
    C[0, 0] = 1.0
    for block in range(blocks - 1):
        for k in range(d + 1):
            F[0, k] = C[block, k]
        for j in range(L):
            i = block * L + j
            _advance(F[j & 1], F[1 - (j & 1)], p[i], q[i], d, max(0, d - (n - i - 1)), i)
        for k in range(d + 1):
            C[block + 1, k] = F[L & 1, k]
    g[d] = 1.0  # g[m]: the probability that the remaining rows add d − m
    total = p[0] * 0.0
    for block in range(blocks - 1, -1, -1):
        start = block * L
        stop = min(start + L, n)
        for k in range(d + 1):
            F[0, k] = C[block, k]
        for i in range(start, stop):
            j = i - start
            _advance(F[j], F[j + 1], p[i], q[i], d, max(0, d - (n - i - 1)), i)
        if stop == n:
            total = F[n - start, d]
        for i in range(stop - 1, start - 1, -1):
            f = F[i - start]
            low, high = max(0, d - (n - i)), min(i, d)
            s = p[0] * 0.0
            for m in range(low, min(high, d - 1) + 1):
                s += f[m] * g[m + 1]
            pi[i] = p[i] * s / total
            for m in range(low, min(high, d - 1) + 1):
                g[m] = q[i] * g[m] + p[i] * g[m + 1]
            if high == d:
                g[d] = q[i] * g[d]
    return total


@njit(**ORDERED)
def _block(n, d):
    """Return the number of rows in a block of the forward pass."""
    return n if n * (d + 1) <= SMALL else int(np.ceil(np.sqrt(n)))


@njit(**ORDERED)
def _collect(eta, w, case, lo, hi, b, rows, x):
    """Collect the weighted rows of a stratum: number, cases, positions and η."""
    n, d = 0, 0
    for i in range(lo, hi):
        if w[i, b] > 0.0:
            rows[n] = i
            x[n] = eta[i, b]
            n += 1
            d += case[i]
    return n, d


@njit(**ORDERED)
def _largest(pointers, s0, s1):
    """Return the number of rows of the largest of the strata s0 … s1 − 1, at least 1."""
    most = 1
    for s in range(s0, s1):
        most = max(most, pointers[s + 1] - pointers[s])
    return most


@njit(**ORDERED)
def _one(x, n, pi):
    """Handle d = 1: pi is the softmax of x; return log Σ e^x."""
    top = x[0]
    for i in range(n):
        top = max(top, x[i])
    total = 0.0
    for i in range(n):
        pi[i] = np.exp(x[i] - top)
        total += pi[i]
    for i in range(n):
        pi[i] /= total
    return top + np.log(total)


@njit(**ORDERED)
def evaluate(eta, w, case, pointers, loss, out, s0, s1):
    """Compute the negative log-likelihood of each stratum, (S, B), and weight × π, (n, B).

    Rows of weight zero are absent; the weights of the others in a stratum are equal.
    """
    most = _largest(pointers, s0, s1)
    rows = np.empty(most, np.int64)
    x, p, q, pi = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    F, C, g = np.empty((1, 1)), np.empty((1, 1)), np.empty(1)
    for s in range(s0, s1):
        lo, hi = pointers[s], pointers[s + 1]
        for b in range(eta.shape[1]):
            n, d = _collect(eta, w, case, lo, hi, b, rows, x)
            loss[s, b] = 0.0
            for i in range(lo, hi):
                out[i, b] = 0.0
            if n == 0 or d == 0:
                continue
            weight = w[rows[0], b]
            if d == n:  # certain, as without any case
                for i in range(n):
                    out[rows[i], b] = weight
                continue
            flip = 2 * d > n  # choosing the others is the same, with −η
            if flip:
                d = n - d
                for i in range(n):
                    x[i] = -x[i]
            value = 0.0
            if d == 1:
                value = _one(x, n, pi)
                for i in range(n):
                    if (case[rows[i]] == 1) != flip:
                        value -= x[i]
            else:
                _tilt(x, n, d, p, q)
                L = _block(n, d)
                roomy = F.shape[0] > L and F.shape[1] > d and C.shape[0] * (F.shape[0] - 1) >= n
                if not roomy:
                    F = np.empty((L + 1, d + 1))
                    C = np.empty((-(-n // L), d + 1))
                    g = np.empty(d + 1)
                value = np.log(_inclusion(p, q, n, d, pi, F, C, g))
                for i in range(n):
                    t = -x[i] if (case[rows[i]] == 1) != flip else x[i]
                    value += np.log1p(np.exp(-abs(t))) + max(t, 0.0)
            loss[s, b] = weight * value
            for i in range(n):
                out[rows[i], b] = weight * (1.0 - pi[i] if flip else pi[i])


@njit(**ORDERED)
def differentiate(eta, w, case, pointers, T, out, s0, s1):
    """Compute weight × the derivative of π along T (n, K) at eta (n, 1) into out (n, K).

    By the complex step: π(η + i h t) is computed in complex numbers and its imaginary part
    divided by h, which is exact to rounding. A constant within a stratum changes nothing and is
    taken out of t first.
    """
    most = _largest(pointers, s0, s1)
    rows = np.empty(most, np.int64)
    x, p, q = np.empty(most), np.empty(most), np.empty(most)
    P, Q, PI = np.empty(most, np.complex128), np.empty(most, np.complex128), np.empty(most) * 0j
    for s in range(s0, s1):
        lo, hi = pointers[s], pointers[s + 1]
        for i in range(lo, hi):
            for k in range(T.shape[1]):
                out[i, k] = 0.0
        n, d = _collect(eta, w, case, lo, hi, 0, rows, x)
        if d == 0 or d == n:
            continue
        weight = w[rows[0], 0]
        _tilt(x, n, d, p, q)
        L = _block(n, min(d, n - d))
        flip = 2 * d > n
        if flip:
            d = n - d
        F = np.empty((L + 1, d + 1), np.complex128)
        C = np.empty((-(-n // L), d + 1), np.complex128)
        g = np.empty(d + 1, np.complex128)
        variance = 0.0
        for i in range(n):
            variance += p[i] * q[i]
        for k in range(T.shape[1]):
            mean, any_ = 0.0, False
            for i in range(n):
                mean += p[i] * q[i] * T[rows[i], k]
                any_ = any_ or T[rows[i], k] != T[rows[0], k]
            if not any_:
                continue
            mean = mean / variance if variance > 0.0 else T[rows[0], k]
            for i in range(n):
                t = H * p[i] * q[i] * (T[rows[i], k] - mean)
                if flip:
                    P[i], Q[i] = complex(q[i], -t), complex(p[i], t)
                else:
                    P[i], Q[i] = complex(p[i], t), complex(q[i], -t)
            _inclusion(P, Q, n, d, PI, F, C, g)
            for i in range(n):
                change = PI[i].imag / H
                out[rows[i], k] = weight * (-change if flip else change)


@njit(**ORDERED)
def spread(out, w, case, pointers, a, c, s0, s1):
    """Approximate the covariance of draws by diag(a) − c a a' with exact diagonal and zero sums.

    Solves a_i = π_i (1 − π_i) + a_i² / Σ a by iteration (Deville and Tillé 2005, eq. 17), which
    is exact for one case; c = 1 / Σ a stands at each stratum's last row.
    """
    for s in range(s0, s1):
        lo, hi = pointers[s], pointers[s + 1]
        n, d, weight, total = 0, 0, 0.0, 0.0
        for i in range(lo, hi):
            a[i] = 0.0
            c[i] = 0.0
            if w[i, 0] > 0.0:
                n += 1
                d += case[i]
                weight = w[i, 0]
        if d == 0 or d == n:
            continue
        for i in range(lo, hi):
            if w[i, 0] > 0.0:
                pi = out[i, 0] / weight
                if d == 1:
                    a[i] = pi
                elif d == n - 1:
                    a[i] = max(1.0 - pi, 0.0)
                else:
                    a[i] = max(pi * (1.0 - pi), 0.0)
                total += a[i]
        if 1 < d < n - 1 and total > 0.0:
            for _ in range(60):
                new, change = 0.0, 0.0
                for i in range(lo, hi):
                    if w[i, 0] > 0.0:
                        pi = out[i, 0] / weight
                        x = max(pi * (1.0 - pi), 0.0) + a[i] * a[i] / total
                        change = max(change, abs(x - a[i]))
                        a[i] = x
                        new += x
                total = new
                if change <= 1e-6 * total:
                    break
        for i in range(lo, hi):
            a[i] *= weight
        if total > 0.0:
            c[hi - 1] = 1.0 / (weight * total)
