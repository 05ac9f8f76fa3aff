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
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ..backends.protocols import Array, Backend
from .base import Likelihood, Part
from .curvature import AnyCurvature, GroupedCurvature
from .event_time_bins import BINS, merge_hazards
from .informative_strata import parts_of_strata
from .risk_set_scaling import lifted
from .risk_set_stream import risk_set_lines
from .risk_sets import RiskSets, sort_survival
from .sharded_partial_likelihood import RiskExchange

__all__ = ["CoxLikelihood", "Ties"]

Ties = Literal["efron", "breslow"]

SAFE = 100.0  # |η| within which exp(η) is summed as it is; beyond, it is shifted
FEW_STRATA = 1000  # events a stratum from which a part of a stratum's rows is like the whole


@dataclass
class _Weights:
    """Row weights w (n, B) with what follows from them for each share (K, B)."""

    w: Any
    events: Any  # w δ; None where the sweeps do without it
    share: Any  # weight of the share: w̄_g for Efron, D_g for Breslow
    fraction: Any  # of the tied events' sum that stays in the share's risk set; None: all of it


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

    Attributes
    ----------
    plain_risk_sets : bool
        Whether S_k is a sum over those who are at risk and nothing else, so that a backend's
        `risk_sweeps` are its loss and gradient; a class attribute.
    interval_of, stratum_of : (C,) int arrays
        Interval of time and code of the stratum of each run of risk sets. Runs share no risk set;
        here each is a stratum, and there is one interval.
    """

    plain_risk_sets = True
    additive = False
    shift_invariant = True
    grouped = True
    ccd = "cox"
    has_third = True

    def __init__(
        self,
        time: np.ndarray,
        event: np.ndarray,
        backend: Backend,
        entry: np.ndarray | None = None,
        strata: np.ndarray | None = None,
        ties: Ties = "efron",
    ) -> None:
        super().__init__(backend)
        time, event = np.asarray(time, np.float64), np.asarray(event, np.int8)
        self.order = sort_survival(time, event, strata)
        self.n = len(time)
        time, event = time[self.order], event[self.order]
        entry = None if entry is None else np.asarray(entry, np.float64)[self.order]
        if strata is None:
            start, self.labels = np.array([0, self.n]), np.zeros(1, np.int64)
        else:
            sorted_strata = np.asarray(strata)[self.order]
            cuts = np.flatnonzero(np.diff(sorted_strata)) + 1
            start = np.concatenate([[0], cuts, [self.n]])
            self.labels = sorted_strata[start[:-1]]
        self.time, self.event, self.entry = time, event, entry
        self.ties = ties
        self.risk = RiskSets(time, event, entry, start, backend)
        self.stratum = self.risk.stratum
        self.interval_of, self.stratum_of = np.zeros_like(self.labels), self.labels
        if FEW_STRATA * (len(start) - 1) <= (events := int(event.sum())):
            self.effective_rows = events
        self.delta = backend.asarray(event[:, None])
        ev = self.risk.event_start
        # Efron's method needs one share an event; Breslow's, or no ties at all, one a group.
        tied = len(self.risk.event_rows) > self.risk.m
        self.by_event = tied and ties == "efron"
        if self.by_event or not tied:
            self.group, self.share_start = self.risk.group_of_event, ev
        else:
            self.group, self.share_start = np.arange(self.risk.m), np.arange(self.risk.m + 1)
        self.sweeps = None
        if self.plain_risk_sets and entry is None and backend.fused_risk_sweeps:
            risk = self.risk
            place, shares = (risk.place, ev) if self.by_event else (risk.place_own, None)
            self.sweeps = backend.risk_sweeps(
                self.n, start, risk.groups_start, risk.tied_start, risk.tied_end, place, shares
            )

    def outcome(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Time, event and entry (or None) in the user's order of the rows."""
        assert self.order is not None  # rows are sorted by time
        back = np.argsort(self.order)
        entry = None if self.entry is None else self.entry[back]
        return self.time[back], self.event[back], entry

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`: of whole strata."""
        assert self.order is not None  # rows are sorted by time
        codes = parts_of_strata(self.order, self.stratum, cuts)
        if codes is None:
            return None
        time, event, entry = self.outcome()
        out: list[Part] = []
        for (a, b), strata in zip(pairwise(cuts), codes, strict=True):
            own = None if entry is None else entry[a:b]
            out.append(partial(_of_part, time[a:b], event[a:b], own, strata, self.ties))
        return out

    def exchange(self, cuts: np.ndarray) -> RiskExchange | None:
        """See `Likelihood.exchange`: sums over risk sets, by event time."""
        return RiskExchange(self, self.row_of_x, cuts)

    def common(self, weights: Any) -> dict[str, np.ndarray]:
        """What of all rows' weights matters to each beside the sums, by event time: nothing."""
        return {}

    def own(self, weights: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The same by rows of the model: nothing."""
        return {}

    def last_seen(self, weights: np.ndarray) -> np.ndarray:
        """The last time at which anyone was seen, by code of the strata; −∞ where no one was.

        ``weights`` (n,) are in the rows of X; those of weight zero are not there.
        """
        there = weights[self.row_of_x] > 0
        out = np.full(int(self.stratum_of.max()) + 1, -np.inf)
        np.maximum.at(out, self.stratum_of[self.stratum[there]], self.time[there])
        return out

    def cut_off(self, weights: np.ndarray) -> tuple[int, float] | None:
        """See `FineGrayLikelihood.cut_off`: who leaves has no weight in later risk sets."""
        return None

    def weigh(self, w: Array) -> _Weights:
        """Bind row weights; see `Likelihood.weigh`."""
        xp, risk = self.backend.xp, self.risk
        total = risk.over_events(w)  # D_g
        events = w * self.delta if self.sweeps is None else None
        if not self.by_event:
            return _Weights(w, events, total, None)
        counted = (w[risk.event_rows] > 0).astype(np.float64)
        d = xp.maximum(self.backend.segment_sum(counted, risk.event_start), 1.0)[self.group]
        before = self.backend.scan(counted, risk.event_start) - counted  # l = 0 … d−1
        share = counted * total[self.group] / d
        return _Weights(w, events, share, 1.0 - before / d)

    def _rates(self, eta: Array, weights: _Weights) -> tuple[Array, Array]:
        """r = w exp(η − shift), and the events' part of the loss, −Σ w δ (η − shift)."""
        xp, bk = self.backend.xp, self.backend
        events = self._events(weights)

        def part(e: Array, w: Array, events: Array) -> tuple[Array, Array]:
            return -events * e, w * xp.exp(e)

        if self._safe(eta):
            loss, (r,) = bk.sum_rows(part, eta, weights.w, events)
        else:  # each stratum its own, for every row
            shift = self._shift(eta, weights)
            loss, (r,) = bk.sum_rows(
                lambda e, w, d, s: part(xp.minimum(e - shift[s], 0.0), w, d),
                eta, weights.w, events, self.stratum,
            )  # fmt: skip
        return loss, r

    def _shift(self, eta: Array, weights: _Weights) -> Array:
        """The largest η of each stratum's rows that matter, (S, B)."""
        xp = self.backend.xp
        counted = (weights.w > 0) & self.backend.asarray(self._ever[:, None])
        top = self.backend.segment_max(xp.where(counted, eta, -np.inf), self.risk.strata_start)
        return xp.where(xp.isfinite(top), top, 0.0)

    @property
    def _ever(self) -> np.ndarray:
        """Rows that are at risk at some event, (n,)."""
        return self.risk.ever

    def _events(self, weights: _Weights) -> Array:
        return weights.w * self.delta if weights.events is None else weights.events

    def _safe(self, eta: Array) -> bool:
        """Whether exp(η) neither overflows nor vanishes, so that it need not be shifted."""
        return bool(self.backend.xp.abs(eta).max() < SAFE)

    def sums(self, r: Array, weights: _Weights) -> tuple[Array, Array | None]:
        """Sums of r over the risk sets without the tied events, and over these, (m, B) each."""
        return self.risk.over_rows(r), self.risk.over_events(r)

    def _shares(self, r: Array, weights: _Weights) -> tuple[Array, Array, Array]:
        """Σ_k w̄_k log S_k, and for each share S_k and its hazard w̄_k / S_k."""
        return self.shares_of(*self.sums(r, weights), weights)

    def shares_of(self, N: Array, E: Array | None, weights: _Weights) -> tuple[Array, Array, Array]:
        """The same from `sums`; without E (m, B) it is in N."""
        xp, bk = self.backend.xp, self.backend
        E = xp.zeros_like(N) if E is None else E
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]

        def part(N: Array, E: Array, share: Array) -> tuple[Array, ...]:
            S = N + E
            empty = S < 1e-300  # or so small that share / S would overflow
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

    def loss(self, eta: Array, weights: _Weights) -> Array:
        """See `Likelihood.loss`."""
        swept = self._sweep(eta, weights, False)
        if swept is not None:
            return swept[0]
        events, r = self._rates(eta, weights)
        return events + self._shares(r, weights)[0]

    def evaluate(self, eta: Array, weights: _Weights) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        swept = self._sweep(eta, weights, True)
        if swept is not None:
            return swept
        xp = self.backend.xp
        events, r = self._rates(eta, weights)
        logs, _, h = self._shares(r, weights)
        table, at = self._hazard(h, weights)

        def part(r: Array, events: Array, at: Array) -> tuple[Array, ...]:
            return (r * xp.take(table, at, axis=0) - events,)

        (gradient,) = self.backend.map_rows(part, r, self._events(weights), at)
        return events + logs, gradient

    def _sweep(self, eta: Array, weights: _Weights, gradient: bool) -> tuple[Array, Array] | None:
        """Loss and gradient in two sweeps, None where sums must be shifted or there is no way."""
        if self.sweeps is None:
            return None
        return self.sweeps.evaluate(eta, weights.w, weights.share, weights.fraction, gradient)

    def _hazard(self, h: Array, weights: _Weights) -> tuple[Array, Array]:
        """Cumulative hazard while at risk: a table (·, B) and each row's place in it, (n,)."""
        return self.risk.over_groups(*self.steps_of(h, weights))

    def steps_of(self, h: Array, weights: _Weights) -> tuple[Array, Array]:
        """Hazards of shares by event time, (m, B): for those at risk, and for the tied events."""
        if not self.by_event:
            return h, h
        own = self.backend.segment_sum(h * weights.fraction, self.risk.event_start)
        return self.backend.segment_sum(h, self.risk.event_start), own

    # -- curvature -------------------------------------------------------------------------

    def curvature(self, eta: Array, weights: _Weights, exact: bool = False) -> AnyCurvature:
        """See `Likelihood.curvature`; event times are merged into bins unless ``exact``."""
        r, S, h = self._lifted(eta, weights)
        if exact or self.risk.m <= 1.5 * BINS:
            return self._exact(r, S, h, weights)
        host = self.backend.to_host
        whole, h = host(self.whole_of(S)), host(self.over_shares(h))
        del S  # a Hessian is when a fit holds most
        h = merge_hazards(h, whole, host(self._squares(r, weights)), self.risk.groups_start, len(r))
        whole = whole[:, 0]
        table, at = self.risk.over_groups(*[self.backend.asarray(h[:, None])] * 2)
        v = table[at]
        v *= r
        del table, at
        c = np.divide(h, whole, out=h, where=h > 0)
        return self._curvature(r, v, whole, [(np.ones(self.risk.m), c)])

    def weighted_curvature(
        self, eta: Array, weights: _Weights, factor: np.ndarray
    ) -> GroupedCurvature:
        """The exact curvature with each event time's part multiplied by a factor, (m,).

        What tests of time-varying effects need: Σ_g factor_g D_g Var_g(x).
        """
        return self._exact(*self._lifted(eta, weights), weights, factor)

    def third(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """See `Likelihood.third`: Σ_k w̄_k p_ki [(z_i − z̄_k)² − var_k z] of the shares k.

        With p_ki = a_ki r_i / S_k the third derivative of log S_k is the third cumulant of a draw
        from the risk set.
        """
        r, S, h = self._hazards(eta, weights)
        mean = self._means(r, S, Z, weights)
        size = (Z * Z).sum(axis=1, keepdims=True)
        level = 2.0 * (mean * mean).sum(axis=1, keepdims=True) - self._means(r, S, size, weights)
        out = size * self._compensated(r, h, weights) + self._compensated(r, h * level, weights)
        crossed = Z * self._compensated(r, h * mean, weights)
        return out - 2.0 * crossed.sum(axis=1, keepdims=True)

    def weighted_gradient(self, eta: Array, weights: _Weights, factor: np.ndarray) -> Array:
        """The gradient in η, (n, B), with each event time's part multiplied by a factor, (m,)."""
        r, _, h = self._hazards(eta, weights)
        factor = self.backend.asarray(factor)
        table, at = self._hazard(h * factor[self.group, None], weights)
        own = self.backend.xp.zeros_like(r)
        own[self.risk.event_rows] = factor[self.risk.group_of_event, None]
        return r * table[at] - weights.w * self.delta * own

    def score_residuals(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """Each row's part of the score, (n, L): w ∫ (z − z̄(t)) dM(t) for columns Z (n, L).

        With Efron's method as R's `residuals.coxph`: each of d tied events has d-th parts of all
        shares as its mean. Therneau and Grambsch (2000, §4.3, §4.6).
        """
        risk = self.risk
        r, S, h = self._hazards(eta, weights)
        mean = self._means(r, S, Z, weights)
        U = Z * self.martingale_residuals(eta, weights) + self._compensated(r, h * mean, weights)
        mean = self._mean_of_shares(mean, weights)
        events = risk.event_rows
        U[events] -= weights.w[events] * mean[risk.group_of_event]
        return U

    def schoenfeld_residuals(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """z − z̄ of each of the risk sets' ``event_rows``, (events, L), for columns Z (n, L).

        With Efron's method z̄ is the mean of the d means that the tied events have. Schoenfeld
        (1982), Biometrika 69:239; Therneau and Grambsch (2000, §4.6).
        """
        r, S, _ = self._hazards(eta, weights)
        mean = self._mean_of_shares(self._means(r, S, Z, weights), weights)
        return Z[self.risk.event_rows] - mean[self.risk.group_of_event]

    def _mean_of_shares(self, mean: Array, weights: _Weights) -> Array:
        """Average over the shares of each event time, (m, L), of what each share has, (K, L)."""
        if not self.by_event:
            return mean
        used = (weights.share > 0).astype(np.float64)
        return self.over_shares(used * mean) / self.backend.xp.maximum(self.over_shares(used), 1)

    def martingale_residuals(self, eta: Array, weights: _Weights) -> Array:
        """w (δ − expected events), (n, 1)."""
        r, _, h = self._hazards(eta, weights)
        return weights.w * self.delta - self._compensated(r, h, weights)

    def _means(self, r: Array, S: Array, Z: Array, weights: _Weights) -> Array:
        """Means of the columns Z over the risk set of each share, (K, L)."""
        N, E = self.risk.over_rows(r * Z), self.risk.over_events(r * Z)
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]
        return (N + E) / self.backend.xp.where(S > 0, S, 1.0)

    def _compensated(self, r: Array, h: Array, weights: _Weights) -> Array:
        """Sums of r h over the shares that each row is at risk in, (n, L)."""
        table, at = self._hazard(h, weights)
        return r * table[at]

    def log_baseline(self, eta: Array, weights: _Weights) -> Array:
        """Logarithm of the baseline hazard's step at each event time, (m,), at η = 0."""
        xp, risk = self.backend.xp, self.risk
        _, _, h = self._hazards(eta, weights)
        h = self.over_shares(h)[:, 0]
        shift = 0.0
        if not self._safe(eta):
            shift = self._shift(eta, weights)[risk.group_stratum, 0]
        with np.errstate(divide="ignore"):  # an event of weight zero
            return xp.log(h) - shift

    def hazard_spread(self, eta: Array, weights: _Weights) -> Array:
        """Variance of each step of the baseline hazard divided by the step's square, (m,).

        Σ_k w̄_k / S_k² over the shares (Tsiatis 1981; Efron's as R's `survfit.coxph`).
        """
        xp = self.backend.xp
        _, S, h = self._hazards(eta, weights)
        total = self.over_shares(h)
        own = xp.where(total > 0, total, 1.0)[self.group]  # whose square may be beyond numbers
        return self.over_shares(h / own / xp.where(S > 0, S * own, 1.0))[:, 0]

    def hazard_means(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """Means of columns Z (n, L) over the risk set of each event time, (m, L).

        Of shares by their parts of the hazard's step: steps times means add up to ∫ z̄ dΛ.
        """
        r, S, h = self._hazards(eta, weights)
        total = self.over_shares(h)
        mean = self.over_shares(h * self._means(r, S, Z, weights))
        return mean / self.backend.xp.where(total > 0, total, 1.0)

    def _hazards(self, eta: Array, weights: _Weights) -> tuple[Array, Array, Array]:
        _, r = self._rates(eta, weights)
        _, S, h = self._shares(r, weights)
        return r, S, h

    def _lifted(self, eta: Array, weights: _Weights) -> tuple[Array, Array, Array]:
        """The same for a curvature: in units in which small risk sets have a part in it."""
        r, S, h = self._hazards(eta, weights)
        factor, S, h = lifted(S, h)
        return r if factor == 1.0 else r * factor, S, h

    def _exact(
        self, r: Array, S: Array, h: Array, weights: _Weights, factor: np.ndarray | None = None
    ) -> GroupedCurvature:
        host = self.backend.to_host
        factor = np.ones(self.risk.m) if factor is None else factor
        table, at = self._hazard(h * self.backend.asarray(factor[self.group, None]), weights)
        v = r * table[at]
        whole = host(self.whole_of(S))[:, 0]
        return self._curvature(r, v, whole, self.nodes(S, h, weights, factor))

    def nodes(
        self, S: Array, h: Array, weights: _Weights, factor: np.ndarray | float = 1.0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs (f, c), (m,) each: the Hessian's terms −Σ_g c_g (N_g + f_g E_g)(N_g + f_g E_g)'.

        Of one replicate's shares and hazards; see `risk_set_stream`.
        """
        host = self.backend.to_host
        S, h = host(S)[:, 0], host(h)[:, 0]
        c = h / np.where(h > 0, S, 1.0)
        if not self.by_event:
            return [(np.ones(self.risk.m), c * factor)]
        f = host(weights.fraction)[:, 0]
        # Σ_k c_k (N + f_k E)(N + f_k E)' is the sum over two nodes f = mean ± sd.
        m0, m1, m2 = (np.add.reduceat(x, self.share_start[:-1]) for x in (c, c * f, c * f * f))
        some = np.where(m0 > 0, m0, 1.0)
        mean = np.where(m0 > 0, m1 / some, 1.0)
        sd = np.sqrt(np.maximum(m2 / some - mean**2, 0.0)) * (m0 > 0)
        one = sd == 0
        c = m0 * factor
        return [(mean - sd, np.where(one, c, c / 2)), (mean + sd, np.where(one, 0.0, c / 2))]

    def _curvature(
        self, r: Array, v: Array, whole: np.ndarray, nodes: list[tuple[np.ndarray, np.ndarray]]
    ) -> GroupedCurvature:
        r = self.backend.to_host(r)[:, 0]
        lines = risk_set_lines(self.risk, self.stratum, r, nodes, whole)
        return GroupedCurvature(v[:, 0], *lines)

    def over_shares(self, x: Array) -> Array:
        """Sums over the shares of each group, (m, B)."""
        return self.backend.segment_sum(x, self.share_start) if self.by_event else x

    def _squares(self, r: Array, weights: _Weights) -> Array:
        """Sums of r² over the risk sets with the tied events whole, (m, 1)."""
        square = r * r
        return self.risk.over_rows(square) + self.risk.over_events(square)

    def whole_of(self, S: Array) -> Array:
        """Sums over the risk sets with the tied events whole: the first of each group's shares."""
        return S[self.share_start[:-1]] if self.by_event else S


def _of_part(
    time: np.ndarray, event: np.ndarray, entry: np.ndarray | None, strata: np.ndarray, ties: Ties,
    backend: Backend,
) -> CoxLikelihood | None:  # fmt: skip
    """The likelihood of a part of the rows; None where they say nothing."""
    return CoxLikelihood(time, event, backend, entry, strata, ties) if event.any() else None
