"""Kernels that evaluate the likelihood of cumulative models by row, for any link."""

from __future__ import annotations

from numba import njit

from ...backends.cpu.sums.compensated_sums import sum_of, two_sum
from .interval_log_probabilities import INLINE, interval, tail

__all__ = ["cdf", "mean_terms", "rows_all", "rows_loss"]


@njit(**INLINE)
def rows_loss(link, alpha, delta, eta, weight, low, up, i0, i1):
    """Compute −Σ w log(F(α_up − η) − F(α_low − η)) over the rows i0 … i1 − 1."""
    K = len(alpha)
    total, lost = 0.0, 0.0
    for i in range(i0, i1):
        lo, hi = low[i] >= 0, up[i] < K
        if not (lo or hi):
            continue
        a = alpha[up[i]] - eta[i] if hi else 0.0
        b = alpha[low[i]] - eta[i] if lo else 0.0
        gap = delta[up[i]] if hi and up[i] == low[i] + 1 else a - b
        total, error = two_sum(total, -weight[i] * interval(link, a, b, gap, lo, hi)[0])
        lost += error
    return sum_of(total, lost)


@njit(**INLINE)
def rows_all(link, alpha, delta, eta, weight, low, up, i0, i1, la, lb, s, ua, ub, w):
    """Compute the loss and the weighted derivatives of ℓ (not of the loss) for each row."""
    K = len(alpha)
    total, lost = 0.0, 0.0
    for i in range(i0, i1):
        lo, hi = low[i] >= 0, up[i] < K
        if not (lo or hi):
            la[i] = lb[i] = s[i] = ua[i] = ub[i] = w[i] = 0.0
            continue
        a = alpha[up[i]] - eta[i] if hi else 0.0
        b = alpha[low[i]] - eta[i] if lo else 0.0
        gap = delta[up[i]] if hi and up[i] == low[i] + 1 else a - b
        value, xa, xb, xs, ya, yb, yw = interval(link, a, b, gap, lo, hi)
        c = weight[i]
        total, error = two_sum(total, -c * value)
        lost += error
        la[i], lb[i], s[i] = c * xa, c * xb, c * xs
        ua[i], ub[i], w[i] = c * ya, c * yb, c * yw
    return sum_of(total, lost)


@njit(**INLINE)
def cdf(link, u, F, f):
    """Compute F(u) and f(u) elementwise."""
    for i in range(len(u)):
        F[i], f[i] = tail(link, u[i])


@njit(**INLINE)
def mean_terms(link, alpha, jump, eta, mean, slope):
    """Subtract Σ_k jump_k F(α_k − η) from ``mean``; store jump_k f(α_k − η) in slope (K, rows)."""
    for i in range(len(eta)):
        total = 0.0
        for k in range(len(alpha)):
            F, f = tail(link, alpha[k] - eta[i])
            total += jump[k] * F
            if slope.size:
                slope[k, i] = jump[k] * f
        mean[i] -= total
