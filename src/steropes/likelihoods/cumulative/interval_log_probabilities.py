"""Log-probabilities of outcomes between two thresholds, with derivatives, for five links.

For a row between the thresholds b < a (both minus η), let D = F(a) − F(b) and ℓ = log D. Every
function returns the seven values

    ℓ,  ℓ_a,  ℓ_b,  s = ℓ_a + ℓ_b,  u_a = −(ℓ_aa + ℓ_ab),  u_b = −(ℓ_bb + ℓ_ab),  w = ℓ_ab,

so that the negative Hessian in (a, b) is diag(u_a, u_b) + w [[1, −1], [−1, 1]]. The terms are
computed separately, because w ~ 1/(a − b)² dominates u_a and u_b when outcomes are dense, and
because u ≥ 0 wherever log f is concave, so that sums over rows lose no digits. ``low`` and ``up``
state whether b and a are finite; ``gap`` is a − b, more accurate than the computed difference.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numba import njit

from ...backends.kernel_cache import CACHE

__all__ = ["CODES", "Link", "interval", "tail"]

Link = Literal["logit", "probit", "loglog", "cloglog", "cauchit"]

# The seven values of a row in the order of the module's docstring.
Terms = tuple[float, float, float, float, float, float, float]

CODES: dict[str, int] = {"logit": 0, "probit": 1, "loglog": 2, "cloglog": 3, "cauchit": 4}

INLINE: dict[str, Any] = {"nogil": True, "cache": CACHE, "error_model": "numpy"}
LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
ROOT_HALF = math.sqrt(0.5)
ROOT_2_PI = math.sqrt(2.0 / math.pi)
_NODES_4, _WEIGHTS_4 = np.polynomial.legendre.leggauss(4)
_NODES_12, _WEIGHTS_12 = np.polynomial.legendre.leggauss(12)
# The half-width times the slope of log f below which four Gauss nodes are exact.
NARROW = 0.05
# The same product above which twelve nodes are inexact, but where nothing cancels.
WIDE = 4.0


@njit(**INLINE)
def _log_logistic(x: float) -> float:
    """Compute the log of 1 / (1 + e^−x)."""
    if x >= 0.0:
        return -math.log1p(math.exp(-x))
    return x - math.log1p(math.exp(x))


@njit(**INLINE)
def _logit(a: float, b: float, gap: float, low: bool, up: bool) -> Terms:
    """Compute the seven values for the logit link."""
    # D = (1 − e^−(a−b)) F(a) (1 − F(b)) is a product, so its logarithm is a sum.
    e = math.exp(-abs(a)) if up else 0.0
    Fa = (1.0 if a >= 0.0 else e) / (1.0 + e) if up else 1.0
    Ga = (e if a >= 0.0 else 1.0) / (1.0 + e) if up else 0.0  # 1 − F(a)
    e = math.exp(-abs(b)) if low else 0.0
    Fb = (1.0 if b >= 0.0 else e) / (1.0 + e) if low else 0.0
    Gb = (e if b >= 0.0 else 1.0) / (1.0 + e) if low else 1.0
    value = 0.0
    if up:
        value += _log_logistic(a)
    if low:
        value += _log_logistic(-b)
    if not (low and up):
        return value, Ga, -Fb, Ga - Fb, Fa * Ga, Fb * Gb, 0.0
    m = -math.expm1(-gap)
    value += math.log(m)
    k = math.exp(-gap) / m  # 1 / (e^gap − 1)
    w = k / m
    return value, Ga + k, -(Fb + k), Ga - Fb, Fa * Ga, Fb * Gb, w


@njit(**INLINE)
def _cloglog(a: float, b: float, gap: float, low: bool, up: bool) -> Terms:
    """Compute the seven values for the complementary log-log link."""
    # With A = e^a and B = e^b: ℓ = −B + log(1 − e^−Δ), Δ = A − B = B (e^gap − 1).
    B = math.exp(min(b, 700.0)) if low else 0.0
    if not up:
        return -B, 0.0, -B, -B, 0.0, B, 0.0
    A = math.exp(min(a, 700.0))
    delta = B * math.expm1(gap) if low and gap < 1.0 else A - B
    if delta < 1e-300:
        value = (b + math.log(math.expm1(gap))) if low else a
        phi, psi, k1 = 1.0, 0.5, math.inf
    else:
        m = -math.expm1(-delta)
        e = math.exp(-delta)
        value = math.log(m)
        phi = delta * e / m  # Δ / (e^Δ − 1)
        k1 = e / m
        if delta < 0.05:
            d2 = delta * delta
            psi = 0.5 - delta * (1.0 / 6.0 - d2 * (1.0 / 180.0 - d2 / 5040.0))
        else:
            psi = (delta + math.expm1(-delta)) * e / (m * m)  # −φ'(Δ)
    if not low:
        return value, phi, 0.0, phi, A * psi, 0.0, 0.0
    if math.isinf(k1):
        k = 1.0 / math.expm1(gap)
        return value - B, 1.0 + k, -k, 1.0 - B, A * psi, B * (1.0 - psi), k * (1.0 + k)
    return (
        value - B, A * k1, -B * (1.0 + k1), phi - B, A * psi, B * (1.0 - psi),
        A * k1 * (B * (1.0 + k1)),
    )  # fmt: skip


@njit(**INLINE)
def _cauchit(a: float, b: float, gap: float, low: bool, up: bool) -> Terms:
    """Compute the seven values for the Cauchy link."""
    P, Q = 1.0 + a * a, 1.0 + b * b
    if not low:
        theta = math.atan2(1.0, -a)
        la = 1.0 / (P * theta)
        return math.log(theta / math.pi), la, 0.0, la, la * (2.0 * a / P + la), 0.0, 0.0
    if not up:
        theta = math.atan2(1.0, b)
        lb = 1.0 / (Q * theta)
        return math.log(theta / math.pi), 0.0, -lb, -lb, 0.0, lb * (lb - 2.0 * b / Q), 0.0
    ab = 1.0 + a * b
    theta = math.atan2(gap, ab)
    la, lb = 1.0 / (P * theta), -1.0 / (Q * theta)
    kappa = gap / (P * Q * theta)
    if ab > 0.0 and gap < 0.1 * ab:  # 1/gap − 1/(Pθ) by the series of atan
        t = gap / ab
        t2 = t * t
        z = -t2 * (1.0 / 3.0 - t2 * (0.2 - t2 * (1.0 / 7.0 - t2 * (1.0 / 9.0 - t2 / 11.0))))
        ra = (a * t + z * (1.0 + a * t)) / (P * theta)
        rb = (-b * t + z * (1.0 - b * t)) / (-Q * theta)
    else:
        ra = 1.0 / gap - la
        rb = -1.0 / gap - lb
    ka = kappa * (ra - 2.0 * a / P)
    kb = kappa * (rb - 2.0 * b / Q)
    s = -(a + b) * kappa
    return (
        math.log(theta / math.pi), la, lb, s, kappa + (a + b) * ka, kappa + (a + b) * kb,
        la * -lb,
    )  # fmt: skip


@njit(**INLINE)
def _mills(z: float) -> float:
    """Compute Mills' ratio (1 − Φ(z)) / φ(z)."""
    if z < 5.0:
        return 0.5 * math.erfc(z * ROOT_HALF) * math.exp(0.5 * z * z) / ROOT_2_PI * 2.0
    r = z
    for k in range(60, 0, -1):
        r = z + k / r
    return 1.0 / r


