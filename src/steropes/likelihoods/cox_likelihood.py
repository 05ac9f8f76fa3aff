"""Cox's partial likelihood with strata, late entry, weights and ties by Breslow or Efron.

With r_i = w_i exp η_i, S_g = Σ_{risk set} r and E_g = Σ_{tied events} r, the loss is

    Breslow  −Σ w δ η + Σ_g D_g log S_g,                       D_g = Σ_{tied events} w,
    Efron    −Σ w δ η + Σ_g w̄_g Σ_{l<d_g} log(S_g − (l/d_g) E_g),   w̄_g = D_g / d_g,

as in R's `survival::coxph` (Therneau and Grambsch 2000, §3.3); tied events with weight zero do not
count in d_g. Both are sums over *shares* k of the events with S_k = N_g + f_k E_g, where N_g
excludes the tied events, so nothing is ever subtracted.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from ..backends.backend_interface import Array, Backend
from .cox_risk_set_sums import CoxShares, Ties, WeightsOfShares
from .event_time_bins import merge_hazards
from .hessian_structures import Curvature, GroupedCurvature
from .informative_strata import parts_of_strata
from .likelihood_constants import HAZARD_BINS
from .likelihood_interface import Part
from .risk_set_row_order import risk_set_lines
from .sharded_partial_likelihood import ShardedPartialLikelihood
from .small_risk_set_scaling import scale_small_risk_sets

__all__ = ["CoxLikelihood"]


class CoxResiduals(CoxShares):
    """Martingale, score and Schoenfeld residuals, and increments of the baseline hazard."""

    def weighted_gradient(self, eta: Array, weights: WeightsOfShares, factor: np.ndarray) -> Array:
        """Compute the gradient in η, (n, B), with each event time's term times a factor, (m,)."""
        r, _, h = self._hazards(eta, weights)
        factor = self.backend.asarray(factor)
        table, at = self._hazard(h * factor[self.group, None], weights)
        own = self.backend.xp.zeros_like(r)
        own[self.risk.event_rows] = factor[self.risk.group_of_event, None]
        return r * table[at] - weights.w * self.delta * own

    def score_residuals(self, eta: Array, weights: WeightsOfShares, Z: Array) -> Array:
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

    def schoenfeld_residuals(self, eta: Array, weights: WeightsOfShares, Z: Array) -> Array:
        """Compute z − z̄ for each of the risk sets' ``event_rows``, (events, L), for Z (n, L).

        With Efron's method z̄ is the average over the d shares of the tied events. Schoenfeld
        (1982), Biometrika 69:239; Therneau and Grambsch (2000, §4.6).
        """
        r, S, _ = self._hazards(eta, weights)
        mean = self._mean_of_shares(self._means(r, S, Z, weights), weights)
        return Z[self.risk.event_rows] - mean[self.risk.group_of_event]

    def _mean_of_shares(self, mean: Array, weights: WeightsOfShares) -> Array:
        """Average values of shares, (K, L), over the shares of each event time, (m, L)."""
        if not self.by_event:
            return mean
        used = (weights.share > 0).astype(np.float64)
        return self.over_shares(used * mean) / self.backend.xp.maximum(self.over_shares(used), 1)

    def martingale_residuals(self, eta: Array, weights: WeightsOfShares) -> Array:
        """Compute w (δ − expected events), (n, 1)."""
        r, _, h = self._hazards(eta, weights)
        return weights.w * self.delta - self._compensated(r, h, weights)

    def log_baseline(self, eta: Array, weights: WeightsOfShares) -> Array:
        """Compute the log of the baseline hazard's increment at each event time, at η = 0, (m,)."""
        xp, risk = self.backend.xp, self.risk
        _, _, h = self._hazards(eta, weights)
        h = self.over_shares(h)[:, 0]
        shift = 0.0
        if not self._safe(eta):
            shift = self._shift(eta, weights)[risk.group_stratum, 0]
        with np.errstate(divide="ignore"):  # an event of weight zero
            return xp.log(h) - shift

    def hazard_spread(self, eta: Array, weights: WeightsOfShares) -> Array:
        """Compute the variance of each baseline hazard increment over its square, (m,).

        Σ_k w̄_k / S_k² over the shares (Tsiatis 1981; Efron's as R's `survfit.coxph`).
        """
        xp = self.backend.xp
        _, S, h = self._hazards(eta, weights)
        total = self.over_shares(h)
        own = xp.where(total > 0, total, 1.0)[self.group]  # its square may overflow
        return self.over_shares(h / own / xp.where(S > 0, S * own, 1.0))[:, 0]

    def hazard_influence(self, eta: Array, weights: WeightsOfShares, factor: np.ndarray) -> Array:
        """Compute each row's influence on cumulative hazards at fixed β, (n, T).

        ``factor`` (m, T) are the increments c dΛ of the hazards. The influence is the integral of
        c / S over the row's martingale, and the derivative of Σ c dΛ in the logarithm of the
        row's weight, for ties by shares too.
        """
        xp, risk = self.backend.xp, self.risk
        r, S, h = self._hazards(eta, weights)
        total, steps = self.over_shares(h), self.backend.asarray(factor)
        relative = xp.where(total > 0, steps / xp.where(total > 0, total, 1.0), 0.0)
        U = -self._compensated(r, h * relative[self.group] / xp.where(S > 0, S, 1.0), weights)
        events, weight = risk.event_rows, risk.over_events(weights.w)
        own = xp.where(weight > 0, steps / xp.where(weight > 0, weight, 1.0), 0.0)
        U[events] += weights.w[events] * own[risk.group_of_event]
        return U

    def hazard_means(self, eta: Array, weights: WeightsOfShares, Z: Array) -> Array:
        """Compute the means of columns Z (n, L) over the risk set of each event time, (m, L).

        Shares are weighted by their hazards, so that increments times means add up to ∫ z̄ dΛ.
        """
        r, S, h = self._hazards(eta, weights)
        total = self.over_shares(h)
        mean = self.over_shares(h * self._means(r, S, Z, weights))
        return mean / self.backend.xp.where(total > 0, total, 1.0)


