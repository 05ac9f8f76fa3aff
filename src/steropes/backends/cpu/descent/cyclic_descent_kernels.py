"""Sweeps of cyclic coordinate descent on sparse columns, with one function per likelihood.

The one-dimensional gradient and Hessian of a column are exact sums over its nonzeros at the current
linear predictor, which a changed coefficient updates sparsely (Suchard, Simpson, Zorych, Ryan and
Madigan 2013, Steps 1–4). Nothing here is shared with the fast solver.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ...kernel_cache import CACHE

__all__ = ["LINEAR", "LOGISTIC", "POISSON", "cox_state", "cox_sweep", "strata_sweep", "sweep"]

OPTIONS: dict[str, Any] = {"nogil": True, "cache": CACHE}
LINEAR, LOGISTIC, POISSON = 0, 1, 2
# The increase of η above its stratum's shift at which exp is rescaled.
RESHIFT = 200.0


@njit(**OPTIONS)
def _step(g, h, beta, l1, half_width):
    """Compute a one-dimensional Newton step with the sign test at zero, inside the trust region.

    Genkin, Lewis and Madigan (2007), Algorithm 2: from zero a coefficient goes in the direction
    that lowers the penalised loss, if one exists; it never crosses zero in one step.
    """
    h = max(h, 1e-300)  # without curvature the trust region alone holds a step
    if beta == 0.0:
        if g < -l1:
            step = -(g + l1) / h
        elif g > l1:
            step = -(g - l1) / h
        else:
            step = 0.0
    elif beta > 0.0:
        step = -(g + l1) / h
    else:
        step = -(g - l1) / h
    step = min(max(step, -half_width), half_width)
    if l1 > 0.0 and beta != 0.0 and (beta + step) * beta < 0.0:
        step = -beta
    return step


@njit(**OPTIONS)
def _mean(family, eta):
    """Compute the mean of a linear (0), logistic (1) or Poisson (2) outcome from η."""
    if family == 0:
        return eta
    if family == 1:
        if eta >= 0:
            return 1.0 / (1.0 + np.exp(-eta))
        return np.exp(eta) / (1.0 + np.exp(eta))
    return np.exp(eta)


@njit(**OPTIONS)
def sweep(family, indptr, rows, x, y, w, eta, beta, l1, l2, half_width, hessian):
    """Sweep all columns for the linear, logistic and Poisson likelihoods.

    Changes ``eta`` (n,), ``beta``, ``half_width`` and ``hessian`` (p,) in place.
    """
    n = len(eta)
    mean = np.empty(n)
    for i in range(n):
        mean[i] = _mean(family, eta[i])
    for j in range(len(beta)):
        g, h = l2[j] * beta[j], 0.0
        for k in range(indptr[j], indptr[j + 1]):
            i = rows[k]
            if w[i] == 0.0:
                continue
            m = mean[i]
            v = 1.0 if family == 0 else (m * (1.0 - m) if family == 1 else m)
            g += w[i] * (m - y[i]) * x[k]
            h += w[i] * v * x[k] * x[k]
        hessian[j] = h
        step = _step(g, h + l2[j], beta[j], l1[j], half_width[j])
        half_width[j] = max(2.0 * abs(step), half_width[j] / 2.0)
        if step != 0.0:
            beta[j] += step
            for k in range(indptr[j], indptr[j + 1]):
                i = rows[k]
                eta[i] += step * x[k]
                mean[i] = _mean(family, eta[i])


@njit(**OPTIONS)
def _rates(s, start, w, eta, shift, r):
    """Compute r_i = w_i exp(η_i − shift) for stratum s, shifted by its largest η."""
    top = -np.inf
    for i in range(start[s], start[s + 1]):
        if w[i] > 0.0:
            top = max(top, eta[i])
    shift[s] = top
    for i in range(start[s], start[s + 1]):
        r[i] = w[i] * np.exp(eta[i] - top) if w[i] > 0.0 else 0.0


@njit(**OPTIONS)
def _risk_sums(s, g0, start, groups, first, stop, r, N, E):
    """Compute N_g and E_g of stratum s from group g0 on by the scan of Step 4."""
    if g0 == groups[s]:
        i, total = start[s], 0.0
    else:
        i, total = stop[g0 - 1], N[g0 - 1] + E[g0 - 1]
    for g in range(g0, groups[s + 1]):
        while i < first[g]:
            total += r[i]
            i += 1
        N[g] = total
        E[g] = 0.0
        while i < stop[g]:
            E[g] += r[i]
            i += 1
        total += E[g]


@njit(**OPTIONS)
def cox_state(start, groups, first, stop, w, eta, shift, r, N, E):
    """Fill shift (S,), r (n,), N and E (m,) from the linear predictor."""
    for s in range(len(start) - 1):
        _rates(s, start, w, eta, shift, r)
        _risk_sums(s, groups[s], start, groups, first, stop, r, N, E)


@njit(**OPTIONS)
def _cox_derivatives(k0, k1, rows, x, stratum, start, groups, first, stop, next_group,
                     shares, weight, efron, r, N, E):  # fmt: skip
    """Compute gradient and Hessian of Σ_k w̄_k log S_k along one column, S_k = N_g + f_k E_g.

    Between two nonzeros nothing enters the column's own sums A = Σ r x and B = Σ r x², so
    only the groups after the column's first nonzero in a stratum are visited.
    """
    gradient, hessian = 0.0, 0.0
    k = k0
    while k < k1:
        s = stratum[rows[k]]
        A, B = 0.0, 0.0
        for g in range(next_group[rows[k]], groups[s + 1]):
            while k < k1 and rows[k] < first[g]:
                i = rows[k]
                A += r[i] * x[k]
                B += r[i] * x[k] * x[k]
                k += 1
            a, b = 0.0, 0.0  # of the tied events
            while k < k1 and rows[k] < stop[g]:
                i = rows[k]
                a += r[i] * x[k]
                b += r[i] * x[k] * x[k]
                k += 1
            d = shares[g]
            for share in range(d):
                f = 1.0 - share / d if efron else 1.0
                S = N[g] + f * E[g]
                if S > 0.0:
                    mean = (A + f * a) / S
                    square = (B + f * b) / S
                    gradient += weight[g] * mean
                    hessian += weight[g] * (square - mean * mean)
            A += a
            B += b
        while k < k1 and rows[k] < start[s + 1]:  # rows after the stratum's last event
            k += 1
    return gradient, hessian


@njit(**OPTIONS)
def cox_sweep(indptr, rows, x, stratum, start, groups, first, stop, next_group, shares, weight,
              efron, w, eta, shift, r, N, E, linear, beta, l1, l2, half_width,
              hessian):  # fmt: skip
    """Sweep all columns for Cox's partial likelihood without entry times.

    Rows are sorted by stratum, then time from late to early, tied events last. Group g (a
    distinct event time) has its events at the rows first[g] … stop[g]; stratum s has the rows
    start[s] … and the groups groups[s] …; ``linear`` (p,) is Σ w δ x of each column.
    """
    for j in range(len(beta)):
        k0, k1 = indptr[j], indptr[j + 1]
        g, h = _cox_derivatives(
            k0, k1, rows, x, stratum, start, groups, first, stop, next_group,
            shares, weight, efron, r, N, E,
        )  # fmt: skip
        g += l2[j] * beta[j] - linear[j]
        hessian[j] = h
        step = _step(g, h + l2[j], beta[j], l1[j], half_width[j])
        half_width[j] = max(2.0 * abs(step), half_width[j] / 2.0)
        if step == 0.0:
            continue
        beta[j] += step
        k = k0
        while k < k1:
            i0, s = rows[k], stratum[rows[k]]
            top = 0.0
            while k < k1 and rows[k] < start[s + 1]:
                i = rows[k]
                eta[i] += step * x[k]
                if w[i] > 0.0:
                    r[i] = w[i] * np.exp(min(eta[i] - shift[s], 700.0))
                    top = max(top, eta[i] - shift[s])
                k += 1
            if top > RESHIFT:
                _rates(s, start, w, eta, shift, r)
                i0 = start[s]
            _risk_sums(s, next_group[i0], start, groups, first, stop, r, N, E)


@njit(**OPTIONS)
def strata_sweep(indptr, rows, x, stratum, start, total, w, eta, linear, beta, l1, l2, half_width,
                 hessian):  # fmt: skip
    """Sweep all columns for conditional Poisson regression (case series).

    Rows are sorted by stratum, stratum s the rows start[s] … start[s + 1] with Σ w y = total[s];
    ``linear`` (p,) is Σ w y x of each column.
    """
    S = len(start) - 1
    shift, r, sums = np.empty(S), np.empty(len(eta)), np.empty(S)
    for s in range(S):
        _rates(s, start, w, eta, shift, r)
        sums[s] = r[start[s] : start[s + 1]].sum()
    for j in range(len(beta)):
        g, h = l2[j] * beta[j] - linear[j], 0.0
        k = indptr[j]
        while k < indptr[j + 1]:
            s = stratum[rows[k]]
            A, B = 0.0, 0.0
            while k < indptr[j + 1] and rows[k] < start[s + 1]:
                A += r[rows[k]] * x[k]
                B += r[rows[k]] * x[k] * x[k]
                k += 1
            if total[s] > 0.0:
                mean = A / sums[s]
                g += total[s] * mean
                h += total[s] * (B / sums[s] - mean * mean)
        hessian[j] = h
        step = _step(g, h + l2[j], beta[j], l1[j], half_width[j])
        half_width[j] = max(2.0 * abs(step), half_width[j] / 2.0)
        if step == 0.0:
            continue
        beta[j] += step
        k = indptr[j]
        while k < indptr[j + 1]:
            s = stratum[rows[k]]
            while k < indptr[j + 1] and rows[k] < start[s + 1]:
                eta[rows[k]] += step * x[k]
                k += 1
            if total[s] > 0.0:
                _rates(s, start, w, eta, shift, r)
                sums[s] = r[start[s] : start[s + 1]].sum()
