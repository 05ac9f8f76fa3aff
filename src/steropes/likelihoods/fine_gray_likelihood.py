"""The likelihood of Fine and Gray (1999) for the subdistribution hazard of one cause of several.

People with a competing event at T_i remain in the risk sets of later events with the weight
ω_i(t) = G(t−) / G(T_i−), the probability of remaining uncensored (their eq. 7). With
r_i = w_i exp η_i,

    loss = −Σ_{cause} w η + Σ_g D_g log S_g,
    S_g = Σ_{at risk at t_g} r_i + G(t_g−) Σ_{competing, T_i < t_g} r_i / G(T_i−),

a scan over rows from late to early plus one from early to late (Kawaguchi et al. 2020); both are
sums of positive terms. Tied events follow Breslow's method. G is the Kaplan–Meier estimate of the
censoring distribution from the same row weights within strata, so every fold of a cross-validation
has its own. With late entry it is replaced by the probability of being under observation,
G(t−) H(t−) (Geskus 2011, eq. 11), and those at risk have entered before t_g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.backend_interface import Array, Backend
from .censoring_distribution import CensoringDistribution
from .cox_likelihood import CoxLikelihood
from .event_time_bins import merge_hazards
from .hessian_structures import SubdistributionCurvature
from .likelihood_constants import HAZARD_BINS
from .likelihood_interface import Bound, Part
from .observation_distribution import ObservationDistribution
from .risk_set_row_order import risk_set_lines
from .sharded_partial_likelihood import ShardedPartialLikelihood
from .small_risk_set_scaling import TINY

__all__ = ["FineGrayLikelihood"]

# The smallest G, relative to the largest, from which weights are computed.
FAINT = 1e-200


@dataclass
class _Weights:
    """Row weights w (n, B) and the quantities derived from them."""

    w: Any
    events: Any  # w δ
    share: Any  # D_g, (m, B)
    inverse: Any  # 1 / G(T−) of rows with a competing event; zero if they leave the risk sets
    G: Any  # G(t−) of the event times, (m, B)


class FineGrayLikelihood(CoxLikelihood):
    """Negative log partial likelihood of the subdistribution hazard.

    Parameters
    ----------
    time : (n,) array
    event : (n,) int array
        0 for censoring, otherwise the cause of the event.
    cause : int
        The cause of interest.
    strata : (n,) int array, optional
        Code of each row; each stratum has its own baseline and censoring distribution.
    entry : (n,) array, optional
        At risk on (entry, time].
    """

    plain_risk_sets = False
    has_third_derivative = True

    def __init__(
        self,
        time: np.ndarray,
        event: np.ndarray,
        backend: Backend,
        cause: int = 1,
        strata: np.ndarray | None = None,
        entry: np.ndarray | None = None,
    ) -> None:
        event = np.asarray(event)
        super().__init__(time, event == cause, backend, entry, strata, "breslow")
        code = event[self.order]
        risk, rows = self.risk, np.arange(self.n)
        self.competing = rows[(code != 0) & (code != cause)]
        rest = code == 0, self.stratum, backend
        self.censoring = (
            CensoringDistribution(self.time, *rest)
            if self.entry is None
            else ObservationDistribution(self.time, self.entry, *rest)
        )
        self._moment = self.censoring.moment[self.competing]
        last = risk.event_rows[risk.event_start[1:] - 1]
        self._last = last  # last event row of each group
        self._moment_of_group = self.censoring.moment[last]
        ends = np.append(last[1:] + 1, self.n)[: risk.m]  # empty without events
        final = risk.groups_start[1:][np.diff(risk.groups_start) > 0] - 1
        ends[final] = risk.strata_start[risk.group_stratum[final] + 1]
        # Rows between the events of a group and those of the next: the ones with a competing event
        # remain at risk in this group and all preceding ones, which are later in time.
        self._follow = np.append(
            np.searchsorted(self.competing, np.stack([last + 1, ends], 1).ravel()),
            len(self.competing),
        )
        at = np.searchsorted(last, self.competing) - 1
        ok = at >= 0
        ok[ok] = risk.group_stratum[at[ok]] == self.stratum[self.competing[ok]]
        self._place = np.where(ok, at, risk.m)

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`; the likelihood cannot be split."""
        return None

    def exchange(self, cuts: np.ndarray) -> ShardedPartialLikelihood | None:
        """See `Likelihood.exchange`."""
        assert self.order is not None  # rows are sorted by time
        return ShardedPartialLikelihood(self, self.order, cuts, self.competing)

    def common(self, weights: Bound) -> dict[str, np.ndarray]:
        """See `CoxLikelihood.common`: G, (m, B)."""
        return {"G": weights.G}

    def own(self, weights: Bound) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """See `CoxLikelihood.own`: 1 / G(T−) of rows with a competing event."""
        return {"inverse": (self.competing, weights.inverse)}

    def weigh(self, w: Array) -> Bound:
        """Bind row weights and estimate their censoring distribution.

        Rows whose later weights cannot be estimated leave the risk sets; see `cut_off`.
        """
        xp = self.backend.xp
        G, lost = self._observed(w)
        own = xp.where(lost, 1.0, G[self._moment])
        inverse = xp.where(lost, 0.0, 1.0 / own)
        at_events = G[self._moment_of_group]
        return _Weights(w, w * self.delta, self.risk.over_events(w), inverse, at_events)

    def _observed(self, w: Array) -> tuple[Array, Array]:
        """Compute G at the moments, (m, B), and flag rows without later weights, (c, B)."""
        G, spells = self.censoring.curve(w)
        lost = G[self._moment] <= FAINT
        if spells is not None:  # or if an event of the cause lies in a later spell
            cases = self.risk.event_rows
            seen = self.backend.xp.where(
                w[cases] > 0, spells[self.censoring.moment[cases]], -np.inf
            )
            start = np.searchsorted(self.stratum[cases], np.arange(len(self.risk.strata_start)))
            last = self.backend.segment_max(seen, start)[self.stratum[self.competing]]
            lost |= spells[self._moment] < last
        return G, lost

    def cut_off(self, weights: np.ndarray) -> tuple[int, float] | None:
        """Find a competing event whose weight in later risk sets cannot be estimated.

        The weight cannot be estimated if the risk set was empty or almost empty at some time
        between the competing event and a later event of the cause.

        Parameters
        ----------
        weights : (n,) array
            Row weights in the rows of X.

        Returns
        -------
        (int, float) or None
            Code of the first such stratum and the time of its last such event; None if all weights
            can be estimated.
        """
        if self.entry is None:
            return None
        w = self.backend.asarray(weights[self.row_of_x][:, None])
        lost = self.backend.to_host(self._observed(w)[1])[:, 0]
        lost = self.competing[lost & (weights[self.row_of_x] > 0)[self.competing]]
        if len(lost) == 0:
            return None
        stratum = self.stratum[lost[0]]
        return int(self.labels[stratum]), float(self.time[lost[0]])

    @property
    def _ever(self) -> np.ndarray:
        """Whether each row is at risk at some event time, (n,)."""
        ever = self.risk.ever
        ever[self.competing] = True
        return ever

    def _stayed(self, r: Array, weights: Bound) -> Array:
        """Sum r_i / G(T_i−) over competing events before each event time, (m, B)."""
        x = r[self.competing] * weights.inverse
        x = self.backend.segment_sum(x, self._follow)[::2]
        return self.backend.scan(x, self.risk.groups_start, True)

    def sums(self, r: Array, weights: Bound) -> tuple[Array, Array | None]:
        """Compute S, (m, B), including the weighted rows with a competing event; E is None."""
        N = self.risk.over_rows(r) + self.risk.over_events(r)
        return N + weights.G * self._stayed(r, weights), None

    def shares_of(self, N: Array, E: Array | None, weights: Bound) -> tuple[Array, Array, Array]:
        """See `CoxLikelihood.shares_of`."""
        xp, S = self.backend.xp, N
        used = weights.share > 0
        there = S > 1e-300  # smaller S has lost digits, and 1 / S overflows
        filled = xp.where(there, S, 1.0)
        with np.errstate(divide="ignore"):  # an underflow gives log 0: an infinite loss
            log_S = xp.where(used, xp.log(xp.where(used & there, S, ~used)), 0.0)
        loss = self.backend.column_sum(xp.where(used, weights.share * log_S, 0.0))
        return xp.where(xp.isneginf(loss), np.inf, loss), S, weights.share / filled

    def _exposure(self, h: Array, weights: Bound) -> Array:
        """Sum ω_i(t_g) h_g over the event times at which each row is at risk, (n, B)."""
        table, at = self.risk.over_groups(h, h)
        total = table[at]
        later = self.backend.scan(h * weights.G, self.risk.groups_start)
        xp = self.backend.xp
        later = xp.concatenate([later, xp.zeros((1, later.shape[1]))])
        total[self.competing] += weights.inverse * later[self._place]
        return total

    def evaluate(self, eta: Array, weights: Bound) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        events, r = self._rates(eta, weights)
        logs, _, h = self._shares(r, weights)
        return events + logs, self._compensated(r, h, weights) - weights.events

    def _means(self, r: Array, S: Array, Z: Array, weights: Bound) -> Array:
        """See `CoxLikelihood._means`; weighted by ω."""
        x = r * Z
        total = self.risk.over_rows(x) + self.risk.over_events(x)
        total = total + weights.G * self._stayed(x, weights)
        return total / self.backend.xp.where(S > 0, S, 1.0)

    def _squares(self, r: Array, weights: Bound) -> Array:
        """See `CoxLikelihood._squares`; weighted by ω²."""
        late = (r[self.competing] * weights.inverse) ** 2
        late = self.backend.segment_sum(late, self._follow)[::2]
        late = self.backend.scan(late, self.risk.groups_start, True)
        return super()._squares(r, weights) + weights.G**2 * late

    def _compensated(self, r: Array, h: Array, weights: Bound) -> Array:
        """See `CoxLikelihood._compensated`; weighted by ω."""
        return r * self._exposure(h, weights)

    def score_residuals(self, eta: Array, weights: Bound, Z: Array) -> Array:
        """Compute each row's contribution to the score, including that of the censoring weights.

        Fine and Gray (1999), §3: η̂_i + ψ̂_i with ψ̂_i = ∫ q(u)/π(u) dM_i^c(u). The integrals
        over event times s and censoring times u cover T_i ≤ u < s, the range on which G(s−)/G(T_i−)
        depends.
        """
        U = super().score_residuals(eta, weights, Z)
        r, S, h = self._hazards(eta, weights)
        h = h * weights.G
        mean = self._means(r, S, Z, weights)
        late = r[self.competing] * weights.inverse
        cens = self.censoring
        q = cens.until(late * Z[self.competing], self.competing) * cens.after(h, self._last)
        q -= cens.until(late, self.competing) * cens.after(h * mean, self._last)
        return U + cens.influence(q, weights.w)

    def hazard_influence(self, eta: Array, weights: Bound, factor: np.ndarray) -> Array:
        """Compute each row's influence on cumulative hazards at fixed β, (n, T).

        ``factor`` (m, T) are the increments c dΛ of the hazards. The influence is the integral of
        c / S over the row's martingale plus the effect of the row on the censoring weights, as in
        `score_residuals`.
        """
        xp = self.backend.xp
        r, S, h = self._hazards(eta, weights)
        steps = self.backend.asarray(factor)
        c = xp.where(h > 0, steps / xp.where(h > 0, h * S, 1.0), 0.0)
        U = -self._compensated(r, h * c, weights)
        events = self.risk.event_rows
        U[events] += weights.w[events] * c[self.risk.group_of_event]
        late = r[self.competing] * weights.inverse
        cens = self.censoring
        q = cens.until(late, self.competing) * cens.after(h * weights.G * c, self._last)
        return U + cens.influence(q, weights.w)

    def curvature(
        self, eta: Array, weights: Bound, exact: bool = False
    ) -> SubdistributionCurvature:
        """See `Likelihood.curvature`; event times are merged into bins unless ``exact``."""
        host = self.backend.to_host
        r, S, h = self._lifted(eta, weights)
        if not exact and self.risk.m > 1.5 * HAZARD_BINS.min_bins:
            squares = host(self._squares(r, weights))
            h = merge_hazards(host(h), host(S), squares, self.risk.groups_start, len(r))
            h = self.backend.asarray(h[:, None])
        v = r * self._exposure(h, weights)
        late = self.backend.xp.zeros(self.n)
        late[self.competing] = (r[self.competing] * weights.inverse)[:, 0]
        S = host(S)[:, 0]
        c = host(h)[:, 0] / np.where(S > TINY, S, 1.0)
        at = np.flatnonzero(c)
        nodes = [(np.ones(self.risk.m), c)]
        return SubdistributionCurvature(
            v[:, 0],
            *risk_set_lines(self.lines, r[:, 0], nodes, S),
            late=late, ends=self._last[at] + 1, G=host(weights.G)[at, 0],
            stratum=self.risk.group_stratum[at], strata_start=self.risk.strata_start,
        )  # fmt: skip
