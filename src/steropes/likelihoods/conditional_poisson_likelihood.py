"""The conditional Poisson likelihood: the counts of a stratum given their total.

Given the total n_s = Σ y of a stratum (a person in a self-controlled case series), its counts are
multinomial with shares π_i = w_i exp η_i / Σ_{j in s} w_j exp η_j, and the baseline rate of the
stratum cancels (Farrington 1995, eq. 2; Suchard et al. 2013, eq. 2). The loss is

    Σ_s n_s log Σ_{i in s} w_i exp η_i − Σ w y η,      n_s = Σ_{i in s} w_i y_i,

the negative kernel of the multinomial; the constant log n_s! − Σ log y! is left out. A row of
weight 2 counts twice, in the numerator and in the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import gammaln

from ..backends.backend_interface import Array, Backend
from .hessian_structures import GroupedCurvature
from .informative_strata import (
    gather_strata,
    lone_rows,
    parts_of_strata,
    single_rows,
    within_strata,
)
from .likelihood_interface import Likelihood, Part
from .risk_sets import runs_of_rows

__all__ = ["CaseSeriesLikelihood", "ConditionalPoissonLikelihood"]


@dataclass
class _Weights:
    """Row weights w (n, B), w y of the rows with events, and the totals n_s of strata (S, B)."""

    w: Any
    wy: Any
    total: Any


class ConditionalPoissonLikelihood(Likelihood):
    """Negative conditional log-likelihood; strata without events or with one row are left out.

    Parameters
    ----------
    y : (n,) array
        Counts, at least zero.
    strata : (n,) int array
        Codes 0 … S−1.
    """

    shift_invariant = True
    grouped = True
    ccd = "strata"
    has_third_derivative = True

    def __init__(self, y: np.ndarray, strata: np.ndarray, backend: Backend) -> None:
        super().__init__(backend)
        sizes, totals = np.bincount(strata), np.bincount(strata, y)
        self.order, self.pointers, self.strata = gather_strata(strata, (totals > 0) & (sizes > 1))
        self.n = int(self.pointers[-1])
        self.alone = single_rows(strata, y)
        self.y_alone = backend.asarray(np.asarray(y[self.alone], np.float64)[:, None])
        y = y if self.order is None else y[self.order]
        # Few rows have events, so y is stored for those only.
        self.rows = np.flatnonzero(y)
        self.y = backend.asarray(np.asarray(y[self.rows], np.float64)[:, None])
        self.log_factorial = backend.asarray(gammaln(y[self.rows] + 1.0)[:, None])
        self.event_start = np.searchsorted(self.rows, self.pointers)

    def weigh(self, w: Array) -> _Weights:
        """Bind row weights; see `Likelihood.weigh`."""
        wy = w[self.rows] * self.y
        return _Weights(w, wy, self.backend.segment_sum(wy, self.event_start))

    def evaluate(self, eta: Array, weights: _Weights) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        lse, r = self.backend.segment_softmax(eta, weights.w, self.pointers, weights.total)
        r[self.rows] -= weights.wy
        return self._loss(eta, weights, lse), r

    def loss(self, eta: Array, weights: _Weights) -> Array:
        """See `Likelihood.loss`."""
        lse, _ = self.backend.segment_softmax(
            eta, weights.w, self.pointers, weights.total, shares=False
        )
        return self._loss(eta, weights, lse)

    def _loss(self, eta: Array, weights: _Weights, lse: Array) -> Array:
        """Compute Σ w y (lse − η) by stratum, which avoids the difference of two large sums."""
        eta = eta[self.rows]
        loss = weights.total * lse - self.backend.segment_sum(weights.wy * eta, self.event_start)
        return self.backend.column_sum(loss)

    def score_constant(self, w: Array) -> Array:
        """See `Likelihood.score_constant`: the multinomial's constant log n_s! − Σ w log y!.

        Strata with a single weighted row are uninformative, so their contribution is removed.
        """
        bk = self.backend
        wy = w[self.rows] * self.y
        lone = lone_rows(w, wy, self.rows, self.event_start, self.pointers, bk)
        return bk.column_sum(lone + self._ways(w))

    def _ways(self, w: Array) -> Array:
        """Compute log n_s! − Σ w log y! of strata with two or more rows, zero for others."""
        bk, own = self.backend, w[self.rows]
        total = bk.segment_sum(own * self.y, self.event_start)
        ways = bk.asarray(gammaln(bk.to_host(total) + 1.0))
        ways = ways - bk.segment_sum(own * self.log_factorial, self.event_start)
        several = bk.segment_sum((w > 0).astype(np.float64), self.pointers) > 1
        return bk.xp.where(several, ways, 0.0)

    def constant_omitted_by_cyclops(self, w: Array, offset: Array) -> Array:
        """See `Likelihood.constant_omitted_by_cyclops`: the multinomial coefficients."""
        return self.backend.column_sum(self._ways(w))

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        rows = np.arange(self.n) if self.order is None else self.order
        stratum = np.repeat(np.arange(len(self.pointers) - 1), np.diff(self.pointers))
        codes = parts_of_strata(rows, stratum, cuts)
        if codes is None:
            return None
        y = np.zeros(cuts[-1])
        y[rows[self.rows]] = self.backend.to_host(self.y)[:, 0]
        return [
            partial(_of_part, y[a:b], own)
            for (a, b), own in zip(pairwise(cuts), codes, strict=True)
        ]

    def events(self) -> np.ndarray:
        """Return the counts of the rows of the model, (n,)."""
        out = np.zeros(self.n)
        out[self.rows] = self.backend.to_host(self.y)[:, 0]
        return out

    def martingale_residuals(self, eta: Array, weights: _Weights) -> Array:
        """Compute observed minus expected events given the total, w (y − n_s π / w), (n, 1)."""
        return -self.evaluate(eta, weights)[1]

    def score_residuals(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """Compute each row's contribution to the score, its derivative in the row's weight.

        It is (z − z̄_s) times the residual with z̄_s = Σ π z. The residuals of a stratum add up to
        zero, so z̄_s does not change their sum.
        """
        _, share = self.backend.segment_softmax(eta, weights.w, self.pointers, weights.total)
        return within_strata(
            Z, share, self.martingale_residuals(eta, weights), self.pointers, self.backend
        )

    def curvature(self, eta: Array, weights: _Weights, exact: bool = False) -> GroupedCurvature:
        """Return v = n_s π with the strata as groups, m_s = Σ n_s π_i x_i and c_s = 1 / n_s."""
        _, v = self.backend.segment_softmax(eta, weights.w, self.pointers, weights.total)
        xp, v, total = self.backend.xp, v[:, 0], weights.total[:, 0]
        c = xp.zeros(self.n)
        c[self.pointers[1:] - 1] = xp.where(total > 0, 1.0 / xp.where(total > 0, total, 1.0), 0.0)
        return GroupedCurvature(v, v, self.pointers, c)

    def third_derivative(self, eta: Array, weights: _Weights, Z: Array) -> Array:
        """See `Likelihood.third_derivative`: n_s π_i [(z_i − z̄_s)² − var_s z], as in Cox models."""
        bk, xp = self.backend, self.backend.xp
        _, v = bk.segment_softmax(eta, weights.w, self.pointers, weights.total)  # n_s π
        stratum = runs_of_rows(self.pointers)
        total = xp.where(weights.total > 0, weights.total, 1.0)

        def centred(x: Array) -> Array:
            return x - (bk.segment_sum(v * x, self.pointers) / total)[stratum]

        away = centred(Z)
        return v * centred((away * away).sum(axis=1, keepdims=True))

    def log_likelihood_constant(self, weights: Array) -> Array:
        """Compute −Σ w y log w of the rows that are the only one of their stratum."""
        w, xp = weights[self.alone], self.backend.xp
        return -(self.y_alone * w * xp.log(xp.where(w > 0, w, 1.0))).sum(axis=0)


def _of_part(
    y: np.ndarray, strata: np.ndarray, backend: Backend
) -> ConditionalPoissonLikelihood | None:
    """Build the likelihood of some rows; None if they are uninformative."""
    return ConditionalPoissonLikelihood(y, strata, backend) if y.any() else None


class CaseSeriesLikelihood(ConditionalPoissonLikelihood):
    """The likelihood of a self-controlled case series, where offsets are interval lengths.

    R's Cyclops treats these lengths differently from other offsets.
    """

    ccd = "strata"
    has_third_derivative = True

    def constant_omitted_by_cyclops(self, w: Array, offset: Array) -> Array:
        """See `Likelihood.constant_omitted_by_cyclops`; it includes the log interval lengths."""
        wy = w[self.rows] * self.y
        lengths = self.backend.column_sum(wy * offset[self.rows])
        return super().constant_omitted_by_cyclops(w, offset) + lengths