class CoxLikelihood(CoxResiduals):
    """Negative log partial likelihood; see `CoxShares` for its parameters."""

    additive = False
    shift_invariant = True
    grouped = True
    ccd = "cox"
    has_third_derivative = True

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

    def common(self, weights: WeightsOfShares) -> dict[str, np.ndarray]:
        """Return quantities by event time that each shard needs in addition to the sums: none."""
        return {}

    def own(self, weights: WeightsOfShares) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return quantities by row of the model that each shard needs: none."""
        return {}

    def loss(self, eta: Array, weights: WeightsOfShares) -> Array:
        """See `Likelihood.loss`."""
        swept = self._sweep(eta, weights, False)
        if swept is not None:
            return swept[0]
        events, r = self._rates(eta, weights)
        return events + self._shares(r, weights)[0]

    def evaluate(self, eta: Array, weights: WeightsOfShares) -> tuple[Array, Array]:
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

    def _sweep(
        self, eta: Array, weights: WeightsOfShares, gradient: bool
    ) -> tuple[Array, Array] | None:
        """Compute loss and gradient by fused sweeps; None if η needs a shift or none exist."""
        if self.sweeps is None:
            return None
        return self.sweeps.evaluate(eta, weights.w, weights.share, weights.fraction, gradient)

    # -- curvature -------------------------------------------------------------------------

    def curvature(self, eta: Array, weights: WeightsOfShares, exact: bool = False) -> Curvature:
        """See `Likelihood.curvature`; event times are merged into bins unless ``exact``."""
        r, S, h = self._lifted(eta, weights)
        if exact or self.risk.m <= 1.5 * HAZARD_BINS.min_bins:
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
        self, eta: Array, weights: WeightsOfShares, factor: np.ndarray
    ) -> GroupedCurvature:
        """Compute the exact curvature with each event time's term multiplied by a factor, (m,).

        Tests of proportional hazards need Σ_g factor_g D_g Var_g(x).
        """
        return self._exact(*self._lifted(eta, weights), weights, factor)

    def third_derivative(self, eta: Array, weights: WeightsOfShares, Z: Array) -> Array:
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

    def _lifted(self, eta: Array, weights: WeightsOfShares) -> tuple[Array, Array, Array]:
        """Compute `_hazards`, scaled so that small risk sets contribute to the curvature."""
        r, S, h = self._hazards(eta, weights)
        factor, S, h = scale_small_risk_sets(S, h)
        return r if factor == 1.0 else r * factor, S, h

    def _exact(
        self,
        r: Array,
        S: Array,
        h: Array,
        weights: WeightsOfShares,
        factor: np.ndarray | None = None,
    ) -> GroupedCurvature:
        """Build the curvature without merging event times."""
        backend = self.backend
        each = h if factor is None else h * backend.asarray(factor[self.group, None])
        table, at = self._hazard(each, weights)
        v = r * table[at]
        whole = backend.to_host(self.whole_of(S))[:, 0]
        nodes = self.nodes(S, h, weights, 1.0 if factor is None else factor)
        return self._curvature(r, v, whole, nodes)

    def nodes(
        self, S: Array, h: Array, weights: WeightsOfShares, factor: np.ndarray | float = 1.0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs (f, c), (m,) each, of the terms −Σ_g c_g (N_g + f_g E_g)(N_g + f_g E_g)'.

        They belong to the Hessian of one replicate with the given shares and hazards; see
        `risk_set_row_order`.
        """
        S, h = S[:, :1], h[:, :1]
        c = h / self.backend.xp.where(h > 0, S, 1.0)
        if not self.by_event:
            return [(np.ones(self.risk.m), self.backend.to_host(c)[:, 0] * factor)]
        f = weights.fraction
        assert f is not None  # as `weigh` binds it by event
        # Σ_k c_k (N + f_k E)(N + f_k E)' is the sum over two nodes f = mean ± sd.
        moments = (c, c * f[:, :1], c * f[:, :1] ** 2)
        m0, m1, m2 = (self.backend.to_host(self.over_shares(x))[:, 0] for x in moments)
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
        return GroupedCurvature(v[:, 0], *risk_set_lines(self.lines, r[:, 0], nodes, whole))

    def _squares(self, r: Array, weights: WeightsOfShares) -> Array:
        """Sum r² over the risk sets including all tied events, (m, 1)."""
        square = r * r
        return self.risk.over_rows(square) + self.risk.over_events(square)


def _of_part(
    time: np.ndarray, event: np.ndarray, entry: np.ndarray | None, strata: np.ndarray, ties: Ties,
    backend: Backend,
) -> CoxLikelihood | None:  # fmt: skip
    """Build the likelihood of some rows; None if they are uninformative."""
    return CoxLikelihood(time, event, backend, entry, strata, ties) if event.any() else None
