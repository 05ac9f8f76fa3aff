"""Residuals and baseline hazards of Cox's partial likelihood.

See `cox_likelihood` for the formulas.
"""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Array
from .cox_risk_set_sums import CoxShares, WeightsOfShares

__all__ = ["CoxResiduals"]


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
