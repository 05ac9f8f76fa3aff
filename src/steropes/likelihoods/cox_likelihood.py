"""Cox's partial likelihood with strata, late entry, weights and ties by Breslow or Efron.

With r_i = w_i exp η_i, S_g = Σ_{risk set} r and E_g = Σ_{tied events} r, the loss is

    Breslow  −Σ w δ η + Σ_g D_g log S_g,                       D_g = Σ_{tied events} w,
    Efron    −Σ w δ η + Σ_g w̄_g Σ_{l<d_g} log(S_g − (l/d_g) E_g),   w̄_g = D_g / d_g,

as in R's `survival::coxph` (Therneau and Grambsch 2000, §3.3); tied events with weight zero do not
count in d_g. Both are sums over *shares* k of the events with S_k = N_g + f_k E_g, where N_g
excludes the tied events, so nothing is ever subtracted.
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
from .risk_set_scaling import scale_small_risk_sets
from .risk_set_stream import risk_set_lines
from .risk_sets import RiskSets, sort_survival
from .sharded_partial_likelihood import ShardedPartialLikelihood

__all__ = ["CoxLikelihood", "Ties"]

Ties = Literal["efron", "breslow"]

# The largest |η| for which exp(η) is summed without a shift.
SAFE = 100.0
# The mean number of events per stratum from which a subset of the rows represents all rows.
FEW_STRATA = 1000


@dataclass
class _Weights:
    """Row weights w (n, B) and the quantities of each share (K, B) derived from them."""

    w: Any
    events: Any  # w δ; None if the fused sweeps do not need it
    share: Any  # weight of the share: w̄_g for Efron, D_g for Breslow
    fraction: Any  # f_k, the fraction of E_g in the share's risk set; None means one


class CoxLikelihood(Likelihood):
    """Negative log partial likelihood.

    Parameters
    ----------
    time, event : (n,) arrays
        Time, and 1 for an event or 0 for censoring.
    entry : (n,) array, optional
        At risk on (entry, time].
    strata : (n,) int array, optional
        Code of the stratum of each row.
    ties : {"efron", "breslow"}

    Attributes
    ----------
    plain_risk_sets : bool
        Whether S_k is a sum over the rows at risk only, so that the `risk_sweeps` of the backend
        compute loss and gradient; a class attribute.
    interval_of, stratum_of : (C,) int arrays
        Interval of time and code of the stratum for each run of risk sets. Different runs have no
        risk set in common. Here each run is a stratum, and there is one interval.
    """

    plain_risk_sets = True
    additive = False
    shift_invariant = True
    grouped = True
    ccd = "cox"
    has_third_derivative = True

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
        # Efron's method needs one share per event; otherwise one share per event time suffices.
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
        """Return time, event and entry (or None) in the order of the rows of X."""
        assert self.order is not None  # rows are sorted by time
        back = np.argsort(self.order)
        entry = None if self.entry is None else self.entry[back]
        return self.time[back], self.event[back], entry

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`; only whole strata can be separated."""
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

    def exchange(self, cuts: np.ndarray) -> ShardedPartialLikelihood | None:
        """See `Likelihood.exchange`; shards exchange sums over risk sets by event time."""
        return ShardedPartialLikelihood(self, self.row_of_x, cuts)

    def common(self, weights: Any) -> dict[str, np.ndarray]:
        """Return quantities by event time that each shard needs in addition to the sums: none."""
        return {}

    def own(self, weights: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return quantities by row of the model that each shard needs: none."""
        return {}

    def last_seen(self, weights: np.ndarray) -> np.ndarray:
        """Find the last observed time of each stratum by its code; −∞ for strata without rows.

        ``weights`` (n,) are in the rows of X; rows of weight zero are ignored.
        """
        there = weights[self.row_of_x] > 0
        out = np.full(int(self.stratum_of.max()) + 1, -np.inf)
        np.maximum.at(out, self.stratum_of[self.stratum[there]], self.time[there])
        return out

    def cut_off(self, weights: np.ndarray) -> tuple[int, float] | None:
        """See `FineGrayLikelihood.cut_off`; None, since no row stays in later risk sets."""
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
        """Compute the event term of the loss, −Σ w δ (η − shift), and r = w exp(η − shift)."""
        xp, bk = self.backend.xp, self.backend
        events = self._events(weights)

        def part(e: Array, w: Array, events: Array) -> tuple[Array, Array]:
            return -events * e, w * xp.exp(e)

        if self._safe(eta):
            loss, (r,) = bk.sum_rows(part, eta, weights.w, events)
        else:  # one shift per stratum
            shift = self._shift(eta, weights)
            loss, (r,) = bk.sum_rows(
                lambda e, w, d, s: part(xp.minimum(e - shift[s], 0.0), w, d),
                eta, weights.w, events, self.stratum,
            )  # fmt: skip
        return loss, r

    def _shift(self, eta: Array, weights: _Weights) -> Array:
        """Find the largest η of the weighted rows of each stratum that are ever at risk."""
        xp = self.backend.xp
        counted = (weights.w > 0) & self.backend.asarray(self._ever[:, None])
        top = self.backend.segment_max(xp.where(counted, eta, -np.inf), self.risk.strata_start)
        return xp.where(xp.isfinite(top), top, 0.0)

    @property
    def _ever(self) -> np.ndarray:
        """Whether each row is at risk at some event time, (n,)."""
        return self.risk.ever

    def _events(self, weights: _Weights) -> Array:
        """Return w δ, (n, B)."""
        return weights.w * self.delta if weights.events is None else weights.events

    def _safe(self, eta: Array) -> bool:
        """Return whether exp(η) neither overflows nor underflows, so that no shift is needed."""
        return bool(self.backend.xp.abs(eta).max() < SAFE)

    def sums(self, r: Array, weights: _Weights) -> tuple[Array, Array | None]:
        """Compute N and E, (m, B): sums of r over risk sets without tied events and over ties."""
        return self.risk.over_rows(r), self.risk.over_events(r)

    def _shares(self, r: Array, weights: _Weights) -> tuple[Array, Array, Array]:
        """Compute Σ_k w̄_k log S_k, (B,), and S_k and the hazard w̄_k / S_k, (K, B)."""
        return self.shares_of(*self.sums(r, weights), weights)

    def shares_of(self, N: Array, E: Array | None, weights: _Weights) -> tuple[Array, Array, Array]:
        """Compute the values of `_shares` from N and E, (m, B); E of None is included in N."""
        xp, bk = self.backend.xp, self.backend
        E = xp.zeros_like(N) if E is None else E
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]

        def part(N: Array, E: Array, share: Array) -> tuple[Array, ...]:
            S = N + E
            empty = S < 1e-300  # or so small that share / S would overflow
            if not empty.any():
                return share * xp.log(S), S, share / S
            # Nobody is at risk (all weights zero), or exp underflowed. After an underflow the loss
            # is infinite and the line search steps back.
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
        """Compute loss and gradient by fused sweeps; None if η needs a shift or none exist."""
        if self.sweeps is None:
            return None
        return self.sweeps.evaluate(eta, weights.w, weights.share, weights.fraction, gradient)

    def _hazard(self, h: Array, weights: _Weights) -> tuple[Array, Array]:
        """Compute the cumulative hazard of rows while at risk: a table (·, B) and indices (n,)."""
        return self.risk.over_groups(*self.steps_of(h, weights))

    def steps_of(self, h: Array, weights: _Weights) -> tuple[Array, Array]:
        """Sum the hazards of shares by event time, (m, B), for rows at risk and for tied events."""
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
        del S  # the memory of a fit peaks while it builds a Hessian
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
        """Compute the exact curvature with each event time's term multiplied by a factor, (m,).

        Tests of proportional hazards need Σ_g factor_g D_g Var_g(x).
        """
        return self._exact(*self._lifted(eta, weights), weights, factor)

    def third_derivative(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """See `Likelihood.third_derivative`.

        It is Σ_k w̄_k p_ki [(z_i − z̄_k)² − var_k z] over the shares k. With p_ki = a_ki r_i / S_k,
        the third derivative of log S_k is the third cumulant of a draw from the risk set.
        """
        r, S, h = self._hazards(eta, weights)
        mean = self._means(r, S, Z, weights)
        size = (Z * Z).sum(axis=1, keepdims=True)
        level = 2.0 * (mean * mean).sum(axis=1, keepdims=True) - self._means(r, S, size, weights)
        out = size * self._compensated(r, h, weights) + self._compensated(r, h * level, weights)
        crossed = Z * self._compensated(r, h * mean, weights)
        return out - 2.0 * crossed.sum(axis=1, keepdims=True)

    def weighted_gradient(self, eta: Array, weights: _Weights, factor: np.ndarray) -> Array:
        """Compute the gradient in η, (n, B), with each event time's term times a factor, (m,)."""
        r, _, h = self._hazards(eta, weights)
        factor = self.backend.asarray(factor)
        table, at = self._hazard(h * factor[self.group, None], weights)
        own = self.backend.xp.zeros_like(r)
        own[self.risk.event_rows] = factor[self.risk.group_of_event, None]
        return r * table[at] - weights.w * self.delta * own

    def score_residuals(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """Compute each row's contribution to the score, w ∫ (z − z̄(t)) dM(t), (n, L).

        With Efron's method, as in R's `residuals.coxph`, the mean of each of d tied events is the
        average over the d shares. Therneau and Grambsch (2000, §4.3, §4.6).
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
        """Compute z − z̄ for each of the risk sets' ``event_rows``, (events, L), for Z (n, L).

        With Efron's method z̄ is the average over the d shares of the tied events. Schoenfeld
        (1982), Biometrika 69:239; Therneau and Grambsch (2000, §4.6).
        """
        r, S, _ = self._hazards(eta, weights)
        mean = self._mean_of_shares(self._means(r, S, Z, weights), weights)
        return Z[self.risk.event_rows] - mean[self.risk.group_of_event]

    def _mean_of_shares(self, mean: Array, weights: _Weights) -> Array:
        """Average values of shares, (K, L), over the shares of each event time, (m, L)."""
        if not self.by_event:
            return mean
        used = (weights.share > 0).astype(np.float64)
        return self.over_shares(used * mean) / self.backend.xp.maximum(self.over_shares(used), 1)

    def martingale_residuals(self, eta: Array, weights: _Weights) -> Array:
        """Compute w (δ − expected events), (n, 1)."""
        r, _, h = self._hazards(eta, weights)
        return weights.w * self.delta - self._compensated(r, h, weights)

    def _means(self, r: Array, S: Array, Z: Array, weights: _Weights) -> Array:
        """Compute the means of the columns Z over the risk set of each share, (K, L)."""
        N, E = self.risk.over_rows(r * Z), self.risk.over_events(r * Z)
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]
        return (N + E) / self.backend.xp.where(S > 0, S, 1.0)

    def _compensated(self, r: Array, h: Array, weights: _Weights) -> Array:
        """Sum r h over the shares at which each row is at risk: the compensator, (n, L)."""
        table, at = self._hazard(h, weights)
        return r * table[at]

    def log_baseline(self, eta: Array, weights: _Weights) -> Array:
        """Compute the log of the baseline hazard's increment at each event time, at η = 0, (m,)."""
        xp, risk = self.backend.xp, self.risk
        _, _, h = self._hazards(eta, weights)
        h = self.over_shares(h)[:, 0]
        shift = 0.0
        if not self._safe(eta):
            shift = self._shift(eta, weights)[risk.group_stratum, 0]
        with np.errstate(divide="ignore"):  # an event of weight zero
            return xp.log(h) - shift

    def hazard_spread(self, eta: Array, weights: _Weights) -> Array:
        """Compute the variance of each baseline hazard increment over its square, (m,).

        Σ_k w̄_k / S_k² over the shares (Tsiatis 1981; Efron's as R's `survfit.coxph`).
        """
        xp = self.backend.xp
        _, S, h = self._hazards(eta, weights)
        total = self.over_shares(h)
        own = xp.where(total > 0, total, 1.0)[self.group]  # its square may overflow
        return self.over_shares(h / own / xp.where(S > 0, S * own, 1.0))[:, 0]

    def hazard_means(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """Compute the means of columns Z (n, L) over the risk set of each event time, (m, L).

        Shares are weighted by their hazards, so that increments times means add up to ∫ z̄ dΛ.
        """
        r, S, h = self._hazards(eta, weights)
        total = self.over_shares(h)
        mean = self.over_shares(h * self._means(r, S, Z, weights))
        return mean / self.backend.xp.where(total > 0, total, 1.0)

    def _hazards(self, eta: Array, weights: _Weights) -> tuple[Array, Array, Array]:
        """Compute r, and S_k and the hazard of each share."""
        _, r = self._rates(eta, weights)
        _, S, h = self._shares(r, weights)
        return r, S, h

    def _lifted(self, eta: Array, weights: _Weights) -> tuple[Array, Array, Array]:
        """Compute `_hazards`, scaled so that small risk sets contribute to the curvature."""
        r, S, h = self._hazards(eta, weights)
        factor, S, h = scale_small_risk_sets(S, h)
        return r if factor == 1.0 else r * factor, S, h

    def _exact(
        self, r: Array, S: Array, h: Array, weights: _Weights, factor: np.ndarray | None = None
    ) -> GroupedCurvature:
        """Build the curvature without merging event times."""
        host = self.backend.to_host
        factor = np.ones(self.risk.m) if factor is None else factor
        table, at = self._hazard(h * self.backend.asarray(factor[self.group, None]), weights)
        v = r * table[at]
        whole = host(self.whole_of(S))[:, 0]
        return self._curvature(r, v, whole, self.nodes(S, h, weights, factor))

    def nodes(
        self, S: Array, h: Array, weights: _Weights, factor: np.ndarray | float = 1.0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs (f, c), (m,) each, of the terms −Σ_g c_g (N_g + f_g E_g)(N_g + f_g E_g)'.

        They belong to the Hessian of one replicate with the given shares and hazards; see
        `risk_set_stream`.
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
        """Build the curvature from its diagonal and nodes."""
        r = self.backend.to_host(r)[:, 0]
        lines = risk_set_lines(self.risk, self.stratum, r, nodes, whole)
        return GroupedCurvature(v[:, 0], *lines)

    def over_shares(self, x: Array) -> Array:
        """Sum over the shares of each group, (m, B)."""
        return self.backend.segment_sum(x, self.share_start) if self.by_event else x

    def _squares(self, r: Array, weights: _Weights) -> Array:
        """Sum r² over the risk sets including all tied events, (m, 1)."""
        square = r * r
        return self.risk.over_rows(square) + self.risk.over_events(square)

    def whole_of(self, S: Array) -> Array:
        """Select the sums that include all tied events, those of each group's first share."""
        return S[self.share_start[:-1]] if self.by_event else S


def _of_part(
    time: np.ndarray, event: np.ndarray, entry: np.ndarray | None, strata: np.ndarray, ties: Ties,
    backend: Backend,
) -> CoxLikelihood | None:  # fmt: skip
    """Build the likelihood of some rows; None if they are uninformative."""
    return CoxLikelihood(time, event, backend, entry, strata, ties) if event.any() else None
