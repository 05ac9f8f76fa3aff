"""Sums over the risk set of each event in Cox's partial likelihood, and hazards of the events.

See `cox_likelihood` for the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..backends.backend_interface import Array, Backend
from .likelihood_constants import HAZARD_BINS
from .likelihood_interface import Likelihood
from .risk_set_row_order import RiskSetLines
from .risk_sets import RiskSets, sort_survival

__all__ = ["MAX_UNSHIFTED_PREDICTOR", "CoxShares", "Ties", "WeightsOfShares"]

Ties = Literal["efron", "breslow"]

# The largest |η| for which exp(η) is summed without a shift.
MAX_UNSHIFTED_PREDICTOR = 100.0


@dataclass
class WeightsOfShares:
    """Row weights w (n, B) and the quantities of each share (K, B) derived from them."""

    w: Array
    events: Array | None  # w δ; None if the fused sweeps do not need it
    share: Array  # weight of the share: w̄_g for Efron, D_g for Breslow
    fraction: Array | None  # f_k, the fraction of E_g in the share's risk set; None means one


class CoxShares(Likelihood):
    """Risk sets of a survival outcome, and the shares S_k and hazards w̄_k / S_k of its events.

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
    lines : RiskSetLines
        The rows in the order in which they join and leave the risk sets.
    interval_of, stratum_of : (C,) int arrays
        Interval of time and code of the stratum for each run of risk sets. Different runs have no
        risk set in common. Here each run is a stratum, and there is one interval.
    """

    plain_risk_sets = True

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
        self.order = sort_survival(time, event, strata, backend)
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
        self.lines = RiskSetLines(self.risk, self.stratum)
        self.interval_of, self.stratum_of = np.zeros_like(self.labels), self.labels
        if HAZARD_BINS.events_per_stratum * (len(start) - 1) <= (events := int(event.sum())):
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

    def weigh(self, w: Array) -> WeightsOfShares:
        """Bind row weights; see `Likelihood.weigh`."""
        xp, risk = self.backend.xp, self.risk
        total = risk.over_events(w)  # D_g
        events = w * self.delta if self.sweeps is None else None
        if not self.by_event:
            return WeightsOfShares(w, events, total, None)
        counted = (w[risk.event_rows] > 0).astype(np.float64)
        d = xp.maximum(self.backend.segment_sum(counted, risk.event_start), 1.0)[self.group]
        before = self.backend.scan(counted, risk.event_start) - counted  # l = 0 … d−1
        share = counted * total[self.group] / d
        return WeightsOfShares(w, events, share, 1.0 - before / d)

    def _rates(self, eta: Array, weights: WeightsOfShares) -> tuple[Array, Array]:
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

    def _shift(self, eta: Array, weights: WeightsOfShares) -> Array:
        """Find the largest η of the weighted rows of each stratum that are ever at risk."""
        xp = self.backend.xp
        counted = (weights.w > 0) & self.backend.asarray(self._ever[:, None])
        top = self.backend.segment_max(xp.where(counted, eta, -np.inf), self.risk.strata_start)
        return xp.where(xp.isfinite(top), top, 0.0)

    @property
    def _ever(self) -> np.ndarray:
        """Whether each row is at risk at some event time, (n,)."""
        return self.risk.ever

    def _events(self, weights: WeightsOfShares) -> Array:
        """Return w δ, (n, B)."""
        return weights.w * self.delta if weights.events is None else weights.events

    def _safe(self, eta: Array) -> bool:
        """Return whether exp(η) neither overflows nor underflows, so that no shift is needed."""
        return bool(self.backend.xp.abs(eta).max() < MAX_UNSHIFTED_PREDICTOR)

    def sums(self, r: Array, weights: WeightsOfShares) -> tuple[Array, Array | None]:
        """Compute N and E, (m, B): sums of r over risk sets without tied events and over ties."""
        return self.risk.over_rows(r), self.risk.over_events(r)

    def _shares(self, r: Array, weights: WeightsOfShares) -> tuple[Array, Array, Array]:
        """Compute Σ_k w̄_k log S_k, (B,), and S_k and the hazard w̄_k / S_k, (K, B)."""
        return self.shares_of(*self.sums(r, weights), weights)

    def shares_of(
        self, N: Array, E: Array | None, weights: WeightsOfShares
    ) -> tuple[Array, Array, Array]:
        """Compute the values of `_shares` from N and E, (m, B); E of None is included in N."""
        xp, bk = self.backend.xp, self.backend
        E = xp.zeros_like(N) if E is None else E
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]

        def part(N: Array, E: Array, share: Array) -> tuple[Array, ...]:
            """Compute losses, risk-set sums and hazards per unit of rate, element by element."""
            S = N + E
            empty = S < 1e-300  # or so small that share / S would overflow
            if not empty.any():
                return share * xp.log(S), S, share / S
            # No one is at risk (all weights zero), or exp underflowed. After an underflow the loss
            # is infinite and the line search steps back.
            filled = xp.where(empty, 1.0, S)
            log_S = xp.where(empty & (share > 0), -np.inf, xp.log(filled))
            loss = xp.where(share > 0, share * log_S, 0.0)
            return xp.where(xp.isinf(loss), np.inf, loss), S, share / filled

        loss, (S, h) = bk.sum_rows(part, N, E, weights.share)
        return loss, S, h

    def _hazard(self, h: Array, weights: WeightsOfShares) -> tuple[Array, Array]:
        """Compute the cumulative hazard of rows while at risk: a table (·, B) and indices (n,)."""
        return self.risk.over_groups(*self.steps_of(h, weights))

    def steps_of(self, h: Array, weights: WeightsOfShares) -> tuple[Array, Array]:
        """Sum the hazards of shares by event time, (m, B), for rows at risk and for tied events."""
        if not self.by_event:
            return h, h
        own = self.backend.segment_sum(h * weights.fraction, self.risk.event_start)
        return self.backend.segment_sum(h, self.risk.event_start), own

    def _hazards(self, eta: Array, weights: WeightsOfShares) -> tuple[Array, Array, Array]:
        """Compute r, and S_k and the hazard of each share."""
        _, r = self._rates(eta, weights)
        _, S, h = self._shares(r, weights)
        return r, S, h

    def _means(self, r: Array, S: Array, Z: Array, weights: WeightsOfShares) -> Array:
        """Compute the means of the columns Z over the risk set of each share, (K, L)."""
        N, E = self.risk.over_rows(r * Z), self.risk.over_events(r * Z)
        if self.by_event:
            N, E = N[self.group], weights.fraction * E[self.group]
        return (N + E) / self.backend.xp.where(S > 0, S, 1.0)

    def _compensated(self, r: Array, h: Array, weights: WeightsOfShares) -> Array:
        """Sum r h over the shares at which each row is at risk: the compensator, (n, L)."""
        table, at = self._hazard(h, weights)
        return r * table[at]

    def over_shares(self, x: Array) -> Array:
        """Sum over the shares of each group, (m, B)."""
        return self.backend.segment_sum(x, self.share_start) if self.by_event else x

    def whole_of(self, S: Array) -> Array:
        """Select the sums that include all tied events, those of each group's first share."""
        return S[self.share_start[:-1]] if self.by_event else S
