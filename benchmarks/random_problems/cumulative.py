"""Cumulative probability models in dense NumPy: a function of thresholds and slopes."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri

__all__ = ["Cumulative"]

LONG = np.longdouble


def _log1m(x):
    """log(1 − exp x), x < 0."""
    with np.errstate(divide="ignore"):
        return np.where(
            x > -0.7, np.log(-np.expm1(np.minimum(x, 0.0))), np.log1p(-np.exp(np.minimum(x, 0.0)))
        )


class Link:
    """log F and log(1 − F), log f and its slope, and F⁻¹ of a distribution."""

    def __init__(self, name):
        self.name = name

    def tails(self, u):
        with np.errstate(over="ignore", divide="ignore", under="ignore"):
            if self.name == "logit":
                return -np.logaddexp(0, -u), -np.logaddexp(0, u)
            if self.name == "probit":
                return log_ndtr(u), log_ndtr(-u)
            if self.name == "loglog":
                return -np.exp(-u), _log1m(-np.exp(-u))
            if self.name == "cloglog":
                return _log1m(-np.exp(u)), -np.exp(u)
            far = np.arctan2(1.0, np.abs(u)) / np.pi  # the tail beyond |u|
            small, large = np.log(far), np.log1p(-far)
            return np.where(u < 0, small, large), np.where(u < 0, large, small)

    def log_density(self, u):
        """log f and (log f)'."""
        with np.errstate(over="ignore"):
            if self.name == "logit":
                return -np.logaddexp(0, u) - np.logaddexp(0, -u), -np.tanh(u / 2)
            if self.name == "probit":
                return -(u**2) / 2 - 0.5 * np.log(2 * np.pi), -u
            if self.name == "loglog":
                return -u - np.exp(-u), np.expm1(-u)
            if self.name == "cloglog":
                return u - np.exp(u), -np.expm1(u)
            return -np.log(np.pi) - np.log1p(u**2), -2 * u / (1 + u**2)

    def quantile(self, p):
        if self.name == "logit":
            return np.log(p / (1 - p))
        if self.name == "probit":
            return ndtri(p)
        if self.name == "loglog":
            return -np.log(-np.log(p))
        if self.name == "cloglog":
            return np.log(-np.log1p(-p))
        return np.tan(np.pi * (p - 0.5))


class Cumulative:
    """−Σ w log[F(α_k − x'β) − F(α_{k−1} − x'β)] for an outcome at level k; θ = (α, β)."""

    def __init__(self, X, offset, y, w, link, l1, l2):
        self.levels, self.code = np.unique(y, return_inverse=True)
        self.K, self.w, self.offset, self.link = len(self.levels) - 1, w, offset, Link(link)
        n, p = X.shape
        self.X, self.P, self.n_free = X, self.K + p, self.K
        self.mean_x = X.mean(axis=0)
        Z = X - self.mean_x
        spread = np.sqrt((Z**2).mean(axis=0))
        spread[spread <= 1e-13 * np.abs(X).max(axis=0, initial=0.0)] = 0.0
        self.Z = Z * (spread > 0) / np.where(spread > 0, spread, 1.0)
        self.scale = np.append(np.ones(self.K), np.where(spread > 0, spread, 1.0))
        self.mean = np.append(np.zeros(self.K), self.mean_x)
        zero = np.zeros(self.K)
        self.l1, self.l2 = np.append(zero, l1) / self.scale, np.append(zero, l2) / self.scale**2
        rows, self.mass = np.arange(n), 1.0
        self.up, self.low = np.zeros((n, self.P)), np.zeros((n, self.P))
        self.is_up, self.is_low = self.code < self.K, self.code > 0
        self.up[rows[self.is_up], self.code[self.is_up]] = 1.0
        self.low[rows[self.is_low], self.code[self.is_low] - 1] = 1.0
        self.up[:, self.K :] = self.low[:, self.K :] = -self.Z

    def start(self):
        share = np.cumsum(np.bincount(self.code, self.w))[:-1] / self.w.sum()
        shift = float(np.mean(self.offset))
        return np.append(self.link.quantile(share) + shift, np.zeros(self.P - self.K))

    def told_apart(self):
        out = np.eye(self.P)
        out[self.K :, self.K :] = self.Z.T @ self.Z
        return out

    def _ends(self, alpha, eta):
        padded = np.concatenate([[-np.inf], alpha, [np.inf]])
        return padded[self.code + 1] - eta, padded[self.code] - eta

    def _log_p(self, b, a):
        F_b, S_b = self.link.tails(np.where(self.is_up, b, 0.0))
        F_a, S_a = self.link.tails(np.where(self.is_low, a, 0.0))
        F_b, S_b = np.where(self.is_up, F_b, 0.0), np.where(self.is_up, S_b, -np.inf)
        F_a, S_a = np.where(self.is_low, F_a, -np.inf), np.where(self.is_low, S_a, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            left, right = F_b + _log1m(F_a - F_b), S_a + _log1m(S_b - S_a)
        return np.where(F_b < S_a, left, right)

    def _all(self, alpha, eta, second=True):
        b, a = self._ends(alpha, eta)
        if (np.diff(alpha) <= 0).any():
            return np.inf, None, None, 0.0
        log_p = self._log_p(b, a)
        value = -float(np.sum(self.w * log_p))
        if not second or not np.isfinite(value):
            return value, None, None, 0.0
        b, a = np.where(self.is_up, b, 0.0), np.where(self.is_low, a, 0.0)
        (f_b, s_b), (f_a, s_a) = self.link.log_density(b), self.link.log_density(a)
        f_b = np.exp(np.where(self.is_up, f_b - log_p, -np.inf))  # f / P
        f_a = np.exp(np.where(self.is_low, f_a - log_p, -np.inf))
        u = f_b[:, None] * self.up - f_a[:, None] * self.low
        g = -(self.w @ u)
        H = u.T @ (self.w[:, None] * u)
        H -= self.up.T @ ((self.w * f_b * s_b)[:, None] * self.up)
        H += self.low.T @ ((self.w * f_a * s_a)[:, None] * self.low)
        size = (f_b * (1 + abs(b)))[:, None] * abs(self.up)
        size += (f_a * (1 + abs(a)))[:, None] * abs(self.low)
        return value, g, H, 1e-15 * self.w @ size

    def value(self, t):
        return self._all(t[: self.K], self.Z @ t[self.K :] + self.offset, False)[0]

    def derivatives(self, t):
        return self._all(t[: self.K], self.Z @ t[self.K :] + self.offset)[:3]

    def at(self, theta):
        eta = self.X.astype(LONG) @ theta[self.K :].astype(LONG) + self.offset
        value, g, H, noise = self._all(theta[: self.K], eta.astype(float))
        gap = np.diff(theta[: self.K]).min(initial=1.0)
        drift = 4e-16 * float(np.abs(theta[: self.K]).max() + np.abs(eta).max()) / min(gap, 1.0)
        return value, g, g, H, noise, drift

    def in_scale(self, theta):
        return np.asarray(theta, float) * self.scale

    def directions(self):
        return np.concatenate([self.up[self.is_up], -self.low[self.is_low]]), np.empty((0, self.P))
