"""Cox's partial likelihood: strata, late entry, weights, ties by Breslow or Efron.

With r_i = w_i exp η_i, S_g = Σ_{risk set} r and E_g = Σ_{tied events} r, the loss is

    Breslow  −Σ w δ η + Σ_g D_g log S_g,                       D_g = Σ_{tied events} w,
    Efron    −Σ w δ η + Σ_g w̄_g Σ_{l<d_g} log(S_g − (l/d_g) E_g),   w̄_g = D_g / d_g,

as R's `survival::coxph` has them (Therneau and Grambsch 2000, §3.3), tied events with weight
zero not counted in d_g. Both are sums over *shares* k of the events, with S_k = N_g + f_k E_g
where N_g leaves the tied events out, so nothing is ever subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Curvature, Likelihood
from .risk_sets import RiskSets, sort_survival

__all__ = ["CoxLikelihood"]

BINS = 300  # pooled event times of the approximate curvature


@dataclass
class _Weights:
    """Row weights w (n, B) with what follows from them for each share (K, B)."""

    w: Any
    share: Any  # weight of the share: w̄_g for Efron, D_g for Breslow
    fraction: Any  # of the tied events' sum that stays in the share's risk set


class CoxLikelihood(Likelihood):
    """Negative log partial likelihood.

    Parameters
    ----------
    time, event : (n,) arrays
        Event is 0 or 1.
    entry : (n,) array, optional
        At risk on (entry, time].
    strata : (n,) int array, optional
        Codes.
    ties : {"efron", "breslow"}
    """

    shift_invariant = True

    def __init__(self, time, event, backend, entry=None, strata=None, ties="efron") -> None:
        super().__init__(backend)
        time, event = np.asarray(time, np.float64), np.asarray(event, np.int64)
        self.order = sort_survival(time, event, strata)
        self.n = len(time)
        time, event = time[self.order], event[self.order]
        entry = None if entry is None else np.asarray(entry, np.float64)[self.order]
        if strata is None:
            start = np.array([0, self.n])
        else:
            sorted_strata = np.asarray(strata)[self.order]
            cuts = np.flatnonzero(np.diff(sorted_strata)) + 1
            start = np.concatenate([[0], cuts, [self.n]])
        self.time, self.event, self.entry = time, event, entry
        self.ties = ties
        self.risk = RiskSets(time, event, entry, start, backend)
        self.stratum = np.repeat(np.arange(len(start) - 1), np.diff(start))
        self.delta = backend.asarray(event[:, None].astype(np.float64))
        ev = self.risk.event_start
        # Efron's method needs one share an event; Breslow's, or no ties at all, one a group.
        self.by_event = ties == "efron" and bool((np.diff(ev) > 1).any())
        self.group = self.risk.group_of_event if self.by_event else np.arange(self.risk.m)
        self.share_start = ev if self.by_event else np.arange(self.risk.m + 1)

    def weigh(self, w):
        """Bind row weights; see `Likelihood.weigh`."""
        xp, risk = self.backend.xp, self.risk
        total = risk.over_events(w)  # D_g
        if not self.by_event:
            return _Weights(w, total, xp.ones_like(total))
        counted = (w[risk.event_rows] > 0).astype(np.float64)
        d = xp.maximum(self.backend.segment_sum(counted, risk.event_start), 1.0)[self.group]
        before = self.backend.scan(counted, risk.event_start) - counted  # l = 0 … d−1
        return _Weights(w, counted * total[self.group] / d, 1.0 - before / d)

    def _rates(self, eta, weights):
        """r = w exp(η − shift), and the events' part of the loss, −Σ w δ (η − shift)."""
        xp, bk = self.backend.xp, self.backend

        def part(e, w, delta):
            return -(w * delta) * e, w * xp.exp(e)

        if len(self.risk.strata_start) == 2:
            shift = bk.column_max(eta)
            loss, (r,) = bk.sum_rows(
                lambda e, w, d: part(e - shift, w, d), eta, weights.w, self.delta
            )
        else:  # each stratum its own, for every row: exp never overflows
            shift = xp.maximum.reduceat(eta, self.risk.strata_start[:-1], axis=0)
            loss, (r,) = bk.sum_rows(
                lambda e, w, d, s: part(e - shift[s], w, d),
                eta, weights.w, self.delta, self.stratum,
            )  # fmt: skip
        return loss, r

    def _shares(self, r, weights):
        """Σ_k w̄_k log S_k, and for each share S_k and its hazard w̄_k / S_k."""
        xp, bk = self.backend.xp, self.backend
        N, E = self.risk.over_rows(r), self.risk.over_events(r)
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]

        def part(N, E, share):
            S = N + E
            empty = S == 0
            if not empty.any():
                return share * xp.log(S), S, share / S
            # Nobody is at risk (all weights zero), or exp underflowed: then the loss is infinite
            # and the line search steps back.
            filled = xp.where(empty, 1.0, S)
            log_S = xp.where(empty & (share > 0), -np.inf, xp.log(filled))
            loss = xp.where(share > 0, share * log_S, 0.0)
            return xp.where(xp.isinf(loss), np.inf, loss), S, share / filled

        loss, (S, h) = bk.sum_rows(part, N, E, weights.share)
        return loss, S, h

    def loss(self, eta, weights):
        """See `Likelihood.loss`."""
        events, r = self._rates(eta, weights)
        return events + self._shares(r, weights)[0]

    def evaluate(self, eta, weights):
        """See `Likelihood.evaluate`."""
        events, r = self._rates(eta, weights)
        logs, _, h = self._shares(r, weights)
        table, at = self._hazard(h, weights)

        def part(r, w, delta, at):
            return (r * table[at] - w * delta,)

        (gradient,) = self.backend.map_rows(part, r, weights.w, self.delta, at)
        return events + logs, gradient

    def _hazard(self, h, weights):
        """Cumulative hazard while at risk: a table (·, B) and each row's place in it, (n,)."""
        bk, risk = self.backend, self.risk
        own = h
        if self.by_event:
            own = bk.segment_sum(h * weights.fraction, risk.event_start)
            h = bk.segment_sum(h, risk.event_start)
        return risk.over_groups(h, own)

    # -- curvature -------------------------------------------------------------------------

    def curvature(self, eta, weights, exact=False):
        """See `Likelihood.curvature`; event times are pooled into bins unless ``exact``."""
        _, r = self._rates(eta, weights)
        _, S, h = self._shares(r, weights)
        table, at = self._hazard(h, weights)
        v = (r * table[at])[:, 0]
        host = self.backend.to_host
        r, S = host(r)[:, 0], host(S)[:, 0]
        share, f = host(weights.share)[:, 0], host(weights.fraction)[:, 0]
        c = np.where(share > 0, share / np.where(S > 0, S, 1.0) ** 2, 0.0)
        reduce = self._per_group
        m0, m1, m2 = reduce(c), reduce(c * f), reduce(c * f * f)
        if exact and self.by_event:
            # Σ_k c_k (N + f_k E)(N + f_k E)' is the sum over two nodes f = mean ± sd.
            mean = m1 / np.where(m0 > 0, m0, 1.0)
            sd = np.sqrt(np.maximum(m2 / np.where(m0 > 0, m0, 1.0) - mean**2, 0.0))
            nodes = [(mean - sd, m0 / 2), (mean + sd, m0 / 2)]
        else:
            nodes = [(np.ones(self.risk.m), m0)]
            if self.by_event:  # E[mm'] at f = 1 with the same hazard
                hazard = reduce(np.where(share > 0, share / np.where(S > 0, S, 1.0), 0.0))
                whole = np.maximum.reduceat(S, self.share_start[:-1])
                nodes = [(np.ones(self.risk.m), hazard / np.where(whole > 0, whole, 1.0))]
            if not exact and self.risk.m > 1.5 * BINS:
                nodes = [(np.ones(self.risk.m), self._pool(nodes[0][1], S, reduce(share)))]
        u, runs, c, rows = self._stream(r, nodes)
        return Curvature(v, u, runs, c, rows)

    def _per_group(self, x: np.ndarray) -> np.ndarray:
        return np.add.reduceat(x, self.share_start[:-1]) if self.by_event else x

    def _pool(self, c: np.ndarray, S: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Move the groups' weights to one group a bin: some hundred bins of equal weight.

        c S² is the sum of weights, so a bin's term has weight Σ c S² / S² at its middle group.
        """
        whole = S if not self.by_event else np.maximum.reduceat(S, self.share_start[:-1])
        mass = c * whole**2
        starts = self.risk.groups_start
        stratum = self.risk.group_stratum
        sizes = np.diff(starts)
        total = np.add.reduceat(np.append(mass, 0.0), np.minimum(starts[:-1], len(mass)))
        total = np.where(sizes > 0, total, 0.0)
        per = np.clip(np.ceil(BINS * total / max(total.sum(), 1e-300)), 1, np.maximum(sizes, 1))
        done = np.cumsum(mass) - mass / 2
        base = np.concatenate([[0.0], np.cumsum(total)])[:-1]
        place = (done - base[stratum]) / np.where(total > 0, total, 1.0)[stratum]
        within = np.clip((place * per[stratum]).astype(np.int64), 0, per[stratum].astype(int) - 1)
        bin_ = (np.concatenate([[0], np.cumsum(per)])[:-1].astype(np.int64))[stratum] + within
        edges = np.flatnonzero(np.diff(bin_, prepend=-1))
        pooled_mass = np.add.reduceat(mass, edges)
        middle = (edges + np.append(edges[1:], len(mass)) - 1) // 2
        pooled = np.zeros_like(c)
        size = whole[middle]
        pooled[middle] = np.where(size > 0, pooled_mass / np.where(size > 0, size, 1.0) ** 2, 0.0)
        return pooled

    def _stream(self, r: np.ndarray, nodes: list[tuple[np.ndarray, np.ndarray]]):
        """Lines for `Curvature`: rows enter as time runs back, leave at their entry."""
        risk = self.risk
        if self.entry is None and len(nodes) == 1:
            c = np.zeros(self.n)
            last = risk.event_rows[risk.event_start[1:] - 1]
            c[last] = nodes[0][1]
            return r, risk.strata_start, c, None
        # Sort keys: (stratum, group, phase). Phase 0: rows that join or have left; then the
        # tied events in as many parts as there are nodes, with a flush after each, and the rest.
        n, ev, g = self.n, risk.event_rows, risk.group_of_event
        is_event = np.zeros(n, bool)
        is_event[ev] = True
        joins = np.flatnonzero(~is_event)
        parts = [(joins, risk.a[joins], np.zeros(len(joins)), r[joins], None)]
        if risk.b is not None:
            leave = np.flatnonzero(risk.b < risk._end)
            parts.append((leave, risk.b[leave], np.zeros(len(leave)), -r[leave], None))
        before = np.zeros(risk.m)
        lasts = risk.event_start[1:] - 1
        for k, (f, c) in enumerate(nodes):
            flush = np.zeros(len(ev))
            flush[lasts] = c
            parts.append((ev, g, np.full(len(ev), k + 1.0), r[ev] * (f - before)[g], flush))
            before = f
        if not np.all(before == 1.0):
            parts.append((ev, g, np.full(len(ev), 9.0), r[ev] * (1.0 - before)[g], None))
        rows = np.concatenate([x[0] for x in parts])
        group = np.concatenate([x[1] for x in parts])
        phase = np.concatenate([x[2] for x in parts])
        u = np.concatenate([x[3] for x in parts])
        c = np.concatenate([np.zeros(len(x[0])) if x[4] is None else x[4] for x in parts])
        by = np.lexsort((np.arange(len(rows)), phase, group, self.stratum[rows]))
        rows, u, c = rows[by], u[by], c[by]
        runs = np.searchsorted(self.stratum[rows], np.arange(len(risk.strata_start)))
        return u, runs, c, rows
