"""Risk sets that hold people of all sites: what a site adds up at each time of a common grid.

With r_i = w_i exp η_i, at time t: S(t) = Σ_{at risk} r_i and E(t) = Σ_{events at t} r_i, their
first moments S₁, E₁ = Σ r_i (x_i − c), the number d(t) and the weight D(t) of the events. The lead
adds these up over sites; the partial likelihood of all is a function of the totals (Breslow's or
Efron's, with weights as in R's ``survival::coxph``). Its Hessian is

    Σ_i r_i z_i z_i' [Σ_{t: i at risk} a(t) − 1{event of i at t} b(t)] − Σ_t w̄ Σ_l m m' / φ_l²

with shares φ_l = S − (l/d) E, m = S₁ − (l/d) E₁, a = w̄ Σ_l 1/φ_l and b = w̄ Σ_l (l/d)/φ_l. The
lead knows a and b from the totals, so that a site needs to send one matrix and none a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .rows import SiteRows
from .site_sums import linear_predictor

__all__ = ["PooledRiskSets", "RiskSums", "Shares", "event_times", "risk_sums"]

TOGETHER = 64  # columns that are summed at once


@dataclass(frozen=True)
class Shares:
    """a(t) and b(t) of the Hessian, (T,) each; see the module."""

    a: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class RiskSums:
    """Sums over a site's rows, or over all sites'.

    Attributes
    ----------
    S, E : (m, T) arrays
        At each of m points.
    linear : (m,) array
        Σ w δ η.
    S1, E1 : (T, p) arrays
        At the first point.
    covariates : (p,) array
        Σ w δ (x − c).
    count, weight : (T,) arrays
        Of the events.
    second : (k, k) array or None
        The Hessian's first sum, over the chosen columns.
    """

    S: np.ndarray
    E: np.ndarray
    linear: np.ndarray
    S1: np.ndarray
    E1: np.ndarray
    covariates: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    second: np.ndarray | None = None

    @classmethod
    def total(cls, parts: list[RiskSums]) -> RiskSums:
        """The sum over sites, in their order."""
        second = None if parts[0].second is None else _added([p.second for p in parts])
        names = ("S", "E", "linear", "S1", "E1", "covariates", "count", "weight")
        return cls(**{n: _added([getattr(p, n) for p in parts]) for n in names}, second=second)


def _added(parts: list) -> np.ndarray:
    out = np.array(parts[0], np.float64)
    for part in parts[1:]:
        out += part
    return out


def event_times(rows: SiteRows) -> np.ndarray:
    """The times at which someone with a positive weight has the event, ascending."""
    assert rows.event is not None
    return np.unique(rows.y[rows.event & (rows.problem.weights > 0)])


class _Places:
    """Where rows come into the risk sets of a grid and leave them."""

    def __init__(self, rows: SiteRows, times: np.ndarray) -> None:
        n, T = len(rows.y), len(times)
        assert rows.event is not None
        self.T = T
        self.last = np.searchsorted(times, rows.y, side="right") - 1  # −1: never at risk
        self.first = np.zeros(n, np.int64)
        if rows.entry is not None:
            self.first = np.searchsorted(times, rows.entry, side="right")
        ever = (self.last >= self.first) & (rows.problem.weights > 0)
        at = np.flatnonzero(ever)
        ones = np.ones(len(at))
        self.leave = sparse.csr_array((ones, (self.last[at], at)), shape=(T, n))
        self.before: sparse.csr_array | None = None
        if rows.entry is not None:
            self.before = _entering(self.first[at], at, T, n)
        case = np.flatnonzero(rows.event & ever)
        self.case = case
        self.tied = sparse.csr_array((np.ones(len(case)), (self.last[case], case)), shape=(T, n))

    def at_risk(self, z: np.ndarray) -> np.ndarray:
        """Σ of z (n, c) over those at risk at each time, (T, c)."""
        out = np.cumsum((self.leave @ z)[::-1], axis=0)[::-1]
        if self.before is not None:
            out = out - np.cumsum((self.before @ z)[::-1], axis=0)[::-1]
        return out


def _entering(first: np.ndarray, at: np.ndarray, T: int, n: int) -> sparse.csr_array:
    late = first > 0
    return sparse.csr_array((np.ones(int(late.sum())), (first[late] - 1, at[late])), shape=(T, n))


def risk_sums(
    rows: SiteRows,
    times: np.ndarray,
    points: np.ndarray,
    center: np.ndarray,
    shares: Shares | None,
    columns: np.ndarray,
) -> RiskSums:
    """Add up over a site's rows at each time.

    Parameters
    ----------
    rows : SiteRows
    times : (T,) array
        Ascending; every event is at one of them.
    points : (m, p) array
    center : (p,) array
    shares : Shares or None
        For the Hessian's first sum over ``columns``.
    """
    places, w = _Places(rows, times), rows.problem.weights
    offset = 0.0 if rows.problem.offset is None else rows.problem.offset[:, None]
    weighted = np.zeros(len(w))
    weighted[places.case] = w[places.case]
    S, E, linear = [], [], []
    first = np.empty(0)
    for m, beta in enumerate(points):
        eta = linear_predictor(rows, beta, 0.0, center) + offset
        with np.errstate(over="ignore"):
            r = w[:, None] * np.exp(np.where(w[:, None] > 0, eta, 0.0))
        S.append(places.at_risk(r)[:, 0])
        E.append((places.tied @ r)[:, 0])
        linear.append(float(weighted @ eta[:, 0]))
        first = r if m == 0 else first
    p = rows.design.p
    S1, E1, covariates = np.zeros((len(times), p)), np.zeros((len(times), p)), np.zeros(p)
    for a in range(0, p, TOGETHER):
        at = np.arange(a, min(a + TOGETHER, p))
        z = _columns(rows, at, center)
        S1[:, at], E1[:, at] = places.at_risk(first * z), places.tied @ (first * z)
        covariates[at] = weighted @ z
    second = None
    if shares is not None:
        second = _second(rows, places, first[:, 0], shares, columns, center)
    count = np.bincount(places.last[places.case], minlength=len(times)).astype(float)
    weight = np.bincount(places.last[places.case], w[places.case], minlength=len(times))
    return RiskSums(
        np.array(S), np.array(E), np.array(linear), S1, E1, covariates, count, weight, second
    )


def _columns(rows: SiteRows, at: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Columns less the lead's centres, (n, k)."""
    design, backend = rows.design, rows.problem.likelihood.backend
    D = np.zeros((design.p, len(at)))
    D[at, np.arange(len(at))] = design.scale[at]
    X = np.asarray(backend.to_host(design.matmul(D, backend)))
    return X + (design.center - center)[at]