@njit(**INLINE)
def _probit_one(b: float) -> tuple[float, float, float]:
    """Compute log(1 − Φ(b)), h = φ/(1 − Φ) and the negative second derivative h (h − b)."""
    if b > -5.0:
        h = 1.0 / _mills(b)
        value = -0.5 * b * b - LOG_ROOT_2PI - math.log(h)
        if b < 5.0:
            return value, h, h * (h - b)
        r = b  # h − b = 1/(b + 2/(b + 3/(…))) without the subtraction
        for k in range(60, 1, -1):
            r = b + k / r
        return value, h, h / r
    q = 0.5 * math.erfc(-b * ROOT_HALF)
    h = math.exp(-0.5 * b * b - LOG_ROOT_2PI) / (1.0 - q)
    return math.log1p(-q), h, h * (h - b)


@njit(**INLINE)
def _gauss(m: float, h: float, nodes: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Compute ∫ e^(−mt − t²/2) dt over (−h, h) divided by 2h, and the mean of t."""
    total = 0.0
    moment = 0.0
    for k in range(len(nodes)):
        t = h * nodes[k]
        f = 0.5 * weights[k] * math.exp(-t * (m + 0.5 * t))
        total += f
        moment += f * t
    return total, moment / total


@njit(**INLINE)
def _probit(a: float, b: float, gap: float, low: bool, up: bool) -> Terms:
    """Compute the seven values for the probit link."""
    if not up:
        value, h, v = _probit_one(b)
        return value, 0.0, -h, -h, 0.0, v, 0.0
    if not low:
        value, h, v = _probit_one(-a)
        return value, h, 0.0, h, v, 0.0, 0.0
    m, h = 0.5 * (a + b), 0.5 * gap
    flip = m < 0.0
    if flip:  # reflect into the upper tail
        m, a, b = -m, -b, -a
    slope = h * (m + h)
    if slope < WIDE:
        if slope < NARROW:
            total, t = _gauss(m, h, _NODES_4, _WEIGHTS_4)
        else:
            total, t = _gauss(m, h, _NODES_12, _WEIGHTS_12)
        value = -0.5 * m * m - LOG_ROOT_2PI + math.log(gap * total)
        fa = math.exp(-h * (m + 0.5 * h)) / (gap * total)  # f(a) / D
        fb = math.exp(h * (m - 0.5 * h)) / (gap * total)
        above, below = h - t, h + t  # a − E[U] and E[U] − b, U normal within (b, a)
        s = -m - t
    elif b >= 0.0:
        e = math.exp(-m * gap)
        D = _mills(b) - e * _mills(a)
        value = -0.5 * b * b - LOG_ROOT_2PI + math.log(D)
        fb = 1.0 / D
        fa = e * fb
        s = fa - fb
        above, below = a + s, -s - b
    else:
        D = 1.0 - 0.5 * math.erfc(-b * ROOT_HALF) - 0.5 * math.erfc(a * ROOT_HALF)
        value = math.log(D)
        fa = math.exp(-0.5 * a * a - LOG_ROOT_2PI) / D
        fb = math.exp(-0.5 * b * b - LOG_ROOT_2PI) / D
        s = fa - fb
        above, below = a + s, -s - b
    if flip:
        return value, fb, -fa, -s, fb * below, fa * above, fa * fb
    return value, fa, -fb, s, fa * above, fb * below, fa * fb


@njit(**INLINE)
def interval(link: int, a: float, b: float, gap: float, low: bool, up: bool) -> Terms:
    """Compute the seven values of the module's docstring for one row."""
    if link == 0:
        return _logit(a, b, gap, low, up)
    if link == 1:
        return _probit(a, b, gap, low, up)
    if link == 2:  # loglog mirrors cloglog: F(u) = 1 − F_cloglog(−u)
        value, la, lb, s, ua, ub, w = _cloglog(-b, -a, gap, up, low)
        return value, -lb, -la, -s, ub, ua, w
    if link == 3:
        return _cloglog(a, b, gap, low, up)
    return _cauchit(a, b, gap, low, up)


@njit(**INLINE)
def tail(link: int, u: float) -> tuple[float, float]:
    """Compute F(u) and the density f(u)."""
    if link == 0:
        e = math.exp(-abs(u))
        F = (1.0 if u >= 0.0 else e) / (1.0 + e)
        return F, e / (1.0 + e) ** 2
    if link == 1:
        return 0.5 * math.erfc(-u * ROOT_HALF), math.exp(-0.5 * u * u - LOG_ROOT_2PI)
    if link == 2:
        e = math.exp(min(-u, 700.0))
        return math.exp(-e), math.exp(-e - u) if e < 700.0 else 0.0
    if link == 3:
        e = math.exp(min(u, 700.0))
        return -math.expm1(-e), math.exp(u - e) if e < 700.0 else 0.0
    if u < 0.0:
        F = math.atan2(1.0, -u) / math.pi
    else:
        F = 1.0 - math.atan2(1.0, u) / math.pi
    return F, 1.0 / (math.pi * (1.0 + u * u))
