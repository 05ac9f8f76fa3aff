"""Objectives of all families in dense NumPy, by explicit risk sets, subsets and person-intervals.

Written from the textbooks, without a line of steropes, and slow: what the fits are held against.
Each family is a loss of η = A θ + o with a matrix A that is made in full (`Linked`). Work is in
columns that are centred, where a constant changes nothing, and scaled to standard deviation one.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import gammaln

__all__ = [
    "Binomial",
    "Counts",
    "Gaussian",
    "Linked",
    "Shares",
    "cox",
    "fine_gray",
    "subsets",
]

LONG = np.longdouble


class Gaussian:
    """½ Σ w (y − η)²."""

    def __init__(self, y, w):
        self.y, self.w, self.constant = y, w, 0.0

    def value(self, eta):
        return float(0.5 * np.sum(self.w * (self.y - eta) ** 2))

    def slope(self, eta):
        return self.w * (eta - self.y)

    def curvature(self, eta, A):
        return A.T @ (self.w[:, None] * A)

    def directions(self, A):
        """Rows g with g'd ≥ 0, and rows e with e'd = 0, for d along which the loss never rises."""
        return np.empty((0, A.shape[1])), A


class Binomial(Gaussian):
    """Σ w [log(1 + exp η) − y η]."""

    def value(self, eta):
        s = np.where(self.y == 1, 1.0, -1.0)
        return float(np.sum(self.w * np.logaddexp(0, -s * eta)))

    def slope(self, eta):
        eta = np.asarray(eta, float)
        return self.w * np.where(
            self.y == 1, -np.exp(-np.logaddexp(0, eta)), np.exp(-np.logaddexp(0, -eta))
        )

    def curvature(self, eta, A):
        eta = np.asarray(eta, float)
        v = self.w * np.exp(-np.logaddexp(0, eta) - np.logaddexp(0, -eta))
        return A.T @ (v[:, None] * A)

    def directions(self, A):
        return np.where(self.y == 1, 1.0, -1.0)[:, None] * A, np.empty((0, A.shape[1]))


class Counts(Gaussian):
    """Σ w [exp η − y η + log y!]."""

    def __init__(self, y, w):
        super().__init__(y, w)
        self.constant = float(np.sum(w * gammaln(y + 1)))

    def value(self, eta):
        with np.errstate(over="ignore"):
            return float(np.sum(self.w * (np.exp(eta) - self.y * eta)))

    def slope(self, eta):
        return self.w * (np.exp(eta) - self.y)

    def curvature(self, eta, A):
        return A.T @ ((self.w * np.exp(np.asarray(eta, float)))[:, None] * A)

    def directions(self, A):
        return -A[self.y == 0], A[self.y > 0]


class Shares:
    """Σ_k [a_k log Σ_i M_ki exp η_i − Σ_i C_ki η_i] with a_k = Σ_i C_ki.

    Partial likelihoods, conditional likelihoods and Fine and Gray's are all of this form: a row
    of M for each risk set (matched set, person), a row of C for who had the event in it.
    """

    def __init__(self, M, C):
        keep = C.sum(axis=1) > 0
        self.M, self.C, self.constant = M[keep], C[keep], 0.0
        self.a = self.C.sum(axis=1)
        with np.errstate(divide="ignore"):
            self.log_M = np.log(self.M)

    def _log_sums(self, eta):
        z = self.log_M + np.asarray(eta, float)
        top = z.max(axis=1, keepdims=True, initial=-np.inf)
        e = np.exp(z - top)
        S = e.sum(axis=1, keepdims=True)
        return (np.log(S) + top)[:, 0], e / S

    def value(self, eta):
        eta = np.asarray(eta, float)
        z = self.log_M + eta
        top = z.max(axis=1, keepdims=True, initial=-np.inf)
        inside = np.log(np.exp(z - top).sum(axis=1))
        behind = (top - eta) * self.C  # no difference of two large sums
        return float(np.sum(self.a * inside) + np.sum(np.where(self.C > 0, behind, 0.0)))

    def slope(self, eta):
        return self._log_sums(eta)[1].T @ self.a - self.C.sum(axis=0)

    def curvature(self, eta, A):
        P = self._log_sums(eta)[1]
        H = np.zeros((A.shape[1],) * 2)
        for a, p in zip(self.a, P, strict=True):
            at = p > 0
            Z = A[at] - p[at] @ A[at]
            H += a * Z.T @ (p[at, None] * Z)
        return H

    def directions(self, A):
        out = [np.empty((0, A.shape[1]))]
        for m, c in zip(self.M, self.C, strict=True):
            others = np.flatnonzero(m > 0)
            for i in np.flatnonzero(c > 0):
                out.append(A[i] - A[others])
        G = np.concatenate(out)
        return np.unique(G, axis=0), np.empty((0, A.shape[1]))


def cox(time, event, w, entry, strata, ties):
    """Shares of Cox's partial likelihood; Efron's l-th of d tied events leaves out l/d of them."""
    M, C = [], []
    for s in np.unique(strata):
        inside = strata == s
        for t in np.unique(time[inside & (event == 1)]):
            tied = inside & (time == t) & (event == 1)
            risk = inside & (time >= t) & (entry < t)
            d = tied.sum()
            if ties == "breslow":
                M.append(w * risk)
                C.append(w * tied)
            else:
                for k in range(d):
                    M.append(w * (risk - k / d * tied))
                    C.append(w * tied / d)
    return np.reshape(M, (len(M), len(w))), np.reshape(C, (len(C), len(w)))


class Observed:
    """Who is under observation in a stratum: before and after censorings and entries at each time.

    At one time events come first, then censorings, then entries.
    """

    def __init__(self, time, code, w, entry):
        self.u = np.unique(np.concatenate([time, entry]))
        stay = [w[(entry < u) & (time > u)].sum() for u in self.u]
        self.before = stay + np.array([w[(time == u) & (code == 0)].sum() for u in self.u])
        self.after = stay + np.array([w[entry == u].sum() for u in self.u])

    def ratio(self, s, t):
        """G(t−)H(t−) / (G(s−)H(s−)); infinite where nobody was there before someone entered."""
        inside = (self.u >= s) & (self.u < t) & (self.before + self.after > 0)
        if (self.before[inside] == 0).any():
            return np.inf
        return np.prod(self.after[inside] / self.before[inside])


def fine_gray(time, code, cause, w, strata, entry):
    """Risk sets with those who had a competing event, at the weight G(t−)H(t−) / (G(T−)H(T−)).

    Returns M and C of `Shares`, and whether some weight is infinite: they are left out then.
    """
    M, C, interrupted = [], [], False
    for s in np.unique(strata):
        inside = strata == s
        seen = Observed(time[inside], code[inside], w[inside], entry[inside])
        cases = np.unique(time[inside & (code == cause)])
        late = np.zeros((len(cases), len(w)))
        for i in np.flatnonzero(inside & (code != 0) & (code != cause)):
            ratio = np.array([seen.ratio(time[i], t) if t > time[i] else 0.0 for t in cases])
            if np.isfinite(ratio).all():
                late[:, i] = w[i] * ratio
            else:
                interrupted = True
        for k, t in enumerate(cases):
            M.append(w * (inside & (time >= t) & (entry < t)) + late[k])
            C.append(w * (inside & (time == t) & (code == cause)))
    return np.reshape(M, (len(M), len(w))), np.reshape(C, (len(C), len(w))), interrupted


def subsets(y, w, strata):
    """All ways to choose each set's cases: B (R, n), and which of them belong to which set."""
    B, M_of, C_of = [], [], []
    labels = np.unique(strata)
    for k, s in enumerate(labels):
        rows = np.flatnonzero(strata == s)
        cases = tuple(rows[y[rows] == 1])
        for R in combinations(rows, len(cases)):
            row = np.zeros(len(y))
            row[list(R)] = 1.0
            B.append(row)
            M_of.append(k)
            C_of.append(w[rows[0]] if cases == R else 0.0)
    M = (np.array(M_of) == np.arange(len(labels))[:, None]).astype(float)
    return np.reshape(B, (len(B), len(y))), M, M * np.array(C_of)