def _second(
    rows: SiteRows, places: _Places, r: np.ndarray, shares: Shares, columns: np.ndarray,
    center: np.ndarray,
) -> np.ndarray:  # fmt: skip
    sums = np.concatenate([[0.0], np.cumsum(shares.a)])
    inside = np.maximum(places.last + 1, places.first)
    v = sums[inside] - sums[np.minimum(places.first, inside)]
    v[places.case] -= shares.b[places.last[places.case]]
    z = _columns(rows, columns, center)
    return z.T @ ((r * v)[:, None] * z)


_Share = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # times, l/d, weight, φ


class PooledRiskSets:
    """The partial likelihood of all sites at the first of some points, from the totals.

    Parameters
    ----------
    sums : RiskSums
    ties : {"efron", "breslow"}
    """

    def __init__(self, sums: RiskSums, ties: str) -> None:
        self.sums, self.ties = sums, ties
        self.some = sums.count > 0

    def _each(self, S: np.ndarray, E: np.ndarray) -> list[_Share]:
        """Rounds of shares: times that have one, its fraction l/d, its weight, φ."""
        d, D = self.sums.count, self.sums.weight
        if self.ties == "breslow":
            at = np.flatnonzero(self.some)
            return [(at, np.zeros(len(at)), D[at], S[at])]
        out: list[_Share] = []
        for tie in range(int(d.max(initial=0))):
            at = np.flatnonzero(d > tie)
            f = tie / d[at]
            out.append((at, f, D[at] / d[at], S[at] - f * E[at]))
        return out

    def losses(self) -> np.ndarray:
        """Negative log partial likelihoods at the points, (m,)."""
        out = []
        for S, E, linear in zip(self.sums.S, self.sums.E, self.sums.linear, strict=True):
            with np.errstate(all="ignore"):
                total = sum(float(w @ np.log(phi)) for _, _, w, phi in self._each(S, E))
            out.append(total - float(linear) if np.isfinite(total) else np.inf)
        return np.array(out)

    def shares(self, S: np.ndarray, E: np.ndarray) -> Shares:
        """a(t) and b(t) for some S(t) and E(t)."""
        a, b = np.zeros(len(S)), np.zeros(len(S))
        for at, f, w, phi in self._each(S, E):
            a[at] += w / phi
            b[at] += f * w / phi
        return Shares(a, b)

    def gradient(self) -> np.ndarray:
        """At the first point, (p,)."""
        s = self.sums
        shares = self.shares(s.S[0], s.E[0])
        return shares.a @ s.S1 - shares.b @ s.E1 - s.covariates

    def hessian(self, columns: np.ndarray) -> np.ndarray:
        """At the first point over the columns of ``second``, (k, k)."""
        s = self.sums
        assert s.second is not None
        H = s.second.copy()
        for at, f, w, phi in self._each(s.S[0], s.E[0]):
            m = s.S1[np.ix_(at, columns)] - f[:, None] * s.E1[np.ix_(at, columns)]
            H -= m.T @ ((w / phi**2)[:, None] * m)
        return H

    def predicted(self, step: np.ndarray) -> Shares:
        """a(t) and b(t) after a step (p,) from the first point, by what S and E do there."""
        s = self.sums
        with np.errstate(all="ignore"):
            S = s.S[0] * np.exp(np.clip(np.nan_to_num((s.S1 @ step) / s.S[0]), -50, 50))
            E = s.E[0] * np.exp(np.clip(np.nan_to_num((s.E1 @ step) / s.E[0]), -50, 50))
        return self.shares(S, np.minimum(E, S))