class Linked:
    """Loss of η = A θ + o with ½ Σ κ θ² + Σ λ |θ|; θ in the units of A's columns."""

    def __init__(self, A, offset, loss, l1, l2, constant_free, n_free=0, centred=None):
        self.A, self.offset, self.loss, self.n_free = A, offset, loss, n_free
        self.P = A.shape[1]
        mean = A.mean(axis=0) if constant_free and len(A) else np.zeros(self.P)
        mean[:n_free] = 0.0
        self.centred = A - mean if centred is None else centred
        spread = np.sqrt((self.centred**2).mean(axis=0)) if len(A) else np.ones(self.P)
        # What is left of a constant column by rounding is zero.
        spread[spread <= 1e-13 * np.abs(A).max(axis=0, initial=0.0)] = 0.0
        self.centred = self.centred * (spread > 0)
        self.scale, self.mean = np.where(spread > 0, spread, 1.0), mean
        self.scaled = self.centred / self.scale
        self.l1, self.l2 = l1 / self.scale, l2 / self.scale**2
        self.mass = float(np.sum(getattr(loss, "a", getattr(loss, "w", 0.0))))

    def start(self):
        return np.zeros(self.P)

    def told_apart(self):
        """A matrix that is singular where the data say nothing of a combination of columns."""
        return self.derivatives(self.start())[2]

    def eta(self, theta):
        """η at coefficients in the user's units, exact for the numbers given."""
        out = self.A.astype(LONG) @ np.asarray(theta, float).astype(LONG) + self.offset
        return out.astype(float)

    def value(self, t):
        return self.loss.value(self.scaled @ t + self.offset)

    def derivatives(self, t):
        eta = self.scaled @ t + self.offset
        return (
            self.loss.value(eta),
            self.scaled.T @ self.loss.slope(eta),
            self.loss.curvature(eta, self.scaled),
        )

    def at(self, theta):
        """Loss, gradient and Hessian at a fit, the gradient also by the columns as they are."""
        eta = self.eta(theta)
        r = self.loss.slope(eta)
        as_is = (self.A.T @ r) / self.scale
        noise = 4e-16 * (np.abs(self.scaled).T @ np.abs(r))
        drift = 4e-16 * (np.abs(self.A) @ np.abs(theta) + np.abs(self.offset))
        return (
            self.loss.value(eta),
            self.scaled.T @ r,
            as_is,
            self.loss.curvature(eta, self.scaled),
            noise,
            float(drift.max(initial=0.0)),
        )

    def in_scale(self, theta):
        return np.asarray(theta, float) * self.scale

    def in_users_units(self, t):
        """Coefficients of A's own columns, a constant among the free ones taken up by them."""
        theta = t / self.scale
        if self.n_free and self.mean.any():
            free = self.A[:, : self.n_free]
            constant = np.linalg.lstsq(free, np.ones(len(free)), rcond=None)[0]
            theta[: self.n_free] -= constant * float(self.mean @ theta)
        return theta

    def directions(self):
        return self.loss.directions(self.scaled)
